//! `surety show RUN`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::named_run::NamedRun;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::{Output, note};
use crate::report::{self, Extent, Journal};
use crate::wire_json;

/// Shows everything about one run.
#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    named: NamedRun,

    /// Show the tools' outputs in full.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    client: ClientConfig,
}

impl Show {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let answer = connection.run(&run_id, v1::RunView::Full).await;
        let answer = answer.map_err(|status| connection.failure(&status))?;
        let Some(run) = answer.run else {
            return Err(Failure::new(Code::Internal, "the service's answer contains no run", ""));
        };
        let signatures = answer.signatures.unwrap_or_default();
        let events = match connection.journal(&run_id).await {
            Err(failure) if signatures.state() == v1::SignatureState::Broken => {
                note(&format!("The journal was rewritten and cannot be shown: {failure}"));
                Vec::new()
            }
            journal => journal?,
        };
        let extent = if self.full { Extent::Full } else { Extent::Short };
        let plan = answer.plan.map(|plan| wire_json::message("Plan", &plan));
        let value = wire_json::object([
            ("signatures", wire_json::message("SignatureReport", &signatures)),
            ("run", wire_json::message("Run", &run)),
            ("plan", plan.unwrap_or(surety_common::domain::json::Value::Null)),
            ("events", wire_json::list("Event", &events)),
        ]);
        output.either(&value, || {
            let whole = report::whole(&run, &Journal(&events), extent);
            format!("{whole}\n\nSignatures\n{}", report::signatures(&signatures))
        })?;
        Ok(Exit::Done)
    }
}
