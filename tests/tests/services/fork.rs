//! Forks: a run that begins at a step of an earlier one.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surety_common::domain::fault::Fault;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{self, Trail, plan, shell, step, write};

/// A plan of three steps, of which the last one fails until the file `ready` is there.
fn chain(trail: &Trail) -> Value {
    let last = format!("{}; test -e ready", trail.mark("last"));
    let mut plan = plan(&[
        step("make", &[], &[shell(&trail.mark("make")), write("made.txt", "made\n")]),
        step("note", &["make"], &[shell(&trail.mark("note")), write("note.txt", "noted\n")]),
        step("last", &["note"], &[shell(&last)]),
    ]);
    plan["verify"] = json!([
        {"id": "made", "kind": "command_success", "target": "grep -q made made.txt"},
        {"id": "noted", "kind": "file_exists", "target": "note.txt"},
    ]);
    plan
}

fn request(plan: &Value, workspace: &Path) -> v1::CreateRunRequest {
    let limits = v1::Limits { max_replans: Some(0), max_repairs: Some(0), ..v1::Limits::default() };
    let labels = [("ticket".to_owned(), "7".to_owned())].into();
    v1::CreateRunRequest {
        limits: Some(limits),
        labels,
        priority: 3,
        ..script::request(plan, &workspace.display().to_string())
    }
}

fn from(run: &v1::Run, step: &str) -> v1::ForkRunRequest {
    let (run_id, from_step) = (run.id.clone(), step.to_owned());
    v1::ForkRunRequest { run_id, from_step, ..v1::ForkRunRequest::default() }
}

async fn fork(deployment: &Deployment, request: v1::ForkRunRequest) -> Result<v1::Run> {
    deployment.runs()?.fork_run(request).await?.into_inner().run.context("a run")
}

async fn refused(deployment: &Deployment, request: v1::ForkRunRequest) -> Result<Fault> {
    let refused = deployment.runs()?.fork_run(request).await.err().context("it was forked")?;
    Ok(from_status(&refused))
}

fn state(run: &v1::Run, id: &str) -> Option<v1::StepState> {
    run.steps.iter().find(|step| step.id == id).map(v1::StepProgress::state)
}

fn is_inherited(run: &v1::Run, id: &str) -> bool {
    run.steps.iter().any(|step| step.id == id && step.inherited)
}

fn results(run: &v1::Run) -> Vec<(&str, bool)> {
    let results = run.verdict.iter().flat_map(|verdict| &verdict.results);
    let checks = results.filter(|result| !result.name.starts_with("system."));
    checks.map(|result| (result.name.as_str(), result.passed)).collect()
}

#[tokio::test]
async fn a_fork_has_the_done_steps_and_proves_everything_anew() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, trail) = (tempfile::tempdir()?, Trail::new()?);
    let old = deployment.create_run(request(&chain(&trail), folder.path())).await?;
    let old = deployment.wait_for_end(&old.id).await?;
    assert_eq!(old.state(), v1::RunState::Failed, "{old:#?}");
    assert_eq!(state(&old, "note"), Some(v1::StepState::Done));

    std::fs::write(folder.path().join("ready"), "")?;
    let forked = fork(&deployment, from(&old, "last")).await?;
    let run = deployment.wait_for_end(&forked.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!((trail.marks("make"), trail.marks("note"), trail.marks("last")), (1, 1, 2));

    let named = run.forked_from.clone().context("it says what it is a fork of")?;
    let counters = old.counters.context("counters")?;
    assert_eq!(named.run_id, old.id);
    assert_eq!((named.step_id.as_str(), named.plan_revision), ("last", 1));
    assert_eq!(named.plan_digest, old.plan_digest);
    assert_eq!(named.receipt_count, counters.receipts);
    assert_eq!(named.inherited_steps, ["make", "note"]);
    let list =
        v1::ListReceiptsRequest { run_id: old.id.clone(), page_size: 1000, ..Default::default() };
    let receipts = deployment.runs()?.list_receipts(list).await?.into_inner().receipts;
    assert_eq!(receipts.last().map(|last| &last.digest), Some(&named.chain_digest));

    assert_eq!(run.plan_digest, old.plan_digest, "the plan is the same");
    assert_eq!((run.labels.get("ticket").map(String::as_str), run.priority), (Some("7"), 3));
    assert_eq!(run.limits, old.limits);
    assert!(is_inherited(&run, "make") && is_inherited(&run, "note"), "{:#?}", run.steps);
    assert!(!is_inherited(&run, "last"));
    assert_eq!(results(&run), [("made", true), ("noted", true)]);
    let verdict = run.verdict.as_ref().context("a verdict")?;
    assert_eq!(verdict.receipt_count, run.counters.context("counters")?.receipts);

    let events = deployment.events(&run.id).await?;
    let said = events
        .iter()
        .filter(|event| matches!(&event.kind, Some(Kind::Forked(fork)) if *fork == named));
    assert_eq!(said.count(), 1);
    let inherited = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::Transition(moved)) if moved.event == "inherited" => Some(moved.step_to()),
        Some(_) | None => None,
    });
    assert_eq!(inherited.collect::<Vec<_>>(), [v1::StepState::Done; 2]);
    let receipts = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::Receipt(receipt)) => Some(receipt.step_id.as_str()),
        Some(_) | None => None,
    });
    assert!(
        receipts.into_iter().all(|step| step.is_empty() || step == "last"),
        "no other evidence"
    );

    let shown = deployment.command_line(&["show", &run.id]).await?;
    assert!(shown.contains(&format!("run {} at step last", old.id)), "{shown}");
    assert!(shown.contains(&named.chain_digest) && shown.contains("inherited"), "{shown}");
    let listed = deployment.command_line(&["runs"]).await?;
    assert!(listed.contains("FORK OF") && listed.matches(&old.id).count() >= 1, "{listed}");
    deployment.finish().await
}

