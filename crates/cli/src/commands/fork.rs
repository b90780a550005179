//! `surety fork RUN --from STEP`

use std::path::{Path, PathBuf};

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::named_run::NamedRun;
use super::submission::{Submission, absolute, submitted};
use crate::connection::bounded;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Begins a new run at a step of an earlier one. The steps that were done before it stay done; the step itself and all
/// that follows runs anew, and so does every check.
#[derive(Debug, Args)]
pub struct Fork {
    #[command(flatten)]
    named: NamedRun,

    /// The step to begin with, by its id.
    #[arg(long, value_name = "STEP")]
    from: String,

    /// The folder to work in, on the executor's host; by default that of the earlier run, as it is now.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// The idempotency key of this fork: submitting it again creates no second run.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,

    /// Print the run's id and end.
    #[arg(long)]
    no_follow: bool,

    #[command(flatten)]
    client: ClientConfig,
}

impl Fork {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let workspace = self.workspace.as_deref().map(|folder| absolute(folder, Path::new("")));
        let workspace = workspace.transpose()?.unwrap_or_default();
        let (connection, run_id) = self.named.find(&self.client).await?;
        let made_up = || uuid::Uuid::now_v7().to_string();
        let request = v1::ForkRunRequest {
            request_id: self.request_id.unwrap_or_else(made_up),
            run_id,
            from_step: self.from,
            workspace,
        };
        let submit = async || connection.runs().fork_run(bounded(request.clone())).await;
        let answer = submitted(&connection, submit).await?;
        let submission = Submission {
            run: answer.run,
            existed: answer.existed,
            warnings: Vec::new(),
            follow: !self.no_follow,
        };
        submission.end(&connection, output).await
    }
}
