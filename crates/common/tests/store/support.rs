//! Runs in any state, and a proxy between a test and its database.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use surety_common::domain::execution::draft::{Draft, Write};
use surety_common::domain::execution::{Execution, Graph, Wait};
use surety_common::domain::journal::{Actor, Answer, Entry};
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::{Plan, PlanStep};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::run::{DriverKind, Policy, RunRecord, RunSpec};
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{
    self, Commit, Committer, Created, Creator, DedicatedConnection, NewRun, Outcome, Signing,
    StoreError, StoredPlan, Waker,
};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, copy};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000, 0).unwrap()
}

pub(crate) fn later(seconds: i64) -> DateTime<Utc> {
    now() + TimeDelta::seconds(seconds)
}

pub(crate) fn actor() -> Actor {
    Actor("tester".into())
}

/// A plan of steps that depend on nothing.
pub(crate) fn plan(steps: usize) -> Plan {
    let steps = (0..steps).map(|step| PlanStep {
        id: format!("s{step}"),
        description: "do it".to_owned(),
        ..PlanStep::default()
    });
    Plan { title: "a plan".to_owned(), steps: steps.collect(), ..Plan::default() }
}

pub(crate) fn graph(steps: usize) -> Graph {
    Graph::of(&plan(steps))
}

pub(crate) fn spec(id: u128) -> RunSpec {
    RunSpec {
        id: Uuid::from_u128(id),
        namespace: "test".to_owned(),
        request_id: String::new(),
        goal: "a goal".to_owned(),
        driver: DriverKind::Script,
        workspace: String::new(),
        repository: None,
        limits: Limits::default(),
        policy: Policy::default(),
        labels: BTreeMap::new(),
        forked_from: None,
        trace_parent: String::new(),
        created_at: now(),
    }
}

/// A request with a plan of `steps` steps, ready to be executed since `at`.
pub(crate) fn order(spec: RunSpec, steps: usize, at: DateTime<Utc>) -> NewRun {
    let mut execution =
        Execution::new(spec.id, spec.namespace.clone(), later(3600), spec.created_at);
    execution.priority = spec.labels.get("priority").map_or(0, |text| text.parse().unwrap());
    let mut draft = Draft::new(execution, actor(), at);
    draft.start_plan(&graph(steps), 1).unwrap();
    let plan = plan(steps);
    let stored = StoredPlan {
        revision: 1,
        digest: plan.digest(),
        parent_digest: String::new(),
        reason: "it came with the run".to_owned(),
        body: plan.to_json().to_compact(),
        created_at: at,
    };
    let write = draft.into_write();
    NewRun {
        spec,
        submitter: "tester".to_owned(),
        request_digest: "digest".to_owned(),
        plan: Some(stored),
        task: None,
        artifacts: Vec::new(),
        write,
    }
}

/// Makes a run of `steps` steps that waits for an executor.
pub(crate) async fn make(pool: &PgPool, id: u128, steps: usize) -> Execution {
    make_from(pool, spec(id), steps).await
}

pub(crate) async fn make_from(pool: &PgPool, spec: RunSpec, steps: usize) -> Execution {
    let at = spec.created_at;
    let new = order(spec, steps, at);
    assert_eq!(create(pool, &new, None).await.unwrap(), Created::New);
    find(pool, new.spec.id).await.execution
}

pub(crate) fn creator(pool: &PgPool) -> Creator {
    Creator::start(pool.clone(), Waker::start(pool.clone()), Signing::default())
}

pub(crate) fn dedicated(pool: &PgPool) -> DedicatedConnection {
    DedicatedConnection::new(pool.clone())
}

pub(crate) fn receipt(name: &str) -> EvidenceReceipt {
    EvidenceReceipt {
        step_index: 0,
        step_id: "s0".to_owned(),
        plan_revision: 1,
        seq: 0,
        call_id: String::new(),
        probe_of: None,
        source: EvidenceSource::ToolObservation,
        name: name.to_owned(),
        arguments_digest: String::new(),
        success: true,
        summary: String::new(),
        facts: Vec::new(),
        output_digest: String::new(),
        sandbox: String::new(),
        started_at: None,
        finished_at: None,
        prev_digest: String::new(),
        digest: String::new(),
    }
}

/// Makes one run alone.
pub(crate) async fn create(
    pool: &PgPool,
    new: &NewRun,
    span_id: Option<&str>,
) -> Result<Created, StoreError> {
    creator(pool).create(Arc::new(new.clone()), span_id.map(str::to_owned)).await
}

pub(crate) async fn find(pool: &PgPool, id: Uuid) -> RunRecord {
    store::find_run(pool, id).await.unwrap().expect("the run is there")
}

/// One change of an execution.
pub(crate) fn change(
    execution: &Execution,
    change: impl FnOnce(&mut Draft) -> Result<(), Refusal>,
) -> Write {
    let mut draft = Draft::new(execution.clone(), actor(), later(1));
    change(&mut draft).unwrap();
    draft.into_write()
}

