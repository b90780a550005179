//! What git needs from around a workspace, and what of a person's git configuration is no secret.

use std::fs;
use std::path::{Path, PathBuf};

/// Settings that a commit needs or that decide what a file's text is. Everything else stays behind:
/// a configuration may hold tokens, and names programs that git would start.
const KEPT: [(&str, &[&str]); 3] = [
    ("user", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("core", &["autocrlf", "eol", "quotepath", "symlinks"]),
];

/// Folders outside the workspace that git reads when it is called inside: the enclosing work tree, where the repository is
/// kept, and where it borrows objects. Ask before the first command: a command may write what they follow from.
pub fn folders_of_git(workspace: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let holder = workspace.ancestors().find(|folder| folder.join(".git").exists());
    let Some(holder) = holder.filter(|holder| holder.parent().is_some()) else { return found };
    if holder != workspace {
        found.push(holder.to_owned());
    }
    let dot_git = holder.join(".git");
    let mut common = dot_git.canonicalize().ok();
    if let Some((folder, shared)) = kept_elsewhere(&dot_git) {
        if folder.starts_with(workspace) {
            return found;
        }
        found.push(folder);
        found.extend((shared != *found.last().unwrap_or(&shared)).then(|| shared.clone()));
        common = Some(shared);
    }
    let alternates = common.map(|common| common.join("objects/info/alternates"));
    let borrowed = alternates.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let borrowed = borrowed.lines().map(PathBuf::from).filter(|path| path.is_absolute());
    found.extend(borrowed.filter(|path| path.join("pack").is_dir() && path.ends_with("objects")));
    found.retain(|path| !path.starts_with(workspace));
    found
}

/// Where a work tree's repository is kept when `.git` is a file that says so, and what it shares with others. Any text may
/// stand there: both have to look like a repository, and that of a linked work tree names the file.
fn kept_elsewhere(dot_git: &Path) -> Option<(PathBuf, PathBuf)> {
    let text = fs::read_to_string(dot_git).ok()?;
    let named = |folder: &Path, text: &str| folder.join(text.trim()).canonicalize().ok();
    let folder = named(dot_git.parent()?, text.strip_prefix("gitdir:")?)?;
    let is_repository = |folder: &Path| {
        let has = |name: &str| folder.join(name).is_dir();
        folder.join("HEAD").is_file() && has("objects") && has("refs")
    };
    let Ok(shared) = fs::read_to_string(folder.join("commondir")) else {
        return is_repository(&folder).then(|| (folder.clone(), folder));
    };
    let back = fs::read_to_string(folder.join("gitdir")).ok()?;
    let is_back = named(&folder, &back) == dot_git.canonicalize().ok();
    let shared = named(&folder, &shared).filter(|shared| is_back && is_repository(shared))?;
    folder.join("HEAD").is_file().then_some((folder, shared))
}

/// A configuration for the command's own home: what is kept of the person's, and that the account of
/// a work tree is no reason to refuse it, because the command sees every other account as the overflow id.
pub(crate) fn configuration(home: &Path) -> String {
    let mut text = "[safe]\n\tdirectory = *\n".to_owned();
    for file in [".config/git/config", ".gitconfig"] {
        let Ok(found) = fs::read_to_string(home.join(file)) else { continue };
        keep(&found, &mut text);
    }
    text
}

fn keep(configuration: &str, text: &mut String) {
    let mut section = String::new();
    for line in configuration.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_ascii_lowercase();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let is_kept = KEPT.iter().any(|(name, keys)| {
            *name == section && keys.contains(&key.to_ascii_lowercase().as_str())
        });
        if is_kept && !value.ends_with('\\') {
            text.push_str(&format!("[{section}]\n\t{key} = {value}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_and_a_token_or_a_program_is_not() {
        let home = tempfile::tempdir().unwrap();
        let text = "[user]\n name = A B\n\temail=a@b\n signingkey = k\n[credential]\n helper = /evil\n\
                    [http \"https://x\"]\n extraheader = AUTHORIZATION: t\n[core]\n autocrlf = input\n \
                    hooksPath = /evil\n fsmonitor = /evil\n";
        fs::write(home.path().join(".gitconfig"), text).unwrap();
        let kept = configuration(home.path());
        assert!(kept.contains("name = A B") && kept.contains("email = a@b"), "{kept}");
        assert!(kept.contains("autocrlf = input") && kept.contains("directory = *"), "{kept}");
        assert!(!kept.contains("evil") && !kept.contains("AUTHORIZATION"), "{kept}");
    }

    fn repository(folder: &Path) {
        for name in ["objects/pack", "objects/info", "refs"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn the_repository_of_a_linked_work_tree_and_the_enclosing_one_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let common = root.join("main/.git");
        repository(&common);
        let kept = common.join("worktrees/w");
        fs::create_dir_all(&kept).unwrap();
        let tree = root.join("w");
        fs::create_dir_all(tree.join("inner")).unwrap();
        let write = |path: PathBuf, text: String| fs::write(path, text).unwrap();
        write(kept.join("HEAD"), "ref: refs/heads/w\n".to_owned());
        write(kept.join("commondir"), "../..\n".to_owned());
        write(kept.join("gitdir"), format!("{}\n", tree.join(".git").display()));
        write(tree.join(".git"), format!("gitdir: {}\n", kept.display()));
        assert_eq!(folders_of_git(&tree), [kept.clone(), common.clone()]);
        assert_eq!(folders_of_git(&tree.join("inner")), [tree.clone(), kept, common.clone()]);
        assert_eq!(folders_of_git(&root.join("main")), Vec::<PathBuf>::new());
        let inner = root.join("main/crates");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(folders_of_git(&inner), [root.join("main")]);
        // One that is kept elsewhere, and one that borrows.
        let elsewhere = root.join("kept.git");
        repository(&elsewhere);
        let other = root.join("other");
        fs::create_dir_all(&other).unwrap();
        write(other.join(".git"), "gitdir: ../kept.git\n".to_owned());
        assert_eq!(folders_of_git(&other), [elsewhere]);
        let borrowing = root.join("borrowing");
        repository(&borrowing.join(".git"));
        let objects = common.join("objects");
        let lines = format!("{}\n{}\n", objects.display(), root.display());
        write(borrowing.join(".git/objects/info/alternates"), lines);
        assert_eq!(folders_of_git(&borrowing), [objects]);
    }

    #[test]
    fn what_is_no_repository_of_this_work_tree_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let tree = root.join("w");
        let secrets = root.join("secrets");
        for folder in [&tree, &secrets] {
            fs::create_dir_all(folder).unwrap();
        }
        let dot_git = |to: &Path| {
            fs::write(tree.join(".git"), format!("gitdir: {}\n", to.display())).unwrap();
        };
        dot_git(&secrets);
        assert_eq!(folders_of_git(&tree), Vec::<PathBuf>::new(), "any folder");
        let inside = tree.join("kept");
        repository(&inside);
        fs::write(inside.join("commondir"), format!("{}\n", secrets.display())).unwrap();
        dot_git(&inside);
        assert_eq!(folders_of_git(&tree), Vec::<PathBuf>::new(), "a forged one inside");
        let common = root.join("main/.git");
        repository(&common);
        let kept = common.join("worktrees/other");
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("HEAD"), "ref: refs/heads/w\n").unwrap();
        fs::write(kept.join("commondir"), "../..\n").unwrap();
        fs::write(kept.join("gitdir"), "/somewhere/else/.git\n").unwrap();
        dot_git(&kept);
        assert_eq!(folders_of_git(&tree), Vec::<PathBuf>::new(), "that of another work tree");
    }
}
