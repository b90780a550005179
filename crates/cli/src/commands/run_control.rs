//! `surety pause RUN`, `surety resume RUN` and `surety cancel RUN`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::named_run::NamedRun;
use crate::connection::bounded;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::run_state;
use crate::wire_json;

/// Pauses, resumes or cancels a run.
#[derive(Debug, Args)]
pub struct RunControl {
    #[command(flatten)]
    named: NamedRun,

    /// The reason; stored with the run.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,

    #[command(flatten)]
    client: ClientConfig,
}

/// The kind of control.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Pause,
    Resume,
    Cancel,
}

impl RunControl {
    pub(super) async fn run(self, way: Way, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let (mut runs, reason) = (connection.runs(), self.reason);
        let answer = match way {
            Way::Pause => {
                let request = v1::PauseRunRequest { run_id, reason, ..Default::default() };
                runs.pause_run(bounded(request)).await.map(|answer| answer.into_inner().run)
            }
            Way::Resume => {
                let request = v1::ResumeRunRequest { run_id, reason, ..Default::default() };
                runs.resume_run(bounded(request)).await.map(|answer| answer.into_inner().run)
            }
            Way::Cancel => {
                let request = v1::CancelRunRequest { run_id, reason, ..Default::default() };
                runs.cancel_run(bounded(request)).await.map(|answer| answer.into_inner().run)
            }
        };
        let run = answer.map_err(|status| connection.failure(&status))?.unwrap_or_default();
        let shown = || match (way, &run.blocked) {
            (Way::Pause, None) => {
                format!("run {} pauses once its running turns have ended", run.id)
            }
            (Way::Pause | Way::Resume | Way::Cancel, _) => {
                format!("run {} is {}", run.id, run_state(run.state()))
            }
        };
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
