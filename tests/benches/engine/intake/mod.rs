//! Deliveries of forges: a burst of signed ones and the tasks that they become, signatures that are wrong, and
//! connections that say nothing or too little.
//!
//! ```text
//!   one planner, one database:  burst -> tasks  |  wrong signatures, database at rest?  |  4,000 idle connections
//! ```

mod attack;
mod burst;
mod delivery;
mod refused;

use crate::report::{Report, Row};
use crate::stand::Stand;
use anyhow::Result;
use delivery::SECRET;
use std::time::Duration;
use surety_common::wire::client::channel;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_e2e::harness::{Process, Service, token};

pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let database = stand.database().await?;
    let mut environment = stand.environment();
    environment.extend([("SURETY_HOOK_SECRETS", "main@_toolchain=env:HOOK"), ("HOOK", SECRET)]);
    let planner = Process::start(Service::Planner, &database, &environment).await?;
    register(&planner).await?;
    let pool = database.pool().await?;
    burst::measure(stand, report, &planner, &pool).await?;
    refused::measure(stand, report, &planner, (&database, &pool)).await?;
    pool.close().await;
    attack::measure(stand, report, &planner).await?;
    drop(planner);
    database.drop().await
}

/// The hook, and the agent whose account the issues of the deliveries are assigned to.
async fn register(planner: &Process) -> Result<()> {
    let mut toolchain = ToolchainServiceClient::new(channel(&planner.url(), Some(&token()?))?);
    let account = v1::ForgeAccount { forge: "gitea".to_owned(), login: delivery::LOGIN.to_owned() };
    let agent = v1::Agent {
        id: "developer".to_owned(),
        accounts: vec![account],
        roles: vec!["developer".to_owned()],
        ..v1::Agent::default()
    };
    toolchain.put_agent(v1::PutAgentRequest { agent: Some(agent) }).await?;
    let hook = v1::Hook {
        name: "main".to_owned(),
        forge: v1::Forge::Gitea.into(),
        secrets: vec!["main".to_owned()],
        ..v1::Hook::default()
    };
    toolchain.put_hook(v1::PutHookRequest { hook: Some(hook) }).await?;
    Ok(())
}

/// A figure beside its target. A target of a run that is small on purpose is neither met nor missed.
fn judged(
    stand: &Stand<'_>,
    what: impl Into<String>,
    figure: &str,
    (target, is_met): (&str, bool),
) -> Row {
    let word = match (stand.options.quick, is_met) {
        (true, _) => "not judged: a small run",
        (false, true) => "met",
        (false, false) => "MISSED",
    };
    Row::new(what, format!("**{figure}**")).beside(format!("target {target}: {word}"))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The time that this share of the sorted times does not exceed.
fn percentile(sorted: &[Duration], share: usize) -> Duration {
    let rank = (sorted.len() * share).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}
