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

/// What the sandbox runs to find the order of two commits, and to read files of a commit.
const ANCESTOR: &str = include_str!("ancestor.sh");
const BLOBS: &str = include_str!("blobs.sh");
/// What it runs to compare objects with their names.
const OBJECTS: &str = include_str!("objects.sh");
/// What it runs to make an index agree with the files of a view.
const INDEX: &str = include_str!("index.sh");
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
        self.give_folder_to_owner_of(&tree.top)?;
        let failed = |error| ToolError::io(tree.common.display(), &error);
        let common = tree.common.canonicalize().map_err(failed)?;
        let private = self.folder.join(format!("order-{old}-{new}"));
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), ANCESTOR.to_owned()];
        argv.extend(["ancestor".to_owned(), text(&common)?, old.to_owned(), new.to_owned()]);
        argv.push(text(&private)?);
        let readable = std::iter::once(common).chain(tree.borrowed());
        let finished = self.run(argv, readable.collect()).await?;
        Ok(finished.exit_code == 0)
    }

    /// Reads files of a commit, each by its path from the top; none for what the commit does not hold. What git
    /// says about them is not checked against anything.
    ///
    /// # Errors
    /// The sandbox could not be set up, or git failed.
    pub(crate) async fn blobs(
        &self,
        tree: &WorkTree,
        commit: &str,
        paths: &[Vec<u8>],
    ) -> Result<Vec<Option<Vec<u8>>>, ToolError> {
        let failed = |path: &Path, error: &io::Error| ToolError::io(path.display(), error);
        let common = tree.common.canonicalize().map_err(|error| failed(&tree.common, &error))?;
        let private = self.folder.join(format!("blobs-{commit}"));
        let wanted = private.join("wanted");
        fs::create_dir_all(&private).map_err(|error| failed(&private, &error))?;
        let lines: Vec<u8> =
            paths.iter().flat_map(|path| [commit.as_bytes(), b":", path, b"\n"].concat()).collect();
        fs::write(&wanted, lines).map_err(|error| failed(&wanted, &error))?;
        self.give_folder_to_owner_of(&tree.top)?;
        give_to_owner_of(&private, &tree.top)?;
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), BLOBS.to_owned()];
        argv.extend(["blobs".to_owned(), text(&common)?, commit.to_owned(), text(&private)?]);
        let readable = std::iter::once(common).chain(tree.borrowed());
        let finished = self.run(argv, readable.collect()).await?;
        if finished.exit_code != 0 {
            let said = String::from_utf8_lossy(&finished.stderr).trim().to_owned();
            let message = format!("git could not read files of {commit}: {said}");
            return Err(ToolError::new(ErrorCode::IoFailed, message));
        }
        let found = private.join("found");
        let bytes = fs::read(&found).map_err(|error| failed(&found, &error))?;
        Ok(read_batch(&bytes, paths.len()))
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
        let failed = |path: &Path, error: &io::Error| ToolError::io(path.display(), error);
        let common = tree.common.canonicalize().map_err(|error| failed(&tree.common, &error))?;
        let private = self.folder.join("objects");
        fs::create_dir_all(&private).map_err(|error| failed(&private, &error))?;
        let names: Vec<String> = written.loose.iter().map(|path| path.replace('/', "")).collect();
        let wanted: String = names.iter().map(|name| format!("{name}^{{object}}\n")).collect();
        let packs = written.packs.iter().filter_map(|path| path.strip_prefix("pack/"));
        let packs: String = packs.map(|name| format!("{name}\n")).collect();
        for (name, text) in [("wanted", wanted), ("packs", packs)] {
            let path = private.join(name);
            fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        }
        self.give_folder_to_owner_of(&tree.top)?;
        give_to_owner_of(&private, &tree.top)?;
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), OBJECTS.to_owned()];
        let format = if tree.hash_length() == 32 { "sha256" } else { "sha1" };
        argv.extend(["objects".to_owned(), text(&common)?, text(&private)?, format.to_owned()]);
        let readable = std::iter::once(common).chain(tree.borrowed());
        let finished = self.run(argv, readable.collect()).await?;
        if finished.exit_code != 0 {
            let said = String::from_utf8_lossy(&finished.stderr).trim().to_owned();
            let message = format!("git could not compare its objects with their names: {said}");
            return Err(ToolError::new(ErrorCode::IoFailed, message));
        }
        let read = |name: &str| {
            let path = private.join(name);
            fs::read_to_string(&path).map_err(|error| failed(&path, &error))
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
        let failed = |path: &Path, error: &io::Error| ToolError::io(path.display(), error);
        let own = tree.git.canonicalize().map_err(|error| failed(&tree.git, &error))?;
        let private = self.folder.join("index");
        fs::create_dir_all(&private).map_err(|error| failed(&private, &error))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = private.join(name);
            fs::write(&path, bytes).map_err(|error| failed(&path, &error))
        };
        let lists = [
            ("unmarked", &changes.unmarked),
            ("removed", &changes.removed),
            ("original", &changes.original),
        ];
        for (name, paths) in lists {
            let lines: Vec<u8> =
                paths.iter().flat_map(|path| [path.as_slice(), b"\0"].concat()).collect();
            write(name, &lines)?;
        }
        let made = private.join("index");
        if let Some(base) = &changes.base {
            write("index", base)?;
        }
        let index = if changes.base.is_some() { made.clone() } else { own.join("index") };
        self.give_folder_to_owner_of(&tree.top)?;
        give_to_owner_of(&private, &tree.top)?;
        let format = if tree.hash_length() == 32 { "sha256" } else { "sha1" };
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), INDEX.to_owned()];
        argv.extend(["index".to_owned(), text(&index)?, text(&private)?, format.to_owned()]);
        argv.push(text(changes.originals.as_deref().unwrap_or(&private))?);
        let finished = self.run(argv, vec![own]).await?;
        if finished.exit_code != 0 {
            let said = String::from_utf8_lossy(&finished.stderr).trim().to_owned();
            let message = format!("git could not change a copy of its index: {said}");
            return Err(ToolError::new(ErrorCode::IoFailed, message));
        }
        fs::read(&made).map_err(|error| failed(&made, &error))
    }

    /// The sandbox takes the account of the folder that git writes to: it must be one that can read the
    /// repository.
    pub(crate) fn give_folder_to_owner_of(&self, top: &Path) -> Result<(), ToolError> {
        give_to_owner_of(&self.folder, top)
    }

    pub(crate) async fn run(
        &self,
        argv: Vec<String>,
        readable: Vec<PathBuf>,
    ) -> Result<Finished, ToolError> {
        let context = ToolContext {
            folder: Arc::new(Folder::given(self.folder.clone())),
            write_scope: Arc::new(WriteScope::whole()),
            environment: Arc::clone(&self.environment),
            sandbox: Arc::new(self.sandbox.reading(readable)),
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
    fn what_git_says_of_files_is_read_one_after_another() {
        let said =
            b"c0ffee blob 3\na\nb\nabc:gone.txt missing\nc0ffee tree 2\nxx\nc0ffee blob 0\n\n";
        let found = read_batch(said, 5);
        assert_eq!(found, [Some(b"a\nb".to_vec()), None, None, Some(Vec::new()), None]);
        assert_eq!(read_batch(b"c0ffee blob 9\nabc", 1), [None]);
    }
}
