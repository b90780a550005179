//! Grants: calls that fit go on without a question, as often and as long as the approver said, and no further.

use super::{APPROVE, DENY, Stage, answer, code, confirming, shown};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::collections::HashMap;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, Work, next_plan};
use surety_e2e::harness::wait_until;
use surety_e2e::script::{plan, step, write};

const DAY_S: i64 = 24 * 3600;

/// A reply that asks for one write.
fn writing(path: &str, content: &str) -> String {
    let arguments = json!({"path": path, "content": content});
    json!({"action": "confirm", "tool_call": {"name": "write_file", "arguments": arguments}})
        .to_string()
}

/// An approval of what is shown, with a grant of that tool.
fn granting(
    wait: &v1::Wait,
    arguments: &[(&str, &str)],
    uses: u32,
    ttl_s: Option<i64>,
) -> v1::ResolveConfirmationRequest {
    let named = arguments.iter().map(|(name, glob)| ((*name).to_owned(), (*glob).to_owned()));
    let ttl = ttl_s.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
    let grant = v1::GrantTerms { arguments: named.collect(), uses, ttl };
    v1::ResolveConfirmationRequest { grant: Some(grant), ..answer(wait, APPROVE) }
}

/// Asks for a write that a grant covers, and answers the next turn.
async fn goes_on(agent: &Agent, work: Work, path: &str, content: &str) -> Result<Work> {
    let made = agent.submit(&work, &writing(path, content)).await?;
    ensure!(made.outcome() == v1::TurnOutcome::Applied, "{made:#?}");
    ensure!(made.observation.contains("write_file succeeded"), "{made:#?}");
    Ok(Work { context: made.next.context("a next turn")?, ..work })
}

/// Asks for a write that no grant covers.
async fn is_asked(
    stage: &Stage,
    run: &v1::Run,
    at: (&Agent, &Work),
    path: &str,
) -> Result<v1::Wait> {
    let (agent, work) = at;
    let asked = agent.submit(work, &writing(path, "more")).await?;
    ensure!(asked.outcome() == v1::TurnOutcome::Waiting, "{path}: {asked:#?}");
    stage.asked(run).await
}

fn revoking(run: &v1::Run, grant_id: &str) -> v1::RevokeGrantRequest {
    let (run_id, grant_id) = (run.id.clone(), grant_id.to_owned());
    v1::RevokeGrantRequest { run_id, grant_id, ..Default::default() }
}

/// Asks for a command.
fn running(argv: &[&str]) -> String {
    let call = json!({"name": "run_command", "arguments": {"argv": argv}});
    json!({"action": "confirm", "tool_call": call}).to_string()
}

