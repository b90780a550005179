//! Disks that are full: that of the artifacts, and that of a workspace.

use super::skip;
use anyhow::{Result, ensure};
use sqlx::AssertSqlSafe;
use std::path::Path;
use std::process::Command;
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Cluster, Database, Deployment};
use surety_e2e::script::{self, noop, plan, shell, step, write};
use tempfile::TempDir;

/// A small disk.
struct Disk(TempDir);

impl Disk {
    /// Makes one of so many kilobytes; the reason where the machine does not let us.
    fn of(kilobytes: u32) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let size = format!("size={kilobytes}k,mode=0755");
        let mounted = mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], folder.path());
        mounted.map(|()| Self(folder)).map_err(|error| format!("{error:#}"))
    }

    fn grow_to(&self, kilobytes: u32) -> Result<()> {
        mount(&["-o", &format!("remount,size={kilobytes}k")], self.0.path())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a server that still holds files there is about to end.
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            println!("{} stays mounted", self.0.path().display());
        }
    }
}

fn mount(words: &[&str], folder: &Path) -> Result<()> {
    let output = Command::new("mount").args(words).arg(folder).output()?;
    ensure!(output.status.success(), "mount: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A disk of so many kilobytes; none, said aloud with what it was for, where the machine lets us
/// have none.
fn small_disk(kilobytes: u32, what: &str) -> Option<Disk> {
    Disk::of(kilobytes).inspect_err(|why| skip(what, why)).ok()
}

/// A deployment with one executor, whose artifacts are on a full disk.
struct Crammed {
    deployment: Deployment,
    disk: Disk,
    cluster: Cluster,
}

impl Crammed {
    /// None, said aloud, where the machine lets us have no small disk.
    async fn start() -> Result<Option<Self>> {
        let Some(disk) = small_disk(512, "a disk of artifacts that is full") else {
            return Ok(None);
        };
        let cluster = Cluster::start().await?;
        let mut deployment = Deployment::start_idle(Database::at(&cluster.url()?)?, &[]).await?;
        deployment.add_executor(&[]).await?;
        let crammed = Self { deployment, disk, cluster };
        // The schema is there once anything was done.
        crammed.goes_through().await?;
        crammed.move_artifacts().await?;
        Ok(Some(crammed))
    }

    async fn move_artifacts(&self) -> Result<()> {
        let (user, group) = self.cluster.account()?;
        let folder = self.disk.path().join("artifacts");
        std::fs::create_dir(&folder)?;
        std::os::unix::fs::chown(&folder, Some(user), Some(group))?;
        let pool = self.deployment.database.pool().await?;
        let make = format!("create tablespace small location '{}'", folder.display());
        sqlx::query(AssertSqlSafe(make)).execute(&pool).await?;
        sqlx::query("alter table artifact set tablespace small").execute(&pool).await?;
        pool.close().await;
        Ok(())
    }

    /// A run without artifacts reaches its end.
    async fn goes_through(&self) -> Result<()> {
        let run = self.deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
        self.ends_well(&run.id).await
    }

    async fn ends_well(&self, run_id: &str) -> Result<()> {
        let run = self.deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        Ok(())
    }

    /// A run with more output than disk space, which waits.
    async fn stuck(&mut self) -> Result<v1::Run> {
        let run = self.deployment.create_run(script::request(&talkative(), "")).await?;
        let waits = |line: &str| line.contains("waiting for disk space");
        self.deployment.first_executor()?.wait_for_line(waits).await?;
        Ok(run)
    }

    async fn finish(mut self) -> Result<()> {
        audit_at_rest(&self.deployment.database.pool().await?).await?;
        drop(self.deployment);
        self.cluster.stop().await
    }
}

/// A plan that says three million bytes, which no compression makes fewer.
fn talkative() -> serde_json::Value {
    plan(&[step("only", &[], &[shell("head -c 3000000 /dev/urandom | base64")])])
}

#[tokio::test]
async fn an_output_that_finds_no_room_waits_for_it_and_is_kept_whole() -> Result<()> {
    let Some(mut crammed) = Crammed::start().await? else { return Ok(()) };
    let stuck = crammed.stuck().await?;
    crammed.disk.grow_to(64 << 10)?;
    crammed.ends_well(&stuck.id).await?;
    crammed.finish().await
}

/// A run whose deadline passes long before there is disk space for its output.
fn impatient() -> v1::CreateRunRequest {
    let limits = v1::Limits {
        max_replans: Some(0),
        step_deadline: Some(whole_seconds(5)),
        ..v1::Limits::default()
    };
    v1::CreateRunRequest { limits: Some(limits), ..script::request(&talkative(), "") }
}

#[tokio::test]
async fn a_run_without_artifacts_does_not_wait_for_the_room_of_another() -> Result<()> {
    let Some(mut crammed) = Crammed::start().await? else { return Ok(()) };
    let stuck = crammed.stuck().await?;
    crammed.goes_through().await?;
    let impatient = crammed.deployment.create_run(impatient()).await?;
    let impatient = crammed.deployment.wait_for_end(&impatient.id).await?;
    crammed.disk.grow_to(64 << 10)?;
    crammed.ends_well(&stuck.id).await?;
    let terminal = impatient.terminal.unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::MaxReplansReached, "{terminal:#?}");
    let said = crammed.deployment.first_executor()?.log();
    assert!(said.iter().any(|line| line.contains("an output is lost")), "the loss was not logged");
    crammed.finish().await
}

#[tokio::test]
async fn a_workspace_without_room_fails_the_step_and_says_so() -> Result<()> {
    let Some(disk) = small_disk(64, "a disk of a workspace that is full") else { return Ok(()) };
    let deployment = Deployment::start().await?;
    let steps = [step("write", &[], &[write("big.txt", &"x".repeat(200 << 10))])];
    let request = v1::CreateRunRequest {
        limits: Some(v1::Limits { max_replans: Some(0), ..v1::Limits::default() }),
        ..script::request(&plan(&steps), &disk.path().to_string_lossy())
    };
    let run = deployment.create_run(request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let terminal = run.terminal.clone().unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::MaxReplansReached, "{run:#?}");
    let left = std::fs::read_dir(disk.path())?.count();
    assert_eq!(left, 0, "half a file was left behind");
    deployment.finish_at_rest().await.map(drop)
}

/// Fills a disk to its last byte.
fn fill(path: &Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path)?;
    for size in [64 << 10, 1 << 10, 1] {
        let bytes = vec![1; size];
        while file.write_all(&bytes).is_ok() {}
    }
    Ok(())
}

