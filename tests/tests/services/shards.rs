//! One planner over several databases, each with executors and a gate of its own: a namespace
//! selects its database, and a run is found in any of them.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use surety_common::domain::fault::Fault;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::audit::audit_all;
use surety_e2e::harness::{Cluster, Database, Deployment, PATIENCE, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step, write};
use tempfile::TempDir;
use uuid::Uuid;

/// The namespace that has a database of its own.
const APART: &str = "apart";
const FILE: &str = "SURETY_NAMESPACE_DATABASES_FILE";
/// A killed executor is taken for dead soon.
const QUICK: [(&str, &str); 1] = [("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000")];

/// A file that names a database for [`APART`].
struct Named {
    _folder: TempDir,
    path: String,
}

impl Named {
    fn of(url: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("databases");
        std::fs::write(&path, format!("# who has one\n{APART} {url}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { path: path.to_string_lossy().into_owned(), _folder: folder })
    }

    fn environment(&self) -> [(&str, &str); 1] {
        [(FILE, &self.path)]
    }
}

fn named(namespace: &str, request: v1::CreateRunRequest) -> v1::CreateRunRequest {
    v1::CreateRunRequest { namespace: namespace.to_owned(), ..request }
}

/// A run that waits for its plan.
fn planless(namespace: &str) -> v1::CreateRunRequest {
    named(namespace, v1::CreateRunRequest { goal: "a goal".to_owned(), ..Default::default() })
}

/// The runs that a database has, the newest first.
async fn stored(database: &Database) -> Result<Vec<String>> {
    let pool = database.pool().await?;
    let ids: Vec<Uuid> =
        sqlx::query_scalar("select id from run order by id desc").fetch_all(&pool).await?;
    Ok(ids.iter().map(Uuid::to_string).collect())
}

fn fault<T: std::fmt::Debug>(answer: Result<T, tonic::Status>) -> Result<Fault> {
    Ok(from_status(&answer.err().context("it was answered")?))
}

fn by_id(run_id: &str) -> v1::GetRunRequest {
    v1::GetRunRequest { run_id: run_id.to_owned(), view: v1::RunView::Full.into() }
}

/// All runs of a namespace, or all, page after page.
async fn listed(deployment: &Deployment, namespace: &str, page_size: u32) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    let mut page_token = String::new();
    loop {
        let namespace = namespace.to_owned();
        let request =
            v1::ListRunsRequest { namespace, page_size, page_token, ..Default::default() };
        let page = deployment.runs()?.list_runs(request).await?.into_inner();
        assert!(page.runs.len() <= page_size as usize, "{} runs", page.runs.len());
        ids.extend(page.runs.into_iter().map(|run| run.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(ids);
        }
    }
}

#[tokio::test]
async fn runs_end_in_the_database_of_their_namespace_and_every_call_finds_them_by_id() -> Result<()>
{
    let apart = Deployment::start_with(&QUICK).await?;
    let file = Named::of(apart.database.url())?;
    let home = Deployment::start_with(&file.environment()).await?;
    let work = plan(&[step("a", &[], &[write("a.txt", "x")])]);
    let mut ends = Vec::new();
    for (namespace, own, other) in [("default", &home, &apart), (APART, &apart, &home)] {
        let run = home.create_run(named(namespace, script::request(&work, ""))).await?;
        let run = home.wait_for_end(&run.id).await?;
        assert_eq!((run.state(), run.namespace.as_str()), (v1::RunState::Done, namespace));
        assert!(stored(&own.database).await?.contains(&run.id));
        assert!(!stored(&other.database).await?.contains(&run.id));
        ends.push(run);
    }
    for run in &ends {
        let whole = home.runs()?.get_run(by_id(&run.id)).await?.into_inner();
        assert!(!whole.receipts.is_empty() && !whole.turns.is_empty(), "{whole:?}");
        let events = home.events(&run.id).await?;
        assert_eq!(events.last().map(|event| event.sequence), Some(run.last_sequence));
        let request = v1::ExportReceiptsRequest { run_id: run.id.clone() };
        let mut lines = home.runs()?.export_receipts(request).await?.into_inner();
        assert!(lines.message().await?.is_some());
        let request = v1::GetPlanRequest { run_id: run.id.clone(), revision: 1 };
        let stored = home.plans()?.get_plan(request).await?.into_inner();
        assert_eq!(stored.plan.map(|plan| plan.revision), Some(1));
    }
    for namespace in ["default", APART] {
        let run = home.create_run(planless(namespace)).await?;
        let (run_id, reason) = (run.id.clone(), "no more".to_owned());
        home.runs()?
            .pause_run(v1::PauseRunRequest { run_id, reason: reason.clone(), ..Default::default() })
            .await?;
        let run_id = run.id.clone();
        home.runs()?
            .resume_run(v1::ResumeRunRequest {
                run_id,
                reason: reason.clone(),
                ..Default::default()
            })
            .await?;
        let request = v1::CancelRunRequest { run_id: run.id, reason, ..Default::default() };
        let run = home.runs()?.cancel_run(request).await?.into_inner().run.context("a run")?;
        assert_eq!(run.state(), v1::RunState::Cancelled);
    }
    apart.finish().await?;
    home.finish().await
}

#[tokio::test]
async fn a_question_of_a_run_in_another_database_is_listed_and_answered() -> Result<()> {
    let trail = Trail::new()?;
    let mut apart = Deployment::start_with(&QUICK).await?;
    let file = Named::of(apart.database.url())?;
    let home = Deployment::start_idle(Database::create().await?, &file.environment()).await?;
    let work = plan(&[step("a", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let run = home.create_run(named(APART, script::request(&work, ""))).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    apart.first_executor()?.kill().await?;
    apart.add_executor(&[]).await?;
    let question = home.question(&run.id).await?;
    for (namespace, run_id) in [("", ""), (APART, ""), ("", &*run.id)] {
        let (namespace, run_id) = (namespace.to_owned(), run_id.to_owned());
        let request = v1::ListWaitsRequest { namespace, run_id, ..Default::default() };
        let waits = home.runs()?.list_waits(request).await?.into_inner().waits;
        let ids: Vec<_> = waits.iter().map(|wait| wait.id.as_str()).collect();
        assert_eq!(ids, [question.wait_id.as_str()], "{waits:?}");
    }
    home.answer(&question.wait_id, "fail").await?;
    let run = home.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    apart.finish().await?;
    home.finish().await
}

#[tokio::test]
async fn lists_over_all_are_in_order_across_databases_and_figures_are_added_up() -> Result<()> {
    let apart = Deployment::start_idle(Database::create().await?, &[]).await?;
    let file = Named::of(apart.database.url())?;
    let mut home = Deployment::start_idle(Database::create().await?, &[]).await?;
    // Made at home before the namespace moved.
    let before = home.create_run(planless(APART)).await?.id;
    let ready = named(APART, script::request(&plan(&[step("a", &[], &[noop()])]), ""));
    home.create_run(ready.clone()).await?;
    home.replace_planner_with(&file.environment()).await?;
    for namespace in [APART, "default", APART, APART, "default", "default", APART] {
        home.create_run(planless(namespace)).await?;
    }
    home.create_run(ready).await?;
    let (at_home, there) = (stored(&home.database).await?, stored(&apart.database).await?);
    assert_eq!((at_home.len(), there.len()), (5, 5));
    let all: BTreeSet<_> = at_home.iter().chain(&there).cloned().collect();
    let newest_first: Vec<_> = all.into_iter().rev().collect();
    for page_size in [1, 3, 4, 9, 10, 50] {
        assert_eq!(listed(&home, "", page_size).await?, newest_first, "{page_size} a page");
    }
    assert_eq!(listed(&home, APART, 2).await?, there);
    assert_eq!(home.run(&before).await?.namespace, APART, "it stays where it was made");

    let (mut waiting, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListWaitsRequest { page_size: 2, page_token, ..Default::default() };
        let page = home.runs()?.list_waits(request).await?.into_inner();
        waiting.extend(page.waits.into_iter().map(|wait| wait.run_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(waiting.len(), 8);
    assert!(waiting.is_sorted(), "{waiting:?}");

    let deadline = std::time::Instant::now() + PATIENCE;
    while !home.planner.get("/metrics").await?.contains("surety_queue_depth{namespace=\"apart\"} 2")
    {
        anyhow::ensure!(std::time::Instant::now() < deadline, "both databases were not counted");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for missing in [Uuid::now_v7().to_string(), Uuid::nil().to_string()] {
        let found = fault(home.runs()?.get_run(by_id(&missing)).await)?;
        assert_eq!(found.reason.as_str(), "run_not_found", "{found:?}");
        let request = v1::AnswerQuestionRequest {
            wait_id: missing,
            answer: "x".to_owned(),
            ..Default::default()
        };
        let found = fault(home.runs()?.answer_question(request).await)?;
        assert_eq!(found.reason.as_str(), "wait_not_found", "{found:?}");
    }
    apart.finish().await?;
    home.finish().await
}

#[tokio::test]
async fn a_page_of_large_runs_from_two_databases_fits_into_a_message() -> Result<()> {
    let apart = Database::create().await?;
    let file = Named::of(apart.url())?;
    let mut home = Deployment::start_idle(Database::create().await?, &file.environment()).await?;
    // The longest goals, so that all runs are more than a message.
    for namespace in ["default", APART].repeat(45) {
        let goal = "g".repeat(64 << 10);
        home.create_run(v1::CreateRunRequest { goal, ..planless(namespace) }).await?;
    }
    assert_eq!(listed(&home, "", 100).await?.len(), 90);
    home.planner.stop().await?;
    audit_all(&apart.pool().await?).await?;
    apart.drop().await?;
    home.finish().await
}

/// What is there and what is not while the database of [`APART`] is away.
async fn only_home_is_there(home: &Deployment) -> Result<()> {
    let work = plan(&[step("a", &[], &[noop()])]);
    let run = home.create(&work, "").await?;
    let run = home.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert!(listed(home, "default", 50).await?.contains(&run.id));
    assert!(home.planner.get("/healthz").await?.contains("200 OK"));
    let mut runs = home.runs()?;
    let all = v1::ListRunsRequest::default();
    let own = v1::ListRunsRequest { namespace: APART.to_owned(), ..Default::default() };
    let missing = Uuid::now_v7().to_string();
    let wait_id = missing.clone();
    let answer =
        v1::AnswerQuestionRequest { wait_id, answer: "x".to_owned(), ..Default::default() };
    let faults = [
        (fault(runs.list_runs(all).await)?, true),
        (fault(runs.list_runs(own).await)?, true),
        (fault(runs.list_waits(v1::ListWaitsRequest::default()).await)?, true),
        (fault(runs.get_run(by_id(&missing)).await)?, true),
        (fault(runs.answer_question(answer).await)?, true),
        // The caller that creates a run has named its namespace.
        (fault(runs.create_run(planless(APART)).await)?, false),
    ];
    for (found, names_it) in faults {
        assert_eq!(found.reason.as_str(), "database_unavailable", "{found:?}");
        assert!(found.message.contains("the database of apart") || !names_it, "{found:?}");
        assert!(!found.message.contains("postgres://"), "{found:?}");
        assert!(found.retry_after_ms.is_some(), "{found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_away_is_in_the_way_of_its_own_runs_only() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let file = Named::of(&cluster.url()?)?;
    cluster.stop().await?;
    let fast = ("SURETY_DATABASE_ACQUIRE_TIMEOUT_MS", "1000");
    let environment = [file.environment().as_slice(), &[fast]].concat();
    let home = Deployment::start_with(&environment).await?;
    only_home_is_there(&home).await?;

    cluster.again().await?;
    home.planner.wait_for_line(|line| line.contains("connected to the database")).await?;
    let apart = home.create_run(planless(APART)).await?.id;
    assert_eq!(home.run(&apart).await?.namespace, APART);

    cluster.crash().await?;
    only_home_is_there(&home).await?;
    let found = fault(home.runs()?.get_run(by_id(&apart)).await)?;
    assert_eq!(found.reason.as_str(), "database_unavailable", "{found:?}");

    cluster.again().await?;
    let run = home.wait_for(&apart, "readable again", |_| true).await?;
    assert_eq!(run.namespace, APART);
    audit_all(&Database::at(&cluster.url()?)?.pool().await?).await?;
    home.finish().await?;
    cluster.stop().await
}

#[tokio::test]
async fn a_planner_with_databases_for_namespaces_and_none_for_the_others_does_not_start()
-> Result<()> {
    use surety_e2e::harness::{Process, Service};
    let file = Named::of("postgres://unused:s3cret@127.0.0.1:1/none")?;
    let (code, log) =
        Process::run_to_end(Service::Planner, "127.0.0.1:0", &file.environment()).await?;
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("--database-url (DATABASE_URL) is missing"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
    Ok(())
}
