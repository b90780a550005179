//! The forge tools of tasks, by the assignee's own account.

use super::{Fixture, REPO};
use anyhow::{Context, Result};
use chrono::Utc;
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::SandboxConfig;
use surety_common::domain::json::{self, Value};
use surety_common::domain::receipt::Fact;
use surety_common::domain::toolchain::Forge as ForgeKind;
use surety_e2e::forge::Failure;
use surety_executor::tool::builtin::forge::forge_tools;
use surety_executor::tool::{
    BuiltinSettings, Environment, ErrorCode, Folder, ForgeOfTask, Registry, RunForge, RunServers,
    Sandbox, ToolContext, ToolOutcome, WriteScope,
};
use surety_forge::PullState;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The tools of a task of robin about the pull request of alice.
pub(super) struct Task {
    pub(super) fixture: Fixture,
    ctx: ToolContext,
    _folder: tempfile::TempDir,
}

impl Task {
    pub(super) async fn start(kind: ForgeKind) -> Result<Self> {
        let fixture = Fixture::start(kind).await?;
        // Only the assignee may review, comment and merge: the double refuses the service.
        fixture.double.change(|state| {
            for route in ["submit_review", "merge", "add_comment", "open_pull"] {
                state.denied.insert(("surety".to_owned(), route.to_owned()));
            }
        });
        let of_task = ForgeOfTask {
            forge: fixture.client("robin")?,
            repo: fixture.repo.clone(),
            number: Some(fixture.pull),
            branch: None,
            began_at: Utc::now(),
        };
        let folder = tempfile::tempdir()?;
        let ctx = context(
            folder.path(),
            RunForge::found_by(Arc::new(move || -> BoxFuture<'static, _> {
                let of_task = of_task.clone();
                Box::pin(async move { Ok(of_task) })
            })),
        )?;
        Ok(Self { fixture, ctx, _folder: folder })
    }

    async fn call(&self, name: &str, arguments: serde_json::Value) -> ToolOutcome {
        call(&self.ctx, name, arguments).await
    }

    /// The context of another call.
    pub(super) fn next(&self, id: u128) -> ToolContext {
        ToolContext { call_id: Uuid::from_u128(id), ..self.ctx.clone() }
    }
}

pub(super) async fn call(
    ctx: &ToolContext,
    name: &str,
    arguments: serde_json::Value,
) -> ToolOutcome {
    let registry = Registry::with_builtin(&BuiltinSettings::default()).expect("the tools");
    let registry = registry.with_task_tools(true).expect("the tools");
    let arguments: Value = json::parse(&arguments.to_string()).expect("JSON").value;
    registry.validate(name, &arguments).expect("arguments of the schema");
    registry.get(name).expect("the tool").call(ctx, &arguments).await
}

fn context(folder: &std::path::Path, forge: RunForge) -> Result<ToolContext> {
    let config = SandboxConfig {
        sandbox: "none".to_owned(),
        sandbox_allow_none: true,
        sandbox_read_only: None,
        sandbox_writable: None,
        sandbox_processes: None,
        sandbox_memory_mib: None,
        sandbox_disk_mib: 64,
    };
    Ok(ToolContext {
        sandbox: Arc::new(Sandbox::probe(&config, &folder.join("data"), Vec::new())?),
        folder: Arc::new(Folder::given(folder.to_owned())),
        write_scope: Arc::new(WriteScope::new(&[])?),
        environment: Arc::new(Environment::of_process()),
        view: None,
        call_id: Uuid::from_u128(7),
        shell_allowed: false,
        verify_tools: Arc::default(),
        secrets: Arc::default(),
        servers: RunServers::default(),
        forge,
        deadline: tokio::time::Instant::now() + Duration::from_secs(60),
        cancel: CancellationToken::new(),
        kill: CancellationToken::new(),
    })
}

fn output(outcome: &ToolOutcome) -> String {
    assert!(outcome.success, "{outcome:?}");
    String::from_utf8_lossy(&outcome.output).into_owned()
}

