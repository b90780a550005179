//! A patch of a model waits for an approver where the policy asks for the approval of plans.

use crate::model::stage::{
    Plays, Stage, is_planning, next_plan, one_step, planned, say, stop_reason, write_answer,
};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;

/// A run with a plan of its submitter, whose policy asks for the approval of plans.
fn approved(goal: &str, folder: &str) -> v1::CreateRunRequest {
    let policy = v1::Policy { approve_plan: true, ..v1::Policy::default() };
    v1::CreateRunRequest { policy: Some(policy), ..planned(goal, &one_step(), folder) }
}

/// A model that changes the plan before it works.
fn changes_the_plan(plays: &Plays, goal: &str) {
    plays.add(goal, |number, asked| match (is_planning(asked), number) {
        (false, 0) => say(&json!({"control": "replan", "reason": "the folder is wrong"})),
        (true, 1) => {
            let update = json!({"id": "s", "description": "write answer.txt in this folder"});
            say(&json!({"update_steps": [update], "reason": "the folder"}))
        }
        (false, 2) => {
            assert!(asked.last().contains("in this folder"), "{}", asked.last());
            write_answer()
        }
        (_, _) => next_plan(),
    });
}

fn asks(run: &v1::Run) -> bool {
    let blocked = run.blocked.as_ref();
    blocked.is_some_and(|blocked| blocked.waiting_on() == v1::WaitingOn::Approver)
}

#[tokio::test]
async fn a_patch_of_a_model_waits_for_a_person_bound_to_its_own_digest() -> Result<()> {
    let stage = Stage::start().await?;
    for (goal, answer, ends, calls) in [
        ("approved patch", v1::ConfirmationAnswer::Approve, v1::StopReason::Accepted, 4),
        ("denied patch", v1::ConfirmationAnswer::Deny, v1::StopReason::PlanRejected, 2),
    ] {
        changes_the_plan(&stage.plays, goal);
        let folder = tempfile::tempdir()?;
        let request = approved(goal, &folder.path().to_string_lossy());
        let created = stage.deployment.create_run(request).await?;
        let waiting =
            stage.deployment.wait_for(&created.id, "waiting for an approver", asks).await?;
        // The submitter's own plan was not asked about: the model had a turn under it.
        ensure!(waiting.plan_revision == 2, "{waiting:#?}");
        ensure!(stage.plays.calls(goal) == 2, "a step began before the approval");
        let blocked = waiting.blocked.context("it is blocked")?;
        ensure!(blocked.question.contains("revision 2 of the plan"), "{blocked:#?}");
        ensure!(created.plan_digest != waiting.plan_digest, "the patch has the digest of the plan");
        let resolve = |digest: &str| v1::ResolveConfirmationRequest {
            wait_id: blocked.wait_id.clone(),
            answer: answer.into(),
            call_digest: digest.to_owned(),
            comment: "by a person".to_owned(),
            ..v1::ResolveConfirmationRequest::default()
        };
        let mut runs = stage.deployment.runs()?;
        let first = runs.resolve_confirmation(resolve(&created.plan_digest)).await;
        let refused = from_status(&first.err().context("the digest of the first plan is taken")?);
        let reason = refused.reason.as_str().to_ascii_lowercase();
        ensure!(reason == "confirmation_mismatch", "{refused:?}");
        runs.resolve_confirmation(resolve(&waiting.plan_digest)).await?;
        let ended = stage.deployment.wait_for_end(&created.id).await?;
        ensure!(stop_reason(&ended)? == ends, "{ended:#?}");
        ensure!(stage.plays.calls(goal) == calls, "{goal}: {}", stage.plays.calls(goal));
        let is_approved = ends == v1::StopReason::Accepted;
        ensure!(folder.path().join("answer.txt").exists() == is_approved, "{goal}");
        let said = ended.terminal.context("an end")?.user_message;
        ensure!(is_approved || said.contains("rejected the plan (deny: by a person)"), "{said}");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_person_denies_a_patch_on_the_command_line() -> Result<()> {
    let stage = Stage::start().await?;
    changes_the_plan(&stage.plays, "shown patch");
    let folder = tempfile::tempdir()?;
    let request = approved("shown patch", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.deployment.wait_for(&run.id, "waiting for an approver", asks).await?;
    let said = stage.deployment.command_line(&["deny", &run.id, "--yes"]).await?;
    ensure!(said.contains("write answer.txt in this folder"), "the patch is not shown: {said}");
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::PlanRejected, "{ended:#?}");
    ensure!(stage.plays.calls("shown patch") == 2, "{}", stage.plays.calls("shown patch"));
    stage.deployment.finish().await
}
