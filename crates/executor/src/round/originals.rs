//! The check inputs as they were at the start of a run: their content, kept so that a view gets it back.

use crate::snapshot::Check;
use crate::tool::{RelPath, ToolError, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use surety_common::domain::check::{CheckKind, Owner};
use surety_common::domain::check_inputs::{InputRules, is_merged, scripts};
use surety_common::domain::manifest::{Content, Entry, Kind, Manifest};
use surety_common::domain::plan::Plan;
use surety_common::domain::source_tests::{MAX_BYTES, has_tests, may_have_tests};

/// The largest file that is kept, in bytes.
const MAX_FILE: u64 = 8 << 20;
/// All files that are kept, in bytes.
const MAX_ALL: u64 = 64 << 20;
/// The largest source file whose tests are compared, in bytes.
const SOURCE_LIMIT: u64 = MAX_BYTES as u64;
/// The kinds of entries in the stored form.
const FILE: u8 = 0;
const LINK: u8 = 1;
const LEFT_OUT: u8 = 2;

/// The content of check inputs at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Originals {
    files: BTreeMap<Vec<u8>, Original>,
}

/// One check input at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Original {
    /// A file: its permissions and its content.
    File(u32, Vec<u8>),
    /// A link: what it names.
    Link(Vec<u8>),
    /// It is too large to be kept.
    LeftOut,
}

impl Originals {
    /// Reads the check inputs of the first snapshot: those of the rules, the scripts of these lines, and source
    /// files with tests inside. It blocks.
    ///
    /// # Errors
    /// What `check` answers. A file that cannot be read is left out.
    pub fn read(
        workspace: &Workspace,
        start: &Manifest,
        rules: &InputRules,
        lines: &[&str],
        check: Check<'_>,
    ) -> Result<Self, ToolError> {
        let scripts: BTreeSet<Vec<u8>> = lines
            .iter()
            .flat_map(|line| scripts(line))
            .map(|script| script.path.into_bytes())
            .collect();
        let wanted = |entry: &&Entry| {
            !entry.ignored
                && (rules.kind_of(&entry.path).is_some()
                    || scripts.contains(entry.path.as_ref())
                    || is_merged(&String::from_utf8_lossy(&entry.path)))
        };
        let mut originals = Self::default();
        let mut left = MAX_ALL;
        for entry in start.entries().iter().filter(wanted) {
            check()?;
            let original = match (entry.kind, &entry.content) {
                (Kind::Link, Content::Target(target)) => Original::Link(target.to_vec()),
                (Kind::File, _) if entry.size > MAX_FILE.min(left) => Original::LeftOut,
                (Kind::File, _) => {
                    let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
                    match workspace.read(&path, MAX_FILE) {
                        Ok(text) => Original::File(entry.mode, text),
                        Err(error) => {
                            tracing::debug!(%error, "snapshot: a check input could not be read");
                            Original::LeftOut
                        }
                    }
                }
                (_, _) => continue,
            };
            if let Original::File(_, text) = &original {
                left = left.saturating_sub(u64::try_from(text.len()).unwrap_or(u64::MAX));
            }
            originals.files.insert(entry.path.to_vec(), original);
        }
        let is_source = |entry: &&Entry| {
            entry.kind == Kind::File
                && !entry.ignored
                && entry.size <= SOURCE_LIMIT
                && may_have_tests(&entry.path)
                && !originals.files.contains_key(entry.path.as_ref())
                && !rules.may_change(&entry.path)
        };
        let sources: Vec<&Entry> = start.entries().iter().filter(is_source).collect();
        for entry in sources {
            check()?;
            let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
            // What cannot be read has no tests to compare with.
            let Ok(text) = workspace.read(&path, SOURCE_LIMIT) else { continue };
            if has_tests(&entry.path, &text) && entry.size <= left {
                left -= entry.size;
                originals.files.insert(entry.path.to_vec(), Original::File(entry.mode, text));
            }
        }
        Ok(originals)
    }

    /// Adds a file, as a revision of a repository has it.
    pub fn add_file(&mut self, path: Vec<u8>, mode: u32, content: Vec<u8>) {
        self.files.insert(path, Original::File(mode, content));
    }

    /// Whether the content of a path was kept.
    pub fn has(&self, path: &[u8]) -> bool {
        matches!(self.files.get(path), Some(Original::File(..) | Original::Link(_)))
    }

