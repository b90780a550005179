//! Decisions under leases that are not the caller's, of turns that are not the next, and of any size.

use super::{Case, Scene, Victim, broken, code, held};
use futures::FutureExt;
use prost::Message;
use serde_json::json;
use surety_common::wire::v1;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use surety_e2e::agent::{AGENT, FOREIGN, OTHER, Work, call, fence};
use tonic::Status;

/// The longest text that a reply may have, and one byte more.
const TOO_LONG: usize = (1 << 20) + 1;
/// The same decision, submitted at once.
const COPIES: usize = 16;

fn reply() -> String {
    call("write_file", json!({"path": "out.txt", "content": "x\n"})).to_string()
}

/// Submits a reply to the victim's turn after a change of what it names.
async fn changed(victim: &Victim, change: impl FnOnce(&mut Work)) -> Result<(), Status> {
    let mut work = victim.work.clone();
    change(&mut work);
    victim.agent.submit(&work, &reply()).await.map(drop)
}

async fn raw(scene: &Scene, request: v1::SubmitDecisionRequest) -> Result<(), Status> {
    scene.executor(AGENT)?.submit_decision(request).await.map(drop)
}

/// A decision that cannot be used is a turn without one, and the reader says why.
async fn unread(victim: &Victim, text: &str, expected: &str) -> Result<(), Status> {
    let answer = victim.agent.submit(&victim.work, text).await?;
    let problem = answer.problem.as_ref().map(|problem| problem.code.as_str());
    held(problem.is_some_and(|code| code.eq_ignore_ascii_case(expected)), &answer.problem)?;
    held(answer.outcome() == v1::TurnOutcome::NoDecision && answer.next.is_some(), answer.outcome)
}