#[tokio::test]
async fn the_command_line_forks_into_another_folder_once_for_each_request_id() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, other, trail) = (tempfile::tempdir()?, tempfile::tempdir()?, Trail::new()?);
    let old = deployment.create_run(request(&chain(&trail), folder.path())).await?;
    let old = deployment.wait_for_end(&old.id).await?;
    for file in ["made.txt", "note.txt"] {
        std::fs::copy(folder.path().join(file), other.path().join(file))?;
    }
    std::fs::write(other.path().join("ready"), "")?;
    let workspace = other.path().display().to_string();
    let line = [
        "fork",
        &old.id,
        "--from",
        "last",
        "--workspace",
        &workspace,
        "--request-id",
        "once",
        "--no-follow",
    ];
    let first = deployment.command_line(&line).await?;
    let run = deployment.wait_for_end(first.trim()).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(Path::new(&run.workspace), other.path().canonicalize()?);
    let again = deployment.command_line(&line).await?;
    assert_eq!(again.trim(), run.id, "the same request is answered with its run");
    let conflict = v1::ForkRunRequest { request_id: "once".to_owned(), ..from(&old, "note") };
    assert_eq!(refused(&deployment, conflict).await?.reason.as_str(), "request_id_conflict");

    // A fork of a fork has what that one inherited.
    let next = fork(&deployment, from(&run, "last")).await?;
    let next = deployment.wait_for_end(&next.id).await?;
    assert_eq!(next.state(), v1::RunState::Done, "{next:#?}");
    assert!(is_inherited(&next, "make") && is_inherited(&next, "note"), "{:#?}", next.steps);
    deployment.finish().await
}

#[tokio::test]
async fn a_fork_from_the_first_step_inherits_nothing() -> Result<()> {
    let deployment = Deployment::start().await?;
    let trail = Trail::new()?;
    let made = |id: &str, needs: &[&str]| step(id, needs, &[shell(&trail.mark(id))]);
    let plan = plan(&[made("one", &[]), made("two", &["one"])]);
    let old = deployment.create(&plan, "").await?;
    let old = deployment.wait_for_end(&old.id).await?;
    // The folder that the executor made for the earlier run is not the fork's.
    let fault = refused(&deployment, from(&old, "two")).await?;
    assert_eq!(
        (fault.reason.as_str(), fault.field.as_deref()),
        ("field_missing", Some("workspace"))
    );
    let run = fork(&deployment, from(&old, "one")).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(run.forked_from.context("a fork")?.inherited_steps, Vec::<String>::new());
    assert_eq!((trail.marks("one"), trail.marks("two")), (2, 2));
    deployment.finish().await
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused_with_what_to_do() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, trail) = (tempfile::tempdir()?, Trail::new()?);
    let old = deployment.create_run(request(&chain(&trail), folder.path())).await?;
    let old = deployment.wait_for_end(&old.id).await?;
    let code = async |request| {
        Ok::<_, anyhow::Error>(refused(&deployment, request).await?.reason.as_str().to_owned())
    };
    let fault = refused(&deployment, from(&old, "nowhere")).await?;
    assert_eq!(fault.reason.as_str(), "step_not_found");
    assert!(fault.message.contains("make, note, last"), "{fault}");
    assert_eq!(code(from(&old, " ")).await?, "field_missing");
    let unknown = v1::Run { id: uuid::Uuid::now_v7().to_string(), ..v1::Run::default() };
    assert_eq!(code(from(&unknown, "make")).await?, "run_not_found");
    let relative = v1::ForkRunRequest { workspace: "here".to_owned(), ..from(&old, "last") };
    assert_eq!(code(relative).await?, "type_mismatch");
    let planless = v1::CreateRunRequest { goal: "do it".to_owned(), ..Default::default() };
    let planless = deployment.create_run(planless).await?;
    assert_eq!(code(from(&planless, "make")).await?, "plan_not_found");

    // A step behind one that is not done.
    let mut broken = chain(&trail);
    broken["steps"][1]["script"] = json!([shell("exit 1")]);
    let broken = deployment.create_run(request(&broken, folder.path())).await?;
    let broken = deployment.wait_for_end(&broken.id).await?;
    let fault = refused(&deployment, from(&broken, "last")).await?;
    assert_eq!(fault.reason.as_str(), "fork_steps_open");
    assert!(fault.message.contains("note (failed)"), "{fault}");
    deployment.finish().await
}

