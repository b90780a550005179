//! The rows of tasks as a superuser rewrites them: each column that feeds a verdict, and whole entries.

use crate::signatures::{
    all_are_named, all_keys, check, decided, export, findings, keep, restore, signing, verdict,
    worked,
};
use crate::support::{order, spec};
use crate::tasks::task;
use sqlx::PgPool;
use surety_common::domain::execution::Execution;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::run::RunSpec;
use surety_common::domain::signature::{Service, SignatureStatus, check_export};
use surety_common::domain::toolchain::EntryKind;
use surety_common::store::{self, Admission, EvidenceBundles, NewEntry, NewRun, NewTask, Signing};
use uuid::Uuid;

/// Each column that feeds a verdict, how it is rewritten, and words about it; the list beside the schema names the same.
pub(crate) const REWRITTEN: [(&str, &str, &str); 17] = [
    ("task.action_type", "update task set action_type = 'review_merged'", "task.action_type"),
    ("task.addressee", "update task set addressee = 'account x'", "task.addressee"),
    ("task.assignee", "update task set assignee = 'mallory'", "task.assignee"),
    ("task.forge", "update task set forge = 'github'", "task.forge"),
    (
        "task.happened_at",
        "update task set happened_at = happened_at - interval '1 s'",
        "task.happened_at",
    ),
    ("task.payload", "update task set payload = payload || ' '", "task.payload"),
    (
        "task_entry.number",
        "update task_entry set number = number + 10",
        "task entry 11: it does not follow",
    ),
    ("task_entry.kind", "update task_entry set kind = 'review'", "task entry 1: it is not what"),
    ("task_entry.author", "update task_entry set author = 'x'", "task entry 1: it is not what"),
    ("task_entry.body", "update task_entry set body = 'x'", "task entry 2: it is not what"),
    ("task_entry.links", "update task_entry set links = '{x}'", "task entry 2: it is not what"),
    (
        "task_entry.attachment",
        "update task_entry set attachment = 'x'",
        "task entry 1: it is not what",
    ),
    (
        "task_entry.at",
        "update task_entry set at = at + interval '1 s'",
        "task entry 3: it is not what",
    ),
    (
        "task_entry.previous",
        "update task_entry set previous = null",
        "task entry 2: it does not follow",
    ),
    (
        "task_entry.key_id",
        "update task_entry set key_id = decode(repeat('00', 16), 'hex')",
        "not trusted",
    ),
    (
        "task_entry.signed_at",
        "update task_entry set signed_at = signed_at - interval '1 s'",
        "task entry 1: it is not what",
    ),
    (
        "task_entry.signature",
        "update task_entry set signature = set_byte(signature, 3, get_byte(signature, 3) # 1)",
        "task entry 1: it is not what",
    ),
];

fn entry(run_id: Uuid, kind: EntryKind, body: &str) -> NewEntry {
    NewEntry {
        run_id,
        kind,
        author: "dev".to_owned(),
        body: body.to_owned(),
        links: vec!["https://forge/1".to_owned(), "写".to_owned()],
        attachment: String::new(),
        at: spec(1).created_at,
    }
}

/// A task and its run, whose step has ended, with the note of an agent and a report of the runner's tool.
async fn reported(pool: &PgPool, new: NewTask) -> Execution {
    let mut admission = Admission::begin(pool, []).await.unwrap();
    admission.insert(&new).await.unwrap();
    admission.commit().await.unwrap();
    let spec = RunSpec { namespace: new.namespace.clone(), ..spec(new.run_id.as_u128()) };
    let at = spec.created_at;
    let order = NewRun { task: Some(new.judged().signed(None)), ..order(spec, 1, at) };
    let row = worked(pool, order).await;
    store::start_tasks(pool, &[new.run_id], at).await.unwrap();
    if new.assignee.is_empty() {
        let planner = signing(Service::Planner, 1);
        // As planners of earlier versions gave it: later ones replace it by another task.
        let given = "update task set assignee = 'dev' where run_id = $1";
        sqlx::query(given).bind(new.run_id).execute(pool).await.unwrap();
        let assigned = NewEntry {
            author: "system".to_owned(),
            links: Vec::new(),
            at,
            ..entry(new.run_id, EntryKind::Assignment, "dev")
        };
        store::add_entry(pool, &planner, &assigned, |_| None).await.unwrap();
    }
    let note = entry(new.run_id, EntryKind::Note, "I begin.");
    let planner = signing(Service::Planner, 1);
    store::add_entry(pool, &planner, &note, |_| None).await.unwrap();
    let report = entry(new.run_id, EntryKind::ActionReport, "Merged #7.");
    let executor = signing(Service::Executor, 2);
    store::report_task(pool, &executor, &report, |_| None).await.unwrap();
    row
}

