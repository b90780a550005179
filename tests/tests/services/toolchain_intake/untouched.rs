//! What no secret of a hook signed costs the database nothing.

use super::sender::{Intake, assigned};
use anyhow::{Context, Result, ensure};
use sqlx::{AssertSqlSafe, PgPool};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, wait_for_yes};
use surety_e2e::toolchain::delivery::{Answer, OLD, Sent, new_id};

/// Takes every table from all others until the transaction ends. A statement on any of them waits.
async fn lock_everything(pool: &PgPool) -> Result<sqlx::Transaction<'static, sqlx::Postgres>> {
    let tables = "select quote_ident(tablename) from pg_tables where schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(pool).await?;
    let mut holding = pool.begin().await?;
    let lock = format!("lock table {} in access exclusive mode", tables.join(", "));
    sqlx::query(AssertSqlSafe(lock)).execute(&mut *holding).await?;
    Ok(holding)
}

#[tokio::test]
async fn wrongly_signed_deliveries_are_refused_while_no_table_can_be_read() -> Result<()> {
    let database = Database::create().await?;
    let intake = Intake::start(&database, &[]).await?;
    intake.put("main", v1::Forge::Gitea, &["old"]).await?;
    intake.knows_the_hook().await?;
    let pool = database.pool().await?;
    let holding = lock_everything(&pool).await?;
    let body = assigned(1);
    for place in 0..200 {
        let id = new_id();
        let sent = match place % 3 {
            0 => Sent::gitea(&id, "issues", &body, "a wrong secret"),
            1 => Sent::gitea(&id, "issues", &body, OLD).with("x-gitea-signature", ""),
            _ => Sent::gitea(&id, "issues", &body, OLD).to("/webhooks/gitea/none"),
        };
        let expected = if place % 3 == 2 { 404 } else { 401 };
        let answer = intake.send(&sent).await?;
        ensure!(answer.status == expected, "{place}: {answer:?}");
    }
    // A signed one waits for its table: the lock would hold the others up too.
    let good = Sent::gitea(&new_id(), "issues", &body, OLD);
    let waits = "select exists (select from pg_stat_activity where datname = current_database()
                 and wait_event_type = 'Lock' and query ilike '%insert into forge_delivery%')";
    let held = async {
        wait_for_yes(&pool, waits).await?;
        holding.rollback().await.context("the lock cannot be given back")
    };
    let (answer, held): (Result<Answer>, Result<()>) = tokio::join!(intake.send(&good), held);
    held?;
    let answer = answer?;
    ensure!(matches!(answer.status, 202 | 503), "{answer:?}");
    pool.close().await;
    database.drop().await
}
