//! The secrets that a run asks for: whether this executor has them is known before anything of the run starts.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::workspace_lock::refuse;
use surety_common::domain::fault::FaultCode;

/// Whether this executor has every secret that a new run names. Else the run ends.
pub(super) async fn ensure(run: &LeasedRun) -> Result<bool, Ended> {
    let (namespace, names) = (&run.spec.namespace, &run.spec.policy.secrets);
    let Some(name) = run.engine.secrets.missing(namespace, names) else { return Ok(true) };
    if run.execution().await.counters.rounds > 0 {
        // Calls that name it say so.
        return Ok(true);
    }
    let why = format!(
        "the executor's operator lists no secret {name:?} for the namespace {namespace:?}; add it to \
         SURETY_EXECUTOR_SECRETS, or take it out of policy.secrets"
    );
    Box::pin(refuse(run, FaultCode::SecretUnavailable, &why)).await?;
    Ok(false)
}
