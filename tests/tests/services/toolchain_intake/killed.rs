//! A planner that dies at any place between the arrival of a delivery and its end: nothing is lost, nothing is made
//! twice.

use super::sender::{Intake, assigned};
use anyhow::{Context, Result, ensure};
use surety_common::wire::v1::{self, DeliveryState};
use surety_e2e::harness::Database;
use surety_e2e::toolchain::delivery::{OLD, Sent, new_id};

const POINTS: [&str; 5] = [
    "planner.before_delivery",
    "planner.after_delivery",
    "planner.after_take_delivery",
    "planner.before_processed",
    "planner.after_processed",
];

#[tokio::test]
async fn a_planner_that_dies_loses_no_delivery_and_repeats_no_task() -> Result<()> {
    let database = Database::create().await?;
    let pool = database.pool().await?;
    Intake::start(&database, &[]).await?.put("main", v1::Forge::Gitea, &["old"]).await?;
    for (number, point) in (1..).zip(POINTS) {
        let id = new_id();
        let sent = Sent::gitea(&id, "issues", &assigned(number), OLD);
        let mut dying = Intake::start(&database, &[("SURETY_CRASH_POINT", point)]).await?;
        dying.knows_the_hook().await?;
        // It dies before it answers, or after.
        let was_stored = dying.send(&sent).await.is_ok_and(|answer| answer.status == 202);
        let end = dying.planner.wait_for_exit().await.context(point)?;
        ensure!(!end.success(), "{point}: {end:?}");
        // As if the dead planner's time for what it took had passed.
        sqlx::query(
            "update forge_delivery set next_attempt_at = received_at where state = 'stored'",
        )
        .execute(&pool)
        .await?;
        let next = Intake::start(&database, &[]).await?;
        if !was_stored {
            next.knows_the_hook().await?;
            let answer = next.send(&sent).await?;
            ensure!(answer.status == 202, "{point}: {answer:?}");
        }
        let found = next.processed().await?;
        let own: Vec<_> = found.iter().filter(|one| one.forge_delivery_id == id).collect();
        let [one] = own.as_slice() else { anyhow::bail!("{point}: {own:#?}") };
        assert_eq!((one.state(), one.run_ids.len()), (DeliveryState::Processed, 1), "{point}");
    }
    let tasks: i64 = sqlx::query_scalar("select count(*) from task").fetch_one(&pool).await?;
    assert_eq!(tasks, i64::try_from(POINTS.len())?);
    pool.close().await;
    database.drop().await
}
