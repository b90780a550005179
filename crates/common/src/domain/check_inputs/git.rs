//! What of a repository decides how git behaves: its configuration, hooks, attributes and references.
//!
//! ```text
//!   state at the start, state now --changes--> files and references that differ
//!     the branch of HEAD may move forward, and references may be added, unless git reads one for a name of the start
//! ```

use super::git_names::{is_note, shadowing};
use super::reftable::Tables;
use crate::domain::manifest::Aspect;
use std::collections::{BTreeMap, BTreeSet};

/// References by which git reads another object than the one that is named.
const REPLACED: &[u8] = b"refs/replace/";
/// Sections of a configuration that name people and remote branches, and change nothing of what git does. Of a branch that
/// had an upstream this is compared by itself.
const WITHOUT_EFFECT: &[&str] =
    &["author", "branch", "color", "committer", "credential", "gui", "user"];

/// What stands before the name of a branch where its upstream is kept among the references, and the name of the time at
/// which the repository was read. No reference has a space in its name.
const UPSTREAM: &[u8] = b"upstream of ";
const READ_AT: &[u8] = b"read at";
/// The names of the folder that belongs to the work tree alone, of the text of a file in the place of that folder, and what
/// stands before the number of each folder outside of the workspace and of each path that the index tells git to overlook.
const KEPT_IN: &[u8] = b"kept in";
const DOT_GIT: &[u8] = b"file .git";
const OUTSIDE: &[u8] = b"outside ";
const OVERLOOKED: &[u8] = b"overlooked ";
const OVERLOOKED_READ: &[u8] = b"overlooked read";

/// A repository at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitState {
    /// Digests of its files. A path is relative to the workspace, or absolute outside of it.
    pub files: BTreeMap<Vec<u8>, [u8; 32]>,
    /// The folder that references lie in, as a path like those of files.
    pub folder: Vec<u8>,
    /// References, such as `refs/heads/main`, and the objects that they name. Beside them, the upstreams of branches, and
    /// when the repository was read.
    pub references: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The packed references, as git stores them.
    pub packed: Vec<u8>,
    /// What HEAD says.
    pub head: Vec<u8>,
    /// The tables of references, where git keeps them in that form; not stored.
    pub tables: Option<Tables>,
    /// Repositories inside the workspace that are no submodules, by their folders.
    pub nested: BTreeMap<Vec<u8>, GitState>,
}

/// One part of a repository that is not as at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitChange {
    /// Its file: relative to the workspace, or absolute outside of it.
    pub path: Vec<u8>,
    /// What the run did to it.
    pub aspect: Aspect,
    /// The content that puts it back, where that is no kept file.
    pub content: Option<Vec<u8>>,
}

/// A branch that a run moved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moved {
    /// Such as `refs/heads/main`.
    pub branch: Vec<u8>,
    /// The commit at the start.
    pub from: Vec<u8>,
    /// The commit now.
    pub to: Vec<u8>,
}