/// A change that only journals a remark.
pub(crate) fn remark(execution: &Execution, text: &str) -> Write {
    change(execution, |draft| {
        draft.journal(said(text));
        Ok(())
    })
}

pub(crate) fn said(text: &str) -> Entry {
    Entry::Answer(Answer { wait_id: Uuid::nil(), by: actor(), text: text.to_owned() })
}

/// The remarks of a run, in order.
pub(crate) async fn remarks(pool: &PgPool, id: Uuid) -> Vec<String> {
    let events = store::events(pool, id, 1, i64::MAX).await.unwrap();
    let numbers: Vec<i64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<i64>>(), "numbers without gaps");
    let texts = events.into_iter().filter_map(|event| {
        let Entry::Answer(answer) = event.entry else { return None };
        Some(answer.text)
    });
    texts.collect()
}

pub(crate) fn wait(id: u128) -> Wait {
    Wait {
        question: "Which\u{0} of Größe, 東京?".to_owned(),
        choices: vec!["a".to_owned()],
        ..Wait::new(Uuid::from_u128(id), WaitingOn::User, now(), "an answer".to_owned())
    }
}

pub(crate) fn committer(pool: &PgPool) -> Committer {
    let waker = Waker::start(pool.clone());
    Committer::start(pool.clone(), waker, Arc::new(|_, _| {}), Signing::default())
}

pub(crate) fn commit(write: Write) -> Commit {
    Commit::new(write, tracing::Span::none(), None)
}

/// Writes one change alone.
pub(crate) async fn apply(pool: &PgPool, write: Write) -> Result<Outcome, StoreError> {
    committer(pool).commit(commit(write)).await
}

/// Writes one change that must fit, and answers the row as it is then.
pub(crate) async fn applied(pool: &PgPool, write: Write) -> Execution {
    let id = write.execution.run_id;
    assert_eq!(apply(pool, write).await.unwrap(), Outcome::Applied);
    find(pool, id).await.execution
}

/// Waits until a condition holds. The test runner ends a test that waits for ever.
pub(crate) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct WritePipeline {
    mute: bool,
    cuts: u32,
}

/// A proxy to the database that can be muted and cut.
pub(crate) struct Proxy {
    folder: TempDir,
    line: watch::Sender<WritePipeline>,
    taken: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy that is not connected yet.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, line: watch::channel(WritePipeline::default()).0, taken: Arc::default() }
    }

    /// Connects the proxy with the database of `options`.
    pub(crate) fn listen(&self, options: &PgConnectOptions) {
        let path = self.folder.path().join(format!(".s.PGSQL.{}", options.get_port()));
        let listener = UnixListener::bind(path).unwrap();
        let (line, options) = (self.line.subscribe(), options.clone());
        let taken = Arc::clone(&self.taken);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                taken.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(carry(client, options.clone(), line.clone()));
            }
        });
    }

    /// The same database over this proxy.
    pub(crate) fn options(&self, options: &PgConnectOptions) -> PgConnectOptions {
        options.clone().socket(self.folder.path())
    }

    /// How many connections were made over it.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Drops all answers of the database from now on.
    pub(crate) fn mute(&self) {
        self.line.send_modify(|line| line.mute = true);
    }

    /// Cuts every existing connection. New ones work.
    pub(crate) fn cut(&self) {
        self.line.send_modify(|line| *line = WritePipeline { mute: false, cuts: line.cuts + 1 });
    }
}

async fn carry(
    client: UnixStream,
    options: PgConnectOptions,
    line: watch::Receiver<WritePipeline>,
) {
    match options.get_socket() {
        Some(folder) => {
            let path = folder.join(format!(".s.PGSQL.{}", options.get_port()));
            join(client, UnixStream::connect(path).await.unwrap(), line).await;
        }
        None => {
            let server = (options.get_host(), options.get_port());
            join(client, TcpStream::connect(server).await.unwrap(), line).await;
        }
    }
}

async fn join(
    client: UnixStream,
    server: impl AsyncRead + AsyncWrite,
    line: watch::Receiver<WritePipeline>,
) {
    let cuts = line.borrow().cuts;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let answers = async {
        tokio::select! {
            done = copy(&mut from_server, &mut to_client) => drop(done),
            () = reaches(line.clone(), |line| line.mute) => std::future::pending().await,
        }
    };
    tokio::select! {
        done = copy(&mut from_client, &mut to_server) => drop(done),
        () = answers => {}
        () = reaches(line.clone(), |line| line.cuts != cuts) => {}
    }
}

async fn reaches(
    mut line: watch::Receiver<WritePipeline>,
    is_there: impl FnMut(&WritePipeline) -> bool,
) {
    drop(line.wait_for(is_there).await);
}
