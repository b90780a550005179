//! Runs git in the sandbox over the objects of a repository: no hook, filter, replaced object or configuration
//! of the workspace has an effect.

use crate::snapshot::{WorkTree, WrittenObjects};
use crate::tool::process::{self, CommandRequest, Finished};
use crate::tool::{
    Environment, ErrorCode, Folder, RunServers, Sandbox, ToolContext, ToolError, WriteScope,
};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::receipt::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What the sandbox runs: each begins with the functions of `private.sh`.
const PRIVATE: &str = include_str!("private.sh");
const ANCESTOR: (&str, &str) = ("ancestor", include_str!("ancestor.sh"));
const BLOBS: (&str, &str) = ("blobs", include_str!("blobs.sh"));
const COMMIT: (&str, &str) = ("commit", include_str!("commit.sh"));
const INDEX: (&str, &str) = ("index", include_str!("index.sh"));
const OBJECTS: (&str, &str) = ("objects", include_str!("objects.sh"));
const RECORDED: (&str, &str) = ("recorded", include_str!("recorded.sh"));
/// The exit code of a shell that finds no program of that name.
const PROGRAM_MISSING: i32 = 127;
/// The mode that git gives a submodule, in octal.
const SUBMODULE: &str = "160000";
/// The longest time for one repository.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// What an index has otherwise than the one of a work tree. Paths are relative to the top.
#[derive(Debug, Default)]
pub(crate) struct IndexChanges {
    /// The index to begin with; the work tree's own without one.
    pub(crate) base: Option<Vec<u8>>,
    /// Paths that git may not overlook.
    pub(crate) unmarked: Vec<Vec<u8>>,
    /// Paths that it does not have.
    pub(crate) removed: Vec<Vec<u8>>,
    /// Paths that it has as they are in the folder below.
    pub(crate) original: Vec<Vec<u8>>,
    /// The folder with originals, inside the folder that git may write to.
    pub(crate) originals: Option<PathBuf>,
}

/// What a commit has otherwise than another one. Paths are relative to the top.
#[derive(Debug)]
pub(crate) struct CommitChanges {
    /// The commit to begin with, in hexadecimal.
    pub(crate) base: String,
    /// Paths that it does not have.
    pub(crate) removed: Vec<Vec<u8>>,
    /// Paths that it has as they are in the folder below.
    pub(crate) original: Vec<Vec<u8>>,
    /// The folder with originals, inside the folder that git may write to.
    pub(crate) originals: PathBuf,
}

/// A commit that no repository has yet.
#[derive(Debug)]
pub(crate) struct NewCommit {
    /// Its name, in hexadecimal.
    pub(crate) name: String,
    /// A pack with what a repository lacks of it, and its index.
    pub(crate) pack: Vec<PathBuf>,
}

/// One path that is recorded otherwise than in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// Relative to the top.
    pub(crate) path: Vec<u8>,
    /// The mode and the name of the object; none where there is none.
    pub(crate) object: Option<(u32, String)>,
}

/// Reads repositories.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Confines git.
    pub sandbox: Arc<Sandbox>,
    /// The environment of git.
    pub environment: Arc<Environment>,
    /// An empty folder that git may write to.
    pub folder: PathBuf,
    /// Ends the reading.
    pub cancel: CancellationToken,
}

impl Reader {
    /// Whether a commit descends from another one, by git in the sandbox.
    ///
    /// # Errors
    /// The sandbox could not be set up.
    pub(crate) async fn is_ancestor(
        &self,
        tree: &WorkTree,
        old: &str,
        new: &str,
    ) -> Result<bool, ToolError> {
        let work = self.begin(tree, &format!("order-{old}-{new}"))?;
        let finished = work.run(ANCESTOR, old.len(), &[old, new]).await?;
        Ok(finished.exit_code == 0)
    }