/// The same turn many times at once: one decision, one outcome.
async fn at_once(
    victim: &Victim,
    texts: impl Iterator<Item = String>,
) -> Result<Vec<Result<v1::SubmitDecisionResponse, Status>>, Status> {
    let submitting = texts.map(|text| {
        let (agent, work) = (victim.agent.clone(), victim.work.clone());
        tokio::spawn(async move { agent.submit(&work, &text).await })
    });
    let submitting: Vec<_> = submitting.collect();
    let mut answers = Vec::new();
    for one in submitting {
        answers.push(one.await.map_err(broken)?);
    }
    Ok(answers)
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "another identity submits under the lease",
            code: "lease_lost",
            act: |scene, victim| {
                async move { scene.of(OTHER)?.submit(&victim.work, &reply()).await.map(drop) }
                    .boxed()
            },
        },
        Case {
            name: "an older fence",
            code: "lease_lost",
            act: |_, victim| changed(victim, |work| work.lease.lease_epoch -= 1).boxed(),
        },
        Case {
            name: "a fence that was never given",
            code: "lease_lost",
            act: |_, victim| changed(victim, |work| work.lease.lease_epoch = u64::MAX).boxed(),
        },
        Case {
            name: "the fence zero",
            code: "lease_lost",
            act: |_, victim| changed(victim, |work| work.lease.lease_epoch = 0).boxed(),
        },
        Case {
            name: "the turn zero",
            code: "turn_conflict",
            act: |_, victim| changed(victim, |work| work.context.turn = 0).boxed(),
        },
        Case {
            name: "a later turn",
            code: "turn_conflict",
            act: |_, victim| changed(victim, |work| work.context.turn = 2).boxed(),
        },
        Case {
            name: "the largest turn",
            code: "turn_conflict",
            act: |_, victim| changed(victim, |work| work.context.turn = u32::MAX).boxed(),
        },
        Case {
            name: "a step that the plan has not",
            code: "step_not_found",
            act: |_, victim| changed(victim, |work| work.lease.step_id = "t".to_owned()).boxed(),
        },
        Case {
            name: "no step",
            code: "step_not_found",
            act: |_, victim| changed(victim, |work| work.lease.step_id.clear()).boxed(),
        },
        Case {
            name: "a run that is not there",
            code: "run_not_found",
            act: |_, victim| {
                changed(victim, |work| work.lease.run_id = uuid::Uuid::now_v7().to_string()).boxed()
            },
        },
        Case {
            name: "a malformed id",
            code: "invalid_id",
            act: |_, victim| changed(victim, |work| work.lease.run_id.push('x')).boxed(),
        },
        Case {
            name: "an id of a mebibyte",
            code: "invalid_id",
            act: |_, victim| {
                changed(victim, |work| work.lease.run_id = "0".repeat(1 << 20)).boxed()
            },
        },
        Case {
            name: "a driver of another namespace",
            code: "run_not_found",
            act: |scene, victim| {
                async move { scene.of(FOREIGN)?.submit(&victim.work, &reply()).await.map(drop) }
                    .boxed()
            },
        },
        Case {
            name: "no fence",
            code: "field_missing",
            act: |scene, _| raw(scene, v1::SubmitDecisionRequest::default()).boxed(),
        },
        Case {
            name: "no decision",
            code: "field_missing",
            act: |scene, victim| {
                let fence = Some(fence(&victim.work.lease));
                raw(scene, v1::SubmitDecisionRequest { fence, turn: 1, ..Default::default() })
                    .boxed()
            },
        },
        Case {
            name: "a text that is one byte too long",
            code: "too_large",
            act: |_, victim| {
                async move { victim.agent.submit(&victim.work, &"x".repeat(TOO_LONG)).await.map(drop) }
                    .boxed()
            },
        },
        Case {
            name: "a message of sixty-four mebibytes",
            code: "message_too_large",
            act: |_, victim| {
                async move { victim.agent.submit(&victim.work, &"x".repeat(64 << 20)).await.map(drop) }
                    .boxed()
            },
        },
        Case {
            name: "a text that cannot be stored",
            code: "type_mismatch",
            act: |_, victim| {
                async move { victim.agent.submit(&victim.work, "{\0}").await.map(drop) }.boxed()
            },
        },
        Case {
            name: "JSON a hundred thousand levels deep",
            code: "",
            act: |_, victim| {
                let text =
                    format!("{{\"action\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
                async move { unread(victim, &text, "too_deep").await }.boxed()
            },
        },
        Case {
            name: "an action that is none",
            code: "",
            act: |_, victim| {
                async move { unread(victim, "{\"action\":\"sudo\"}", "action_unknown").await }
                    .boxed()
            },
        },
        Case {
            name: "an action as long as a reply may be, of letters that are escaped",
            code: "",
            act: |_, victim| {
                async move {
                    let text = format!("{{\"action\":\"{}\"}}", "\u{301}".repeat(500_000));
                    let answer = victim.agent.submit(&victim.work, &text).await?;
                    held(
                        answer.problem.is_some() && answer.encoded_len() < 100_000,
                        answer.encoded_len(),
                    )
                }
                .boxed()
            },
        },
        Case {
            name: "a tool with a name as long as a reply may be",
            code: "",
            act: |_, victim| {
                async move {
                    let text = call(&"t".repeat(1_000_000), json!({})).to_string();
                    let answer = victim.agent.submit(&victim.work, &text).await?;
                    let reasons = answer.validations.iter().map(|said| said.reason.len());
                    let longest = reasons.chain([answer.correction.len()]).max();
                    // The decision itself is shown.
                    let is_short = longest.is_some_and(|longest| longest < 10_000);
                    held(is_short && answer.encoded_len() < 3_000_000, answer.encoded_len())
                }
                .boxed()
            },
        },
        Case {
            name: "a structured decision without an action",
            code: "",
            act: |_, victim| {
                async move {
                    let decision = DecisionSource::Decision(v1::ExecuteDecision::default());
                    match victim.agent.send(&victim.work, decision).await {
                        Ok(answer) => held(answer.problem.is_some(), answer),
                        Err(status) => held(code(&status) == "action_missing", status),
                    }
                }
                .boxed()
            },
        },
        Case {
            name: "tokens and cost beyond all numbers",
            code: "",
            act: |scene, victim| {
                async move {
                    let most = u64::MAX;
                    let usage = v1::Usage {
                        input_tokens: most,
                        output_tokens: most,
                        cost_micros: most,
                        ..Default::default()
                    };
                    let request = v1::SubmitDecisionRequest {
                        fence: Some(fence(&victim.work.lease)),
                        turn: 1,
                        decision_source: Some(DecisionSource::Raw("I think.".to_owned())),
                        usage: Some(usage),
                    };
                    match scene.executor(AGENT)?.submit_decision(request).await {
                        Ok(answer) => {
                            held(answer.get_ref().next.is_some(), answer.get_ref().outcome)
                        }
                        Err(status) => held(code(&status) == "limit_out_of_range", status),
                    }
                }
                .boxed()
            },
        },
        Case {
            name: "one decision many times at once",
            code: "",
            act: |_, victim| {
                async move {
                    let texts = std::iter::repeat_with(reply).take(COPIES);
                    let answers = at_once(victim, texts).await?;
                    let applied = answers.iter().flatten();
                    let applied =
                        applied.filter(|answer| answer.outcome() == v1::TurnOutcome::Applied);
                    let receipts: std::collections::BTreeSet<_> = applied
                        .clone()
                        .flat_map(|answer| &answer.receipts)
                        .map(|one| one.seq)
                        .collect();
                    held(applied.count() >= 1 && receipts.len() == 1, &answers)?;
                    let wrong = answers.iter().filter_map(|answer| answer.as_ref().err());
                    held(
                        wrong.clone().all(|status| code(status) == "turn_conflict"),
                        wrong.collect::<Vec<_>>(),
                    )
                }
                .boxed()
            },
        },
        Case {
            name: "many decisions for one turn at once",
            code: "",
            act: |_, victim| {
                async move {
                    let texts = (0..COPIES).map(|copy| format!("I think of {copy}."));
                    let answers = at_once(victim, texts).await?;
                    held(answers.iter().flatten().count() == 1, &answers)?;
                    let mut wrong = answers.iter().filter_map(|answer| answer.as_ref().err());
                    held(wrong.all(|status| code(status) == "turn_conflict"), &answers)
                }
                .boxed()
            },
        },
        Case {
            name: "a decision after the end of the run",
            code: "lease_lost",
            act: |scene, victim| {
                async move {
                    let replies = [
                        call("write_file", json!({"path": "o", "content": "x"})),
                        surety_e2e::agent::next_plan(),
                    ];
                    let ended = victim.agent.take_turns(victim.work.clone(), &replies).await;
                    ended.map_err(broken)?;
                    // The last turn ends the step; the verdict, which ends the run, follows it.
                    let ended = scene.deployment.wait_for_end(&victim.run_id).await;
                    ended.map_err(broken)?;
                    changed(victim, |work| work.context.turn = 3).await
                }
                .boxed()
            },
        },
    ]
}
