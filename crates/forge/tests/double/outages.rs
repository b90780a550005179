//! A forge that fails at the tools and at the questions of the gate: every failure has its code, a write is there once.

use super::probes::Configured;
use super::tools::{Task, call};
use super::{REPO, quick};
use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use serde_json::json;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::{EventType, Forge as ForgeKind, ProbeMode};
use surety_e2e::forge::{Failure, State};
use surety_executor::tool::{ErrorCode, ToolContext};
use surety_forge::{ForgeErrorCode, ProbeAnswer};
use uuid::Uuid;

/// The tools that write, each with its route and arguments.
fn writes() -> [(u128, &'static str, &'static str, serde_json::Value); 4] {
    let pull =
        json!({"title": "Handle", "body": "Closes #8", "head": "fix/8-empty", "base": "main"});
    [
        (1, "forge_comment", "add_comment", json!({"body": "Done."})),
        (2, "forge_review", "submit_review", json!({"event": "APPROVE"})),
        (3, "forge_open_pr", "open_pull", pull),
        (4, "forge_merge", "merge", json!({})),
    ]
}

/// What robin wrote: comments, reviews, pull requests, and merged pull requests of every account.
fn written(task: &Task) -> Result<[usize; 4]> {
    let counts = task.fixture.double.change(|state| {
        let repo = state.repo(REPO)?;
        let merged = repo.pulls.values().filter(|pull| pull.merged.is_some()).count();
        let opened = repo.pulls.values().filter(|pull| pull.author == "robin").count();
        let comments = repo.comments.iter().filter(|it| it.author == "robin").count();
        let reviews = repo.reviews.iter().filter(|it| it.author == "robin").count();
        Some([comments, reviews, opened, merged])
    });
    counts.context("the repository")
}

/// Each tool meets the failure once, and is called again as after a crash of the executor.
async fn each_tool_meets(
    kind: ForgeKind,
    failure: Failure,
    refused: Option<ErrorCode>,
) -> Result<()> {
    let task = Task::start(kind).await?;
    task.fixture.git.commit("fix/8-empty", &[("empty.py", "\n")], "Handle the empty list")?;
    for (id, name, route, arguments) in writes() {
        task.fixture.double.fail(route, failure.clone(), (0, 1));
        let ctx = task.next(id);
        let first = call(&ctx, name, arguments.clone()).await;
        assert_eq!(first.error_code, refused, "{kind} {failure:?} {name}: {first:?}");
        for _ in 0..2 {
            let again = call(&ctx, name, arguments.clone()).await;
            assert!(again.success, "{kind} {failure:?} {name}: {again:?}");
        }
    }
    assert_eq!(written(&task)?, [1, 1, 1, 1], "{kind} {failure:?}");
    Ok(())
}

