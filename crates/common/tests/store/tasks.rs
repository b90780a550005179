//! Tasks that are due, open, and kept no longer.

use crate::plans::{carried_out, plan_of};
use crate::support::{actor, applied, find, graph, later, make_from, now, spec};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Map;
use sqlx::PgPool;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::run::RunSpec;
use surety_common::domain::toolchain::{
    Agent, AgentDriver, EntryKind, FailureClass, Language, Role, SYSTEM, Subject, TaskFailure,
    TaskOutcome, TaskPayload,
};
use surety_common::store::{
    self, Admission, EndedTask, EscalationAction, EscalationEnd, NewEntry, NewEscalation, NewTask,
    OpenTasks, Signing, TaskCause, WaitingFor,
};
use uuid::Uuid;

/// The event and the action of each task here.
const ASKS: &str = "issue_assigned";

/// A task of a type, whose run and event have this number.
pub(crate) fn task(task_type: &str, number: u128, at: DateTime<Utc>) -> NewTask {
    let namespace = if task_type == "mail" { "_mail" } else { "_toolchain" };
    NewTask {
        run_id: id(number, at),
        task_type: task_type.to_owned(),
        namespace: namespace.to_owned(),
        event_key: number.to_string(),
        origin_key: String::new(),
        payload: TaskPayload {
            event_type: ASKS.to_owned(),
            action_type: ASKS.to_owned(),
            steps: Vec::new(),
            from: "lead".to_owned(),
            context: Map::new(),
            source: "gitea".to_owned(),
        },
        instructions: "Act.".to_owned(),
        forge: "gitea".to_owned(),
        subject: Subject {
            server: String::new(),
            repo: "team/app".to_owned(),
            number: Some(7),
            is_pull_request: false,
        },
        happened_at: at,
        addressee: "account dev".to_owned(),
        assignee: "dev".to_owned(),
        is_notice: false,
        chain_id: id(number, at),
        caused_by: None,
        depth: 1,
        business_failures: 0,
        created_at: at,
        remind_after_s: 14_400,
    }
}

/// An id of that time.
fn id(number: u128, at: DateTime<Utc>) -> Uuid {
    let millis = u128::try_from(at.timestamp_millis()).unwrap();
    Uuid::from_u128((millis << 80) | (7 << 76) | (2 << 62) | number)
}

/// Stores a task and makes its run, as a planner does.
async fn started(pool: &PgPool, task: &NewTask) {
    let at = task.created_at;
    let mut admission = Admission::begin(pool, []).await.unwrap();
    admission.insert(task).await.unwrap();
    admission.commit().await.unwrap();
    let namespace = task.namespace.clone();
    let spec = RunSpec { namespace, created_at: at, ..spec(task.run_id.as_u128()) };
    make_from(pool, spec, 1).await;
    store::start_tasks(pool, &[task.run_id], at).await.unwrap();
}

/// Cancels the run of a task.
async fn run_ended(pool: &PgPool, run_id: Uuid, at: DateTime<Utc>) {
    let mut draft = Draft::new(find(pool, run_id).await.execution, actor(), at);
    draft.cancel(&graph(1), "over".to_owned()).unwrap();
    applied(pool, draft.into_write()).await;
}

fn ended(run_id: Uuid, at: DateTime<Utc>) -> EndedTask {
    EndedTask {
        run_id,
        chain_id: run_id,
        at,
        outcome: TaskOutcome::Cancelled,
        failure: None,
        escalations: Vec::new(),
        tasks: Vec::new(),
        entry: None,
    }
}

async fn due(pool: &PgPool, at: DateTime<Utc>) -> Vec<(TaskCause, Uuid)> {
    let due = store::due_tasks(pool, at, 200).await.unwrap().into_iter();
    due.map(|due| (due.cause, due.run_id)).collect()
}

