//! The check inputs as they were at the start of a run: their content, kept so that a view gets it back.

use super::threads::read_by_threads;
use crate::scratch;
use crate::snapshot::Check;
use crate::tool::{RelPath, ToolError, Workspace, if_readable};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{
    InputKind, StartInputs, ecosystem_of, is_ignore_file, is_merged, language_of, replaced_package,
};
use surety_common::domain::manifest::{Content, Entry, Kind, Manifest};
use surety_common::domain::source_tests::{MAX_BYTES, has_documents, has_tests, may_have_tests};

/// The largest file that is kept, in bytes.
pub const MAX_FILE: u64 = 8 << 20;
/// The largest manifest and lock file of a package manager that is kept, in bytes.
const MAX_LOCK: u64 = 2 << 20;
/// All files that are kept, in bytes.
const MAX_ALL: u64 = 64 << 20;
/// The largest source file whose tests are compared, in bytes.
const SOURCE_LIMIT: u64 = MAX_BYTES as u64;
/// Sources that are read at once, so that what is read and not kept takes little memory.
const WAVE: usize = 4_096;
/// The kinds of entries in the stored form.
const FILE: u8 = 0;
const LINK: u8 = 1;
const LEFT_OUT: u8 = 2;
const SOURCE: u8 = 3;
const PACKAGE: u8 = 4;
/// Files of installed packages of tests whose digests are kept, in bytes together.
const MAX_PACKAGES: u64 = 128 << 20;
/// The largest file that is kept although it is no check input, and all of them, in bytes.
const MAX_SOURCE: u64 = 512 << 10;
const MAX_SOURCES: u64 = 4 << 20;

