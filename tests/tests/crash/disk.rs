//! Disks that are full: that of the artifacts, and that of a workspace.

use super::skip;
use anyhow::{Result, ensure};
use sqlx::AssertSqlSafe;
use std::path::Path;
use std::process::Command;
use surety_common::wire::v1;
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

/// A cluster whose artifacts lie on a disk of their own.
async fn artifacts_on(disk: &Disk, cluster: &Cluster, deployment: &Deployment) -> Result<()> {
    let (user, group) = cluster.account()?;
    let folder = disk.path().join("artifacts");
    std::fs::create_dir(&folder)?;
    std::os::unix::fs::chown(&folder, Some(user), Some(group))?;
    let pool = deployment.database.pool().await?;
    let make = format!("create tablespace small location '{}'", folder.display());
    sqlx::query(AssertSqlSafe(make)).execute(&pool).await?;
    sqlx::query("alter table artifact set tablespace small").execute(&pool).await?;
    pool.close().await;
    Ok(())
}

#[tokio::test]
async fn an_output_that_finds_no_room_waits_for_it_and_is_kept_whole() -> Result<()> {
    let disk = match Disk::of(512) {
        Ok(disk) => disk,
        Err(why) => {
            skip("a disk of artifacts that is full", &why);
            return Ok(());
        }
    };
    let mut cluster = Cluster::start().await?;
    let database = Database::at(&cluster.url()?)?;
    let mut deployment = Deployment::start_idle(database, &[]).await?;
    deployment.add_executor(&[]).await?;
    // The schema is there once anything was done.
    let first = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    deployment.wait_for_end(&first.id).await?;
    artifacts_on(&disk, &cluster, &deployment).await?;
    let much = shell("head -c 3000000 /dev/urandom | base64");
    let run = deployment.create(&plan(&[step("only", &[], &[much])]), "").await?;
    let waits = |line: &str| line.contains("waiting for room");
    deployment.first_executor()?.wait_for_line(waits).await?;
    disk.grow_to(64 << 10)?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    audit_at_rest(&deployment.database.pool().await?).await?;
    drop(deployment);
    cluster.stop().await
}

/// A run of which the time is over long before there is room for what it says.
fn impatient() -> v1::CreateRunRequest {
    let much = shell("head -c 3000000 /dev/urandom | base64");
    let limits =
        v1::Limits { max_replans: Some(0), step_deadline_s: Some(5), ..v1::Limits::default() };
    v1::CreateRunRequest {
        limits: Some(limits),
        ..script::request(&plan(&[step("only", &[], &[much])]), "")
    }
}

#[tokio::test]
async fn a_run_without_artifacts_does_not_wait_for_the_room_of_another() -> Result<()> {
    let disk = match Disk::of(512) {
        Ok(disk) => disk,
        Err(why) => {
            skip("a disk of artifacts that is full", &why);
            return Ok(());
        }
    };
    let mut cluster = Cluster::start().await?;
    let database = Database::at(&cluster.url()?)?;
    let mut deployment = Deployment::start_idle(database, &[]).await?;
    deployment.add_executor(&[]).await?;
    let quick = plan(&[step("only", &[], &[noop()])]);
    let first = deployment.create(&quick, "").await?;
    deployment.wait_for_end(&first.id).await?;
    artifacts_on(&disk, &cluster, &deployment).await?;
    let much = shell("head -c 3000000 /dev/urandom | base64");
    let stuck = deployment.create(&plan(&[step("only", &[], &[much])]), "").await?;
    let waits = |line: &str| line.contains("waiting for room");
    deployment.first_executor()?.wait_for_line(waits).await?;
    let other = deployment.create(&quick, "").await?;
    let other = deployment.wait_for_end(&other.id).await;
    let impatient = deployment.create_run(impatient()).await?;
    let impatient = deployment.wait_for_end(&impatient.id).await;
    disk.grow_to(64 << 10)?;
    let stuck = deployment.wait_for_end(&stuck.id).await?;
    assert_eq!(stuck.state(), v1::RunState::Done, "{stuck:#?}");
    assert_eq!(other?.state(), v1::RunState::Done);
    let terminal = impatient?.terminal.unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::MaxReplansReached, "{terminal:#?}");
    let said = deployment.first_executor()?.log();
    assert!(said.iter().any(|line| line.contains("an output is lost")), "nobody said so");
    audit_at_rest(&deployment.database.pool().await?).await?;
    drop(deployment);
    cluster.stop().await
}

#[tokio::test]
async fn a_workspace_without_room_fails_the_step_and_says_so() -> Result<()> {
    let disk = match Disk::of(64) {
        Ok(disk) => disk,
        Err(why) => {
            skip("a disk of a workspace that is full", &why);
            return Ok(());
        }
    };
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
