//! Lists of runs and of their waits.

use crate::plans::{carried_out, plan_for_values, read_in_vain};
use crate::support::{applied, change, graph, later, make, make_from, now, spec, wait};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::collections::BTreeMap;
use surety_common::domain::execution::Execution;
use surety_common::domain::machine::run::{Phase, RunState};
use surety_common::domain::run::RunSpec;
use surety_common::domain::stop::StopReason;
use surety_common::store::{self, Cause, RunFilter, WaitFilter};
use uuid::Uuid;

fn page_of(namespace: &str, run_id: Option<Uuid>, after: Option<Uuid>, limit: i64) -> WaitFilter {
    let namespace = namespace.to_owned();
    WaitFilter { namespace, run_id, after, limit, ..WaitFilter::default() }
}

fn filter() -> RunFilter {
    RunFilter { limit: 100, ..RunFilter::default() }
}

async fn listed(pool: &PgPool, filter: &RunFilter) -> Vec<u128> {
    let page = store::list_runs(pool, filter).await.unwrap();
    page.runs.iter().map(|record| record.spec.id.as_u128()).collect()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Both steps of a run ask, the first with `first`, the second with the number after it.
async fn asking(pool: &PgPool, id: u128, first: u128) -> Execution {
    let row = make(pool, id, 2).await;
    let asked = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(2), 2)?;
        draft.pause_step(&graph(2), 0, wait(first))?;
        draft.pause_step(&graph(2), 1, wait(first + 1))
    });
    applied(pool, asked).await
}

#[sqlx::test(migrations = "./migrations")]
async fn pages_go_from_the_newest_to_the_oldest_and_name_the_next(pool: PgPool) {
    for id in 1..=5 {
        make(&pool, id, 1).await;
    }
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let filter = RunFilter { before, limit: 2, ..filter() };
        let page = store::list_runs(&pool, &filter).await.unwrap();
        pages.push(page.runs.iter().map(|run| run.spec.id.as_u128()).collect::<Vec<_>>());
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![5, 4], vec![3, 2], vec![1]]);
    assert_eq!(listed(&pool, &RunFilter { limit: i64::MAX, ..filter() }).await.len(), 5);
}

