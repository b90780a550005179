//! The two plans of the demo, over three processes and real copies of the example project, and its script.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, binary};
use surety_e2e::script;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// A copy of the example project as a git repository of its own.
fn fresh_project(folder: &Path) -> Result<PathBuf> {
    let project = folder.join("project");
    let made =
        std::process::Command::new(examples().join("repair/fresh.sh")).arg(&project).output()?;
    ensure!(made.status.success(), "{made:?}");
    Ok(project)
}

fn git(project: &Path, arguments: &[&str]) -> Result<String> {
    let output = std::process::Command::new("git").args(arguments).current_dir(project).output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The order that an example's file describes.
fn order(example: &str, project: &Path) -> Result<v1::CreateRunRequest> {
    let text = std::fs::read_to_string(examples().join(example).join("plan.yaml"))?;
    let mut plan: Value = serde_saphyr::from_str(&text)?;
    let fields = plan.as_object_mut().context("a plan is an object")?;
    let limits = fields.remove("limits").unwrap_or_default();
    let policy = fields.remove("policy").context("the examples name a policy")?;
    let repeatable = policy["repeatable_commands"].as_array().context("a list")?.iter();
    let max_repairs = limits["max_repairs"].as_u64().map(u32::try_from).transpose()?;
    Ok(v1::CreateRunRequest {
        limits: Some(v1::Limits { max_repairs, ..v1::Limits::default() }),
        policy: Some(v1::Policy {
            repeatable_commands: repeatable.filter_map(Value::as_str).map(str::to_owned).collect(),
            ..v1::Policy::default()
        }),
        ..script::request(&plan, &project.to_string_lossy())
    })
}

fn results(run: &v1::Run) -> Vec<(String, String)> {
    let verdict = run.verdict.clone().unwrap_or_default();
    verdict.results.into_iter().map(|result| (result.name, result.reason)).collect()
}

fn repairs(events: &[v1::Event]) -> usize {
    let refused = |event: &&v1::Event| match &event.kind {
        Some(v1::event::Kind::Transition(moved)) => moved.event == "verdict_refused",
        _ => false,
    };
    events.iter().filter(refused).count()
}

#[tokio::test]
async fn the_repair_is_accepted_with_every_check_passed() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = tempfile::tempdir()?;
    let project = fresh_project(folder.path())?;
    let run = deployment.create_run(order("repair", &project)?).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let passed = |name: &str| (name.to_owned(), String::new());
    let checks = ["tests-pass", "changelog-is-there", "changelog-says-it", "something-changed"];
    let of_plan: Vec<_> =
        results(&run).into_iter().filter(|(name, _)| !name.starts_with("system.")).collect();
    assert_eq!(of_plan, checks.map(passed), "{run:#?}");
    assert_eq!(run.counters.unwrap_or_default().repairs, 0);
    let changed = git(&project, &["diff", "--name-only"])?;
    assert_eq!(changed.lines().collect::<Vec<_>>(), ["CHANGELOG.md", "src/lib.rs"]);
    deployment.finish().await
}

#[tokio::test]
async fn the_lie_is_refused_with_the_reason_of_every_check_that_does_not_hold() -> Result<()> {
    let deployment = Deployment::start().await?;
    let folder = tempfile::tempdir()?;
    let project = fresh_project(folder.path())?;
    let run = deployment.create_run(order("liar", &project)?).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    let terminal = run.terminal.clone().unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::AcceptCheckFailed);
    let failed: Vec<_> =
        results(&run).into_iter().filter(|(_, reason)| !reason.is_empty()).collect();
    let failed: Vec<_> = failed.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    let expected = [
        ("tests-pass", "no_successful_command"),
        ("changelog-says-it", "no_content_evidence"),
        ("something-changed", "no_workspace_change"),
    ];
    assert_eq!(failed, expected);
    for (name, reason) in expected {
        let said = format!("{name} ({reason})");
        assert!(terminal.user_message.contains(&said), "{}", terminal.user_message);
    }
    assert_eq!(repairs(&deployment.events(&run.id).await?), 1, "max_repairs is 1");
    assert_eq!(run.counters.unwrap_or_default().repairs, 1);
    assert_eq!(git(&project, &["status", "--porcelain"])?, "");
    deployment.finish().await
}

#[test]
fn the_script_of_the_demo_ends_well() -> Result<()> {
    let script = examples().join("../scripts/demo.sh");
    let output =
        std::process::Command::new(script).env("SURETY_BIN", binary("surety")?).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    for line in
        ["repair  accepted", "liar    refused", "goal    accepted", "All stopped, no process left"]
    {
        ensure!(said.contains(line), "{line:?} is not in {said}");
    }
    Ok(())
}
