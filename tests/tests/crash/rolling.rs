//! A newer version comes while the older one works: service after service is replaced, the first
//! of them changes the schema under the others, and no run notices.

use super::traffic::Traffic;
use anyhow::Result;
use surety_e2e::harness::{Database, Deployment, Process, Service};

/// What the version of tomorrow does to the tables that the one of today works on.
const TOMORROW: &str = "
    alter table execution add column tomorrow text;
    alter table run add column tomorrow text not null default '';
    alter table journal add column tomorrow text;
    create table tomorrow (id integer primary key);
";

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_with_a_migration_replaces_an_older_one_under_load() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("9000_tomorrow.sql"), TOMORROW)?;
    let folder = folder.path().to_string_lossy().into_owned();
    let newer = [("SURETY_TEST_MIGRATIONS", folder.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &super::QUICK).await?;
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    let pool = deployment.database.pool().await?;
    let mut traffic = Traffic::start(&deployment, 3);
    traffic.goes_on(&pool, 8).await?;
    deployment.replace_planner_with(&newer).await?;
    // The older executors and the older gate continue on the newer schema.
    traffic.goes_on(&pool, 12).await?;
    deployment.replace_gate_with(&newer).await?;
    traffic.goes_on(&pool, 4).await?;
    for _ in 0..2 {
        let mut older = deployment.executors.remove(0);
        deployment.add_executor(&newer).await?;
        older.stop().await?;
        traffic.goes_on(&pool, 4).await?;
    }
    let database_url = deployment.database.url().to_owned();
    let environment = [("DATABASE_URL", database_url.as_str())];
    let (code, said) = Process::run_to_end(Service::Planner, "127.0.0.1:0", &environment).await?;
    assert!(code.is_some_and(|code| code != 0), "an older program started over a newer schema");
    assert!(said.contains("9000"), "{said}");
    let runs = traffic.end().await?;
    pool.close().await;
    let audited = deployment.finish_at_rest().await?;
    println!("{runs} runs ended by their clients; audited {audited:?}");
    Ok(())
}