#[sqlx::test(migrations = "./migrations")]
async fn pages_of_large_runs_have_fewer_and_show_them_all(pool: PgPool) {
    for id in 1..=6 {
        asking(&pool, id, 10 * id).await;
    }
    let large = "update run set goal = repeat('goal ', $2) where id = any($1)";
    for (ids, words) in [(2..=4, 260_000), (5..=5, 700_000)] {
        let ids: Vec<Uuid> = ids.map(Uuid::from_u128).collect();
        sqlx::query(large).bind(ids).bind(words).execute(&pool).await.unwrap();
    }
    let (mut newest, mut before) = (Vec::new(), None);
    let (mut oldest, mut after) = (Vec::new(), None);
    loop {
        let filter = RunFilter { before, ..filter() };
        let page = store::list_runs(&pool, &filter).await.unwrap();
        newest.push(page.runs.iter().map(|run| run.spec.id.as_u128()).collect::<Vec<_>>());
        before = page.next;
        let page = store::list_waits(&pool, &page_of("", None, after, 100)).await.unwrap();
        oldest.push(page.waiting.iter().map(|one| one.run.spec.id.as_u128()).collect::<Vec<_>>());
        after = page.next;
        assert_eq!(before.is_none(), after.is_none());
        if before.is_none() {
            break;
        }
    }
    assert_eq!(newest, [vec![6, 5], vec![4, 3], vec![2, 1]]);
    assert_eq!(oldest, [vec![1, 2, 3], vec![4, 5], vec![6]]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_row_that_does_not_read_is_left_out_of_its_page_and_ends_no_list(pool: PgPool) {
    for id in 1..=4 {
        asking(&pool, id, 10 * id).await;
    }
    // In the middle of the one list, and at the end of the first page of either.
    for spoilt in [2, 3] {
        let spoil = "update execution set progress = '{\"rounds\": \"many\"}' where run_id = $1";
        sqlx::query(spoil).bind(Uuid::from_u128(spoilt)).execute(&pool).await.unwrap();
    }
    let ids = |page: &store::RunPage| {
        let runs = page.runs.iter().map(|run| run.spec.id.as_u128());
        (runs.collect::<Vec<_>>(), page.next.map(|id| id.as_u128()))
    };
    let newest = |before| RunFilter { before, limit: 2, ..filter() };
    let first = store::list_runs(&pool, &newest(None)).await.unwrap();
    assert_eq!(ids(&first), (vec![4], Some(3)));
    let second = store::list_runs(&pool, &newest(first.next)).await.unwrap();
    assert_eq!(ids(&second), (vec![1], None));
    let unreadable = [first.unreadable, second.unreadable]
        .map(|all| all.iter().map(|id| id.as_u128()).collect::<Vec<_>>());
    assert_eq!(unreadable, [[3], [2]]);
    let waiting = |page: &store::WaitPage| {
        let runs = page.waiting.iter().map(|waiting| waiting.run.spec.id.as_u128());
        (runs.collect::<Vec<_>>(), page.next.map(|id| id.as_u128()))
    };
    let waits = store::list_waits(&pool, &page_of("", None, None, 2)).await.unwrap();
    assert_eq!(waiting(&waits), (vec![1], Some(2)));
    let waits = store::list_waits(&pool, &page_of("", None, waits.next, 2)).await.unwrap();
    assert_eq!(waiting(&waits), (vec![4], None));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_page_that_ends_with_the_last_run_has_no_next(pool: PgPool) {
    make(&pool, 1, 1).await;
    make(&pool, 2, 1).await;
    let page = store::list_runs(&pool, &RunFilter { limit: 2, ..filter() }).await.unwrap();
    assert_eq!((page.runs.len(), page.next), (2, None));
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_are_found_by_namespace_state_and_labels(pool: PgPool) {
    let other = RunSpec { namespace: "other".to_owned(), ..spec(1) };
    make_from(&pool, other, 1).await;
    let labelled = RunSpec { labels: labels(&[("a", "1"), ("b", "2 \"quoted\"")]), ..spec(2) };
    make_from(&pool, labelled, 1).await;
    let labelled = RunSpec { labels: labels(&[("a", "1")]), ..spec(3) };
    let row = make_from(&pool, labelled, 1).await;
    applied(&pool, change(&row, |draft| draft.cancel(&graph(1), "no".to_owned()))).await;
    asking(&pool, 4, 50).await;

    let state = |states: &[RunState]| RunFilter { states: states.to_vec(), ..filter() };
    let blocked_elsewhere = RunState::Blocked(Phase::Planning);
    for (filter, expected) in [
        (filter(), vec![4, 3, 2, 1]),
        (RunFilter { namespace: "other".to_owned(), ..filter() }, vec![1]),
        (RunFilter { namespace: "none".to_owned(), ..filter() }, vec![]),
        (state(&[RunState::Cancelled]), vec![3]),
        (state(&[RunState::Cancelled, RunState::Executing]), vec![3, 2, 1]),
        (state(&[blocked_elsewhere]), vec![4]),
        (state(&[RunState::Done]), vec![]),
        (RunFilter { labels: labels(&[("a", "1")]), ..filter() }, vec![3, 2]),
        (RunFilter { labels: labels(&[("a", "1"), ("b", "2 \"quoted\"")]), ..filter() }, vec![2]),
        (RunFilter { labels: labels(&[("a", "2")]), ..filter() }, vec![]),
        (RunFilter { labels: labels(&[("a", "1")]), ..state(&[RunState::Executing]) }, vec![2]),
    ] {
        assert_eq!(listed(&pool, &filter).await, expected, "{filter:?}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn each_of_two_questions_of_a_run_finds_it_until_it_is_answered(pool: PgPool) {
    let row = asking(&pool, 1, 50).await;
    assert_eq!(row.waits().map(|wait| wait.id.as_u128()).collect::<Vec<_>>(), [50, 51]);
    let found = |id| store::find_wait(&pool, Uuid::from_u128(id));
    for id in [50, 51] {
        assert_eq!(found(id).await.unwrap(), Some(row.run_id));
    }
    assert_eq!(found(52).await.unwrap(), None);

    let row = applied(&pool, change(&row, |draft| draft.resume_step(&graph(2), 0, "yes"))).await;
    assert_eq!(found(50).await.unwrap(), None);
    assert_eq!(found(51).await.unwrap(), Some(row.run_id));

    let end = change(&row, |draft| draft.cancel(&graph(2), "no".to_owned()));
    applied(&pool, end).await;
    assert_eq!(found(51).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_that_wait_are_listed_the_oldest_first_and_by_pages(pool: PgPool) {
    make(&pool, 1, 1).await;
    for (id, first) in [(3, 30), (2, 20), (4, 40)] {
        asking(&pool, id, first).await;
    }
    let list = async |namespace: &str, run: Option<u128>, after: Option<u128>, limit| {
        let (run, after) = (run.map(Uuid::from_u128), after.map(Uuid::from_u128));
        let page = store::list_waits(&pool, &page_of(namespace, run, after, limit)).await.unwrap();
        let ids = page.waiting.iter().map(|store::Waiting { run, step_ids, .. }| {
            assert!(run.plan.is_none() && run.execution.wait.is_some());
            let named: Vec<_> = step_ids.iter().map(|(place, id)| (*place, id.as_str())).collect();
            assert_eq!(named, [(0, "s0"), (1, "s1")]);
            run.spec.id.as_u128()
        });
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list("", None, None, 9).await, [2, 3, 4]);
    assert_eq!(list("test", None, None, 2).await, [2, 3]);
    assert_eq!(list("test", None, Some(3), 2).await, [4]);
    assert_eq!(list("other", None, None, 9).await, [0; 0]);
    assert_eq!(list("", Some(3), None, 9).await, [3]);
    assert_eq!(list("", Some(1), None, 9).await, [0; 0]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_pause_and_what_is_waited_for_behind_it_are_found_by_their_ids(pool: PgPool) {
    let row = asking(&pool, 1, 50).await;
    let pause = change(&row, |draft| draft.pause(&graph(2), wait(60), "enough"));
    let expected = pause.execution.clone();
    let row = applied(&pool, pause).await;
    assert_eq!(row, *expected, "the row gives back what was written");
    for id in [50, 60] {
        let found = store::find_wait(&pool, Uuid::from_u128(id)).await.unwrap();
        assert_eq!(found, Some(row.run_id));
    }
    let resumed = applied(&pool, change(&row, |draft| draft.resume(&graph(2), "on"))).await;
    assert_eq!((resumed.paused, resumed.state), (None, RunState::Blocked(Phase::Executing)));
    assert_eq!(store::find_wait(&pool, Uuid::from_u128(60)).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_are_overdue_from_their_deadline_until_they_end(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    asking(&pool, 2, 50).await;
    let deadline = row.deadline_at.unwrap();
    let overdue = async |at, limit| {
        of_cause(Cause::Deadline, &store::due(&pool, at, limit, &[]).await.unwrap())
    };
    assert!(overdue(now(), 9).await.is_empty());
    assert_eq!(overdue(deadline, 9).await.len(), 2, "a blocked run is overdue too");
    assert_eq!(overdue(later(9999), 1).await.len(), 1);
    applied(&pool, change(&row, |draft| draft.cancel(&graph(1), "no".to_owned()))).await;
    assert_eq!(overdue(later(9999), 9).await, [Uuid::from_u128(2)]);
}

fn of_cause(wanted: Cause, due: &[(Cause, Uuid)]) -> Vec<Uuid> {
    due.iter().filter(|(cause, _)| *cause == wanted).map(|(_, run_id)| *run_id).collect()
}

/// How a service reads a list by this filter, where each value of a filter is rare.
async fn plan_of_list(pool: &PgPool, filter: &RunFilter) -> String {
    let texts = |texts: &[&str]| format!("'{{{}}}'", texts.join(","));
    let id = |id: Option<Uuid>| id.map_or("null".to_owned(), |id| format!("'{id}'"));
    let time = |at: Option<DateTime<Utc>>| at.map_or("null".to_owned(), |at| format!("'{at}'"));
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let values = [
        ("text", format!("'{}'", filter.namespace)),
        ("text[]", texts(&states)),
        ("uuid", id(filter.before)),
        ("bigint", filter.limit.to_string()),
        ("jsonb", format!("'{}'", serde_json::to_string(&filter.labels).unwrap())),
        ("bigint", store::LIST_BYTES.to_string()),
        ("text[]", "'{}'".to_owned()),
        ("text[]", texts(&filter.selected_reasons())),
        ("timestamptz", time(filter.created_from)),
        ("timestamptz", time(filter.created_before)),
        ("boolean", filter.selects_unended_runs().to_string()),
        ("uuid", id(filter.first_id())),
        ("uuid", id(filter.behind_id())),
    ];
    let parameters: Vec<_> = values.iter().map(|(of, value)| (*of, value.as_str())).collect();
    plan_for_values(pool, include_str!("../../src/store/sql/list.sql"), &parameters).await
}

/// Twenty thousand runs that ended well a day ago, and a few of every other kind.
const MANY: &str = "
    with born as (
        select n, $1::timestamptz - make_interval(secs => (20000 - n) * 60) as at
        from generate_series(1, 20000) as n
    ), made as (
        insert into run (id, namespace, request_id, request_digest, goal, driver, workspace, limits,
                         policy, labels, trace_parent, created_at)
        select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000'
                || lpad(to_hex(n), 12, '0'))::uuid,
               case when n % 1000 = 1 then 'rare' else 'common' end, '', '', '', 'script', '', '{}',
               '{}', case when n % 1000 = 2 then '{\"team\":\"a\"}'::jsonb else '{}'::jsonb end, '',
               at
        from born
        returning id, namespace
    ), given as (
        insert into verdict (run_id, sequence, plan_revision, accepted, decided_at)
        select id, 1, 1, true, $1 from made
    )
    insert into execution (run_id, namespace, state, blocked_from, version, sequence, priority,
                           lease_epoch, plan_revision, step_states, progress, wait, wait_ids,
                           terminal, updated_at)
    select id, namespace, case when place % 1000 = 3 then 'FAILED' else 'DONE' end, null, 1, 1, 0, 0,
           1, '', '{}', null, null,
           json_build_object('stop_reason',
                             case when place % 1000 = 3 then 'aborted' else 'accepted' end,
                             'stage', 'executing', 'user_message', '', 'internal_reason', ''),
           $1
    from (select *, row_number() over (order by id) as place from made) as numbered";

#[sqlx::test(migrations = "./migrations")]
async fn each_filter_of_a_list_has_its_index(pool: PgPool) {
    sqlx::query(MANY).bind(now()).execute(&pool).await.unwrap();
    sqlx::query("vacuum analyze run, execution").execute(&pool).await.unwrap();
    let hour = chrono::TimeDelta::hours(1);
    for (filter, index, expected) in [
        (RunFilter { namespace: "rare".to_owned(), ..filter() }, "run_newest", 20),
        (RunFilter { states: vec![RunState::Failed], ..filter() }, "execution_by_stop_reason", 20),
        (RunFilter { states: vec![RunState::Planning], ..filter() }, "execution_deadline", 0),
        (
            RunFilter { stop_reasons: vec![StopReason::Aborted], ..filter() },
            "execution_by_stop_reason",
            20,
        ),
        (RunFilter { labels: labels(&[("team", "a")]), ..filter() }, "run_by_label", 20),
        (
            RunFilter {
                created_from: Some(now() - hour * 100),
                created_before: Some(now() - hour * 99),
                ..filter()
            },
            "run_pkey",
            60,
        ),
    ] {
        let found = listed(&pool, &RunFilter { limit: 1000, ..filter.clone() }).await;
        assert_eq!(found.len(), expected, "{filter:?}");
        let plan = plan_of_list(&pool, &filter).await;
        assert!(plan.contains(index), "not by {index}: {filter:?}\n{plan}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn waits_are_listed_without_the_runs_that_do_not_wait(pool: PgPool) {
    sqlx::query(MANY).bind(now()).execute(&pool).await.unwrap();
    // The last of them wait, and the statistics are of a time when none did.
    sqlx::query("vacuum analyze run, execution, wait").execute(&pool).await.unwrap();
    let waiting = "
        insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld)
        select gen_random_uuid(), run_id, 'question', 'common', 0, $1, false
        from (select run_id from execution order by run_id desc limit 30) as last
        cross join generate_series(1, 2)";
    sqlx::query(waiting).bind(now()).execute(&pool).await.unwrap();
    let last = "select run_id from wait order by run_id desc limit 1";
    let last: Uuid = sqlx::query_scalar(last).fetch_one(&pool).await.unwrap();
    let last = format!("'{last}'");
    for (run_id, after, found) in [("null", "null", 9), (&last, "null", 1), ("null", &last, 0)] {
        let parameters = [
            ("text", "''"),
            ("uuid", run_id),
            ("uuid", after),
            ("bigint", "9"),
            ("bigint", "2097152"),
            ("text[]", "'{}'"),
        ];
        let statement = include_str!("../../src/store/sql/list_waits.sql");
        let plan = carried_out(&pool, statement, &parameters).await;
        let read = |line: &&str| {
            let (_, rows) = line.split_once("(actual rows=").unwrap_or_default();
            let rows = rows.split(' ').next().unwrap_or_default();
            rows.parse::<f64>().is_ok_and(|rows| rows > 2.0 * f64::from(found))
        };
        assert_eq!(plan.lines().find(read), None, "{plan}");
        assert!(read_in_vain(&plan) == 0, "{plan}");
    }
}