impl GitState {
    /// Whether there was a repository.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
            && self.files.is_empty()
            && self.references.is_empty()
            && self.nested.is_empty()
    }

    /// Every repository that was there at the start, with its folder, as it was and as it is now.
    pub fn pairs<'s>(&'s self, now: &'s Self) -> Vec<(&'s [u8], &'s Self, Option<&'s Self>)> {
        let nested = self
            .nested
            .iter()
            .map(|(folder, state)| (folder.as_slice(), state, now.nested.get(folder)));
        std::iter::once((&[][..], self, Some(now))).chain(nested).collect()
    }

    /// The commit that HEAD names; none where there is none yet.
    pub fn commit(&self) -> Option<&[u8]> {
        match branch(&self.head) {
            Some(branch) => self.references.get(branch).map(Vec::as_slice),
            None => Some(self.head.as_slice()).filter(|head| !head.is_empty()),
        }
    }

    /// The same in hexadecimal.
    pub fn commit_name(&self) -> Option<String> {
        let name = String::from_utf8(self.commit()?.to_vec()).ok()?;
        let is_name =
            matches!(name.len(), 40 | 64) && name.bytes().all(|it| it.is_ascii_hexdigit());
        is_name.then_some(name)
    }

    /// The branch that HEAD names, such as `refs/heads/main`; none where it names a commit.
    pub fn branch(&self) -> Option<&[u8]> {
        branch(&self.head)
    }

    /// The branches of HEAD, then and now, that name another commit. A commit moves such a branch forward.
    pub fn moved(&self, now: &Self) -> BTreeSet<Moved> {
        let heads = [branch(&self.head), branch(&now.head)];
        let moved = heads.into_iter().flatten().filter_map(|branch| {
            let (from, to) = (self.references.get(branch)?, now.references.get(branch)?);
            let moved = || Moved { branch: branch.to_vec(), from: from.clone(), to: to.clone() };
            (from != to).then(moved)
        });
        moved.collect()
    }

    /// What differs in one repository. `forward` are the branches that moved to a descendant.
    pub fn changes(&self, now: &Self, forward: &BTreeSet<Vec<u8>>) -> Vec<GitChange> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (path, digest) in &self.files {
            let aspect = match now.files.get(path) {
                Some(other) if other == digest => continue,
                Some(_) => Aspect::Content,
                None => Aspect::Removed,
            };
            changes.push(GitChange { path: path.clone(), aspect, content: None });
        }
        let added = now.files.keys().filter(|path| !self.files.contains_key(*path));
        changes.extend(added.map(|path| GitChange {
            path: path.clone(),
            aspect: Aspect::Added,
            content: None,
        }));
        for (name, object) in self.references.iter().filter(|(name, _)| !is_note(name)) {
            let aspect = match now.references.get(name) {
                Some(other) if other == object => continue,
                Some(_) if forward.contains(name) => continue,
                Some(_) => Aspect::Content,
                None => Aspect::Removed,
            };
            let content = Some([object.as_slice(), b"\n"].concat());
            changes.push(GitChange { path: self.file(name), aspect, content });
        }
        self.add_upstreams(now, &mut changes);
        self.add_shadows(now, &mut changes);
        self.add_table(now, &mut changes);
        self.add_unread(now, &mut changes);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes.dedup_by(|a, b| a.path == b.path);
        changes
    }

    /// References in tables are set back by one more table. The paths of their own are only names then.
    fn add_table(&self, now: &Self, changes: &mut Vec<GitChange>) {
        let Some(tables) = &now.tables else { return };
        let mut back = BTreeMap::new();
        for change in changes.iter_mut() {
            let below = change.path.strip_prefix(self.folder.as_slice());
            let Some(name) = below.and_then(|path| path.strip_prefix(b"/")) else { continue };
            if !name.starts_with(b"refs/") {
                continue;
            }
            back.insert(name.to_vec(), self.references.get(name).cloned());
            change.path = [self.folder.as_slice(), b"/reftable/", name].concat();
        }
        if back.is_empty() {
            return;
        }
        for (path, content) in tables.restoring(&back) {
            let path = [self.folder.as_slice(), b"/", &path].concat();
            changes.push(GitChange { path, aspect: Aspect::Content, content: Some(content) });
        }
    }

    /// A table that does not read may hold any reference. git may read what this reader cannot.
    fn add_unread(&self, now: &Self, changes: &mut Vec<GitChange>) {
        let unread = now.tables.iter().flat_map(|tables| &tables.unread);
        changes.extend(unread.map(|name| {
            let path = [self.folder.as_slice(), b"/reftable/", name].concat();
            GitChange { path, aspect: Aspect::Added, content: None }
        }));
    }

    /// Keeps when the repository was read.
    pub fn set_read_at(&mut self, nanoseconds: i64) {
        self.references.insert(READ_AT.to_vec(), nanoseconds.to_string().into_bytes());
    }

    /// When the repository was read, in nanoseconds since 1970.
    pub fn read_at(&self) -> Option<i64> {
        std::str::from_utf8(self.references.get(READ_AT)?).ok()?.parse().ok()
    }

    /// Keeps the folder that belongs to the work tree alone, and the text of `.git` where that is a file.
    pub fn set_place(&mut self, folder: Vec<u8>, dot_git: Option<Vec<u8>>) {
        self.references.insert(KEPT_IN.to_vec(), folder);
        self.references.extend(dot_git.map(|text| (DOT_GIT.to_vec(), text)));
    }

    /// Keeps the paths of the index whose files git is told to overlook.
    pub fn set_overlooked(&mut self, paths: impl IntoIterator<Item = Vec<u8>>) {
        self.references.insert(OVERLOOKED_READ.to_vec(), Vec::new());
        for (number, path) in paths.into_iter().enumerate() {
            self.references.insert([OVERLOOKED, number.to_string().as_bytes()].concat(), path);
        }
    }

    /// These paths; none where an earlier version did not keep them.
    pub fn overlooked(&self) -> Option<BTreeSet<&[u8]>> {
        self.references.get(OVERLOOKED_READ)?;
        let notes = self.references.iter().filter(|(name, _)| name.starts_with(OVERLOOKED));
        let notes = notes.filter(|(name, _)| name.as_slice() != OVERLOOKED_READ);
        Some(notes.map(|(_, path)| path.as_slice()).collect())
    }

    /// Keeps the folders outside of the workspace that git reads.
    pub fn set_outside(&mut self, folders: impl IntoIterator<Item = Vec<u8>>) {
        for (number, folder) in folders.into_iter().enumerate() {
            self.references.insert([OUTSIDE, number.to_string().as_bytes()].concat(), folder);
        }
    }

    /// These folders; none where an earlier version did not keep them.
    pub fn outside(&self) -> Option<Vec<Vec<u8>>> {
        let folders = self.references.iter().filter(|(name, _)| name.starts_with(OUTSIDE));
        let folders = folders.map(|(_, folder)| folder.clone()).collect();
        (self.head.is_empty() || self.references.contains_key(KEPT_IN)).then_some(folders)
    }

    /// What puts back the `.git` of a work tree, whose folder is relative to the workspace, where git reads another repository
    /// there now. A folder that is somewhere else cannot be put back: a view has none.
    pub fn other_place(&self, now: &Self, work_tree: &[u8]) -> Option<GitChange> {
        let of = |state: &Self, name: &[u8]| state.references.get(name).cloned();
        let (before, after) = (of(self, KEPT_IN)?, of(now, KEPT_IN)?);
        if before == after && self.folder == now.folder {
            return None;
        }
        let path = match work_tree {
            [] => b".git".to_vec(),
            folder => [folder, b"/.git"].concat(),
        };
        let content = of(self, DOT_GIT);
        let aspect = if content.is_some() { Aspect::Content } else { Aspect::Added };
        Some(GitChange { path, aspect, content })
    }

    /// The upstream of a branch decides what `@{upstream}` names. One that was not there may be set.
    fn add_upstreams(&self, now: &Self, changes: &mut Vec<GitChange>) {
        let mut upstreams = self.references.iter().filter(|(name, _)| name.starts_with(UPSTREAM));
        if upstreams.any(|(name, upstream)| now.references.get(name) != Some(upstream)) {
            let path = self.file(b"config");
            changes.push(GitChange { path, aspect: Aspect::Content, content: None });
        }
    }

    /// References that replace objects, and those that git reads in place of one of the start, are taken out, whichever way
    /// git stores them.
    fn add_shadows(&self, now: &Self, changes: &mut Vec<GitChange>) {
        let is_replacing = |name: &&Vec<u8>| {
            name.starts_with(REPLACED) && !self.references.contains_key(name.as_slice())
        };
        let mut out: BTreeSet<&[u8]> =
            now.references.keys().filter(is_replacing).map(Vec::as_slice).collect();
        out.extend(shadowing(&self.references, &now.references).into_iter().map(Vec::as_slice));
        for name in &out {
            changes.push(GitChange { path: self.file(name), aspect: Aspect::Added, content: None });
        }
        let is_one = |line: &&[u8]| {
            let name = line.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default();
            out.contains(name.trim_ascii())
        };
        let lines = || now.packed.split_inclusive(|byte| *byte == b'\n');
        if lines().any(|line| is_one(&line)) {
            let content = Some(lines().filter(|line| !is_one(line)).collect::<Vec<_>>().concat());
            let path = self.file(b"packed-refs");
            changes.push(GitChange { path, aspect: Aspect::Content, content });
        }
    }

    fn file(&self, name: &[u8]) -> Vec<u8> {
        [self.folder.as_slice(), b"/", name].concat()
    }
}

