//! Approved calls are made once, by exactly the digest that was shown.

use super::{APPROVE, Stage, answer, code, confirming, shown, writing};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::domain::confirmation::call_digest;
use surety_common::domain::execution::question_digest;
use surety_common::domain::plan::ToolCall;
use surety_common::wire::v1;
use surety_e2e::agent::{Work, next_plan};
use surety_e2e::script::{noop, plan, step, write};

const DAY_S: i64 = 24 * 3600;
const HOUR_S: i64 = 3600;

#[tokio::test]
async fn an_agents_call_is_refused_until_it_is_confirmed_and_then_made_once() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(confirming(&["write_*"]), HOUR_S).await?);
    let work = agent.work(&run.id).await?;
    let confirmed: Vec<_> = { work.context.tools.iter() }
        .filter(|tool| tool.needs_confirmation)
        .map(|tool| tool.name.as_str())
        .collect();
    ensure!(confirmed == ["write_file"], "{confirmed:?}");
    ensure!(shown(&work.context).contains("send it with the action confirm"));
    let refused = agent.submit(&work, &writing("continue", "one")).await?;
    ensure!(refused.outcome() == v1::TurnOutcome::Corrected, "{refused:#?}");
    ensure!(refused.correction.contains("write_requires_confirm"), "{refused:#?}");
    ensure!(refused.correction.contains("need a confirmation: write_file"), "{refused:#?}");
    let work = Work { context: refused.next.context("a next turn")?, ..work };
    let asked = agent.submit(&work, &writing("confirm", "one")).await?;
    ensure!(asked.outcome() == v1::TurnOutcome::Waiting && asked.next.is_none(), "{asked:#?}");

    let wait = stage.asked(&run).await?;
    let blocked = stage.deployment.run(&run.id).await?;
    ensure!(blocked.lease.is_none(), "a waiting run holds no lease: {blocked:#?}");
    let on = blocked.blocked.as_ref().map(v1::Blocked::waiting_on);
    ensure!(on == Some(v1::WaitingOn::Approver), "{blocked:#?}");
    ensure!(wait.kind() == v1::WaitKind::Confirmation && wait.step_id == "s", "{wait:#?}");
    let call = wait.tool_call.clone().context("the call")?;
    let digest = call_digest(&ToolCall::try_from(call)?, &blocked.plan_digest);
    ensure!(digest == wait.call_digest, "{wait:#?}");
    let times = wait.since.zip(wait.expires_at).context("times")?;
    ensure!((times.1.seconds - times.0.seconds - HOUR_S).abs() <= 1, "{wait:#?}");

    let mut runs = stage.deployment.runs()?;
    let other =
        v1::ResolveConfirmationRequest { call_digest: "0".repeat(64), ..answer(&wait, APPROVE) };
    ensure!(code(runs.resolve_confirmation(other).await)? == "confirmation_mismatch");
    let both = v1::ResolveConfirmationRequest { stop: true, ..answer(&wait, APPROVE) };
    ensure!(code(runs.resolve_confirmation(both).await)? == "type_mismatch");
    for token in [surety_e2e::agent::AGENT, "other-token"] {
        let refused = stage.runs_of(token)?.resolve_confirmation(answer(&wait, APPROVE)).await;
        ensure!(code(refused)? == "permission_denied", "the driver itself, by {token}");
    }
    let listed = stage.deployment.command_line(&["waits", "--on", "user,approver"]).await?;
    for part in ["confirmation", "write_file", "out.txt", &wait.call_digest, "surety approve"] {
        ensure!(listed.contains(part), "{part}: {listed}");
    }
    let arguments = ["approve", &wait.id, "--digest", &wait.call_digest, "--comment", "fine"];
    let said = stage.deployment.command_line(&arguments).await?;
    for part in ["write_file {", "\"one\"", "approvers of namespace default", "approved; run"] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    let again = runs.resolve_confirmation(answer(&wait, APPROVE)).await;
    ensure!(["wait_closed", "wait_not_found"].contains(&code(again)?.as_str()));
    nothing_is_left_to_confirm(&stage, &wait.id, "no open wait and no run").await?;
    nothing_is_left_to_confirm(&stage, &run.id, "waits for no confirmation").await?;

    let work = agent.work(&run.id).await?;
    ensure!(shown(&work.context).contains("write_file succeeded"), "{:#?}", work.context);
    // Approved once, for that text alone.
    let edited = agent.submit(&work, &writing("continue", "two")).await?;
    ensure!(edited.correction.contains("write_requires_confirm"), "{edited:#?}");
    let work = Work { context: edited.next.context("a next turn")?, ..work };
    agent.submit(&work, &next_plan().to_string()).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    let late = stage.deployment.command_line(&["approve", &run.id, "--yes"]).await;
    let said = late.map_err(|error| error.to_string()).err().context("a refusal")?;
    ensure!(said.contains("ended as DONE, and waits for no confirmation"), "{said}");
    let receipts = stage.receipts(&run).await?;
    let writes = receipts.iter().filter(|it| it.name == "write_file").count();
    let said = stage.said(&run).await?;
    ensure!(writes == 1 && said.len() == 1, "{receipts:#?}");
    let [approval] = said.as_slice() else { anyhow::bail!("one approval") };
    ensure!(approval.name == "confirm_call" && approval.success, "{approval:#?}");
    ensure!(approval.summary.contains("alice approved") && approval.summary.contains("fine"));
    ensure!(approval.arguments_digest == wait.call_digest, "{approval:#?}");
    stage.deployment.finish().await
}