    /// Reads objects, each by a name such as `COMMIT:PATH` with the path from the top; none for what is not there or no
    /// file. What git says about them is not checked against anything.
    ///
    /// # Errors
    /// The sandbox could not be set up, or git failed.
    pub(crate) async fn blobs(
        &self,
        tree: &WorkTree,
        names: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, ToolError> {
        let work = self.begin(tree, "blobs")?;
        work.write("wanted", &listed(names, b"\n"))?;
        work.run_whole(BLOBS, &[], "could not read files of a commit").await?;
        Ok(read_batch(&work.read("found")?, names.len()))
    }

    /// The objects and the indexes of packs whose content is not what their names say.
    ///
    /// # Errors
    /// The sandbox could not be set up, or git failed.
    pub(crate) async fn forged(
        &self,
        tree: &WorkTree,
        written: &WrittenObjects,
    ) -> Result<Vec<String>, ToolError> {
        let work = self.begin(tree, "objects")?;
        let names: Vec<String> = written.loose.iter().map(|path| path.replace('/', "")).collect();
        let wanted: String = names.iter().map(|name| format!("{name}^{{object}}\n")).collect();
        let packs = written.packs.iter().filter_map(|path| path.strip_prefix("pack/"));
        let packs: String = packs.map(|name| format!("{name}\n")).collect();
        work.write("wanted", wanted.as_bytes())?;
        work.write("packs", packs.as_bytes())?;
        work.run_whole(OBJECTS, &[], "could not compare its objects with their names").await?;
        let read = |name: &str| {
            Ok::<_, ToolError>(String::from_utf8_lossy(&work.read(name)?).into_owned())
        };
        let found = read("found")?;
        let answers = written.loose.iter().zip(found.lines());
        let loose = answers.filter(|(_, said)| said.ends_with(" missing")).map(|(path, _)| path);
        let broken = read("broken")?;
        let broken = broken.lines().map(|name| format!("pack/{name}"));
        Ok(loose.cloned().chain(broken).collect())
    }

    /// The index of a work tree with these changes.
    ///
    /// # Errors
    /// The sandbox could not be set up, or git failed.
    pub(crate) async fn index(
        &self,
        tree: &WorkTree,
        changes: &IndexChanges,
    ) -> Result<Vec<u8>, ToolError> {
        let work = self.begin(tree, "index")?;
        work.write("unmarked", &listed(&changes.unmarked, b"\0"))?;
        work.write("removed", &listed(&changes.removed, b"\0"))?;
        work.write("original", &listed(&changes.original, b"\0"))?;
        let index = match &changes.base {
            Some(base) => work.write("index", base)?,
            None => work.git.join("index"),
        };
        let originals = changes.originals.as_deref().unwrap_or(&work.private);
        let arguments = [text(&index)?, text(originals)?];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        work.run_whole(INDEX, &arguments, "could not change a copy of its index").await?;
        work.read("index")
    }

    /// How a later commit and the index differ from a commit, submodules apart. Where there was no commit, or the repository no
    /// longer has it, all that they have is a difference. Where there is no later commit, the index alone is compared.
    ///
    /// # Errors
    /// The sandbox could not be set up, or git failed.
    pub(crate) async fn recorded(
        &self,
        tree: &WorkTree,
        (old, new): (Option<&str>, Option<&str>),
    ) -> Result<[Vec<Version>; 2], ToolError> {
        let work = self.begin(tree, "recorded")?;
        let index = text(&work.git.join("index"))?;
        let arguments = [old.unwrap_or_default(), new.unwrap_or_default(), &index];
        work.run_whole(RECORDED, &arguments, "could not compare what it records").await?;
        Ok([read_raw(&work.read("of_commit")?), read_raw(&work.read("of_index")?)])
    }

    /// The commit with these changes; none where it is the same one.
    ///
    /// # Errors
    /// The sandbox could not be set up, or git failed.
    pub(crate) async fn commit(
        &self,
        tree: &WorkTree,
        changes: &CommitChanges,
    ) -> Result<Option<NewCommit>, ToolError> {
        let work = self.begin(tree, "commit")?;
        work.write("removed", &listed(&changes.removed, b"\0"))?;
        work.write("original", &listed(&changes.original, b"\0"))?;
        let originals = text(&changes.originals)?;
        let what = "could not make a commit for a view";
        work.run_whole(COMMIT, &[&changes.base, &originals], what).await?;
        let name = String::from_utf8_lossy(&work.read("made")?).trim().to_owned();
        if name.is_empty() {
            return Ok(None);
        }
        let folder = work.private.join("pack");
        let failed = |error: io::Error| ToolError::io(folder.display(), &error);
        let entries = fs::read_dir(&folder).map_err(failed)?;
        let pack = entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed));
        Ok(Some(NewCommit { name, pack: pack.collect::<Result<_, _>>()? }))
    }

    /// Makes the folder that git works in.
    fn begin(&self, tree: &WorkTree, name: &str) -> Result<Work<'_>, ToolError> {
        let real = |path: &Path| {
            path.canonicalize().map_err(|error| ToolError::io(path.display(), &error))
        };
        let private = self.folder.join(name);
        fs::create_dir_all(&private).map_err(|error| ToolError::io(private.display(), &error))?;
        self.give_folder_to_owner_of(&tree.top)?;
        give_to_owner_of(&private, &tree.top)?;
        let (top, git, common) = (real(&tree.top)?, real(&tree.git)?, real(&tree.common)?);
        let own = [git.clone(), common.clone()].into_iter();
        let (inside, outside): (Vec<_>, Vec<_>) = own.partition(|folder| folder.starts_with(&top));
        let outside = outside.into_iter().chain(tree.borrowed()).collect();
        let hash_length = tree.hash_length();
        Ok(Work { reader: self, private, git, common, readable: [inside, outside], hash_length })
    }

    /// The sandbox takes the account of the folder that git writes to: it must be one that can read the
    /// repository.
    pub(crate) fn give_folder_to_owner_of(&self, top: &Path) -> Result<(), ToolError> {
        give_to_owner_of(&self.folder, top)
    }

    /// Runs a command that may read folders of a workspace, and others where no command is refused them.
    pub(crate) async fn run(
        &self,
        argv: Vec<String>,
        [inside, outside]: [Vec<PathBuf>; 2],
    ) -> Result<Finished, ToolError> {
        let context = ToolContext {
            // A workspace may lie in the data folder, of which commands see nothing else.
            folder: Arc::new(Folder::given(self.folder.clone()).with_git(inside)),
            write_scope: Arc::new(WriteScope::whole()),
            environment: Arc::clone(&self.environment),
            sandbox: Arc::new(self.sandbox.reading(outside)),
            view: None,
            call_id: Uuid::now_v7(),
            shell_allowed: true,
            verify_tools: Arc::default(),
            secrets: Arc::default(),
            servers: RunServers::default(),
            forge: crate::tool::RunForge::default(),
            deadline: Instant::now() + TIME_LIMIT,
            cancel: self.cancel.clone(),
            kill: self.cancel.clone(),
        };
        let request = CommandRequest {
            command: Command::Argv(argv),
            folder: context.workspace()?.root().to_owned(),
            environment: Environment::clone(&self.environment),
        };
        process::run(&context, &request).await
    }
}