/// The branch that a HEAD names; none where it names a commit.
fn branch(head: &[u8]) -> Option<&[u8]> {
    head.strip_prefix(b"ref:").map(<[u8]>::trim_ascii)
}

/// Adds the lines of a file of packed references.
pub fn read_packed(text: &[u8], references: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line.splitn(2, |byte| *byte == b' ');
        if let (Some(object), Some(name)) = (words.next(), words.next())
            && name.starts_with(b"refs/")
        {
            references.insert(name.trim_ascii().to_vec(), object.to_vec());
        }
    }
}

/// The part of a configuration that has an effect on what git does.
pub fn effective_configuration(text: &str) -> String {
    let (mut counts, mut goes_on) = (true, false);
    let mut out = String::new();
    for line in text.lines().map(str::trim) {
        // A value that goes on in the next line begins no section there.
        let is_first = !std::mem::replace(&mut goes_on, line.ends_with('\\'));
        if let Some(section) = line.strip_prefix('[').filter(|_| is_first) {
            let end = section.find(|letter: char| !(letter.is_alphanumeric() || letter == '-'));
            let name = section.get(..end.unwrap_or(section.len())).unwrap_or_default();
            counts = !WITHOUT_EFFECT.contains(&name.to_ascii_lowercase().as_str());
            // git takes a key behind a section, and a branch without quotes: neither is read as an upstream here.
            let is_plain = end.is_some_and(|end| {
                let rest = section.get(end..).unwrap_or_default().trim();
                rest.starts_with('"') && rest.ends_with("\"]") && rest.matches('"').count() == 2
            });
            counts |= name.eq_ignore_ascii_case("branch") && !is_plain;
        }
        if counts && !line.is_empty() && !line.starts_with(['#', ';']) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The upstreams of branches that a configuration names, as they are kept among the references.
pub fn upstreams(text: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut branch = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let (name, rest) = section.split_once('"').unwrap_or((section, ""));
            let is_branch = name.trim().eq_ignore_ascii_case("branch");
            branch = rest.rsplit_once('"').map(|(name, _)| name).filter(|_| is_branch);
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let is_upstream = |key: &str| matches!(key, "merge" | "pushremote" | "remote");
        let key = key.trim().to_ascii_lowercase();
        if let Some(branch) = branch.filter(|_| is_upstream(&key)) {
            let known = found.entry([UPSTREAM, branch.as_bytes()].concat()).or_default();
            known.extend(format!("{key}={}\n", value.trim()).into_bytes());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(references: &[(&str, &str)], files: &[(&str, u8)]) -> GitState {
        let bytes = |text: &str| text.as_bytes().to_vec();
        GitState {
            files: files.iter().map(|(path, digest)| (bytes(path), [*digest; 32])).collect(),
            folder: b".git".to_vec(),
            references: references.iter().map(|(name, to)| (bytes(name), bytes(to))).collect(),
            head: b"ref: refs/heads/main".to_vec(),
            ..GitState::default()
        }
    }

    #[test]
    fn references_in_tables_are_set_back_by_one_more_table() {
        let id = |digit: &str| digit.repeat(40);
        let start = state(&[("refs/tags/v1", &id("1")), ("refs/heads/old", &id("2"))], &[]);
        let mut now = state(&[("refs/tags/v1", &id("3")), ("refs/replace/x", &id("4"))], &[]);
        now.tables = Some(Tables {
            list: b"a.ref\n".to_vec(),
            last_update: 4,
            unread: vec![b"odd.ref".to_vec()],
            ..Tables::default()
        });
        let changes = start.changes(&now, &BTreeSet::new());
        let paths: Vec<_> =
            changes.iter().map(|it| String::from_utf8(it.path.clone()).unwrap()).collect();
        assert_eq!(
            paths,
            [
                ".git/reftable/0x000000000005-0x000000000005-restored.ref",
                ".git/reftable/odd.ref",
                ".git/reftable/refs/heads/old",
                ".git/reftable/refs/replace/x",
                ".git/reftable/refs/tags/v1",
                ".git/reftable/tables.list",
            ]
        );
        let table = changes.first().and_then(|it| it.content.clone()).unwrap();
        let mut references = now.references.clone();
        Tables::default().read(&table, &mut references).unwrap();
        assert_eq!(references, start.references);
        assert_eq!(start.changes(&start.clone(), &BTreeSet::new()), []);
    }

    #[test]
    fn a_changed_upstream_and_a_reference_in_the_place_of_another_are_changes() {
        let mut start = state(&[("refs/heads/main", "1"), ("refs/remotes/origin/main", "1")], &[]);
        let config = |merge: &str| {
            format!(
                "[core]\n\tbare = false\n[branch \"main\"]\n\tremote = origin\n\tmerge = {merge}\n"
            )
        };
        start.references.extend(upstreams(&config("refs/heads/main")));
        start.set_read_at(5);
        assert_eq!(start.read_at(), Some(5));
        assert_eq!(start.overlooked(), None);
        start.set_overlooked([b"a b".to_vec(), b"c".to_vec()]);
        let kept = GitState::decode(&start.encode()).unwrap();
        assert_eq!(kept.overlooked(), Some(BTreeSet::from([&b"a b"[..], b"c"])));
        let mut now = start.clone();
        now.set_read_at(6);
        assert_eq!(start.changes(&now, &BTreeSet::new()), []);
        // A branch without an upstream may get one.
        now.references.extend(upstreams("[branch \"work\"]\nremote = origin\n"));
        assert_eq!(start.changes(&now, &BTreeSet::new()), []);
        now.references.extend(upstreams(&config("refs/heads/work")));
        now.references.insert(b"refs/tags/origin/main".to_vec(), b"2".to_vec());
        now.packed = b"1 refs/heads/main\n2 refs/tags/origin/main\n".to_vec();
        let changes = start.changes(&now, &BTreeSet::new());
        let paths: Vec<_> = changes.iter().map(|it| String::from_utf8_lossy(&it.path)).collect();
        assert_eq!(paths, [".git/config", ".git/packed-refs", ".git/refs/tags/origin/main"]);
        let packed = changes.get(1).and_then(|it| it.content.as_deref());
        assert_eq!(packed, Some(&b"1 refs/heads/main\n"[..]));
    }

    #[test]
    fn nested_repositories_are_kept_with_the_state() {
        let mut outer = state(&[("refs/tags/v1", "1")], &[]);
        outer.nested.insert(b"vendor/lib".to_vec(), state(&[], &[("vendor/lib/.git/config", 1)]));
        assert_eq!(GitState::decode(&outer.encode()), Some(outer.clone()));
        assert_eq!(outer.pairs(&outer).len(), 2);
        let inner = GitState { nested: outer.nested.clone(), ..GitState::default() };
        assert!(!inner.is_empty());
    }

    #[test]
    fn a_branch_may_move_forward_and_references_may_be_added() {
        let start = state(
            &[("refs/heads/main", "1"), ("refs/heads/old", "1"), ("refs/tags/v1", "1")],
            &[(".git/config", 1), (".git/hooks/a", 1)],
        );
        let now = state(
            &[
                ("refs/heads/main", "2"),
                ("refs/heads/new", "2"),
                ("refs/replace/1", "2"),
                ("refs/tags/v1", "2"),
            ],
            &[(".git/config", 2), (".git/hooks/b", 1)],
        );
        let main = b"refs/heads/main".to_vec();
        let moved = Moved { branch: main.clone(), from: b"1".to_vec(), to: b"2".to_vec() };
        assert_eq!(start.moved(&now), BTreeSet::from([moved]));
        let found = |forward: &BTreeSet<Vec<u8>>| {
            let changes = start.changes(&now, forward).into_iter();
            let text = |it: GitChange| (String::from_utf8(it.path).unwrap(), it.aspect);
            changes.map(text).collect::<Vec<_>>()
        };
        let expected = [
            (".git/config", Aspect::Content),
            (".git/hooks/a", Aspect::Removed),
            (".git/hooks/b", Aspect::Added),
            (".git/refs/heads/old", Aspect::Removed),
            (".git/refs/replace/1", Aspect::Added),
            (".git/refs/tags/v1", Aspect::Content),
        ];
        let expected = expected.map(|(path, aspect)| (path.to_owned(), aspect));
        assert_eq!(found(&BTreeSet::from([main])), expected);
        assert_eq!(found(&BTreeSet::new()).len(), expected.len() + 1);
        assert_eq!(GitState::decode(&start.encode()), Some(start.clone()));
        assert_eq!(GitState::default().changes(&now, &BTreeSet::new()), []);
        assert_eq!(GitState::decode(b"x"), None);
    }

    #[test]
    fn packed_replacements_are_taken_out() {
        let start = state(&[("refs/tags/v1", "1")], &[]);
        let mut now = start.clone();
        now.packed = b"# pack-refs with: peeled\n1 refs/tags/v1\n2 refs/replace/1\n".to_vec();
        read_packed(&now.packed.clone(), &mut now.references);
        let changes = start.changes(&now, &BTreeSet::new());
        let packed = changes.iter().find(|it| it.path == b".git/packed-refs").unwrap();
        let left = b"# pack-refs with: peeled\n1 refs/tags/v1\n";
        assert_eq!(packed.content.as_deref(), Some(left.as_slice()));
    }

    #[test]
    fn names_of_people_and_branches_have_no_effect() {
        let start = "[core]\n\tbare = false\n";
        let named = "[core]\n\tbare = false\n[user]\n\tname = A\n[branch \"x\"]\n\tremote = o\n";
        assert_eq!(effective_configuration(start), effective_configuration(named));
        for hooks in [
            "\thooksPath = x\n",
            "\tx = \\\n[user]\n\thooksPath = x\n",
            "[branch \"main\"] remote = .\n",
            "[branch.main]\n\tremote = .\n",
        ] {
            let changed = format!("{start}{hooks}");
            assert_ne!(effective_configuration(start), effective_configuration(&changed));
        }
    }
}