/// A task that was accepted, and an entry behind the verdict.
async fn accepted(pool: &PgPool, new: NewTask) -> Uuid {
    let row = reported(pool, new).await;
    let digest = crate::support::plan(1).digest();
    let bundles = EvidenceBundles::start(pool.clone());
    let bundle = bundles.find(row.run_id, |_| true).await.unwrap().unwrap();
    assert_eq!(bundle.run.execution.state, RunState::Verifying);
    let task = bundle.task.unwrap();
    let mut record = verdict(&row, &digest);
    record.history = task.history();
    assert_eq!(usize::try_from(record.history.as_ref().unwrap().entries), Ok(task.entries.len()));
    decided(pool, &row, record).await;
    let end = entry(row.run_id, EntryKind::System, "The task ended.");
    store::add_entry(pool, &signing(Service::Planner, 1), &end, |_| None).await.unwrap();
    row.run_id
}

fn of_number(number: u128) -> NewTask {
    NewTask { run_id: Uuid::from_u128(number), ..task("toolchain", number, spec(1).created_at) }
}

#[sqlx::test(migrations = "./migrations")]
async fn rewriting_any_column_of_a_task_that_feeds_a_verdict_is_named(pool: PgPool) {
    // Times below a microsecond are signed as the database stores them.
    let happened_at = spec(1).created_at + chrono::TimeDelta::nanoseconds(1_234_567);
    let run_id = accepted(&pool, NewTask { happened_at, ..of_number(1) }).await;
    all_are_named(&pool, run_id, &REWRITTEN).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn entries_that_are_deleted_inserted_swapped_or_replayed_are_named(pool: PgPool) {
    let run_id = accepted(&pool, of_number(1)).await;
    let other = accepted(&pool, of_number(2)).await;
    let cases = [
        ("a deleted task", "delete from task where run_id = $1", "task: its row is missing"),
        (
            "a deleted entry",
            "delete from task_entry where run_id = $1 and number = 1",
            "task entry 2: it does not follow",
        ),
        (
            "a deleted tail",
            "delete from task_entry where run_id = $1 and number >= 2",
            "verdict on plan revision 1: it rests on 2 entries of the task",
        ),
        (
            "a deleted history",
            "delete from task_entry where run_id = $1",
            "verdict on plan revision 1: it rests on 2 entries of the task",
        ),
        (
            "an added entry",
            "insert into task_entry (run_id, kind, author, body, links, attachment, at, number) \
             values ($1, 'action_report', 'dev', 'x', '{}', '', now(), 9)",
            "task entry 9: it does not follow",
        ),
        (
            "a repeated entry",
            "insert into task_entry (run_id, kind, author, body, links, attachment, at, number, previous, key_id, \
             signature, signed_at) select run_id, kind, author, body, links, attachment, at, 4, previous, key_id, \
             signature, signed_at from task_entry where run_id = $1 and number = 2",
            "task entry 4: it does not follow",
        ),
        (
            "swapped entries",
            "update task_entry set number = case number when 1 then 2 else 1 end \
             where run_id = $1 and number < 3",
            "task entry 1: it does not follow",
        ),
        (
            "an entry of another run",
            "update task_entry set (kind, author, body, links, attachment, at, previous, key_id, signature, signed_at) \
             = (select kind, author, body, links, attachment, at, previous, key_id, signature, signed_at \
                from task_entry as other where other.run_id = $2 and other.number = task_entry.number) \
             where run_id = $1",
            "task entry 1: it is not what was signed",
        ),
        (
            "a stripped signature",
            "update task_entry set key_id = null, signature = null, signed_at = null \
             where run_id = $1 and number = 3",
            "task entry 3: it has no signature, and the run has one",
        ),
    ];
    keep(&pool).await;
    for (what, statement, words) in cases {
        let mut transaction = pool.begin().await.unwrap();
        for off in [
            "set local session_replication_role = replica",
            "alter table task_entry drop constraint if exists task_entry_number_once",
        ] {
            sqlx::query(off).execute(&mut *transaction).await.unwrap();
        }
        let query = sqlx::query(statement).bind(run_id);
        let query = if statement.contains("$2") { query.bind(other) } else { query };
        let done = query.execute(&mut *transaction).await.unwrap();
        assert!(done.rows_affected() > 0, "{what}");
        transaction.commit().await.unwrap();
        let online = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(online.contains(words), "{what}: {online}");
        let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
        assert!(offline.contains(words), "{what}: {offline}");
        restore(&pool).await;
    }
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
}

#[sqlx::test(migrations = "./migrations")]
async fn an_agent_that_a_task_is_given_to_later_is_bound_by_a_signed_entry(pool: PgPool) {
    let run_id = accepted(&pool, NewTask { assignee: String::new(), ..of_number(1) }).await;
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
    keep(&pool).await;
    let forged = "insert into task_entry (run_id, kind, author, body, links, attachment, at, number) \
                  values ($1, 'assignment', 'system', 'mallory', '{}', '', now(), 5)";
    for (what, statements, words) in [
        (
            "another one",
            vec!["update task set assignee = 'mallory' where run_id = $1"],
            "task.assignee",
        ),
        ("none", vec!["update task set assignee = '' where run_id = $1"], "rests on 3 entries"),
        (
            "another one with an entry",
            vec!["update task set assignee = 'mallory' where run_id = $1", forged],
            "task entry 5: it has no signature",
        ),
    ] {
        for statement in statements {
            sqlx::query(statement).bind(run_id).execute(&pool).await.unwrap();
        }
        if what == "none" {
            let delete = "delete from task_entry where run_id = $1";
            sqlx::query(delete).bind(run_id).execute(&pool).await.unwrap();
        }
        let found = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(found.contains(words), "{what}: {found}");
        restore(&pool).await;
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn without_keys_a_task_is_unsigned_and_its_history_is_a_chain(pool: PgPool) {
    let new = of_number(1);
    let mut admission = Admission::begin(&pool, []).await.unwrap();
    admission.insert(&new).await.unwrap();
    admission.commit().await.unwrap();
    let run_id = new.run_id;
    let spec = RunSpec { namespace: new.namespace.clone(), ..spec(1) };
    crate::support::make_from(&pool, spec, 1).await;
    for body in ["one", "two"] {
        let entry = entry(run_id, EntryKind::Note, body);
        store::add_entry(&pool, &Signing::default(), &entry, |_| None).await.unwrap();
    }
    let report = check(&pool, run_id, &all_keys()).await;
    assert!(matches!(report.status, SignatureStatus::Unsigned(_)), "{report:#?}");
    let offline = check_export(&export(&pool, run_id).await, Some(&all_keys()));
    assert!(matches!(offline.status, SignatureStatus::Unsigned(_)), "{offline:#?}");
    let statement = "update task_entry set body = 'x' where number = 1";
    sqlx::query(statement).execute(&pool).await.unwrap();
    let found = findings(&check(&pool, run_id, &all_keys()).await);
    assert!(found.contains("task entry 2: it does not follow"), "{found}");
}