/// The content of check inputs at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Originals {
    files: BTreeMap<Vec<u8>, Original>,
    /// Other files of a small workspace, for the canary with the code of the start.
    sources: BTreeMap<Vec<u8>, Original>,
    /// The digests of files of installed packages that tests are written with, which git ignores.
    packages: BTreeMap<Vec<u8>, [u8; 32]>,
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
    /// Reads the check inputs of the first snapshot, the scripts of these lines, and source files with tests
    /// inside. It blocks.
    ///
    /// # Errors
    /// What `check` answers. A file that cannot be read is left out.
    pub fn read(
        workspace: &Workspace,
        start: &Manifest,
        inputs: &StartInputs<'_>,
        lines: &[&str],
        check: Check<'_>,
    ) -> Result<Self, ToolError> {
        let scripts: BTreeSet<Vec<u8>> =
            lines.iter().flat_map(|line| inputs.scripts(line)).map(|(path, _)| path).collect();
        let wanted = |entry: &&Entry| {
            (!entry.ignored || inputs.keeps_ignored(&entry.path))
                && (inputs.kind_of(&entry.path).is_some()
                    || scripts.contains(entry.path.as_ref())
                    || inputs.is_document(&entry.path)
                    || is_merged(&String::from_utf8_lossy(&entry.path))
                    || is_ignore_file(&String::from_utf8_lossy(&entry.path))
                    || entry.size <= MAX_LOCK
                        && ecosystem_of(&String::from_utf8_lossy(&entry.path)).is_some())
        };
        // What decides by its text comes before data, tracked files before ignored ones, and what is small before what is large.
        let mut found: Vec<&Entry> = start.entries().iter().filter(wanted).collect();
        let is_data = |entry: &Entry| {
            let path = String::from_utf8_lossy(&entry.path);
            language_of(&path).is_none() && inputs.kind_of(&entry.path) == Some(InputKind::Test)
        };
        found.sort_by_cached_key(|entry| (is_data(entry), entry.ignored, entry.size));
        let data = found.split_off(found.partition_point(|entry| !is_data(entry)));
        let mut originals = Self::default();
        let mut left = MAX_ALL;
        originals.read_files(workspace, &found, &mut left, check)?;
        originals.read_tests(workspace, (start, inputs), &mut left, check)?;
        originals.read_files(workspace, &data, &mut left, check)?;
        originals.read_sources(workspace, start, check)?;
        originals.read_packages(workspace, start, inputs, check)?;
        Ok(originals)
    }

    fn read_files(
        &mut self,
        workspace: &Workspace,
        files: &[&Entry],
        left: &mut u64,
        check: Check<'_>,
    ) -> Result<(), ToolError> {
        for entry in files {
            check()?;
            let original = match (entry.kind, &entry.content) {
                (Kind::Link, Content::Target(target)) => Original::Link(target.to_vec()),
                (Kind::File, _) if entry.size > MAX_FILE.min(*left) => Original::LeftOut,
                (Kind::File, _) => {
                    let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
                    let text = if_readable(workspace.read(&path, MAX_FILE))?;
                    text.map_or(Original::LeftOut, |text| Original::File(entry.mode, text))
                }
                (_, _) => continue,
            };
            if let Original::File(_, text) = &original {
                *left = left.saturating_sub(u64::try_from(text.len()).unwrap_or(u64::MAX));
            }
            self.files.insert(entry.path.to_vec(), original);
        }
        Ok(())
    }

    /// Reads the sources with tests inside. Of one that is too large it is not known whether it has some.
    fn read_tests(
        &mut self,
        workspace: &Workspace,
        (start, inputs): (&Manifest, &StartInputs<'_>),
        left: &mut u64,
        check: Check<'_>,
    ) -> Result<(), ToolError> {
        let is_source = |entry: &&Entry| {
            entry.kind == Kind::File
                && !entry.ignored
                && may_have_tests(&entry.path)
                && inputs.kind_of(&entry.path).is_none()
                && !self.files.contains_key(entry.path.as_ref())
                && !inputs.rules().may_change(&entry.path)
        };
        let sources: Vec<&Entry> = start.entries().iter().filter(is_source).collect();
        let (sources, large): (Vec<&Entry>, Vec<&Entry>) =
            sources.into_iter().partition(|entry| entry.size <= SOURCE_LIMIT);
        for entry in large {
            self.files.insert(entry.path.to_vec(), Original::LeftOut);
        }
        for wave in sources.chunks(WAVE) {
            for (entry, text) in with_tests(workspace, wave, check)? {
                let original = match (left.checked_sub(entry.size), text) {
                    (Some(rest), Some(text)) => {
                        *left = rest;
                        Original::File(entry.mode, text)
                    }
                    (_, _) => Original::LeftOut,
                };
                self.files.insert(entry.path.to_vec(), original);
            }
        }
        Ok(())
    }

    /// The largest file of a package whose digest is kept, in bytes.
    pub(super) const MAX_PACKAGE_FILE: u64 = 8 << 20;

    /// Reads the digests of installed packages that tests are written with, the smallest files first.
    fn read_packages(
        &mut self,
        workspace: &Workspace,
        start: &Manifest,
        inputs: &StartInputs<'_>,
        check: Check<'_>,
    ) -> Result<(), ToolError> {
        let is_of_tests = |ecosystem: &str, name: &str| inputs.origin_of(ecosystem, name).is_some();
        let is_one = |entry: &&Entry| {
            entry.ignored
                && entry.kind == Kind::File
                && entry.size <= Self::MAX_PACKAGE_FILE
                && replaced_package(&String::from_utf8_lossy(&entry.path), &[], is_of_tests)
                    .is_some()
        };
        let mut files: Vec<&Entry> = start.entries().iter().filter(is_one).collect();
        files.sort_by_key(|entry| entry.size);
        let mut left = MAX_PACKAGES;
        for entry in files {
            check()?;
            let Some(rest) = left.checked_sub(entry.size) else { break };
            left = rest;
            let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
            // What cannot be read is told by its size alone.
            let Some(text) = if_readable(workspace.read(&path, Self::MAX_PACKAGE_FILE))? else {
                continue;
            };
            self.packages.insert(entry.path.to_vec(), *blake3::hash(&text).as_bytes());
        }
        Ok(())
    }

    /// The digest of a file of an installed package; none where it was not kept.
    pub(super) fn package_digest(&self, path: &[u8]) -> Option<&[u8; 32]> {
        self.packages.get(path)
    }

    /// Reads the files that are no check inputs: all where they are small together, else the code, else
    /// none.
    fn read_sources(
        &mut self,
        workspace: &Workspace,
        start: &Manifest,
        check: Check<'_>,
    ) -> Result<(), ToolError> {
        let is_kept = |entry: &&Entry| {
            entry.kind == Kind::File
                && !entry.ignored
                && entry.size <= MAX_SOURCE
                && !self.files.contains_key(entry.path.as_ref())
        };
        let mut kept: Vec<&Entry> = start.entries().iter().filter(is_kept).collect();
        let size = |kept: &[&Entry]| kept.iter().map(|entry| entry.size).sum::<u64>();
        if size(&kept) > MAX_SOURCES {
            kept.retain(|entry| language_of(&String::from_utf8_lossy(&entry.path)).is_some());
        }
        if size(&kept) > MAX_SOURCES {
            return Ok(());
        }
        for entry in kept {
            check()?;
            let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
            // What cannot be read is not known at the start.
            let Some(text) = if_readable(workspace.read(&path, MAX_SOURCE))? else { continue };
            self.sources.insert(entry.path.to_vec(), Original::File(entry.mode, text));
        }
        Ok(())
    }

    /// Adds a file, as a revision of a repository has it.
    pub fn add_file(&mut self, path: Vec<u8>, mode: u32, content: Vec<u8>) {
        self.files.insert(path, Original::File(mode, content));
    }

    /// Whether a check input, or a source that may have tests, is too large to be kept.
    pub(super) fn is_left_out(&self, path: &[u8]) -> bool {
        self.files.get(path) == Some(&Original::LeftOut)
    }

    /// Whether the content of a path was kept.
    pub fn has(&self, path: &[u8]) -> bool {
        matches!(self.files.get(path), Some(Original::File(..) | Original::Link(_)))
    }

    /// The permissions and the content of a file, check input or not; none where it was not kept.
    pub(super) fn file(&self, path: &[u8]) -> Option<(u32, &[u8])> {
        match self.files.get(path).or_else(|| self.sources.get(path))? {
            Original::File(mode, text) => Some((*mode, text)),
            Original::Link(_) | Original::LeftOut => None,
        }
    }

    /// The text of a file; none where it was not kept, or is no text.
    pub(super) fn text(&self, path: &[u8]) -> Option<&str> {
        match self.files.get(path)? {
            Original::File(_, text) => std::str::from_utf8(text).ok(),
            Original::Link(_) | Original::LeftOut => None,
        }
    }

    /// As [`Originals::text`], for every file that was kept.
    pub(super) fn any_text(&self, path: &[u8]) -> Option<&str> {
        match self.files.get(path).or_else(|| self.sources.get(path))? {
            Original::File(_, text) => std::str::from_utf8(text).ok(),
            Original::Link(_) | Original::LeftOut => None,
        }
    }

    /// Writes one original into a folder; answers its path there. None where it was not kept. It blocks.
    pub(super) fn write(&self, path: &[u8], folder: &Path) -> io::Result<Option<PathBuf>> {
        write_original(self.files.get(path), path, folder)
    }

    /// The paths and texts of the check inputs that are texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&[u8], &str)> {
        self.files.keys().filter_map(|path| Some((path.as_slice(), self.text(path)?)))
    }

    /// Whether the text of any of them contains a word.
    pub(super) fn any_has(&self, word: &str) -> bool {
        let has = |original: &Original| match original {
            Original::File(_, text) => String::from_utf8_lossy(text).contains(word),
            Original::Link(_) | Original::LeftOut => false,
        };
        self.files.values().any(has)
    }

    /// Whether the content of a path was kept, as a check input or not.
    pub(super) fn has_any(&self, path: &[u8]) -> bool {
        self.has(path) || self.sources.contains_key(path)
    }

    /// As [`Originals::write`], for every file that was kept.
    pub(super) fn write_any(&self, path: &[u8], folder: &Path) -> io::Result<Option<PathBuf>> {
        let kept = self.files.get(path).filter(|kept| **kept != Original::LeftOut);
        write_original(kept.or_else(|| self.sources.get(path)), path, folder)
    }

    /// The stored form: entries one after another, each with its lengths in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut add = |kind: u8, mode: u32, path: &[u8], body: &[u8]| {
            out.push(kind);
            out.extend(mode.to_be_bytes());
            for part in [path, body] {
                out.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
                out.extend(part);
            }
        };
        let sources = self.sources.iter().map(|(path, source)| (path, source, true));
        let files = self.files.iter().map(|(path, original)| (path, original, false));
        for (path, original, is_source) in files.chain(sources) {
            let (kind, mode, body) = match original {
                Original::File(mode, text) if is_source => (SOURCE, *mode, text.as_slice()),
                Original::File(mode, text) => (FILE, *mode, text.as_slice()),
                Original::Link(target) => (LINK, 0, target.as_slice()),
                Original::LeftOut => (LEFT_OUT, 0, &[][..]),
            };
            add(kind, mode, path, body);
        }
        for (path, digest) in &self.packages {
            add(PACKAGE, 0, path, digest);
        }
        out
    }

    /// Reads the stored form; none when it is damaged.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut files = BTreeMap::new();
        let mut sources = BTreeMap::new();
        let mut packages = BTreeMap::new();
        while !bytes.is_empty() {
            let kind = *take(&mut bytes, 1)?.first()?;
            let mode = u32::from_be_bytes(take(&mut bytes, 4)?.try_into().ok()?);
            let path = sized(&mut bytes)?.to_vec();
            let body = sized(&mut bytes)?.to_vec();
            let original = match kind {
                FILE => Original::File(mode, body),
                LINK => Original::Link(body),
                LEFT_OUT => Original::LeftOut,
                SOURCE => {
                    sources.insert(path, Original::File(mode, body));
                    continue;
                }
                PACKAGE => {
                    packages.insert(path, body.try_into().ok()?);
                    continue;
                }
                _ => return None,
            };
            files.insert(path, original);
        }
        Some(Self { files, sources, packages })
    }
}

