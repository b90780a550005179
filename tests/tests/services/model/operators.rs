//! Checks of a namespace in runs that a model plans and drives: each is judged, and no request to the model has anything
//! of a hidden one.

use crate::model::stage::{
    Stage, is_planning, next_plan, one_step, say, stop_reason, tool, unplanned, write_answer,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::model_server::{Asked, Recorded, Reply};

/// The check that the model is shown.
const SHOWN: &str = "house-rule";
/// The hidden check: its id, its file, and what its file says and puts out.
const HIDDEN: &str = "sealed-exam";
const FILE: &str = "sealed/exam-9zq7.sh";
const NEEDLE: &str = "C4naryOfTheHiddenCheck9zQ7";

/// Sets the checks of the namespace, of which one is hidden.
async fn set_checks(deployment: &Deployment) -> Result<()> {
    let shown = v1::AcceptCheck {
        id: SHOWN.to_owned(),
        kind: "file_exists".to_owned(),
        target: "answer.txt".to_owned(),
        ..v1::AcceptCheck::default()
    };
    let script = format!("echo {NEEDLE}; test \"$(cat answer.txt)\" = 42\n");
    let hidden = v1::AcceptCheck {
        id: HIDDEN.to_owned(),
        kind: "command_success".to_owned(),
        target: format!("sh {FILE}"),
        overlay: [(FILE.to_owned(), script.into_bytes())].into(),
        ..v1::AcceptCheck::default()
    };
    let policy =
        v1::NamespacePolicy { checks: vec![shown, hidden], ..v1::NamespacePolicy::default() };
    let request = v1::SetNamespacePolicyRequest {
        namespace: "default".to_owned(),
        policy: Some(policy),
        ..v1::SetNamespacePolicyRequest::default()
    };
    deployment.admin()?.set_namespace_policy(request).await?;
    Ok(())
}

/// Whether a check of a run's verdict holds.
fn passed(run: &v1::Run, name: &str) -> Result<bool> {
    let verdict = run.verdict.as_ref().context("a verdict")?;
    let result = verdict.results.iter().find(|result| result.name == name);
    Ok(result.with_context(|| format!("no result of {name}: {verdict:#?}"))?.passed)
}

/// The requests with a text.
fn with<'r>(requests: &'r [Recorded], text: &str) -> Vec<&'r Recorded> {
    requests.iter().filter(|request| request.body.to_string().contains(text)).collect()
}

fn write(content: &str) -> Reply {
    tool("write_file", json!({"path": "answer.txt", "content": content}))
}

/// A plan without checks, whose step needs no evidence.
fn weak_plan() -> Value {
    let step = json!({"id": "s", "description": "say that it is done", "evidence": "none"});
    json!({"title": "Easy", "verify": [], "steps": [step]})
}

#[tokio::test]
async fn checks_of_a_namespace_judge_a_models_run_and_the_hidden_one_is_in_no_request() -> Result<()>
{
    let stage = Stage::start().await?;
    set_checks(&stage.deployment).await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("honest", |number, asked| match is_planning(asked) {
        true => {
            assert!(asked.last().contains("which are fixed"), "{}", asked.last());
            assert!(asked.last().contains(SHOWN), "{}", asked.last());
            say(&one_step())
        }
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let request = unplanned("honest", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(passed(&ended, SHOWN)? && passed(&ended, HIDDEN)?, "{ended:#?}");
    let strength = ended.verdict.map(|verdict| verdict.strength()).unwrap_or_default();
    ensure!(strength == v1::VerdictStrength::Independent, "{strength:?}");
    let requests = stage.server.recorded();
    ensure!(!with(&requests, SHOWN).is_empty(), "the check that is shown is in no request");
    for text in [HIDDEN, FILE, NEEDLE, "overlay"] {
        let found = with(&requests, text);
        ensure!(found.is_empty(), "{text} is in a request: {found:#?}");
    }
    stage.deployment.finish().await
}

/// A model whose plan is weak, which changes it once and says three times that it is done.
fn careless(number: usize, asked: &Asked) -> Reply {
    let last = asked.last();
    match (is_planning(asked), number) {
        (true, 0) => say(&weak_plan()),
        (false, 1) => say(&json!({"control": "replan", "reason": "the folder is wrong"})),
        (true, 2) => {
            assert!(last.contains("which are fixed") && last.contains(SHOWN), "{last}");
            let update = json!({"id": "s", "description": "write answer.txt"});
            say(&json!({"update_steps": [update], "reason": "the folder"}))
        }
        (false, 4) => {
            assert!(last.contains(&format!("{SHOWN} needs a regular file")), "{last}");
            write("41\n")
        }
        (false, 6) => {
            assert!(last.contains("The verdict on your work was refused"), "{last}");
            assert!(!last.contains(&format!("{SHOWN} needs")), "{last}");
            write("42\n")
        }
        (false, 3 | 5 | 7) => next_plan(),
        _ => Reply::status(500).saying("no such question is expected"),
    }
}

#[tokio::test]
async fn a_failed_hidden_check_refuses_a_models_run_and_says_no_more_than_that() -> Result<()> {
    let stage = Stage::start().await?;
    set_checks(&stage.deployment).await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("careless", careless);
    let request = unplanned("careless", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("careless") == 8, "{}", stage.plays.calls("careless"));
    let requests = stage.server.recorded();
    for text in [FILE, NEEDLE, "overlay"] {
        let found = with(&requests, text);
        ensure!(found.is_empty(), "{text} is in a request: {found:#?}");
    }
    // The repair is told that a hidden check failed, and not which one.
    let named = with(&requests, HIDDEN);
    ensure!(named.is_empty(), "the id of the hidden check is in a request: {named:#?}");
    ensure!(!with(&requests, "a hidden check (hidden_check_failed)").is_empty(), "{requests:#?}");

    stage.plays.add("wrong", |number, asked| match (is_planning(asked), number) {
        (true, _) => say(&weak_plan()),
        (false, 1) => write("41\n"),
        (false, _) => next_plan(),
    });
    let folder = tempfile::tempdir()?;
    let limits = v1::Limits { max_repairs: Some(0), ..v1::Limits::default() };
    let request = v1::CreateRunRequest {
        limits: Some(limits),
        ..unplanned("wrong", &folder.path().to_string_lossy())
    };
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::AcceptCheckFailed, "{ended:#?}");
    ensure!(passed(&ended, SHOWN)? && !passed(&ended, HIDDEN)?, "{ended:#?}");
    let found = with(&stage.server.recorded(), NEEDLE).len();
    ensure!(found == 0, "the output of the hidden check is in {found} requests");
    stage.deployment.finish().await
}
