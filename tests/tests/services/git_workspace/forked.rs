//! Forks of a run on a repository.

use super::origin::Origin;
use super::{Hosts, line, on};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::script::step;

fn from(run: &v1::Run, step: &str, workspace: &str) -> v1::ForkRunRequest {
    v1::ForkRunRequest {
        run_id: run.id.clone(),
        from_step: step.to_owned(),
        workspace: workspace.to_owned(),
        ..v1::ForkRunRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_clones_anew_from_the_first_step_and_needs_a_folder_from_a_later_one() -> Result<()>
{
    let origin = Origin::new()?;
    let mut hosts = Hosts::start(&origin.prefix()).await?;
    hosts.add(&[]).await?;
    let steps = [
        step("one", &[], &[line("echo one >> log.txt")]),
        step("two", &["one"], &[line("test -e ready && echo two >> log.txt")]),
    ];
    let plan = json!({"title": "Two steps", "steps": steps, "verify": [
        {"kind": "content_contains", "target": "log.txt", "params": {"contains": "two"}, "owner": "user"},
    ]});
    let limits = v1::Limits { max_replans: Some(0), max_repairs: Some(0), ..v1::Limits::default() };
    let request = v1::CreateRunRequest { limits: Some(limits), ..on(&origin.url(), "main", &plan) };
    let old = hosts.deployment.create_run(request).await?;
    let old = hosts.deployment.wait_for_end(&old.id).await?;
    ensure!(old.state() == v1::RunState::Failed, "{old:#?}");
    let kept = old.repository.as_ref().context("a repository")?;
    ensure!(origin.file(&kept.commit, "log.txt")? == "one\n", "the work of the first step");

    // A later step inherits work that no clone of the revision has.
    let refused = hosts.deployment.runs()?.fork_run(from(&old, "two", "")).await;
    let refused = from_status(&refused.err().context("it was forked")?);
    ensure!(refused.reason.to_string() == "field_missing", "{refused:?}");
    ensure!(refused.message.contains(&kept.r#ref), "{refused:?}");

    // With a checkout of what the run left it goes on there.
    let folder = tempfile::tempdir()?;
    let tree = folder.path().join("tree").to_string_lossy().into_owned();
    origin.git(&["worktree", "add", "--quiet", "--detach", &tree, &kept.commit])?;
    std::fs::write(folder.path().join("tree/ready"), "")?;
    let later = hosts.deployment.runs()?.fork_run(from(&old, "two", &tree)).await?.into_inner();
    let later = later.run.context("a run")?;
    let run = hosts.deployment.wait_for_end(&later.id).await?;
    ensure!(run.state() == v1::RunState::Done && run.repository.is_none(), "{run:#?}");
    ensure!(std::fs::read_to_string(folder.path().join("tree/log.txt"))? == "one\ntwo\n");

    // From the first step it begins on the branch as it is now, with refs of its own.
    origin.git(&["worktree", "add", "--quiet", &format!("{tree}-main"), "main"])?;
    let main = folder.path().join("tree-main");
    std::fs::write(main.join("ready"), "")?;
    let place = main.to_string_lossy().into_owned();
    origin.git(&["-C", &place, "add", "ready"])?;
    origin.git(&["-C", &place, "commit", "--quiet", "-m", "ready"])?;
    let anew = hosts.deployment.runs()?.fork_run(from(&old, "one", "")).await?.into_inner();
    let anew = anew.run.context("a run")?;
    let run = hosts.deployment.wait_for_end(&anew.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let own = run.repository.as_ref().context("it keeps the repository")?;
    ensure!(own.url == kept.url && own.revision == "main", "{own:#?}");
    ensure!(own.base_commit == origin.git(&["rev-parse", "main"])?.trim(), "{own:#?}");
    ensure!(own.base_commit != kept.base_commit && own.r#ref != kept.r#ref, "{own:#?}");
    ensure!(origin.file(&own.commit, "log.txt")? == "one\ntwo\n", "{own:#?}");
    ensure!(origin.reference(&kept.r#ref).as_deref() == Some(&kept.commit), "the old one stays");
    ensure!(run.forked_from.is_some_and(|fork| fork.inherited_steps.is_empty()));
    hosts.deployment.finish().await
}