#[tokio::test]
async fn a_reviewer_reads_reviews_comments_and_merges_by_its_own_account() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let task = Task::start(kind).await?;
        let pull: serde_json::Value = serde_json::from_str(&output(
            &task.call("forge_get", json!({"what": "pull_request"})).await,
        ))?;
        assert_eq!((&pull["author"], &pull["state"]), (&json!("alice"), &json!("open")));
        let diff = output(&task.call("forge_get", json!({"what": "diff"})).await);
        assert!(diff.contains("+def total(): return 2"), "{diff}");
        let account = output(&task.call("forge_get", json!({"what": "account"})).await);
        assert_eq!(account, "\"robin\"");
        for what in ["files", "reviews", "comments", "review_comments", "checks"] {
            output(&task.call("forge_get", json!({"what": what})).await);
        }
        let review = json!({"event": "REQUEST_CHANGES", "body": "Round half up."});
        let reviewed = call(&task.next(8), "forge_review", review).await;
        let [Fact::Output { key, value }] = reviewed.facts.as_slice() else {
            panic!("{reviewed:?}")
        };
        assert!(key == "forge.review" && value.starts_with("REQUEST_CHANGES"), "{value}");
        output(&call(&task.next(9), "forge_comment", json!({"body": "See the review."})).await);
        output(&call(&task.next(10), "forge_merge", json!({})).await);
        let merged =
            task.fixture.client("alice")?.pull(&task.fixture.repo, task.fixture.pull).await?;
        assert_eq!(merged.state, PullState::Merged);
        let writes = ["submit_review", "add_comment", "merge"];
        let calls = task.fixture.double.calls();
        let by: Vec<_> = calls.iter().filter(|it| writes.contains(&it.route.as_str())).collect();
        assert!(by.len() == 3 && by.iter().all(|it| it.account == "robin"), "{by:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_call_that_is_repeated_after_a_crash_writes_nothing_twice() -> Result<()> {
    for kind in [ForgeKind::Gitea, ForgeKind::Github] {
        let task = Task::start(kind).await?;
        task.fixture.git.commit("fix/8-empty", &[("empty.py", "\n")], "Handle the empty list")?;
        for (id, name, route, arguments) in [
            (1, "forge_comment", "add_comment", json!({"body": "Done."})),
            (2, "forge_review", "submit_review", json!({"event": "APPROVE"})),
            (
                3,
                "forge_open_pr",
                "open_pull",
                json!({"title": "Handle", "body": "Closes #8", "head": "fix/8-empty", "base": "main"}),
            ),
            (4, "forge_merge", "merge", json!({})),
        ] {
            task.fixture.double.fail(route, Failure::CutAfterWrite, (0, 1));
            let ctx = task.next(id);
            for _ in 0..3 {
                let outcome = call(&ctx, name, arguments.clone()).await;
                assert!(outcome.success, "{name}: {outcome:?}");
            }
            assert_eq!(task.fixture.arrived(route), 1, "{name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn failures_have_codes_and_no_credential_is_shown() -> Result<()> {
    let task = Task::start(ForgeKind::Github).await?;
    let secret = task.fixture.double.token("robin").context("a token")?;
    let mut outcomes = Vec::new();
    for (failure, code) in [
        (Failure::Status(503), ErrorCode::ForgeFailed),
        (Failure::Status(401), ErrorCode::ForgeUnavailable),
        (Failure::Status(403), ErrorCode::ForgeRefused),
        (Failure::Status(404), ErrorCode::ForgeRefused),
    ] {
        task.fixture.double.fail("pull", failure, (0, 3));
        let outcome = task.call("forge_get", json!({"what": "pull_request"})).await;
        assert_eq!(outcome.error_code, Some(code), "{outcome:?}");
        task.fixture.double.heal();
        outcomes.push(outcome);
    }
    // Another pull request than that of the task is neither merged nor reviewed, whatever the account may do.
    for (name, route, arguments) in [
        ("forge_merge", "merge", json!({"number": 999})),
        ("forge_review", "submit_review", json!({"event": "APPROVE", "number": 999})),
    ] {
        let other = task.call(name, arguments).await;
        assert_eq!(other.error_code, Some(ErrorCode::ArgumentsInvalid), "{other:?}");
        assert_eq!(task.fixture.arrived(route), 0, "{name}");
    }
    let wrong = task.call("forge_review", json!({"event": "COMMENT", "body": " "})).await;
    assert_eq!(wrong.error_code, Some(ErrorCode::ArgumentsInvalid));
    let no_task = ToolContext { forge: RunForge::default(), ..task.ctx.clone() };
    let refused = call(&no_task, "forge_get", json!({"what": "account"})).await;
    assert_eq!(refused.error_code, Some(ErrorCode::ForgeUnavailable));
    outcomes.extend([wrong, refused, task.call("forge_comment", json!({"body": "x"})).await]);
    let said = format!("{outcomes:?} {:?}", task.ctx);
    assert!(!said.contains(&secret));
    // The credential reached the forge, in its own header alone.
    let calls = format!("{:?}", task.fixture.double.calls());
    assert!(!calls.contains(&secret) && calls.contains(REPO));
    Ok(())
}

#[test]
fn each_tool_says_what_it_does_to_the_world() {
    let shown: Vec<_> = forge_tools()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            let annotations = spec.annotations;
            (
                spec.name.clone(),
                annotations.read_only,
                annotations.destructive,
                annotations.idempotent,
            )
        })
        .collect();
    let expected = [
        ("forge_get", true, false, true),
        ("forge_review", false, false, true),
        ("forge_comment", false, false, true),
        ("forge_merge", false, true, true),
        ("forge_open_pr", false, false, true),
    ];
    let expected = expected.map(|(name, a, b, c)| (name.to_owned(), a, b, c));
    assert_eq!(shown, expected);
}
