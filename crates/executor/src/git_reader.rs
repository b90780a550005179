//! Runs git in the sandbox over the objects of a repository: no hook, filter, replaced object or configuration
//! of the workspace has an effect.

use crate::snapshot::WorkTree;
use crate::tool::process::{self, CommandRequest, Finished};
use crate::tool::{Environment, ErrorCode, Folder, Sandbox, ToolContext, ToolError, WriteScope};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::receipt::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What the sandbox runs to find the order of two commits.
const ANCESTOR: &str = include_str!("ancestor.sh");
/// The longest time for one repository.
const TIME_LIMIT: Duration = Duration::from_secs(600);

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

    /// The sandbox takes the account of the folder that git writes to: it must be one that can read the
    /// repository.
    pub(crate) fn give_folder_to_owner_of(&self, top: &Path) -> Result<(), ToolError> {
        let failed = |error| ToolError::io(top.display(), &error);
        let found = fs::metadata(top).map_err(failed)?;
        if fs::metadata(&self.folder).is_ok_and(|own| own.uid() == found.uid()) {
            return Ok(());
        }
        // Only root can, and only root needs it: the sandbox of another account keeps that account.
        match chown(&self.folder, Some(found.uid()), Some(found.gid())) {
            Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => {
                Err(failed(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
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

pub(crate) fn text(path: &Path) -> Result<String, ToolError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let message = format!("{} is not UTF-8; rename the folder", path.display());
        ToolError::new(ErrorCode::PathInvalid, message)
    })
}