#[tokio::test]
async fn a_full_data_folder_decides_no_check_and_uses_no_repair() -> Result<()> {
    let Some(disk) = small_disk(8 << 10, "a data folder that is full") else { return Ok(()) };
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let folder = disk.path().to_string_lossy().into_owned();
    deployment.add_executor(&[("SURETY_EXECUTOR_DATA_DIR", &folder)]).await?;
    let filler = disk.path().join("filler");
    fill(&filler)?;
    let workspace = tempfile::tempdir()?;
    let steps = [step("only", &[], &[write("made.txt", "text")])];
    let check = v1::AcceptCheck {
        id: "made".to_owned(),
        kind: "command_success".to_owned(),
        target: "grep -q text made.txt".to_owned(),
        ..v1::AcceptCheck::default()
    };
    let request = script::request(&plan(&steps), &workspace.path().to_string_lossy());
    let request = v1::CreateRunRequest { verify: vec![check], ..request };
    let run = deployment.create_run(request).await?;
    let waits = |line: &str| {
        line.contains("waiting for the executor's data folder")
            && line.contains("--executor-data-dir")
    };
    deployment.first_executor()?.wait_for_line(waits).await?;
    std::fs::remove_file(&filler)?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let counters = run.counters.unwrap_or_default();
    assert_eq!((counters.repairs, counters.replans), (0, 0), "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_data_folder_that_was_removed_is_made_again() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let parent = tempfile::tempdir()?;
    let folder = parent.path().join("data");
    let named = folder.to_string_lossy().into_owned();
    deployment.add_executor(&[("SURETY_EXECUTOR_DATA_DIR", &named)]).await?;
    std::fs::remove_dir_all(&folder)?;
    let workspace = tempfile::tempdir()?;
    let steps = [step("only", &[], &[script::shell("echo text > made.txt")])];
    let run = deployment.create(&plan(&steps), &workspace.path().to_string_lossy()).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}