/// One script of git over a repository.
struct Work<'r> {
    reader: &'r Reader,
    /// The folder that it works in.
    private: PathBuf,
    git: PathBuf,
    common: PathBuf,
    /// What it reads: in the work tree, and elsewhere.
    readable: [Vec<PathBuf>; 2],
    /// The length of the names of objects, in bytes.
    hash_length: usize,
}

impl Work<'_> {
    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ToolError> {
        let path = self.private.join(name);
        fs::write(&path, bytes).map_err(|error| ToolError::io(path.display(), &error))?;
        Ok(path)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, ToolError> {
        let path = self.private.join(name);
        fs::read(&path).map_err(|error| ToolError::io(path.display(), &error))
    }

    /// Runs a script over names of objects with so many hexadecimal digits.
    async fn run(
        &self,
        (name, script): (&str, &str),
        digits: usize,
        arguments: &[&str],
    ) -> Result<Finished, ToolError> {
        let format = if digits == 64 { "sha256" } else { "sha1" };
        let script = [PRIVATE, script].concat();
        let mut argv = ["sh", "-euc", &script, name].map(str::to_owned).to_vec();
        argv.extend([text(&self.private)?, format.to_owned(), text(&self.common)?]);
        argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self.reader.run(argv, self.readable.clone()).await
    }

    /// As [`Self::run`], where any exit code but 0 is an error.
    async fn run_whole(
        &self,
        script: (&str, &str),
        arguments: &[&str],
        what: &str,
    ) -> Result<(), ToolError> {
        let finished = self.run(script, self.hash_length * 2, arguments).await?;
        if finished.exit_code != 0 {
            let said = String::from_utf8_lossy(&finished.stderr).trim().to_owned();
            let code = match finished.exit_code {
                PROGRAM_MISSING => ErrorCode::ProgramNotFound,
                _ => ErrorCode::IoFailed,
            };
            let place = self.git.display();
            return Err(ToolError::new(code, format!("{place}: git {what}: {said}")));
        }
        Ok(())
    }
}