#[tokio::test]
async fn a_granted_list_of_arguments_covers_commands_element_by_element() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(confirming(&["run_command"]), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &running(&["printf", "one"])).await?;
    let wait = stage.asked(&run).await?;
    let digest = ["--digest", &wait.call_digest];
    let refused = ["--grant", "--arg", "argv=printf *"];
    let refused = [&["approve", &wait.id][..], &digest, &refused].concat();
    let (command, _token) = stage.deployment.surety(&refused)?;
    let said = tokio::process::Command::from(command).output().await?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.contains("grant.arguments[argv]") && said.contains("a JSON list"), "{said}");

    let granted = ["--grant", "--uses", "3", "--arg", r#"argv=["printf","**"]"#];
    let granted = [&["approve", &wait.id][..], &digest, &granted].concat();
    let said = stage.deployment.command_line(&granted).await?;
    let words = r#"argv is a list of "printf", any further elements"#;
    ensure!(said.contains(words), "{said}");
    let listed = stage.deployment.command_line(&["grants", &run.id]).await?;
    ensure!(listed.contains(words), "{listed}");
    let work = agent.work(&run.id).await?;
    let made = agent.submit(&work, &running(&["printf", "%s", "two"])).await?;
    ensure!(made.outcome() == v1::TurnOutcome::Applied, "{made:#?}");
    let work = Work { context: made.next.context("a next turn")?, ..work };
    let other = agent.submit(&work, &running(&["echo", "three"])).await?;
    ensure!(other.outcome() == v1::TurnOutcome::Waiting, "{other:#?}");
    let wait = stage.asked(&run).await?;
    stage.resolve(&wait, DENY).await?;
    let work = agent.work(&run.id).await?;
    agent.take_turns(work, &[next_plan()]).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn granted_calls_go_on_unasked_until_the_uses_are_used_up_or_the_grant_is_revoked()
-> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(confirming(&["write_file"]), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    let wait = is_asked(&stage, &run, (&agent, &work), "a.txt").await?;
    let arguments = ["approve", &wait.id, "--digest", &wait.call_digest, "--grant", "--uses", "3"];
    let of_grant = ["--for", "1h", "--arg", "path=*.txt", "--arg", "content=**"];
    let said = stage.deployment.command_line(&[&arguments[..], &of_grant].concat()).await?;
    for part in ["3 calls of this tool", "path matches *.txt", "and granted as", &wait.id] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    let work = agent.work(&run.id).await?;
    ensure!(shown(&work.context).contains("write_file succeeded"), "{:#?}", work.context);
    let listed = stage.deployment.command_line(&["grants", &run.id]).await?;
    for part in ["open", "write_file used 1 of 3", "content matches **", "alice"] {
        ensure!(listed.contains(part), "{part}: {listed}");
    }
    let overview = stage.deployment.command_line(&["show", &run.id]).await?;
    ensure!(overview.contains("Grants") && overview.contains("used 1 of 3"), "{overview}");
    let work = goes_on(&agent, work, "b.txt", "two\nlines\n").await?;
    let work = goes_on(&agent, work, "c.txt", "three").await?;

    // Every use is used up, so the fourth call is asked about; another grant begins with it.
    let wait = is_asked(&stage, &run, (&agent, &work), "d.txt").await?;
    let mut runs = stage.deployment.runs()?;
    let first = stage.deployment.run(&run.id).await?.grants.first().cloned().context("a grant")?;
    ensure!((first.used, first.uses) == (3, 3), "{first:#?}");
    ensure!(code(runs.revoke_grant(revoking(&run, &first.id)).await)? == "grant_ended");
    ensure!(code(runs.revoke_grant(revoking(&run, &run.id)).await)? == "grant_not_found");
    runs.resolve_confirmation(granting(&wait, &[("path", "*.txt")], 1000, None)).await?;
    let work = agent.work(&run.id).await?;
    let work = goes_on(&agent, work, "e.txt", "more").await?;
    // The content is granted as it was shown.
    let other = agent.submit(&work, &writing("f.txt", "other")).await?;
    ensure!(other.outcome() == v1::TurnOutcome::Waiting, "{other:#?}");
    let wait_of_other = stage.asked(&run).await?;
    stage.resolve(&wait_of_other, APPROVE).await?;
    let work = agent.work(&run.id).await?;

    let request =
        v1::RevokeGrantRequest { request_id: "once".to_owned(), ..revoking(&run, &wait.id) };
    let refused = stage.runs_of(AGENT)?.revoke_grant(request.clone()).await;
    ensure!(code(refused)? == "permission_denied");
    let mut bobs = stage.runs_of("bob")?;
    let revoked = bobs.revoke_grant(request.clone()).await?.into_inner();
    ensure!(revoked == bobs.revoke_grant(request).await?.into_inner(), "repeated");
    let grant = revoked.run.context("a run")?.grants.into_iter().nth(1).context("a grant")?;
    ensure!(grant.used == 2 && grant.revoked_by == "bob" && grant.revoked_at.is_some());
    let said = stage.deployment.command_line(&["revoke", &run.id, &wait.id]).await?;
    ensure!(said.contains("is revoked"), "{said}");
    let wait = is_asked(&stage, &run, (&agent, &work), "g.txt").await?;
    stage.resolve(&wait, APPROVE).await?;
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &next_plan().to_string()).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    ensure!(code(runs.revoke_grant(revoking(&run, &wait.id)).await)? == "run_terminal");
    let said = stage.said(&run).await?;
    let names: Vec<_> = said.iter().map(|it| it.name.as_str()).collect();
    let (asked, used, ended) = ("confirm_call", "use_grant", "revoke_grant");
    ensure!(names == [asked, used, used, asked, used, asked, ended, asked], "{names:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn only_who_may_approve_grants_and_only_what_the_shown_call_fits() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(confirming(&["write_file"]), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    let wait = is_asked(&stage, &run, (&agent, &work), "src/a.txt").await?;
    let fitting = || granting(&wait, &[("path", "src/*")], 3, None);
    for token in [AGENT, "other-token", "carol"] {
        let refused = stage.runs_of(token)?.resolve_confirmation(fitting()).await;
        ensure!(code(refused)? == "permission_denied", "{token}");
    }
    let mut runs = stage.deployment.runs()?;
    let path = "grant.arguments[path]";
    let with = |pattern: &str| granting(&wait, &[("path", pattern)], 3, None);
    for (request, reason, field) in [
        (with("src/[a"), "type_mismatch", path),
        (with("lib/**"), "grant_mismatch", path),
        (with("*"), "grant_mismatch", path),
        (granting(&wait, &[("mode", "*")], 3, None), "grant_mismatch", "grant.arguments[mode]"),
        (granting(&wait, &[], 0, None), "limit_out_of_range", "grant.uses"),
        (granting(&wait, &[], 1001, None), "limit_out_of_range", "grant.uses"),
        (granting(&wait, &[], 3, Some(0)), "limit_out_of_range", "grant.ttl"),
        (
            v1::ResolveConfirmationRequest { answer: DENY.into(), ..fitting() },
            "type_mismatch",
            "grant",
        ),
    ] {
        let status = runs.resolve_confirmation(request).await.err().context("it was accepted")?;
        let fault = from_status(&status);
        let found = (fault.reason.as_str().to_ascii_lowercase(), fault.field.unwrap_or_default());
        ensure!(
            found == (reason.to_owned(), field.to_owned()),
            "{found:?} is not {reason} {field}"
        );
    }
    ensure!(stage.said(&run).await?.is_empty(), "nothing was stored");
    runs.resolve_confirmation(fitting()).await?;
    // A driver that varies its arguments gets nothing that was not granted.
    for path in ["src/../b.txt", "src/deep/a.txt", "b.txt", "src"] {
        let work = agent.work(&run.id).await?;
        let wait = is_asked(&stage, &run, (&agent, &work), path).await?;
        stage.resolve(&wait, DENY).await?;
    }
    let work = agent.work(&run.id).await?;
    let work = goes_on(&agent, work, "src/b.txt", "more").await?;
    agent.submit(&work, &next_plan().to_string()).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_grant_covers_nothing_once_its_time_has_passed() -> Result<()> {
    let stage = Stage::new().await?;
    let (agent, run) = (stage.agent()?, stage.driven(confirming(&["write_file"]), DAY_S).await?);
    let work = agent.work(&run.id).await?;
    let wait = is_asked(&stage, &run, (&agent, &work), "a.txt").await?;
    let request = granting(&wait, &[("path", "*")], 1000, Some(1));
    let run = stage.deployment.runs()?.resolve_confirmation(request).await?.into_inner();
    let run = run.run.context("a run")?;
    let grant = run.grants.first().cloned().context("a grant")?;
    let until = grant.expires_at.context("an expiry")?;
    let until = chrono::DateTime::from_timestamp(until.seconds, until.nanos.unsigned_abs());
    let until = until.context("a time")?;
    let work = agent.work(&run.id).await?;
    wait_until("the end of the grant", || chrono::Utc::now() > until).await?;
    let wait = is_asked(&stage, &run, (&agent, &work), "b.txt").await?;
    let revoked = stage.deployment.runs()?.revoke_grant(revoking(&run, &grant.id)).await;
    ensure!(code(revoked)? == "grant_ended");
    stage.resolve(&wait, APPROVE).await?;
    let work = agent.work(&run.id).await?;
    agent.submit(&work, &next_plan().to_string()).await?;
    stage.ended(&run, v1::StopReason::Accepted).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn parallel_scripts_share_the_uses_and_ask_for_the_rest() -> Result<()> {
    let stage = Stage::new().await?;
    let of = |number: usize| {
        let calls: Vec<_> =
            (0..4).map(|call| write(&format!("out/{number}/{call}.txt"), "x")).collect();
        step(&format!("s{number}"), &[], &calls)
    };
    let mut steps: Vec<_> = (0..3).map(of).collect();
    for (number, step) in steps.iter_mut().enumerate() {
        step["write_scope"] = json!([format!("out/{number}/**")]);
    }
    let run = stage.scripted(&plan(&steps), confirming(&["write_file"]), DAY_S).await?;
    let mut granted = false;
    let mut answered = HashMap::new();
    loop {
        let at_rest = |run: &v1::Run| run.blocked.is_some() || run.terminal.is_some();
        let now = stage.deployment.wait_for(&run.id, "asking", at_rest).await?;
        if now.terminal.is_some() {
            break;
        }
        for wait in stage.waits(&run).await? {
            let request = match granted {
                false => granting(&wait, &[("path", "out/**")], 5, None),
                true => answer(&wait, APPROVE),
            };
            granted = true;
            let given = stage.deployment.runs()?.resolve_confirmation(request).await;
            ensure!(answered.insert(wait.id, given.is_ok()).is_none(), "answered once");
        }
    }
    let run = stage.ended(&run, v1::StopReason::Accepted).await?;
    ensure!(run.grants.iter().all(|grant| grant.used == 5), "{:#?}", run.grants);
    let said = stage.said(&run).await?;
    let of_name = |name: &str| said.iter().filter(|it| it.name == name).count();
    ensure!((of_name("use_grant"), of_name("confirm_call")) == (4, 8), "{said:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn an_executor_that_dies_in_a_granted_call_uses_the_grant_once() -> Result<()> {
    let mut stage = Stage::new().await?;
    for point in ["executor.after_intent:2", "executor.after_effect:2"] {
        let deployment = &mut stage.deployment;
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
        deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
        let calls = ["a.txt", "b.txt", "c.txt"].map(|path| write(path, "x"));
        let plan = plan(&[step("only", &[], &calls)]);
        let run = stage.scripted(&plan, confirming(&["write_file"]), DAY_S).await?;
        let wait = stage.asked(&run).await?;
        let request = granting(&wait, &[("path", "*.txt")], 3, None);
        stage.deployment.runs()?.resolve_confirmation(request).await?;
        let deployment = &mut stage.deployment;
        deployment.first_executor()?.wait_for_exit().await?;
        let pool = deployment.database.pool().await?;
        sqlx::query("update executor set heartbeat_at = 'epoch'").execute(&pool).await?;
        deployment.executors.clear();
        deployment.add_executor(&[]).await?;
        let run = stage.ended(&run, v1::StopReason::Accepted).await?;
        let used: Vec<_> = run.grants.iter().map(|grant| grant.used).collect();
        ensure!(used == [3], "{point}: {:#?}", run.grants);
        ensure!(stage.said(&run).await?.len() == 3, "{point}: one answer, two uses");
    }
    stage.deployment.finish().await
}
