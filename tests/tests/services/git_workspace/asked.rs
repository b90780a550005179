//! What a request may ask for, and how each refusal reads.

use super::origin::Origin;
use super::{Hosts, LOG, on, three_steps};
use anyhow::{Context, Result, ensure};
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::harness::wait_until;
use tonic::Code;

type Change = fn(&mut v1::CreateRunRequest);

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_request_is_refused_with_its_field_and_its_code() -> Result<()> {
    let hosts = Hosts::start("https://example.org").await?;
    let plan = three_steps();
    let cases: [(&str, &str, Change); 6] = [
        ("ssh://git@example.org/a", "repository_invalid", |_| {}),
        ("https://user:token@example.org/a", "repository_invalid", |_| {}),
        ("", "repository_invalid", |_| {}),
        ("https://example.org/a", "type_mismatch", |it| it.workspace = "/tmp".to_owned()),
        ("https://example.org/a", "limit_out_of_range", |it| {
            it.limits = Some(v1::Limits { max_parallel_steps: Some(2), ..v1::Limits::default() });
        }),
        ("http://example.org/a", "repository_invalid", |it| {
            it.repository.get_or_insert_default().secret = "token".to_owned();
        }),
    ];
    for (url, expected, change) in cases {
        let mut request = on(url, "main", &plan);
        change(&mut request);
        let refused = hosts.deployment.runs()?.create_run(request).await;
        let status = refused.err().with_context(|| format!("{url} was not refused"))?;
        assert_eq!(status.code(), Code::InvalidArgument, "{url}: {status}");
        assert_eq!(from_status(&status).reason.as_str(), expected, "{url}: {status}");
    }
    hosts.deployment.finish().await
}

/// Runs the three steps, which are expected to end with a code before any of them.
async fn refused(hosts: &Hosts, request: v1::CreateRunRequest, code: &str) -> Result<String> {
    let run = hosts.deployment.create_run(request).await?;
    let run = hosts.deployment.wait_for_end(&run.id).await?;
    let terminal = run.terminal.context("an end")?;
    ensure!(terminal.stop_reason() == v1::StopReason::Aborted, "{terminal:#?}");
    ensure!(terminal.internal_reason == code, "{terminal:#?}");
    ensure!(
        terminal.user_message.starts_with(&format!("{code}: the repository ")),
        "{terminal:#?}"
    );
    Ok(terminal.user_message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_cannot_be_used_ends_the_run_with_its_code() -> Result<()> {
    let origin = Origin::new()?;
    let mut hosts = Hosts::start(&origin.prefix()).await?;
    hosts.add(&[]).await?;
    let plan = three_steps();
    let other = Origin::new()?;
    let said = refused(&hosts, on(&other.url(), "main", &plan), "repository_refused").await?;
    ensure!(said.contains("SURETY_EXECUTOR_REPOSITORIES"), "{said}");
    let unknown = "repository_revision_unknown";
    let said = refused(&hosts, on(&origin.url(), "gone", &plan), unknown).await?;
    ensure!(said.contains("\"gone\""), "{said}");
    refused(&hosts, on(&origin.url(), &"a".repeat(40), &plan), unknown).await?;
    let missing = format!("{}/missing.git", origin.prefix());
    refused(&hosts, on(&missing, "main", &plan), "repository_unreachable").await?;
    origin.hook("pre-receive", "echo 'this branch is closed' >&2; exit 1")?;
    let said = refused(&hosts, on(&origin.url(), "main", &plan), "repository_push_refused").await?;
    ensure!(said.contains("this branch is closed"), "{said}");
    wait_until("the clones are removed", || hosts.clones() == 0).await?;
    hosts.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_is_too_large_ends_the_run() -> Result<()> {
    let origin = Origin::with(|tree| {
        let mut state = 1_u32;
        let noise = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let noise: Vec<u8> = (0..3_000_000).map(noise).collect();
        Ok(std::fs::write(tree.join("large.bin"), noise)?)
    })?;
    let mut hosts = Hosts::start(&origin.prefix()).await?;
    hosts.add(&[("SURETY_EXECUTOR_REPOSITORY_MIB", "1")]).await?;
    let request = on(&origin.url(), "main", &three_steps());
    let said = refused(&hosts, request, "repository_too_large").await?;
    ensure!(said.contains("SURETY_EXECUTOR_REPOSITORY_MIB"), "{said}");
    wait_until("the clone is removed", || hosts.clones() == 0).await?;
    hosts.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_names_a_repository_and_shows_its_commit() -> Result<()> {
    let origin = Origin::new()?;
    let mut hosts = Hosts::start(&origin.prefix()).await?;
    hosts.add(&[]).await?;
    let file = tempfile::NamedTempFile::new()?;
    let mut plan = three_steps();
    plan["policy"] = serde_json::json!({"repeatable_commands": ["sh"]});
    std::fs::write(file.path(), plan.to_string())?;
    let path = file.path().to_string_lossy().into_owned();
    let url = origin.url();
    let flags = ["run", &path, "--repository", &url, "--revision", "v1", "--no-follow"];
    let run_id = hosts.deployment.command_line(&flags).await?.trim().to_owned();
    let run = hosts.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let named = run.repository.context("GetRun shows the repository")?;
    let start = origin.git(&["rev-parse", "v1^{commit}"])?;
    ensure!(
        (named.url.as_str(), named.base_commit.as_str()) == (url.as_str(), start.trim()),
        "{named:?}"
    );
    ensure!(run.limits.is_some_and(|limits| limits.max_parallel_steps == Some(1)), "one at a time");
    assert_eq!(origin.file(&named.commit, "log.txt")?, LOG);
    let shown = hosts.deployment.command_line(&["show", &run_id]).await?;
    for part in [
        format!("{url} at v1"),
        format!("{} on refs/surety/runs/{run_id}", named.commit),
        format!("files changed from {}: 2, +5 -1", start.trim()),
        "log.txt  +4 -0".to_owned(),
    ] {
        ensure!(shown.contains(&part), "no {part:?} in {shown}");
    }
    hosts.deployment.finish().await
}
