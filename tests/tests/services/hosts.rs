//! A run on a local folder goes on where the folder is, and says when no executor is there.

use anyhow::{Context, Result, ensure};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{noop, plan, request, step, write};

const LABEL: &str = "SURETY_HOST_LABEL";

/// Carries out a run that any executor may claim: an executor that works has looked for runs since.
async fn work_is_done_elsewhere(deployment: &Deployment) -> Result<()> {
    let run = deployment.create(&plan(&[step("a", &[], &[noop()])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    Ok(())
}

#[tokio::test]
async fn a_run_on_a_folder_goes_on_at_its_host_and_says_when_no_executor_is_there() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    deployment.add_executor(&[(LABEL, "one")]).await?;
    let policy =
        v1::Policy { confirm_tools: vec!["write_file".to_owned()], ..v1::Policy::default() };
    let plan = plan(&[step("a", &[], &[write("a.txt", "written")])]);
    let asked = v1::CreateRunRequest {
        policy: Some(policy),
        ..request(&plan, &folder.path().to_string_lossy())
    };
    let run = deployment.create_run(asked).await?;
    deployment.wait_for(&run.id, "asking", |run| run.blocked.is_some()).await?;
    let ended = deployment.first_executor()?.stop().await?;
    ensure!(ended.success(), "{ended}");

    // The executor of another host leaves the run alone, although it waits for one.
    deployment.add_executor(&[(LABEL, "two")]).await?;
    let waits = v1::ListWaitsRequest { run_id: run.id.clone(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(waits).await?.into_inner().waits;
    let wait = waits.first().context("a wait")?;
    let approval = v1::ResolveConfirmationRequest {
        wait_id: wait.id.clone(),
        answer: v1::ConfirmationAnswer::Approve.into(),
        call_digest: wait.call_digest.clone(),
        ..Default::default()
    };
    deployment.runs()?.resolve_confirmation(approval).await?;
    work_is_done_elsewhere(&deployment).await?;
    let waiting = deployment.run(&run.id).await?;
    ensure!(waiting.lease.is_none() && waiting.blocked.is_none(), "{waiting:#?}");
    ensure!(waiting.state() == v1::RunState::Executing, "{waiting:#?}");

    // As it is after two minutes.
    let pool = deployment.database.pool().await?;
    sqlx::query(
        "update execution set ready_at = ready_at - interval '2 minutes' where run_id = $1",
    )
    .bind(run.id.parse::<uuid::Uuid>()?)
    .execute(&pool)
    .await?;
    work_is_done_elsewhere(&deployment).await?;
    let absent = deployment.run(&run.id).await?.blocked.context("what the run waits for")?;
    ensure!(absent.waiting_on() == v1::WaitingOn::Operator, "{absent:#?}");
    ensure!(absent.unblocks.contains("SURETY_HOST_LABEL=one"), "{absent:#?}");
    let shown = deployment.command_line(&["show", &run.id]).await?;
    ensure!(shown.contains("SURETY_HOST_LABEL=one"), "{shown}");
    let listed = deployment.runs()?.list_runs(v1::ListRunsRequest::default()).await?.into_inner();
    let waiting: Vec<_> = listed.runs.iter().filter(|run| run.blocked.is_some()).collect();
    let [of_list] = &waiting[..] else { anyhow::bail!("one run waits: {listed:#?}") };
    ensure!(of_list.id == run.id && of_list.blocked.as_ref() == Some(&absent), "{of_list:#?}");
    let table = deployment.command_line(&["runs"]).await?;
    let line = table.lines().find(|line| line.contains(&run.id)).context("the run is listed")?;
    ensure!(table.contains("WAITS ON") && line.contains("operator"), "{table}");

    // An executor that died holds its lease still; none of its host takes the run over.
    let lease =
        "update execution set lease_owner = $2, updated_at = updated_at - interval '2 minutes'
                 where run_id = $1";
    let run_id: uuid::Uuid = run.id.parse()?;
    let dead = Some(uuid::Uuid::now_v7());
    sqlx::query(lease).bind(run_id).bind(dead).execute(&pool).await?;
    let absent = deployment.run(&run.id).await?.blocked.context("what the run waits for")?;
    ensure!(absent.unblocks.contains("SURETY_HOST_LABEL=one"), "{absent:#?}");

    deployment.add_executor(&[(LABEL, "one")]).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    ensure!(ended.state() == v1::RunState::Done, "{ended:#?}");
    ensure!(std::fs::read_to_string(folder.path().join("a.txt"))? == "written");
    deployment.finish().await
}