/// Twenty thousand open tasks, five of whose runs have ended.
const MANY: &str = "
    with made as (
        insert into run (id, namespace, request_id, request_digest, goal, driver, workspace, limits,
                         policy, labels, trace_parent, created_at)
        select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, '_toolchain', '', '', '',
               'remote', '', '{}', '{}', '{}', '', $1
        from generate_series(1, 20000) as n
        returning id
    ), numbered as (
        select id, right(id::text, 12)::bigint % 4000 = 0 as is_over from made
    ), given as (
        insert into verdict (run_id, sequence, plan_revision, accepted, decided_at)
        select id, 1, 1, true, $1 from numbered where is_over
    ), executing as (
        insert into execution (run_id, namespace, state, version, sequence, priority, lease_epoch,
                               plan_revision, step_states, progress, terminal, deadline_at, updated_at)
        select id, '_toolchain', case when is_over then 'DONE' else 'EXECUTING' end, 1, 1, 0, 0, 1, '',
               '{}', case when is_over then '{}'::json end,
               case when not is_over then $1 + interval '14 days' end, $1
        from numbered
    )
    insert into task (run_id, task_type, namespace, event_key, origin_key, event_type, action_type,
                      forge, repo, number, is_pull_request, happened_at, addressee, assignee, payload,
                      instructions, is_notice, chain_id, depth, business_failures, created_at,
                      started_at, remind_at, remind_after_s)
    select id, 'toolchain', '_toolchain', id::text, '', 'issue_assigned', 'issue_assigned', 'gitea',
           'team/app', 7, false, $1, 'account dev', 'dev', '{}', 'Act.', false, id, 1, 0, $1, $1,
           $1 + interval '4 hours', 14400
    from numbered";

async fn many(pool: &PgPool) {
    sqlx::query(MANY).bind(now()).execute(pool).await.unwrap();
    sqlx::query("vacuum analyze task, execution").execute(pool).await.unwrap();
}

#[sqlx::test(migrations = "./migrations")]
async fn what_is_due_costs_no_scan_of_all_open_tasks(pool: PgPool) {
    many(&pool).await;
    let [at, sent, stored] = [60, 55, 0].map(|seconds| format!("'{}'", later(seconds)));
    let parameters = [
        ("timestamptz", at.as_str()),
        ("bigint", "200"),
        ("timestamptz", &sent),
        ("timestamptz", &stored),
    ];
    let statement = include_str!("../../src/store/sql/due_tasks.sql");
    let plan = carried_out(&pool, statement, &parameters).await;
    for table in ["task", "execution"] {
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "{plan}");
    }
    assert!(plan.contains("execution_task_end"), "{plan}");
    assert!(!plan.contains("task_open"), "{plan}");

    let over = |found: Vec<(TaskCause, Uuid)>| -> Vec<Uuid> {
        assert!(found.iter().all(|(cause, _)| *cause == TaskCause::End), "{found:?}");
        found.into_iter().map(|(_, run_id)| run_id).collect()
    };
    let first = over(due(&pool, later(60)).await);
    assert_eq!(first.len(), 5);
    assert!(
        store::end_task(&pool, &Signing::default(), &ended(first[0], later(60))).await.unwrap()
    );
    assert!(
        !store::end_task(&pool, &Signing::default(), &ended(first[0], later(61))).await.unwrap()
    );
    assert_eq!(over(due(&pool, later(60)).await), first[1..]);
}