#[tokio::test]
async fn each_outage_of_a_write_has_its_code_and_the_text_is_there_once() -> Result<()> {
    let lost = [
        Failure::Cut,
        Failure::CutAfterWrite,
        Failure::Slow(Duration::from_secs(20)),
        Failure::Status(500),
        Failure::Page,
        Failure::Shape,
    ];
    let refusing = [Failure::Status(403), Failure::Status(409), Failure::Status(422)];
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        // The answer is lost: the same call finds out what came of it.
        let lost = lost.iter().map(|failure| each_tool_meets(kind, failure.clone(), None));
        try_join_all(lost).await?;
        let refusing = refusing
            .iter()
            .map(|failure| each_tool_meets(kind, failure.clone(), Some(ErrorCode::ForgeRefused)));
        try_join_all(refusing).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_rate_limit_fails_the_call_at_once_and_nothing_is_written() -> Result<()> {
    for failure in [Failure::Limited(90), Failure::Secondary(90)] {
        let task = Task::start(ForgeKind::Github).await?;
        task.fixture.double.fail("add_comment", failure, (0, 1));
        let began = Instant::now();
        for id in 1..=2 {
            let limited = call(&task.next(id), "forge_comment", json!({"body": "Done."})).await;
            assert_eq!(limited.error_code, Some(ErrorCode::ForgeFailed), "{limited:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(written(&task)?, [0; 4]);
        assert_eq!(task.fixture.arrived("add_comment"), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_write_whose_outcome_stays_unknown_says_so() -> Result<()> {
    let task = Task::start(ForgeKind::Gitea).await?;
    task.fixture.double.fail("add_comment", Failure::CutAfterWrite, (0, 1));
    task.fixture.double.fail("comments", Failure::Status(503), (1, 10_000));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(4);
    let ctx = ToolContext { deadline, ..task.next(1) };
    let unknown = call(&ctx, "forge_comment", json!({"body": "Done."})).await;
    assert_eq!(unknown.error_code, Some(ErrorCode::ForgeFailed), "{unknown:?}");
    assert!(format!("{unknown:?}").contains("may be written"), "{unknown:?}");
    task.fixture.double.heal();
    let again = call(&task.next(1), "forge_comment", json!({"body": "Done."})).await;
    assert!(again.success, "{again:?}");
    assert_eq!((written(&task)?[0], task.fixture.arrived("add_comment")), (1, 1));
    Ok(())
}

#[tokio::test]
async fn each_outage_of_a_question_is_no_fault_of_the_task() -> Result<()> {
    let outages = [
        (Failure::Cut, ForgeErrorCode::Unreachable),
        (Failure::CutAfterWrite, ForgeErrorCode::Unreachable),
        (Failure::Slow(Duration::from_secs(20)), ForgeErrorCode::Unreachable),
        (Failure::Status(500), ForgeErrorCode::Unreachable),
        (Failure::Status(403), ForgeErrorCode::Forbidden),
        (Failure::Status(409), ForgeErrorCode::Conflict),
        (Failure::Status(422), ForgeErrorCode::Unprocessable),
        (Failure::Limited(90), ForgeErrorCode::RateLimited),
        (Failure::Secondary(90), ForgeErrorCode::RateLimited),
        (Failure::Page, ForgeErrorCode::BadAnswer),
        (Failure::Shape, ForgeErrorCode::BadAnswer),
    ];
    let asked = outages.into_iter().map(|(failure, code)| questions(failure, code));
    try_join_all(asked).await?;
    Ok(())
}

async fn questions(failure: Failure, code: ForgeErrorCode) -> Result<()> {
    let it = Configured::start(ForgeKind::Github, ProbeMode::Required).await?;
    let number = it.fixture.pull;
    let of_pull = json!({"repo": REPO, "pr_number": number, "reviewer": "robin"});
    let comment = format!("{}/{REPO}/pulls/{number}#issuecomment-1", it.fixture.double.url());
    let questions = [
        (EventType::ReviewApproved, of_pull.clone()),
        (EventType::ChangesRequested, of_pull.clone()),
        (EventType::CiFailed, of_pull.clone()),
        (EventType::ReviewRequested, of_pull.clone()),
        (EventType::CommitsPushed, of_pull.clone()),
        (EventType::ReviewComment, of_pull),
        (EventType::IssueAssigned, json!({"repo": REPO, "issue_number": 7})),
        (
            EventType::DeploymentFailed,
            json!({"repo": REPO, "environment": "prod", "commit_sha": "abcdef0"}),
        ),
        (EventType::Mention, json!({"source_url": comment})),
    ];
    // Each attempt of a slow forge takes its whole time.
    let most = if matches!(failure, Failure::Slow(_)) { 2 } else { questions.len() };
    let began = Instant::now();
    for (event, context) in questions.into_iter().take(most) {
        it.fixture.double.fail("*", failure.clone(), (0, 1000));
        let answer = it.ask(event, context.clone(), State::now()).await;
        let ProbeAnswer::Unreachable(error) = answer else {
            bail!("{failure:?} {event:?}: {answer:?}");
        };
        assert_eq!(error.code, code, "{failure:?} {event:?}: {error}");
        it.fixture.double.heal();
        if code != ForgeErrorCode::RateLimited {
            let answer = it.ask(event, context, State::now()).await;
            let is_asked = !matches!(answer, ProbeAnswer::Unreachable(_));
            assert!(is_asked, "{failure:?} {event:?}: {answer:?}");
        }
    }
    assert!(began.elapsed() < 20 * quick().attempt, "{:?}", began.elapsed());
    Ok(())
}

/// Every call has an id of its own.
#[tokio::test]
async fn another_call_of_the_agent_writes_another_text() -> Result<()> {
    let task = Task::start(ForgeKind::Gitea).await?;
    for id in [Uuid::from_u128(1), Uuid::from_u128(2)] {
        let ctx = task.next(id.as_u128());
        assert!(call(&ctx, "forge_comment", json!({"body": "Done."})).await.success);
    }
    assert_eq!(written(&task)?[0], 2);
    Ok(())
}
