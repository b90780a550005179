//! `surety grants RUN` and `surety revoke RUN GRANT`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::named_run::NamedRun;
use crate::connection::bounded;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::report;
use crate::text::run_state;
use crate::wire_json;

/// Lists what approvers granted for a run, and what is left of it.
#[derive(Debug, Args)]
pub struct Grants {
    #[command(flatten)]
    named: NamedRun,

    #[command(flatten)]
    client: ClientConfig,
}

/// Revokes a grant: later calls are asked about again.
#[derive(Debug, Args)]
pub struct Revoke {
    #[command(flatten)]
    named: NamedRun,

    /// The grant's id, from `surety grants RUN`.
    #[arg(value_name = "GRANT")]
    grant: String,

    #[command(flatten)]
    client: ClientConfig,
}

impl Grants {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let found = connection.run(&run_id, v1::RunView::Basic).await;
        let run = found.map_err(|status| connection.failure(&status))?.run.unwrap_or_default();
        if output.json {
            output.value(&wire_json::list("CallGrant", &run.grants))?;
        } else if run.grants.is_empty() {
            note("Nothing was granted for the run.");
        } else {
            output.line(&report::grants(&run.grants, chrono::Utc::now()))?;
        }
        Ok(Exit::Done)
    }
}

impl Revoke {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let (connection, run_id) = self.named.find(&self.client).await?;
        let grant_id = self.grant.trim().to_owned();
        let request =
            v1::RevokeGrantRequest { run_id, grant_id: grant_id.clone(), ..Default::default() };
        let answered = connection.runs().revoke_grant(bounded(request)).await;
        let answered = answered.map_err(|status| connection.failure(&status))?.into_inner();
        let run = answered.run.unwrap_or_default();
        let shown =
            || format!("grant {grant_id} is revoked; run {} is {}", run.id, run_state(run.state()));
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
