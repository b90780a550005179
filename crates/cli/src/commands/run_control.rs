//! `surety pause RUN`, `surety resume RUN` and `surety cancel RUN`

use clap::Args;
use surety_common::config::ClientConfig;

use super::named_run::NamedRun;
use crate::answering::{Way, control};
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

impl RunControl {
    pub(super) async fn run(self, way: Way, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let run = control(&connection, run_id, self.reason, way).await?;
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
