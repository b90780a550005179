//! `surety pause RUN`

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

/// Pauses a run: turns under way end, nothing new starts.
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    named: NamedRun,

    /// Why; kept with the run.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,

    #[command(flatten)]
    client: ClientConfig,
}

impl Pause {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let request = v1::PauseRunRequest { run_id, reason: self.reason };
        let answer = connection.runs().pause_run(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let run = answer.run.unwrap_or_default();
        let shown = || match &run.blocked {
            Some(_) => format!("run {} is {}", run.id, run_state(run.state())),
            None => format!("run {} pauses once its turns under way have ended", run.id),
        };
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
