//! What a run changed in its workspace is found out by comparison, whatever wrote it.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{self, Trail, plan, scoped, shell, step, write};

fn changed(mut plan: Value, params: Value) -> Value {
    plan["verify"] = json!([{"id": "changed", "kind": "workspace_change", "params": params}]);
    plan
}

fn one_step(calls: &[Value]) -> Value {
    plan(&[step("only", &[], calls)])
}

async fn run_in(deployment: &Deployment, plan: &Value, workspace: &Path) -> Result<v1::Run> {
    let limits = v1::Limits { max_replans: Some(0), max_repairs: Some(1), ..Default::default() };
    let request = v1::CreateRunRequest {
        limits: Some(limits),
        ..script::request(plan, &workspace.to_string_lossy())
    };
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

async fn receipts(deployment: &Deployment, run: &v1::Run) -> Result<Vec<v1::EvidenceReceipt>> {
    let events = deployment.events(&run.id).await?;
    let receipts = events.into_iter().filter_map(|event| match event.kind {
        Some(v1::event::Kind::Receipt(receipt)) => Some(receipt),
        _ => None,
    });
    Ok(receipts.collect())
}

/// Path, and whether there is a digest before and after.
fn written(receipt: &v1::EvidenceReceipt) -> Vec<(String, bool, bool)> {
    let facts = receipt.facts.iter().filter_map(|fact| match &fact.fact {
        Some(v1::fact::Fact::FileWritten(wrote)) => Some(wrote),
        _ => None,
    });
    facts
        .map(|wrote| {
            (wrote.path.clone(), wrote.before_digest.is_some(), wrote.after_digest.is_some())
        })
        .collect()
}

fn git(folder: &Path, arguments: &[&str]) -> Result<()> {
    let identity = ["-c", "user.name=n", "-c", "user.email=e"];
    let done = Command::new("git").current_dir(folder).args(identity).args(arguments).status()?;
    anyhow::ensure!(done.success(), "git {arguments:?}");
    Ok(())
}

/// A repository with two committed files, of which one is ignored by its rules and kept all the same.
fn repository() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    put("README.md", "# calc\n")?;
    put(".gitignore", "*.log\ntarget/\n")?;
    git(folder.path(), &["init", "-q"])?;
    git(folder.path(), &["add", "."])?;
    git(folder.path(), &["commit", "-qm", "first"])?;
    Ok(folder)
}

#[tokio::test]
async fn the_receipt_of_a_command_names_what_it_wrote() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = repository()?;
    let line = "mkdir docs && git mv README.md docs/ && echo new > new.txt && echo x > made.log";
    let plan = changed(one_step(&[shell(line)]), json!({}));
    let run = run_in(&deployment, &plan, folder.path()).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let receipts = receipts(&deployment, &run).await?;
    let command = receipts.iter().find(|receipt| receipt.name == "run_command");
    let wrote = written(command.context("the command has a receipt")?);
    let expected =
        [("README.md", true, false), ("docs/README.md", false, true), ("new.txt", false, true)];
    assert_eq!(wrote, expected.map(|(path, was, is)| (path.to_owned(), was, is)));
    deployment.finish().await
}