/// The command line says why an approval of this subject finds no wait.
async fn nothing_is_left_to_confirm(stage: &Stage, subject: &str, why: &str) -> Result<()> {
    let again = stage.deployment.command_line(&["approve", subject, "--yes"]).await;
    let said = again.map_err(|error| error.to_string()).err().context("a refusal")?;
    ensure!(said.contains("run_unclear") && said.contains(why), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_script_asks_by_itself_while_its_other_steps_go_on() -> Result<()> {
    let stage = Stage::new().await?;
    let guarded = step("guarded", &[], &[write("a.txt", "a"), write("b.txt", "b")]);
    let free = step("free", &[], &[noop()]);
    let after = step("after", &["free"], &[noop()]);
    let plan = plan(&[guarded, free, after]);
    let run = stage.scripted(&plan, confirming(&["write_file"]), DAY_S).await?;
    for path in ["a.txt", "b.txt"] {
        let wait = stage.asked(&run).await?;
        let blocked = stage.deployment.run(&run.id).await?;
        let done = |step: &&v1::StepProgress| step.state() == v1::StepState::Done;
        ensure!(blocked.steps.iter().filter(done).count() == 2, "{blocked:#?}");
        let call = wait.tool_call.clone().context("the call")?;
        ensure!(call.arguments_json.contains(path), "{wait:#?}");
        stage.resolve(&wait, APPROVE).await?;
        let other = |run: &v1::Run| {
            run.terminal.is_some() || run.blocked.as_ref().is_some_and(|it| it.wait_id != wait.id)
        };
        stage.deployment.wait_for(&run.id, "going on", other).await?;
    }
    stage.ended(&run, v1::StopReason::Accepted).await?;
    ensure!(stage.said(&run).await?.len() == 2);
    stage.deployment.finish().await
}

#[tokio::test]
async fn two_approvals_at_once_make_one_call() -> Result<()> {
    let stage = Stage::new().await?;
    let plan = plan(&[step("only", &[], &[write("a.txt", "a")])]);
    let run = stage.scripted(&plan, confirming(&["*"]), DAY_S).await?;
    let wait = stage.asked(&run).await?;
    let (mut one, mut other) = (stage.runs_of("alice")?, stage.runs_of("bob")?);
    let (one, other) = tokio::join!(
        one.resolve_confirmation(answer(&wait, APPROVE)),
        other.resolve_confirmation(answer(&wait, APPROVE))
    );
    ensure!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    stage.ended(&run, v1::StopReason::Accepted).await?;
    ensure!(stage.said(&run).await?.len() == 1);
    let repeated =
        v1::ResolveConfirmationRequest { request_id: "late".to_owned(), ..answer(&wait, APPROVE) };
    let late = stage.deployment.runs()?.resolve_confirmation(repeated).await;
    ensure!(code(late)? == "wait_not_found");
    stage.deployment.finish().await
}

#[tokio::test]
async fn every_service_restarts_while_an_approval_is_given() -> Result<()> {
    let mut stage = Stage::new().await?;
    let plan = plan(&[step("only", &[], &[write("a.txt", "a")])]);
    let run = stage.scripted(&plan, confirming(&["write_file"]), DAY_S).await?;
    let wait = stage.asked(&run).await?;
    let deployment = &mut stage.deployment;
    deployment.first_executor()?.kill().await?;
    deployment.executors.clear();
    deployment.replace_gate_with(&[]).await?;
    deployment.replace_planner().await?;
    let request =
        v1::ResolveConfirmationRequest { request_id: "once".to_owned(), ..answer(&wait, APPROVE) };
    deployment.runs()?.resolve_confirmation(request.clone()).await?;
    // The answer is stored: a planner that knows nothing of it repeats it.
    deployment.planner.kill().await?;
    deployment.replace_planner().await?;
    let again = deployment.runs()?.resolve_confirmation(request).await?.into_inner();
    ensure!(again.run.context("a run")?.blocked.is_none());
    deployment.add_executor(&[]).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    ensure!(stage.said(&run).await?.len() == 1);
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_question_is_answered_as_an_observation_and_as_a_receipt() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(v1::Policy::default(), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    let question = json!({"action": "ask_user", "speak": "Which colour?"}).to_string();
    let asked = agent.submit(&work, &question).await?;
    ensure!(asked.outcome() == v1::TurnOutcome::Waiting, "{asked:#?}");
    let wait = stage.asked(&run).await?;
    ensure!(wait.kind() == v1::WaitKind::Question && wait.call_digest.is_empty(), "{wait:#?}");
    let digest = question_digest("Which colour?", &[], "");
    ensure!(wait.question_digest == digest, "{wait:#?}");
    let refused = stage.deployment.runs()?.resolve_confirmation(answer(&wait, APPROVE)).await;
    ensure!(code(refused)? == "wait_closed");
    let listed = stage.deployment.command_line(&["waits"]).await?;
    ensure!(listed.contains(&digest), "{listed}");
    let another = ["answer", &wait.id, "--digest", &"0".repeat(64), "blue"];
    let refused = stage.deployment.command_line(&another).await.err().context("answered")?;
    ensure!(format!("{refused:#}").contains("confirmation_mismatch"), "{refused:#}");
    stage.deployment.command_line(&["answer", &wait.id, "--digest", &digest, "blue"]).await?;
    let work = agent.work(&run.id).await?;
    let seen = shown(&work.context);
    ensure!(seen.contains("Answer of alice to your question:\nblue"), "{seen}");
    agent.submit(&work, &writing("continue", "blue")).await?;
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &next_plan().to_string()).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    let said = stage.said(&run).await?;
    let [reply] = said.as_slice() else { anyhow::bail!("one reply: {said:#?}") };
    ensure!(reply.source() == v1::EvidenceSource::UserReply && reply.name == "ask_user");
    ensure!(reply.arguments_digest == digest, "{reply:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn another_question_than_was_asked_cannot_be_answered() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(v1::Policy::default(), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    let question = json!({"action": "ask_user", "speak": "May I drop the table?"}).to_string();
    agent.submit(&work, &question).await?;
    let asked = stage.asked(&run).await?;
    let pool = stage.deployment.database.pool().await?;
    let columns: [&[&str]; 2] = [&["wait", "progress"], &["wait"]];
    for columns in columns {
        for (from, to) in [("drop", "read"), ("read", "drop")] {
            for column in columns {
                let rewrite = format!(
                    "update execution set {column} = replace({column}::text, '{from} the', '{to} the')::json
                     where run_id = $1"
                );
                let id: uuid::Uuid = run.id.parse()?;
                sqlx::query(sqlx::AssertSqlSafe(rewrite)).bind(id).execute(&pool).await?;
            }
            if to == "drop" {
                continue;
            }
            let shown = stage.asked(&run).await?;
            for question_digest in [asked.question_digest.as_str(), &shown.question_digest, ""] {
                let request = v1::AnswerQuestionRequest {
                    wait_id: shown.id.clone(),
                    answer: "yes".to_owned(),
                    question_digest: question_digest.to_owned(),
                    ..Default::default()
                };
                let refused = stage.deployment.runs()?.answer_question(request).await;
                ensure!(code(refused)? == "confirmation_mismatch", "{columns:?} {shown:#?}");
            }
        }
    }
    stage.deployment.answer(&asked.id, "no").await?;
    let work = agent.work(&run.id).await?;
    ensure!(shown(&work.context).contains("your question:\nno"), "{:#?}", work.context);
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_schema_of_its_question_is_refused_with_its_path()
-> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(v1::Policy::default(), DAY_S).await?);
    let mut work = agent.work(&run.id).await?;
    let ask = |schema: serde_json::Value| {
        json!({"action": "ask_user", "speak": "Which port?", "answer_schema": schema}).to_string()
    };
    for bad in [json!({"type": "strange"}), json!({"$ref": "#"}), json!("a port")] {
        let refused = agent.submit(&work, &ask(bad.clone())).await?;
        ensure!(refused.correction.contains("answer_schema_invalid"), "{bad}: {refused:#?}");
        work = Work { context: refused.next.context("a next turn")?, ..work };
        let read = json!({"action": "continue", "reason": "thinking"}).to_string();
        let applied = agent.submit(&work, &read).await?;
        work = Work { context: applied.next.context("a next turn")?, ..work };
    }
    let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
    let schema = json!({"type": "object", "required": ["port"], "properties": {"port": port}});
    agent.submit(&work, &ask(schema)).await?;
    let wait = stage.asked(&run).await?;
    ensure!(wait.answer_schema_json.contains("65535"), "{wait:#?}");
    let mut runs = stage.deployment.runs()?;
    for (bad, path) in [(r#"{"port": 0}"#, "/port"), ("eighty", "object"), ("{}", "port")] {
        let request = v1::AnswerQuestionRequest {
            wait_id: wait.id.clone(),
            answer: bad.to_owned(),
            ..Default::default()
        };
        let status = runs.answer_question(request).await.err().context("it was accepted")?;
        ensure!(status.message().contains(path), "{bad}: {status:?}");
        ensure!(code::<()>(Err(status))? == "answer_invalid", "{bad}");
    }
    ensure!(stage.said(&run).await?.is_empty(), "nothing was stored");
    let listed = stage.deployment.command_line(&["waits"]).await?;
    ensure!(listed.contains("65535"), "{listed}");
    stage.deployment.answer(&wait.id, r#"{"port": 8080}"#).await?;
    let work = agent.work(&run.id).await?;
    let seen = shown(&work.context);
    ensure!(seen.contains(r#"{"port": 8080}"#), "{seen}");
    stage.deployment.finish().await
}
