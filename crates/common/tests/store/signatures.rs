//! Signed rows over a real Postgres: what rewriting them as a superuser shows.

use crate::support::{applied, change, find, graph, order, receipt, spec};
use crate::task_signatures;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Write;
use surety_common::domain::journal::VerdictRecord;
use surety_common::domain::signature::{
    EvidenceReport, SecretKey, Service, SignatureStatus, TrustedKey, TrustedKeys, check_export,
};
use surety_common::domain::stop::StopReason;
use surety_common::domain::verdict::{CheckResult, Strength, Verdict};
use surety_common::store::{
    Commit, Committer, Created, Creator, CurrentKey, NewRun, Outcome, SignedRun, Signing,
    StoreError, Waker,
};
use uuid::Uuid;

/// A key that a test replaces.
struct Held(Mutex<Arc<SecretKey>>);

impl CurrentKey for Held {
    fn current(&self) -> Arc<SecretKey> {
        Arc::clone(&self.0.lock().unwrap())
    }

    fn at(&self, _time: DateTime<Utc>) -> Arc<SecretKey> {
        self.current()
    }
}

fn key(seed: u8) -> Arc<SecretKey> {
    Arc::new(SecretKey::from_seed([seed; 32]).unwrap())
}

pub(crate) fn signing(service: Service, seed: u8) -> Signing {
    Signing::of(service, Arc::new(Held(Mutex::new(key(seed)))))
}

fn trusted(keys: &[(Service, u8)]) -> TrustedKeys {
    let trusted = keys.iter().map(|(service, seed)| TrustedKey {
        service: *service,
        key: key(*seed).public(),
        valid_from: chrono::DateTime::UNIX_EPOCH,
        valid_until: None,
    });
    TrustedKeys::new(trusted.collect())
}

pub(crate) fn all_keys() -> TrustedKeys {
    trusted(&[(Service::Planner, 1), (Service::Executor, 2), (Service::Gate, 3)])
}

pub(crate) async fn write(
    pool: &PgPool,
    signing: Signing,
    write: Write,
) -> Result<Outcome, StoreError> {
    let committer =
        Committer::start(pool.clone(), Waker::start(pool.clone()), Arc::new(|_, _| {}), signing);
    committer.commit(Commit::new(write, tracing::Span::none(), None)).await
}

async fn written(pool: &PgPool, by: Signing, change: Write) -> Execution {
    let id = change.execution.run_id;
    assert_eq!(write(pool, by, change).await.unwrap(), Outcome::Applied);
    find(pool, id).await.execution
}

/// An accepting verdict.
pub(crate) fn verdict(row: &Execution, plan_digest: &str) -> VerdictRecord {
    let result = CheckResult {
        name: "tests".to_owned(),
        passed: true,
        reason: String::new(),
        optional: false,
    };
    VerdictRecord {
        plan_revision: row.plan_revision,
        verdict: Verdict {
            accepted: true,
            stop_reason: StopReason::Accepted,
            results: vec![result],
            strength: Strength::Independent,
            round: 1,
            cautions: Vec::new(),
            workspace_digest: "ab".repeat(32),
            sandbox: "full".to_owned(),
            approvals: Vec::new(),
            repository: None,
        },
        receipts: row.counters.receipts,
        last_receipt_digest: row.counters.last_receipt_digest.clone(),
        plan_digest: plan_digest.to_owned(),
        history: None,
    }
}

/// A run of one step with two receipts and an accepted verdict, each row signed by its service.
pub(crate) async fn done(pool: &PgPool, id: u128) -> Uuid {
    let new = order(spec(id), 1, spec(id).created_at);
    let digest = new.plan.as_ref().unwrap().digest.clone();
    let row = worked(pool, new).await;
    decided(pool, &row, verdict(&row, &digest)).await;
    row.run_id
}

/// A new run whose step has recorded two receipts and ended.
pub(crate) async fn worked(pool: &PgPool, new: NewRun) -> Execution {
    worked_with(pool, new, ["write_file", "run_command"]).await
}