#[tokio::test]
async fn a_run_at_work_is_not_forked_and_a_paused_one_keeps_its_folder() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, other, trail) = (tempfile::tempdir()?, tempfile::tempdir()?, Trail::new()?);
    let plan = plan(&[
        step("one", &[], &[shell(&trail.mark("one"))]),
        step("two", &["one"], &[shell(&trail.mark_and_wait("two"))]),
        step("three", &["two"], &[shell(&trail.mark("three"))]),
    ]);
    let old = deployment.create_run(request(&plan, folder.path())).await?;
    wait_until("the second step is at work", || trail.marks("two") == 1).await?;
    let fault = refused(&deployment, from(&old, "two")).await?;
    assert_eq!(fault.reason.as_str(), "run_active");
    assert!(fault.message.contains("EXECUTING"), "{fault}");

    let pause = v1::PauseRunRequest { run_id: old.id.clone(), ..Default::default() };
    deployment.runs()?.pause_run(pause).await?;
    trail.let_go()?;
    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    let old = deployment.wait_for(&old.id, "paused", blocked).await?;
    let inside = folder.path().join("inside").display().to_string();
    for workspace in [String::new(), inside] {
        let request = v1::ForkRunRequest { workspace, ..from(&old, "three") };
        let fault = refused(&deployment, request).await?;
        assert_eq!(fault.reason.as_str(), "workspace_busy");
        assert!(fault.message.contains(&old.id), "{fault}");
    }
    let workspace = other.path().display().to_string();
    let run = fork(&deployment, v1::ForkRunRequest { workspace, ..from(&old, "three") }).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!((trail.marks("one"), trail.marks("three")), (1, 1));

    let cancel = v1::CancelRunRequest { run_id: old.id.clone(), ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    let run = fork(&deployment, from(&old, "three")).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

fn secret(name: &str) -> String {
    format!("{name}-0123456789abcdef0123456789abcdef")
}

fn token_file() -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    for (name, roles) in [
        ("submitter", "submitter"),
        ("other", "submitter"),
        ("operator", "operator"),
        ("viewer", "viewer"),
        ("agent", "driver"),
        ("service", "service"),
    ] {
        writeln!(file, "{} {name} {roles} *", secret(name))?;
    }
    Ok(file)
}

#[tokio::test]
async fn a_fork_keeps_every_check_and_the_rules_of_now() -> Result<()> {
    let file = token_file()?;
    let path = file.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
    deployment.use_token(Token::new(&secret("submitter"))?);
    let folder = tempfile::tempdir()?;
    let mut plan = plan(&[
        step("one", &[], &[write("one.txt", "1\n")]),
        step("two", &["one"], &[write("two.txt", "2\n")]),
    ]);
    plan["verify"] = json!([
        {"id": "hidden", "kind": "command_success", "target": "sh held.sh",
            "overlay": {"held.sh": "test -e one.txt && ! test -e wrong.txt\n"}},
    ]);
    let old = deployment.create_run(request(&plan, folder.path())).await?;
    let old = deployment.wait_for_end(&old.id).await?;
    assert_eq!(old.state(), v1::RunState::Done, "{old:#?}");

    // The caller that forks a run becomes its submitter and reads its hidden checks.
    for (name, code) in [
        ("other", "permission_denied"),
        ("viewer", "permission_denied"),
        ("agent", "permission_denied"),
    ] {
        deployment.use_token(Token::new(&secret(name))?);
        assert_eq!(refused(&deployment, from(&old, "two")).await?.reason.as_str(), code, "{name}");
    }

    deployment.use_token(Token::new(&secret("operator"))?);
    let check = v1::AcceptCheck {
        id: "of all".to_owned(),
        kind: "file_exists".to_owned(),
        target: "all.txt".to_owned(),
        required: Some(true),
        ..v1::AcceptCheck::default()
    };
    let policy = v1::NamespacePolicy { checks: vec![check], ..Default::default() };
    let set = v1::SetNamespacePolicyRequest {
        namespace: "default".to_owned(),
        policy: Some(policy),
        ..Default::default()
    };
    deployment.admin()?.set_namespace_policy(set).await?;
    // The policy holds from a second later on, in every planner.
    let deadline = std::time::Instant::now() + surety_e2e::harness::PATIENCE;
    let run = loop {
        let run = fork(&deployment, from(&old, "two")).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        if results(&run).len() == 2 {
            break run;
        }
        ensure!(std::time::Instant::now() < deadline, "the policy did not come to hold: {run:#?}");
    };
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    assert_eq!(results(&run), [("of all", false), ("hidden", true)]);

    std::fs::write(folder.path().join("all.txt"), "")?;
    std::fs::write(folder.path().join("wrong.txt"), "")?;
    deployment.use_token(Token::new(&secret("submitter"))?);
    let run = fork(&deployment, from(&old, "two")).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(results(&run), [("of all", true), ("hidden", false)], "{run:#?}");
    deployment.finish().await
}
