//! The next revision of a plan: requested, refused with a code, started, finished.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use surety_common::wire::status::from_status;
use surety_common::wire::v1::{self, submit_plan_request::PlanSource};
use surety_e2e::harness::Deployment;
use surety_e2e::script::{Trail, noop, plan, repeatable, request, shell, step, write};
use tonic::Status;

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("it was not refused")?;
    Ok(from_status(&status).reason.as_str().to_owned())
}

struct Replanned<'a> {
    deployment: &'a Deployment,
    run_id: String,
}

impl Replanned<'_> {
    async fn ask(&self, reason: &str) -> Result<v1::Run, Status> {
        let request = v1::RequestReplanRequest {
            run_id: self.run_id.clone(),
            reason: reason.to_owned(),
            ..Default::default()
        };
        let mut plans = self.deployment.plans().map_err(|e| Status::internal(e.to_string()))?;
        Ok(plans.request_replan(request).await?.into_inner().run.unwrap_or_default())
    }

    async fn submit(
        &self,
        expected_revision: u32,
        source: PlanSource,
    ) -> Result<v1::SubmitPlanResponse, Status> {
        let request = v1::SubmitPlanRequest {
            run_id: self.run_id.clone(),
            expected_revision,
            plan_source: Some(source),
            reason: String::new(),
            ..Default::default()
        };
        let mut plans = self.deployment.plans().map_err(|e| Status::internal(e.to_string()))?;
        Ok(plans.submit_plan(request).await?.into_inner())
    }

    async fn patch(&self, revision: u32, patch: Value) -> Result<v1::SubmitPlanResponse, Status> {
        self.submit(revision, PlanSource::PatchText(patch.to_string())).await
    }
}

/// A run whose second step waits in a command until the trail lets it go, sent back to planning.
async fn held(deployment: &Deployment, trail: &Trail) -> Result<String> {
    let slow = shell(&trail.mark_and_wait("slow"));
    let written =
        plan(&[step("first", &[], &[write("a.txt", "一")]), step("slow", &["first"], &[slow])]);
    let order = v1::CreateRunRequest {
        limits: Some(v1::Limits { max_replans: Some(1), ..v1::Limits::default() }),
        ..repeatable(request(&written, ""))
    };
    let run = deployment.create_run(order).await?;
    surety_e2e::harness::wait_until("the slow step runs", || trail.marks("slow") > 0).await?;
    Ok(run.id)
}

#[tokio::test]
async fn a_patch_of_a_run_sent_back_is_the_next_revision_and_what_was_done_stays_done() -> Result<()>
{
    let (deployment, trail) = (Deployment::start().await?, Trail::new()?);
    let run_id = held(&deployment, &trail).await?;
    let run = Replanned { deployment: &deployment, run_id };
    let patch = json!({"reason": "更多", "add_steps": [
        {"id": "last", "description": "the last", "dependencies": ["first"], "evidence": "none",
         "script": [noop()]}]});
    assert_eq!(code(run.patch(1, patch.clone()).await)?, "plan_not_wanted");
    assert_eq!(code(run.ask("  ").await)?, "field_missing");
    let sent_back = run.ask("the step hangs").await?;
    assert_eq!(sent_back.state(), v1::RunState::Blocked);
    let blocked = sent_back.blocked.context("a blocked run says what it waits for")?;
    assert!(blocked.unblocks.contains("SubmitPlan"), "{blocked:?}");

    let refused = [
        (0, patch.clone(), "version_conflict"),
        (1, json!({"reason": "r", "remove_steps": ["first"]}), "done_step_immutable"),
        (1, json!({"reason": "r", "remove_steps": ["slow"]}), "step_call_open"),
        (1, json!({"reason": "r", "update_steps": [{"id": "x"}]}), "unknown_step"),
        (1, json!({"reason": "r", "steps": []}), "forbidden_field"),
        (1, json!({"reason": "r"}), "patch_is_noop"),
    ];
    for (revision, patch, expected) in refused {
        assert_eq!(code(run.patch(revision, patch).await)?, expected);
    }
    trail.let_go()?;
    let taken = run.patch(1, patch).await?;
    let stored = taken.plan.context("the plan")?;
    assert_eq!((stored.revision, stored.steps.len()), (2, 3));
    assert_eq!(code(run.patch(1, json!({"title": "t", "reason": "r"})).await)?, "plan_not_wanted");

    let ended = deployment.wait_for_end(&run.run_id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    let first = ended.steps.iter().find(|step| step.id == "first").context("the first step")?;
    assert_eq!(first.attempt, 1, "what was done was done again");
    let get = |revision| v1::GetPlanRequest { run_id: run.run_id.clone(), revision };
    let before = deployment.plans()?.get_plan(get(1)).await?.into_inner();
    let after = deployment.plans()?.get_plan(get(2)).await?.into_inner();
    let before = before.plan.context("the first revision")?;
    assert_eq!(before.steps.len(), 2, "a stored plan never changes");
    assert_eq!((after.parent_digest, after.reason), (before.digest, "更多".to_owned()));
    assert_eq!(after.plan.context("the second revision")?.digest, stored.digest);
    assert_eq!(code(run.ask("late").await)?, "run_terminal");
    deployment.finish().await
}

#[tokio::test]
async fn a_whole_plan_takes_the_place_of_what_is_not_done_and_replans_are_counted() -> Result<()> {
    let (deployment, trail) = (Deployment::start().await?, Trail::new()?);
    let run_id = held(&deployment, &trail).await?;
    let run = Replanned { deployment: &deployment, run_id };
    run.ask("once").await?;
    assert_eq!(run.ask("while it waits").await?.state(), v1::RunState::Blocked);
    trail.let_go()?;
    let slow = shell(&trail.mark_and_wait("slow"));
    let whole = plan(&[
        step("before", &[], &[noop()]),
        step("slow", &[], &[slow]),
        step("after", &["before", "slow"], &[shell(&trail.mark_and_wait("after"))]),
    ]);
    let taken = run.submit(1, PlanSource::PlanText(whole.to_string())).await?;
    let ids: Vec<_> = taken.plan.context("the plan")?.steps.into_iter().map(|s| s.id).collect();
    assert_eq!(ids, ["first", "before", "slow", "after"], "a done step is carried over");
    match run.ask("twice").await {
        Err(status) => {
            let said = from_status(&status).reason.as_str().to_owned();
            assert!(["replans_used_up", "run_terminal", "plan_not_wanted"].contains(&&*said));
        }
        Ok(run) => anyhow::bail!("a second replan was taken: {run:?}"),
    }
    let ended = deployment.wait_for_end(&run.run_id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn of_two_patches_at_once_one_is_taken() -> Result<()> {
    let (deployment, trail) = (Deployment::start().await?, Trail::new()?);
    let run_id = held(&deployment, &trail).await?;
    let run = Replanned { deployment: &deployment, run_id };
    run.ask("two want to help").await?;
    trail.let_go()?;
    let patch = |title: &str| run.patch(1, json!({"title": title, "reason": "r"}));
    let answers = futures::future::join_all([patch("one"), patch("two"), patch("三")]).await;
    let (taken, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!(taken.len(), 1, "{lost:?}");
    for answer in lost {
        let code = code(answer)?;
        assert!(
            ["version_conflict", "plan_not_wanted", "run_terminal"].contains(&&*code),
            "{code}"
        );
    }
    let ended = deployment.wait_for_end(&run.run_id).await?;
    assert_eq!(ended.state(), v1::RunState::Done, "{ended:#?}");
    deployment.finish().await
}
