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

/// Folders outside the workspace that git reads when it is called inside: the enclosing work tree, and
/// where the repository is kept. `home` and what encloses it is never one of them.
pub(crate) fn around(workspace: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let holder = workspace.ancestors().find(|folder| folder.join(".git").exists());
    let Some(holder) = holder else { return found };
    if holder != workspace {
        if holder.parent().is_none() || home.is_some_and(|home| home.starts_with(holder)) {
            return found;
        }
        found.push(holder.to_owned());
    }
    let Some(folder) = kept_elsewhere(&holder.join(".git")) else { return found };
    let common = fs::read_to_string(folder.join("commondir"))
        .ok()
        .and_then(|text| folder.join(text.trim()).canonicalize().ok());
    found.push(folder);
    found.extend(common);
    let borrowed = found.iter().map(|folder| folder.join("objects/info/alternates"));
    let borrowed = borrowed.filter_map(|file| fs::read_to_string(file).ok());
    let borrowed: Vec<_> = borrowed
        .flat_map(|text| text.lines().map(PathBuf::from).collect::<Vec<_>>())
        .filter(|path| path.is_absolute())
        .collect();
    found.extend(borrowed);
    found.retain(|path| !path.starts_with(workspace));
    found
}

/// Where a work tree's repository is kept when `.git` is a file that says so.
fn kept_elsewhere(dot_git: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(dot_git).ok()?;
    let path = text.strip_prefix("gitdir:")?.trim();
    dot_git.parent()?.join(path).canonicalize().ok()
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

    #[test]
    fn the_repository_of_a_linked_work_tree_and_the_enclosing_one_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let kept = root.join("main/.git/worktrees/w");
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("commondir"), "../..\n").unwrap();
        let tree = root.join("w");
        fs::create_dir_all(tree.join("inner")).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", kept.display())).unwrap();
        let common = root.join("main/.git");
        assert_eq!(around(&tree, None), [kept.clone(), common.clone()]);
        assert_eq!(around(&tree.join("inner"), None), [tree.clone(), kept, common]);
        assert_eq!(around(&root.join("main"), None), Vec::<PathBuf>::new());
        let inner = root.join("main/crates");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(around(&inner, None), [root.join("main")]);
        assert_eq!(around(&inner, Some(&root.join("main/home"))), Vec::<PathBuf>::new());
    }
}
