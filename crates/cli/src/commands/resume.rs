//! `surety resume RUN`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::NamedRun;
use crate::connection::bounded;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::run_state;
use crate::wire_json;

/// Lets a paused run go on.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    named: NamedRun,

    /// Why; kept with the run.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,

    #[command(flatten)]
    client: ClientConfig,
}

impl Resume {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let request = v1::ResumeRunRequest { run_id, reason: self.reason };
        let answer = connection.runs().resume_run(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let run = answer.run.unwrap_or_default();
        let shown = || format!("run {} is {}", run.id, run_state(run.state()));
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