#[sqlx::test(migrations = "./migrations")]
async fn open_tasks_are_counted_by_kind_and_state_from_the_indexes(pool: PgPool) {
    assert!(store::count_open_tasks(&pool).await.unwrap().is_empty());
    many(&pool).await;
    let over = "update task set ended_at = created_at, outcome = 'accepted', remind_at = null
                where right(run_id::text, 12)::bigint % 20 <> 0";
    sqlx::query(over).execute(&pool).await.unwrap();
    sqlx::query("vacuum analyze task").execute(&pool).await.unwrap();
    let plan = plan_of(&pool, include_str!("../../src/store/sql/open_tasks.sql"), &[]).await;
    assert!(!plan.contains("Seq Scan"), "{plan}");
    let run_id = due(&pool, later(60)).await[0].1;
    store::end_task(&pool, &Signing::default(), &ended(run_id, later(60))).await.unwrap();
    started(&pool, &task("mail", 1, now())).await;
    // The planner that stored this one ended before it made its run.
    let mut admission = Admission::begin(&pool, []).await.unwrap();
    admission.insert(&task("mail", 2, now())).await.unwrap();
    admission.commit().await.unwrap();
    let mut open = store::count_open_tasks(&pool).await.unwrap();
    open.sort_by(|one, other| one.kind.cmp(&other.kind));
    let open: Vec<_> = open
        .iter()
        .map(|OpenTasks { kind, tasks }| {
            assert_eq!((kind.event_type.as_str(), kind.action_type.as_str()), (ASKS, ASKS));
            (kind.task_type.as_str(), kind.state.as_str(), *tasks)
        })
        .collect();
    let expected = [
        ("mail", "EXECUTING", 1),
        ("mail", "INTAKE", 1),
        ("toolchain", "DONE", 4),
        ("toolchain", "EXECUTING", 995),
    ];
    assert_eq!(open, expected);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_task_is_reminded_at_its_hours_by_the_time_that_is_given(pool: PgPool) {
    let (one, held) = (task("toolchain", 1, now()), task("toolchain", 2, now()));
    started(&pool, &one).await;
    started(&pool, &held).await;
    let waits = async |text: &str, at| {
        let entry = NewEntry {
            run_id: held.run_id,
            kind: EntryKind::Note,
            author: "dev".to_owned(),
            body: "Pushed.".to_owned(),
            links: Vec::new(),
            attachment: String::new(),
            at,
        };
        let said = (&entry, WaitingFor { text, stops_clock: true });
        store::add_own_entry(&pool, &Signing::default(), said, |_| None).await.unwrap();
    };
    waits("CI", now()).await;
    let hours = |hours: i64| now() + TimeDelta::hours(hours);
    let second = TimeDelta::seconds(1);
    let reminded = async |at| -> Vec<Uuid> {
        let found = due(&pool, at).await.into_iter();
        found.filter(|(cause, _)| *cause == TaskCause::Remind).map(|(_, run_id)| run_id).collect()
    };
    for number in 0..3 {
        let at = hours(4 * (i64::from(number) + 1));
        assert!(reminded(at - second).await.is_empty(), "reminder {number} came early");
        assert_eq!(reminded(at).await, [one.run_id], "reminder {number}");
        // Of two planners that see it, one counts it.
        let text = NewEntry {
            run_id: one.run_id,
            kind: EntryKind::System,
            author: SYSTEM.to_owned(),
            body: "Again.".to_owned(),
            links: Vec::new(),
            attachment: String::new(),
            at,
        };
        let signing = Signing::default();
        assert!(store::remind_task(&pool, &signing, number, &text).await.unwrap());
        assert!(!store::remind_task(&pool, &signing, number, &text).await.unwrap());
    }
    // The clock of the other one stood still, and runs from when it is let go.
    waits("", hours(100)).await;
    // What says nothing else leaves the clock as it is.
    waits("", hours(103)).await;
    assert!(!reminded(hours(104) - second).await.contains(&held.run_id));
    assert!(reminded(hours(104)).await.contains(&held.run_id));
    let found = store::find_task(&pool, one.run_id).await.unwrap().unwrap();
    let handed = "Again.\n\nAgain.\n\nAgain.\n\nAct.";
    assert_eq!((found.reminders, found.instructions.as_str()), (3, handed));
    let shown = store::reminded_instructions(&pool, one.run_id).await.unwrap();
    assert_eq!(shown.as_deref(), Some(handed));
    assert_eq!(store::reminded_instructions(&pool, held.run_id).await.unwrap(), None);
    assert_eq!(store::list_entries(&pool, one.run_id, 0, 10).await.unwrap().len(), 3);
}

#[sqlx::test(migrations = "./migrations")]
async fn tasks_without_an_agent_are_looked_at_in_turn_and_have_no_clock(pool: PgPool) {
    let without = |number| NewTask { assignee: String::new(), ..task("toolchain", number, now()) };
    for number in 1..=3 {
        started(&pool, &without(number)).await;
    }
    let due = async |at: DateTime<Utc>, cause: TaskCause| -> Vec<Uuid> {
        let found = store::due_tasks(&pool, at, 2).await.unwrap().into_iter();
        found.filter(|due| due.cause == cause).map(|due| due.run_id).collect()
    };
    let ids = [1, 2, 3].map(|number| id(number, now()));
    assert!(due(later(60), TaskCause::Assign).await.is_empty(), "no agent is registered");
    let agent = Agent {
        id: "lead".to_owned(),
        accounts: Vec::new(),
        roles: vec![Role::Coordinator],
        language: Language::En,
        concurrency: 1,
        credential: String::new(),
        driver: AgentDriver::Remote,
    };
    store::put_agent(&pool, &agent, "test", later(10)).await.unwrap();
    assert_eq!(due(later(11), TaskCause::Assign).await, ids[..2]);
    let look = async |ids: &[Uuid], at: DateTime<Utc>| {
        for run_id in ids {
            store::try_assign(&pool, *run_id, at).await.unwrap();
        }
    };
    look(&ids[..2], later(12)).await;
    let again = [ids[2], ids[0]];
    assert_eq!(due(later(13), TaskCause::Assign).await, again, "the agent may not have been seen");
    look(&ids[..2], later(16)).await;
    assert_eq!(due(later(17), TaskCause::Assign).await, ids[2..], "the others hold it back");
    look(&ids[2..], later(17)).await;
    assert!(due(later(18), TaskCause::Assign).await.is_empty());
    // A registration makes all of them due, and so does a minute.
    store::put_agent(&pool, &agent, "test", later(20)).await.unwrap();
    assert_eq!(due(later(21), TaskCause::Assign).await, ids[..2]);
    look(&ids, later(26)).await;
    assert!(due(later(85), TaskCause::Assign).await.is_empty());
    assert_eq!(due(later(86), TaskCause::Assign).await, ids[..2]);
    // No reminder is due, as long as no agent has it.
    assert!(due(now() + TimeDelta::days(9), TaskCause::Remind).await.is_empty());
}

#[sqlx::test(migrations = "./migrations")]
async fn an_escalation_is_taken_by_one_planner_and_ends_once(pool: PgPool) {
    let failed = task("toolchain", 1, now());
    started(&pool, &failed).await;
    run_ended(&pool, failed.run_id, later(1)).await;
    let wanted = NewEscalation {
        action: EscalationAction::Comment,
        forge: "gitea".to_owned(),
        subject: failed.subject.clone(),
        account: "dev".to_owned(),
        title: String::new(),
        body: "It was not done.".to_owned(),
    };
    let end = EndedTask {
        outcome: TaskOutcome::Failed,
        failure: Some((TaskFailure::NoAction, FailureClass::Business)),
        escalations: vec![wanted],
        ..ended(failed.run_id, later(2))
    };
    assert!(store::end_task(&pool, &Signing::default(), &end).await.unwrap());
    let take = async |at: i64| {
        let lease = (later(at), later(at + 120));
        store::take_escalations(&pool, failed.run_id, lease).await.unwrap()
    };
    let (one, other) = tokio::join!(take(3), take(3));
    assert_eq!(one.len() + other.len(), 1, "two planners took it");
    // The planner that took it ends: after its time another one has it, as the second attempt.
    assert!(take(122).await.is_empty());
    let again = take(123).await;
    assert_eq!(again.iter().map(|taken| taken.attempts).collect::<Vec<_>>(), [2]);
    let entry = NewEntry {
        run_id: failed.run_id,
        kind: EntryKind::System,
        author: "system".to_owned(),
        body: "The comment was written.".to_owned(),
        links: Vec::new(),
        attachment: String::new(),
        at: later(124),
    };
    let done = EscalationEnd::Done { address: "https://forge.example/1".to_owned(), entry };
    let end = async |at: i64| {
        let (signing, ended) = (Signing::default(), (&again[0], &done));
        store::end_escalation(&pool, &signing, ended, later(at)).await.unwrap()
    };
    assert!(end(124).await);
    assert!(!end(125).await);
    assert!(take(1000).await.is_empty());
    // Its history says it once.
    let entries = store::list_entries(&pool, failed.run_id, 0, 10).await.unwrap();
    assert_eq!(entries.len(), 1, "{entries:#?}");
}

async fn journals(pool: &PgPool) -> Vec<Uuid> {
    let statement = "select distinct run_id from journal order by 1";
    sqlx::query_scalar(statement).fetch_all(pool).await.unwrap()
}

async fn tasks(pool: &PgPool) -> Vec<Uuid> {
    sqlx::query_scalar("select run_id from task order by 1").fetch_all(pool).await.unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_task_type_is_kept_for_its_own_time_and_its_journals_go_with_it(pool: PgPool) {
    let day = |days: i64| now() + TimeDelta::days(days);
    let (old, open, young) =
        (task("mail", 1, day(0)), task("mail", 2, day(0)), task("mail", 3, day(20)));
    let other = task("toolchain", 4, day(0));
    for one in [&old, &open, &young, &other] {
        started(&pool, one).await;
    }
    for one in [&old, &young, &other] {
        let at = one.created_at + TimeDelta::days(1);
        run_ended(&pool, one.run_id, at).await;
        assert!(store::end_task(&pool, &Signing::default(), &ended(one.run_id, at)).await.unwrap());
    }
    let run = make_from(&pool, RunSpec { created_at: day(0), ..spec(id(5, day(0)).as_u128()) }, 1);
    let run = run.await.run_id;
    run_ended(&pool, run, day(1)).await;

    let forgotten = store::forget_tasks(&pool, "_mail", day(10), (Uuid::nil(), 10)).await.unwrap();
    assert_eq!(forgotten.map(|forgotten| forgotten.runs), Some(1));
    let next = store::forget_tasks(&pool, "_mail", day(10), (old.run_id, 10)).await.unwrap();
    assert!(next.is_none_or(|forgotten| forgotten.runs == 0), "{next:?}");
    assert_eq!(tasks(&pool).await, [open.run_id, other.run_id, young.run_id]);
    assert_eq!(journals(&pool).await, [open.run_id, other.run_id, run, young.run_id]);

    // Runs expire without those of the namespaces that have a time of their own.
    let kept = ["_mail", "_toolchain"];
    let place = (Uuid::nil(), 10);
    let forgotten = store::forget_runs(&pool, day(400), &kept, place).await.unwrap();
    assert_eq!(forgotten.map(|forgotten| (forgotten.runs, forgotten.last)), Some((1, run)));
    assert_eq!(tasks(&pool).await, [open.run_id, other.run_id, young.run_id]);
    let forgotten = store::forget_runs(&pool, day(400), &["_mail"], place).await.unwrap();
    assert_eq!(forgotten.map(|forgotten| forgotten.last), Some(other.run_id));
    assert_eq!(tasks(&pool).await, [open.run_id, young.run_id]);
}

/// A planner reads nothing of the table's size yet when it prepares the statement.
#[sqlx::test(migrations = "./migrations")]
async fn the_task_of_an_event_is_found_by_its_key(pool: PgPool) {
    let statement = include_str!("../../src/store/sql/task_of_event.sql");
    let parameters = [("text", "'_toolchain'"), ("text", "'key'")];
    let plan = plan_of(&pool, statement, &parameters).await;
    assert!(plan.contains("task_event_once"), "{plan}");
    assert!(plan.contains("Index Cond: (event_key = "), "{plan}");
}