/// The same, with receipts of these tools.
pub(crate) async fn worked_with(pool: &PgPool, new: NewRun, [one, two]: [&str; 2]) -> Execution {
    let run_id = new.spec.id;
    let waker = Waker::start(pool.clone());
    let creator = Creator::start(pool.clone(), waker, signing(Service::Planner, 1));
    assert_eq!(creator.create(Arc::new(new), None).await.unwrap(), Created::New);
    let executor = || signing(Service::Executor, 2);
    let row = find(pool, run_id).await.execution;
    let row = written(
        pool,
        executor(),
        change(&row, |draft| {
            draft.lease(Uuid::from_u128(9));
            draft.lease_steps(&graph(1), 1).map(drop)
        }),
    )
    .await;
    let row = written(
        pool,
        executor(),
        change(&row, |draft| {
            draft.receipt(receipt(one));
            Ok(())
        }),
    )
    .await;
    written(
        pool,
        executor(),
        change(&row, |draft| {
            draft.receipt(receipt(two));
            draft.finish_step(&graph(1), 0, "done")
        }),
    )
    .await
}

/// Stores the accepting verdict of the gate.
pub(crate) async fn decided(pool: &PgPool, row: &Execution, record: VerdictRecord) {
    let accepting = change(row, |draft| {
        draft.record_verdict(record);
        draft.accept(&graph(1))
    });
    written(pool, signing(Service::Gate, 3), accepting).await;
}

pub(crate) async fn check(pool: &PgPool, run_id: Uuid, keys: &TrustedKeys) -> EvidenceReport {
    let signed = SignedRun::find(pool, run_id).await.unwrap().unwrap();
    signed.check(Some(keys), |_| ()).await.unwrap()
}

/// The file that an export of the run as it is stored gives.
pub(crate) async fn export(pool: &PgPool, run_id: Uuid) -> String {
    let mut signed = SignedRun::find(pool, run_id).await.unwrap().unwrap();
    let mut lines = signed.head().to_vec();
    while let Some(row) = signed.next().await.unwrap() {
        lines.extend(signed.lines(&row));
    }
    lines.extend(signed.tail());
    lines.join("\n") + "\n"
}

pub(crate) fn findings(report: &EvidenceReport) -> String {
    let found = report.chain.findings.iter();
    found.map(|found| format!("{}: {}\n", found.seq, found.message)).collect()
}

/// Each column that feeds a verdict, and how it is rewritten; the list beside the schema names the same.
const REWRITTEN: [(&str, &str, &str); 41] = [
    ("run.created_at", "update run set created_at = created_at + interval '1 s'", "run.created_at"),
    ("run.driver", "update run set driver = 'remote'", "run.driver"),
    ("run.forked_from", "update run set forked_from = '{}'", "run.forked_from"),
    ("run.goal", "update run set goal = 'less'", "run.goal"),
    ("run.limits", "update run set limits = (limits::text || ' ')::json", "run.limits"),
    ("run.namespace", "update run set namespace = 'other'", "run.namespace"),
    ("run.policy", "update run set policy = (policy::text || ' ')::json", "run.policy"),
    ("run.repository", "update run set repository = '{}'", "run.repository"),
    ("run.submitter", "update run set submitter = 'mallory'", "run.submitter"),
    ("run.workspace", "update run set workspace = '/other'", "run.workspace"),
    ("plan.body", "update plan set body = (body::text || ' ')::json", "plan.body"),
    (
        "plan.created_at",
        "update plan set created_at = created_at + interval '1 s'",
        "plan.created_at",
    ),
    ("plan.digest", "update plan set digest = 'x'", "plan.digest"),
    ("plan.parent_digest", "update plan set parent_digest = 'x'", "plan.parent_digest"),
    ("plan.reason", "update plan set reason = 'x'", "plan.reason"),
    ("plan.revision", "update plan set revision = 2", "plan revision 1: its row is missing"),
    ("journal.at", "update journal set at = at + interval '1 s'", "journal row"),
    ("journal.actor", "update journal set actor = 'x'", "journal row"),
    ("journal.sequence", "update journal set sequence = sequence + 100", "rows are missing"),
    (
        "journal.entries",
        "update journal set entries = replace(entries, 'write_file', 'read_file_')",
        "journal row",
    ),
    (
        "journal.signature",
        "update journal set signature = null where sequence = (select max(sequence) from journal where run_id = $1)",
        "has no signature",
    ),
    (
        "verdict.sequence",
        "update verdict set sequence = 1",
        "is missing from the table of verdicts",
    ),
    ("verdict.plan_revision", "update verdict set plan_revision = 2", "verdict on plan revision 2"),
    ("verdict.accepted", "update verdict set accepted = false", "verdict on plan revision 1"),
    (
        "verdict.decided_at",
        "update verdict set decided_at = decided_at + interval '1 s'",
        "verdict on plan revision 1",
    ),
    (
        "verdict.key_id",
        "update verdict set key_id = decode(repeat('00', 16), 'hex')",
        "not trusted",
    ),
    (
        "verdict.signature",
        "update verdict set signature = set_byte(signature, 3, get_byte(signature, 3) # 1)",
        "verdict on plan revision 1",
    ),
    (
        "verdict.signature",
        "update verdict set signature = signature || '\\x00'::bytea",
        "verdict on plan revision 1: it has",
    ),
    (
        "verdict.signature",
        "update verdict set signature = substring(signature for 64)",
        "verdict on plan revision 1: it has",
    ),
    (
        "verdict.signature",
        "update verdict set signature = ''",
        "verdict on plan revision 1: it has",
    ),
    ("execution.state", "update execution set state = 'FAILED'", "execution.state"),
    ("execution.step_states", "update execution set step_states = 'f'", "execution.progress: its"),
    (
        "execution.progress",
        "update execution set progress = (progress::jsonb || '{\"observed\":true}')::text::json",
        "execution.progress: its todos",
    ),
    (
        "execution.state",
        "update execution set state = 'VERIFYING'",
        "execution.state: it is VERIFYING, and DONE was signed",
    ),
    (
        "execution.blocked_from",
        "update execution set blocked_from = 'EXECUTING'",
        "execution.progress",
    ),
    (
        "execution.terminal",
        "update execution set terminal = (terminal::jsonb || '{\"user_message\":\"x\"}')::text::json",
        "execution.progress",
    ),
    ("execution.sequence", "update execution set sequence = sequence + 1", "execution.sequence"),
    (
        "execution.plan_revision",
        "update execution set plan_revision = 2",
        "execution.plan_revision",
    ),
    (
        "execution.progress",
        "update execution set progress = (progress::jsonb || '{\"base_snapshot\":\"00\"}')::text::json",
        "execution.progress: its todos",
    ),
    (
        "execution.progress",
        "update execution set progress = (progress::jsonb || '{\"verdict_sequence\":1}')::text::json",
        "execution.progress: its todos",
    ),
    (
        "execution.progress",
        "update execution set progress = replace(progress::text, '\"receipts\":2', '\"receipts\":1')::json",
        "receipts are expected",
    ),
];

