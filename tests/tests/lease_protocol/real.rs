//! What real executors do.

use anyhow::{Context, Result};
use surety_e2e::harness::{Database, Deployment, wait_until};
use surety_e2e::script::{Trail, noop, plan, shell, step};
use sqlx::Row as _;

#[tokio::test]
async fn dump() -> Result<()> {
    let quick = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
    ];
    let trail = Trail::new()?;
    let database = Database::create().await?;
    let pool = database.pool().await?;
    surety_common::store::migrate(&pool).await?;
    sqlx::raw_sql("create table tracked (place bigserial, run_id uuid, old_version bigint, version bigint, epoch bigint, owner uuid, state text, steps text, progress text, old_sequence bigint, sequence bigint);
    create function track() returns trigger language plpgsql as $$ begin insert into tracked (run_id, old_version, version, epoch, owner, state, steps, progress, old_sequence, sequence) values (new.run_id, old.version, new.version, new.lease_epoch, new.lease_owner, new.state, new.step_states, new.progress::text, old.sequence, new.sequence); return null; end $$;
    create trigger tracked after update on execution for each row execute function track();").execute(&pool).await?;
    let mut deployment = Deployment::start_idle(database, &quick).await?;
    deployment.add_executor(&[]).await?;
    let steps = [step("first", &[], &[noop()]), step("second", &["first"], &[shell(&trail.mark_and_wait("second"))]), step("third", &["second"], &[noop()])];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("second") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    let blocked = deployment.question(&run.id).await?;
    trail.let_go()?;
    deployment.answer(&blocked.wait_id, "repeat").await?;
    deployment.wait_for_end(&run.id).await?;
    let rows = sqlx::query("select t.*, j.actor from tracked t left join journal j on j.run_id = t.run_id and j.sequence = t.sequence and t.sequence <> t.old_sequence order by place").fetch_all(&pool).await?;
    for row in rows {
        println!("v{}->{} e{} owner {:?} {} {} seq {}->{} by {:?} open {}", row.get::<i64,_>("old_version"), row.get::<i64,_>("version"), row.get::<i64,_>("epoch"), row.get::<Option<uuid::Uuid>,_>("owner"), row.get::<String,_>("state"), row.get::<String,_>("steps"), row.get::<i64,_>("old_sequence"), row.get::<i64,_>("sequence"), row.get::<Option<String>,_>("actor"), row.get::<String,_>("progress"));
    }
    deployment.finish().await
}
