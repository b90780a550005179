//! A service that dies on either side of a commit of a sleep: the run wakes once, and its call has one outcome.

use super::points;
use super::points_of_moves::OF_MOVES;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{self, plan, step, write};

/// Every write of the executor: the sleep with its turn, and its outcome with the next one.
const OF_SLEEPS: [&str; 2] = ["committer.before_write", "committer.after_write"];
/// More writes than one such run makes.
const MANY: usize = 40;

fn order(workspace: &str) -> v1::CreateRunRequest {
    let sleep = json!({"name": "sleep", "arguments": {"seconds": 1}});
    script::request(&plan(&[step("s", &[], &[sleep, write("a.txt", "x")])]), workspace)
}

async fn slept_once(deployment: &Deployment, run_id: &str) -> Result<()> {
    let run = deployment.wait_for_end(run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let request = v1::ListReceiptsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let receipts = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
    let slept = receipts.iter().filter(|receipt| receipt.name == "sleep").count();
    ensure!(slept == 1, "{slept} outcomes of one sleep");
    Ok(())
}

#[tokio::test]
async fn an_executors_death_at_any_write_of_a_run_that_sleeps_is_recovered_from() -> Result<()> {
    for point in OF_SLEEPS {
        let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
        let pool = deployment.database.pool().await?;
        let mut deaths = 0;
        for passing in 1..MANY {
            let workspace = tempfile::tempdir()?;
            let order = order(&workspace.path().to_string_lossy());
            let run = deployment.create_run(order).await?;
            let named = format!("{point}:{passing}");
            deployment.add_executor(&[("SURETY_CRASH_POINT", &named)]).await?;
            let died = points::died(&mut deployment, &run.id).await.context(named.clone())?;
            if died {
                // As if its heartbeat's age limit had passed.
                sqlx::query("update executor set heartbeat_at = 'epoch'").execute(&pool).await?;
                deployment.executors.clear();
                deployment.add_executor(&[]).await?;
                deaths += 1;
            }
            slept_once(&deployment, &run.id).await.context(named)?;
            deployment.first_executor()?.kill().await?;
            deployment.executors.clear();
            if !died {
                break;
            }
        }
        // The sleep, its outcome, and the intent and the outcome of the write.
        ensure!(deaths >= 3, "{point}: {deaths}");
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_planners_death_on_either_side_of_a_wake_up_is_recovered_from() -> Result<()> {
    for point in OF_MOVES {
        let mut deployment = Deployment::start().await?;
        deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let workspace = tempfile::tempdir()?;
        let order = order(&workspace.path().to_string_lossy());
        let run = deployment.create_run(order).await?;
        deployment.planner.wait_for_exit().await.context(point)?;
        deployment.replace_planner().await?;
        slept_once(&deployment, &run.id).await.context(point)?;
        deployment.finish().await?;
    }
    Ok(())
}
