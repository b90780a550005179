//! `surety watch RUN`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::named_run::NamedRun;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::follow::{Screen, follow};
use crate::output::Output;

/// Follows a run to its end.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    named: NamedRun,

    /// The sequence number of the first event.
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,

    #[command(flatten)]
    client: ClientConfig,
}

impl Watch {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let answer = connection.run(&run_id, v1::RunView::Basic).await;
        let answer = answer.map_err(|status| connection.failure(&status))?;
        let Some(run) = answer.run else {
            return Err(Failure::new(Code::Internal, "the service's answer contains no run", ""));
        };
        follow(&connection, &run, self.from, Screen::of(output, &connection, &run)).await
    }
}