fn write_original(
    original: Option<&Original>,
    path: &[u8],
    folder: &Path,
) -> io::Result<Option<PathBuf>> {
    let to = folder.join(OsStr::from_bytes(path));
    let Some(original) = original else { return Ok(None) };
    // An earlier run of the round wrote it.
    if to.symlink_metadata().is_ok() {
        return Ok(Some(to));
    }
    if let Some(above) = to.parent() {
        scratch::make(above)?;
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

/// A source, and its text; none where it could not be read.
type ReadSource<'e> = (&'e Entry, Option<Vec<u8>>);

/// The sources with tests inside, in their order.
fn with_tests<'e>(
    workspace: &Workspace,
    sources: &[&'e Entry],
    check: Check<'_>,
) -> Result<Vec<ReadSource<'e>>, ToolError> {
    let read = |entry: &&'e Entry| {
        let entry = *entry;
        let path = RelPath::root().join(OsStr::from_bytes(&entry.path));
        // It may have tests, so it counts as left out.
        let Some(text) = if_readable(workspace.read(&path, SOURCE_LIMIT))? else {
            return Ok(Some((entry, None)));
        };
        let is_one = has_tests(&entry.path, &text) || has_documents(&entry.path, &text);
        Ok(is_one.then_some((entry, Some(text))))
    };
    read_by_threads(sources, read, check)
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
    use surety_common::domain::check_inputs::{Imports, InputRules};

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
        let imports = Imports::default();
        let inputs = StartInputs::new(&rules, &imports, &start, b"/");
        let read = Originals::read(&workspace, &start, &inputs, &lines, &|| Ok(())).unwrap();
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