    /// The text of a file; none where it was not kept, or is no text.
    pub(super) fn text(&self, path: &[u8]) -> Option<&str> {
        match self.files.get(path)? {
            Original::File(_, text) => std::str::from_utf8(text).ok(),
            Original::Link(_) | Original::LeftOut => None,
        }
    }

    /// Writes one original into a folder; answers its path there. None where it was not kept. It blocks.
    pub(super) fn write(&self, path: &[u8], folder: &Path) -> io::Result<Option<PathBuf>> {
        let to = folder.join(OsStr::from_bytes(path));
        let Some(original) = self.files.get(path) else { return Ok(None) };
        if let Some(above) = to.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o711).create(above)?;
        }
        match original {
            Original::File(mode, text) => {
                std::fs::write(&to, text)?;
                std::fs::set_permissions(&to, std::fs::Permissions::from_mode(*mode))?;
            }
            Original::Link(target) => symlink(OsStr::from_bytes(target), &to)?,
            Original::LeftOut => return Ok(None),
        }
        Ok(Some(to))
    }

    /// The stored form: entries one after another, each with its lengths in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, original) in &self.files {
            let (kind, mode, body) = match original {
                Original::File(mode, text) => (FILE, *mode, text.as_slice()),
                Original::Link(target) => (LINK, 0, target.as_slice()),
                Original::LeftOut => (LEFT_OUT, 0, &[][..]),
            };
            out.push(kind);
            out.extend(mode.to_be_bytes());
            for part in [path.as_slice(), body] {
                out.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
                out.extend(part);
            }
        }
        out
    }

    /// Reads the stored form; none when it is damaged.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut files = BTreeMap::new();
        while !bytes.is_empty() {
            let kind = *take(&mut bytes, 1)?.first()?;
            let mode = u32::from_be_bytes(take(&mut bytes, 4)?.try_into().ok()?);
            let path = sized(&mut bytes)?.to_vec();
            let body = sized(&mut bytes)?.to_vec();
            let original = match kind {
                FILE => Original::File(mode, body),
                LINK => Original::Link(body),
                LEFT_OUT => Original::LeftOut,
                _ => return None,
            };
            files.insert(path, original);
        }
        Some(Self { files })
    }
}

/// The lines of a plan's checks that run with the original check inputs.
pub fn lines_with_originals(plan: &Plan) -> Vec<String> {
    let checks = plan
        .verify
        .iter()
        .filter(|check| check.kind == CheckKind::CommandSuccess && check.owner != Owner::Plan);
    checks.map(|check| check.target.clone()).collect()
}

fn sized<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u64::from_be_bytes(take(bytes, 8)?.try_into().ok()?);
    take(bytes, usize::try_from(length).ok()?)
}

fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshots;
    use std::fs;

    #[test]
    fn check_inputs_are_kept_and_come_back_with_their_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("tests/a.sh", "exit 0\n");
        put("calc.py", "product");
        put("verify.py", "script");
        put("tests/large.json", &"x".repeat(9 << 20));
        let script = folder.path().join("tests/a.sh");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
        symlink("a.sh", folder.path().join("tests/b.sh")).unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let (_, start) = Snapshots::begin(&workspace, &[], &|| Ok(())).unwrap();
        let rules = InputRules::new(&[], &[]).unwrap();
        let lines = ["python3 verify.py"];
        let read = Originals::read(&workspace, &start, &rules, &lines, &|| Ok(())).unwrap();
        let read = Originals::decode(&read.encode()).unwrap();
        let to = tempfile::tempdir().unwrap();
        for (path, kept) in [
            ("tests/a.sh", true),
            ("tests/b.sh", true),
            ("verify.py", true),
            ("tests/large.json", false),
            ("calc.py", false),
        ] {
            assert_eq!(read.has(path.as_bytes()), kept, "{path}");
            assert_eq!(read.write(path.as_bytes(), to.path()).unwrap().is_some(), kept, "{path}");
        }
        let mode = fs::metadata(to.path().join("tests/a.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        assert_eq!(fs::read_link(to.path().join("tests/b.sh")).unwrap(), Path::new("a.sh"));
        assert_eq!(Originals::decode(&[0, 0, 0]), None);
    }
}