fn listed(parts: &[Vec<u8>], end: &[u8]) -> Vec<u8> {
    parts.iter().flat_map(|part| [part.as_slice(), end].concat()).collect()
}

fn give_to_owner_of(folder: &Path, top: &Path) -> Result<(), ToolError> {
    let failed = |error| ToolError::io(top.display(), &error);
    let found = fs::metadata(top).map_err(failed)?;
    if fs::metadata(folder).is_ok_and(|own| own.uid() == found.uid()) {
        return Ok(());
    }
    // Only root can, and only root needs it: the sandbox of another account keeps that account.
    match chown(folder, Some(found.uid()), Some(found.gid())) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(failed(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What `git cat-file --batch` says: `OBJECT blob SIZE`, a line end, the content, a line end; or `NAME missing`.
fn read_batch(mut bytes: &[u8], count: usize) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { break };
        let (head, rest) = bytes.split_at(end);
        let rest = rest.get(1..).unwrap_or_default();
        let mut words = head.rsplit(|byte| *byte == b' ');
        let size = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let kind = words.next();
        let (blob, after) = match size {
            Some(size) => (rest.get(..size), rest.get(size + 1..)),
            None => (None, Some(rest)),
        };
        found.push(blob.filter(|_| kind == Some(b"blob")).map(<[u8]>::to_vec));
        bytes = after.unwrap_or_default();
    }
    found.resize(count, None);
    found
}

/// What `git diff-tree --raw -z` says: `:MODE MODE OBJECT OBJECT STATUS`, a zero byte, the path, a zero byte.
fn read_raw(bytes: &[u8]) -> Vec<Version> {
    let mut parts = bytes.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let Some((head, path)) = parts.next().zip(parts.next()) {
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let [old, new, _, object, _] = words.as_slice() else { break };
        if [old, new].contains(&&SUBMODULE) {
            continue;
        }
        let mode = u32::from_str_radix(new, 8).unwrap_or_default();
        let object = (mode != 0).then(|| (mode, (*object).to_owned()));
        found.push(Version { path: path.to_vec(), object });
    }
    found
}

pub(crate) fn text(path: &Path) -> Result<String, ToolError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let message = format!("{} is not UTF-8; rename the folder", path.display());
        ToolError::new(ErrorCode::PathInvalid, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_differences_are_read_without_submodules() {
        let said = b":100644 100755 aa bb M\0a b\0:000000 160000 00 cc A\0sub\0:100644 000000 dd 00 D\0c\0";
        let version = |path: &str, object| Version { path: path.into(), object };
        let expected = [version("a b", Some((0o100_755, "bb".to_owned()))), version("c", None)];
        assert_eq!(read_raw(said), expected);
        assert_eq!(read_raw(b""), []);
    }

    #[test]
    fn what_git_says_of_files_is_read_one_after_another() {
        let said =
            b"c0ffee blob 3\na\nb\nabc:gone.txt missing\nc0ffee tree 2\nxx\nc0ffee blob 0\n\n";
        let found = read_batch(said, 5);
        assert_eq!(found, [Some(b"a\nb".to_vec()), None, None, Some(Vec::new()), None]);
        assert_eq!(read_batch(b"c0ffee blob 9\nabc", 1), [None]);
    }
}