#[tokio::test]
async fn a_workspace_that_is_as_it_was_did_not_change() -> Result<()> {
    let deployment = Deployment::start().await?;
    for calls in [
        // Written by a tool and removed by a command.
        vec![write("junk.txt", "x"), shell("rm junk.txt")],
        // Written and put back, by a tool and by a command.
        vec![write("README.md", "x"), shell("printf '# calc\\n' > README.md")],
        vec![shell("echo x > README.md"), write("README.md", "# calc\n")],
        // Where git or its rules do not look.
        vec![write(".git/x", "x"), shell("echo x > a.log; mkdir target; echo x > target/y")],
        vec![shell("touch README.md; mkdir -p empty/folder; chmod 600 README.md")],
    ] {
        let folder = repository()?;
        let plan = changed(one_step(&calls), json!({}));
        let run = run_in(&deployment, &plan, folder.path()).await?;
        assert_eq!(run.state(), v1::RunState::Failed, "{calls:?} {run:#?}");
        let reason = run.terminal.clone().unwrap_or_default().user_message;
        assert!(reason.contains("changed (no_workspace_change)"), "{calls:?} {reason}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_change_is_one_whatever_made_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    for (calls, params) in [
        (vec![shell("chmod +x README.md")], json!({})),
        (vec![shell("rm README.md")], json!({})),
        (vec![shell("ln -sf README.md link")], json!({})),
        (vec![shell("mkdir -p target; echo x > target/app.js")], json!({"paths": "target/*.js"})),
        (
            vec![shell("git rm -q README.md && git commit -qm gone || git commit -m gone -q")],
            json!({}),
        ),
    ] {
        let folder = repository()?;
        git(folder.path(), &["config", "user.name", "n"])?;
        git(folder.path(), &["config", "user.email", "e"])?;
        let plan = changed(one_step(&calls), params);
        let run = run_in(&deployment, &plan, folder.path()).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{calls:?} {run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn what_a_checks_own_command_writes_is_not_the_runs() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = repository()?;
    let mut plan = changed(one_step(&[shell("true")]), json!({}));
    let own = json!({"id": "own", "kind": "command_success", "target": "touch made-by-check"});
    plan["verify"].as_array_mut().context("a list")?.push(own);
    let run = run_in(&deployment, &plan, folder.path()).await?;
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    assert_eq!(run.counters.unwrap_or_default().repairs, 1, "a second round found nothing either");
    assert!(!folder.path().join("made-by-check").exists(), "a check writes in a view");
    deployment.finish().await
}

#[tokio::test]
async fn a_command_that_writes_outside_its_steps_scope_fails_the_step() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = repository()?;
    let inside = scoped(
        step("a", &[], &[shell("mkdir -p src; echo x > src/a; echo x > b.log")]),
        &["src/**"],
    );
    let run = run_in(&deployment, &plan(&[inside]), folder.path()).await?;
    assert_eq!(run.state(), v1::RunState::Done, "what is ignored is always writable: {run:#?}");
    let outside = scoped(step("a", &[], &[shell("echo x > src/a; echo x > docs")]), &["src/**"]);
    let run = run_in(&deployment, &plan(&[outside]), folder.path()).await?;
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    let receipts = receipts(&deployment, &run).await?;
    let receipt = receipts.iter().find(|receipt| !receipt.success).context("one failed")?;
    assert!(receipt.summary.starts_with("write_scope_violation: "), "{}", receipt.summary);
    assert!(receipt.summary.ends_with("docs"), "{}", receipt.summary);
    deployment.finish().await
}

#[tokio::test]
async fn what_a_step_at_work_beside_it_may_write_is_not_held_against_a_command() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, trail) = (repository()?, Trail::new()?);
    let waiting = format!("{}; mkdir -p src; echo x > src/a", trail.mark_and_wait("one"));
    let one = scoped(step("one", &[], &[shell(&waiting)]), &["src/**"]);
    let other = shell(&format!("mkdir -p docs; echo x > docs/b; {}", trail.mark("other")));
    let other = scoped(step("other", &[], &[other]), &["docs/**"]);
    let run = deployment.create(&plan(&[one, other]), &folder.path().to_string_lossy()).await?;
    wait_until("both were at work", || trail.marks("one") == 1 && trail.marks("other") == 1)
        .await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    for receipt in receipts(&deployment, &run).await?.iter().filter(|it| it.name == "run_command") {
        let wrote = written(receipt);
        let own = if receipt.step_id == "one" { "src/a" } else { "docs/b" };
        assert_eq!(wrote, [(own.to_owned(), false, true)], "{}", receipt.step_id);
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_workspace_whose_path_leads_elsewhere_is_refused() -> Result<()> {
    let deployment = Deployment::start().await?;
    for turn in ["ln -sfn other link", "mv real gone && mkdir real && echo x > real/README.md"] {
        let parent = tempfile::tempdir()?;
        let at = |name: &str| parent.path().join(name);
        std::fs::create_dir(at("real"))?;
        std::fs::create_dir(at("other"))?;
        std::os::unix::fs::symlink("real", at("link"))?;
        let line = format!("cd '{}' && {turn}", parent.path().display());
        let good = run_in(&deployment, &one_step(&[shell("echo x > a")]), &at("link")).await?;
        assert_eq!(good.state(), v1::RunState::Done, "a link that stays is good: {good:#?}");
        // A command cannot move its own workspace, so the test does it while one runs.
        let trail = Trail::new()?;
        let plan = one_step(&[write("b", "x"), shell(&trail.mark_and_wait("began"))]);
        let run = deployment.create(&plan, &at("link").to_string_lossy()).await?;
        wait_until("the command runs", || trail.marks("began") == 1).await?;
        anyhow::ensure!(Command::new("sh").args(["-c", &line]).status()?.success(), "{line}");
        trail.let_go()?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Failed, "{turn}: {run:#?}");
        let receipts = receipts(&deployment, &run).await?;
        let moved = receipts.iter().any(|it| it.summary.starts_with("workspace_moved: "));
        assert!(moved, "{turn}: {receipts:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_folder_that_moves_after_the_last_step_fails_the_verification() -> Result<()> {
    let deployment = Deployment::start().await?;
    let parent = tempfile::tempdir()?;
    let workspace = parent.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    let mut plan = one_step(&[write("a", "x")]);
    let trail = Trail::new()?;
    let script = trail.path("check.sh");
    std::fs::write(&script, trail.mark_and_wait("began"))?;
    let check = format!("sh {}", script.display());
    plan["verify"] = json!([{"kind": "command_success", "target": check}, {"kind": "output_only", "owner": "plan"}]);
    let run = deployment.create(&plan, &workspace.to_string_lossy()).await?;
    wait_until("the check runs", || trail.marks("began") == 1).await?;
    std::fs::rename(&workspace, parent.path().join("away"))?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    let terminal = run.terminal.unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::AcceptCheckFailed);
    assert!(terminal.user_message.starts_with("workspace_moved: "), "{terminal:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn another_executor_goes_on_from_the_stored_snapshot() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    let (folder, trail) = (repository()?, Trail::new()?);
    let plan = changed(
        plan(&[
            step("first", &[], &[shell("echo x > a.txt")]),
            step("second", &["first"], &[shell(&trail.mark_and_wait("second"))]),
        ]),
        json!({}),
    );
    let request = script::repeatable(script::request(&plan, &folder.path().to_string_lossy()));
    let run = deployment.create_run(request).await?;
    wait_until("the second step is at work", || trail.marks("second") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    wait_until("the other one is at work", || trail.marks("second") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "only the first executor saw a.txt come: {run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_rewritten_snapshot_of_the_start_is_named_and_gives_no_verdict() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    let (folder, trail) = (repository()?, Trail::new()?);
    let plan = changed(
        plan(&[
            step("first", &[], &[shell("echo x > a.txt")]),
            step("second", &["first"], &[shell(&trail.mark_and_wait("second"))]),
        ]),
        json!({}),
    );
    let request = script::repeatable(script::request(&plan, &folder.path().to_string_lossy()));
    let run = deployment.create_run(request).await?;
    wait_until("the second step is at work", || trail.marks("second") == 1).await?;
    deployment.first_executor()?.kill().await?;
    let pool = deployment.database.pool().await?;
    let rewritten = "update artifact set body = body || 'x' where digest = \
                     (select progress::json ->> 'base_snapshot' from execution where run_id = $1)";
    let id: uuid::Uuid = run.id.parse()?;
    let done = sqlx::query(rewritten).bind(id).execute(&pool).await?;
    anyhow::ensure!(done.rows_affected() == 1, "no snapshot is stored");
    trail.let_go()?;
    deployment.add_executor(&[]).await?;
    let rests = |run: &v1::Run| run.terminal.is_some() || run.blocked.is_some();
    let run = deployment.wait_for(&run.id, "at rest", rests).await?;
    anyhow::ensure!(!run.verdict.as_ref().is_some_and(|it| it.accepted), "{run:#?}");
    let events = deployment.events(&run.id).await?;
    let said = format!("{run:?} {events:?}");
    anyhow::ensure!(said.contains("its body has another digest"), "{said}");
    deployment.finish().await
}