#[sqlx::test(migrations = "./migrations")]
async fn rewriting_any_column_that_feeds_a_verdict_is_named_in_an_export(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    all_are_named(&pool, run_id, &REWRITTEN).await;
}

/// Rewrites each column of a signed run as a superuser, and expects these words about it from both checks.
pub(crate) async fn all_are_named(
    pool: &PgPool,
    run_id: Uuid,
    rewritten: &[(&str, &'static str, &str)],
) {
    assert_eq!(check(pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
    let before = export(pool, run_id).await;
    assert_eq!(check_export(&before, Some(&all_keys())).status, SignatureStatus::Signed);
    keep(pool).await;
    for (column, statement, words) in rewritten {
        rewrite(pool, run_id, column, statement).await;
        let online = findings(&check(pool, run_id, &all_keys()).await);
        assert!(online.contains(words), "{column}: {online}");
        let file = export(pool, run_id).await;
        let offline = findings(&check_export(&file, Some(&all_keys())));
        assert!(offline.contains(words), "{column}: {offline}");
        restore(pool).await;
    }
}

/// Rewrites a column of a run. The superuser leaves no check of the database in force.
pub(crate) async fn rewrite(pool: &PgPool, run_id: Uuid, column: &str, statement: &str) {
    let (table, _) = column.split_once('.').unwrap();
    let id = if table == "run" { "id" } else { "run_id" };
    let clause = if statement.contains("where") { "and" } else { "where" };
    let mut transaction = pool.begin().await.unwrap();
    let statement = sqlx::AssertSqlSafe(format!("{statement} {clause} {id} = $1"));
    for off in [
        "set local session_replication_role = replica",
        "alter table execution drop constraint if exists execution_keeps_its_rules",
        "alter table verdict drop constraint if exists verdict_signatures_whole",
        "alter table plan drop constraint if exists plan_revision_positive",
    ] {
        sqlx::query(off).execute(&mut *transaction).await.unwrap();
    }
    let rewritten = sqlx::query(statement).bind(run_id).execute(&mut *transaction).await.unwrap();
    assert!(rewritten.rows_affected() > 0, "{column}");
    transaction.commit().await.unwrap();
}

const TABLES: [&str; 7] = ["run", "plan", "journal", "verdict", "execution", "task", "task_entry"];

/// Keeps the rows, to put them back.
pub(crate) async fn keep(pool: &PgPool) {
    for table in TABLES {
        let keep = format!("create table kept_{table} as select * from {table}");
        sqlx::query(sqlx::AssertSqlSafe(keep)).execute(pool).await.unwrap();
    }
}

/// The rows as they were. The superuser leaves no check of the database in force.
pub(crate) async fn restore(pool: &PgPool) {
    let mut transaction = pool.begin().await.unwrap();
    let mut statements = vec!["set local session_replication_role = replica".to_owned()];
    statements.extend(TABLES.map(|table| format!("delete from {table}")));
    statements.extend(TABLES.map(|table| {
        format!("insert into {table} overriding system value select * from kept_{table}")
    }));
    for statement in statements {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
}

#[sqlx::test(migrations = "./migrations")]
async fn the_list_beside_the_schema_names_every_column_of_the_tables_that_feed_a_verdict(
    pool: PgPool,
) {
    let listed = include_str!("../../migrations/verdict_columns.txt");
    let lines = || listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let named: BTreeSet<String> =
        lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let found: Vec<String> = sqlx::query_scalar(
        "select table_name || '.' || column_name from information_schema.columns
         where table_schema = current_schema()
           and table_name in ('run', 'plan', 'execution', 'journal', 'verdict', 'task', 'task_entry', 'artifact', 'anchor',
                              'anchored_verdict')",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let found: BTreeSet<String> = found.into_iter().collect();
    assert_eq!(named, found, "migrations/verdict_columns.txt names each column once");
    let rewritten = REWRITTEN.iter().chain(&task_signatures::REWRITTEN);
    let rewritten: BTreeSet<&str> = rewritten.map(|(column, _, _)| *column).collect();
    let feeding: BTreeSet<&str> = lines()
        .filter(|line| line.split_whitespace().nth(1) == Some("feeds"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(feeding, rewritten, "each column that feeds a verdict is rewritten by a test");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_key_is_rotated_under_load_without_a_gap(pool: PgPool) {
    let held = Arc::new(Held(Mutex::new(key(2))));
    let signing = Signing::of(Service::Executor, Arc::clone(&held) as Arc<dyn CurrentKey>);
    let new = order(spec(1), 1, spec(1).created_at);
    let run_id = new.spec.id;
    let waker = Waker::start(pool.clone());
    let creator = Creator::start(pool.clone(), waker.clone(), self::signing(Service::Planner, 1));
    creator.create(Arc::new(new), None).await.unwrap();
    let committer = Committer::start(pool.clone(), waker, Arc::new(|_, _| {}), signing);
    let mut row = find(&pool, run_id).await.execution;
    for turn in 0..60_u8 {
        if turn % 10 == 9 {
            *held.0.lock().unwrap() = key(100 + turn);
        }
        let write = change(&row, |draft| {
            draft.receipt(receipt("noop"));
            Ok(())
        });
        let next = write.execution.as_ref().clone();
        committer.commit(Commit::new(write, tracing::Span::none(), None)).await.unwrap();
        row = next;
    }
    let executors =
        (0..60_u8).filter(|turn| turn % 10 == 9).map(|turn| (Service::Executor, 100 + turn));
    let mut keys = vec![(Service::Planner, 1), (Service::Executor, 2)];
    keys.extend(executors);
    let report = check(&pool, run_id, &trusted(&keys)).await;
    assert_eq!(report.status, SignatureStatus::Signed, "{report:#?}");
    assert_eq!(report.signed_receipt_count, 60);
    keys.pop();
    let report = check(&pool, run_id, &trusted(&keys)).await;
    assert!(findings(&report).contains("not trusted"), "{report:#?}");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_run_becomes_done_only_with_a_verdict_in_the_table(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    let given: i64 =
        sqlx::query_scalar("select count(*) from verdict where run_id = $1 and accepted")
            .bind(run_id)
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!(given, 1);
    let row = crate::support::make(&pool, 2, 1).await;
    let row = applied(
        &pool,
        change(&row, |draft| {
            draft.lease(Uuid::from_u128(9));
            draft.lease_steps(&graph(1), 1).map(drop)
        }),
    )
    .await;
    let forged = change(&row, |draft| {
        draft.finish_step(&graph(1), 0, "done")?;
        draft.accept(&graph(1))
    });
    let refused = write(&pool, Signing::default(), forged).await.unwrap_err();
    let StoreError::Constraint { constraint } = refused else { panic!("{refused}") };
    assert_eq!(constraint, "execution_done_has_verdict");
}
