//! One run works in a workspace at a time, and no run works where it must not.

use anyhow::{Context, Result};
use std::path::Path;
use surety_common::domain::fault::Reason;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_common::wire::v1::admin_service_client::AdminServiceClient;
use surety_e2e::harness::{Database, Deployment, token, wait_until};
use surety_e2e::script::{self, Trail, plan, shell, step};

fn request(line: &str, workspace: &Path) -> v1::CreateRunRequest {
    script::request(&plan(&[step("only", &[], &[shell(line)])]), &workspace.to_string_lossy())
}

fn with_policy(request: v1::CreateRunRequest, policy: v1::Policy) -> v1::CreateRunRequest {
    v1::CreateRunRequest { policy: Some(policy), ..request }
}

/// The code of a refused creation.
async fn refusal(deployment: &Deployment, request: v1::CreateRunRequest) -> Result<String> {
    let refused = deployment.runs()?.create_run(request).await.err().context("it was created")?;
    Ok(from_status(&refused).reason.as_str().to_owned())
}

#[tokio::test]
async fn a_run_waits_while_another_one_works_in_its_workspace_or_above_or_below_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, trail) = (tempfile::tempdir()?, Trail::new()?);
    let inner = folder.path().join("project");
    std::fs::create_dir_all(inner.join("part"))?;
    let holder = deployment.create_run(request(&trail.mark_and_wait("held"), &inner)).await?;
    wait_until("the first is at work", || trail.marks("held") == 1).await?;
    let mut waiting = Vec::new();
    for path in [inner.clone(), inner.join("part"), folder.path().to_owned()] {
        let run = deployment.create_run(request(&trail.mark("other"), &path)).await?;
        let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
        let run = deployment.wait_for(&run.id, "blocked", blocked).await?;
        let wait = run.blocked.clone().unwrap_or_default();
        assert_eq!(wait.waiting_on(), v1::WaitingOn::Workspace);
        assert!(wait.unblocks.contains(&holder.id), "{wait:#?}");
        waiting.push(run.id);
    }
    // Neither a sibling folder nor a run that takes no lock waits.
    let beside = folder.path().join("project-2");
    std::fs::create_dir(&beside)?;
    let beside = deployment.create_run(request("true", &beside)).await?;
    let policy =
        v1::Policy { workspace_lock: v1::WorkspaceLock::Shared.into(), ..Default::default() };
    let shared = deployment.create_run(with_policy(request("true", &inner), policy)).await?;
    for run in [beside, shared] {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(trail.marks("other"), 0);
    trail.let_go()?;
    for id in waiting {
        let run = deployment.wait_for_end(&id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(trail.marks("other"), 3);
    deployment.finish().await
}

#[tokio::test]
async fn a_waiting_run_goes_on_after_the_holder_was_cancelled_and_can_be_cancelled_itself()
-> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, trail) = (tempfile::tempdir()?, Trail::new()?);
    let holder =
        deployment.create_run(request(&trail.mark_and_wait("held"), folder.path())).await?;
    wait_until("the first is at work", || trail.marks("held") == 1).await?;
    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    let next = deployment.create_run(request("true", folder.path())).await?;
    let other = deployment.create_run(request("true", folder.path())).await?;
    for run in [&next, &other] {
        deployment.wait_for(&run.id, "blocked", blocked).await?;
    }
    for run in [&other, &holder] {
        let request = v1::CancelRunRequest { run_id: run.id.clone(), ..Default::default() };
        deployment.runs()?.cancel_run(request).await?;
    }
    let run = deployment.wait_for_end(&next.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_run_that_must_not_wait_is_refused_while_its_workspace_is_in_use() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (folder, trail) = (tempfile::tempdir()?, Trail::new()?);
    let fail = || v1::Policy { on_busy: v1::OnBusy::Fail.into(), ..Default::default() };
    let request_id = "the first".to_owned();
    let held = request(&trail.mark_and_wait("held"), folder.path());
    let held = v1::CreateRunRequest { request_id, ..with_policy(held, fail()) };
    let holder = deployment.create_run(held.clone()).await?;
    wait_until("the first is at work", || trail.marks("held") == 1).await?;
    let same = deployment.create_run(held).await?;
    assert_eq!(same.id, holder.id, "the same request is answered with its run");
    let other = with_policy(request("true", folder.path()), fail());
    assert_eq!(refusal(&deployment, other).await?, "workspace_busy");
    trail.let_go()?;
    deployment.wait_for_end(&holder.id).await?;
    deployment.finish().await
}

#[tokio::test]
async fn folders_that_no_run_may_work_in_are_refused() -> Result<()> {
    // A tool of the executor's own process reads what no sandbox hides from it.
    let secrets = tempfile::tempdir()?;
    let key = secrets.path().join("executor.pem").to_string_lossy().into_owned();
    let deployment = Deployment::start_with(&[("SURETY_EXECUTOR_KEY_FILE", &key)]).await?;
    let links = tempfile::tempdir()?;
    let link = links.path().join("link");
    std::os::unix::fs::symlink("/", &link)?;
    for path in [Path::new("/"), Path::new("/home"), Path::new("/root"), &link] {
        let refused = refusal(&deployment, request("true", path)).await?;
        assert_eq!(refused, "workspace_refused", "{}", path.display());
        assert!(Reason::from_text(&refused).is_some());
    }
    // Only an executor knows where its data is.
    for path in [deployment.data_dir(), &deployment.data_dir().join("inner"), secrets.path()] {
        std::fs::create_dir_all(path)?;
        let run = deployment.create_run(request("touch x", path)).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
        let message = run.terminal.unwrap_or_default().user_message;
        assert!(message.starts_with("workspace_refused: "), "{message}");
        assert!(!path.join("x").exists());
    }
    let file = links.path().join("file");
    std::fs::write(&file, "")?;
    for (path, why) in [(file, "is not a folder"), (links.path().join("none"), "does not exist")] {
        let run = deployment.create_run(request("touch x", &path)).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        let terminal = run.terminal.unwrap_or_default();
        assert_eq!(terminal.stop_reason(), v1::StopReason::Aborted);
        let message = terminal.user_message;
        assert!(message.starts_with("workspace_refused: ") && message.contains(why), "{message}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_workspace_lies_in_a_folder_that_the_namespace_allows() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let (root, outside) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let root = root.path().canonicalize()?;
    let policy = v1::NamespacePolicy {
        workspace_roots: vec![root.to_string_lossy().into_owned()],
        ..Default::default()
    };
    let set = v1::SetNamespacePolicyRequest { policy: Some(policy), ..Default::default() };
    let planner = channel(&deployment.planner.url(), Some(&token()?))?;
    AdminServiceClient::new(planner).set_namespace_policy(set).await?;
    std::os::unix::fs::symlink(outside.path(), root.join("link"))?;
    for path in [outside.path(), &root.join("link"), &root.join("../elsewhere")] {
        let refused = refusal(&deployment, request("touch x", path)).await?;
        assert_eq!(refused, "workspace_refused", "{}", path.display());
    }
    let (inner, swapped) = (root.join("inner"), root.join("swapped"));
    for path in [&inner, &swapped] {
        std::fs::create_dir(path)?;
    }
    let good = deployment.create_run(request("touch x", &inner)).await?;
    let bad = deployment.create_run(request("touch x", &swapped)).await?;
    std::fs::remove_dir(&swapped)?;
    std::os::unix::fs::symlink(outside.path(), &swapped)?;
    deployment.add_executor(&[]).await?;
    let run = deployment.wait_for_end(&good.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let run = deployment.wait_for_end(&bad.id).await?;
    let message = run.terminal.unwrap_or_default().user_message;
    assert!(message.contains("workspace_roots"), "{message}");
    assert!(!outside.path().join("x").exists());
    deployment.finish().await
}
