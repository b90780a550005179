//! Locks of workspaces: which folders exclude each other, which runs are unblocked, and what a search reads.

use crate::plans::{carried_out, read_in_vain};
use crate::support::{applied, change, graph, later, make};
use sqlx::PgPool;
use std::path::Path;
use surety_common::domain::execution::{Execution, Wait};
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{self, HostPath};
use uuid::Uuid;

fn folder(path: &str) -> HostPath {
    HostPath::new("host", Path::new(path))
}

/// Locks a folder. Answers the number of the run that is in the way.
async fn lock(pool: &PgPool, id: u128, path: &str) -> Option<u128> {
    let folder = folder(path);
    let seconds = i64::try_from(id).unwrap_or_default();
    let locked = store::lock_workspace(pool, Uuid::from_u128(id), &folder, later(seconds)).await;
    locked.unwrap().map(|holder| holder.run_id.as_u128())
}

async fn end(pool: &PgPool, row: &Execution) {
    applied(pool, change(row, |draft| draft.cancel(&graph(1), "no".to_owned()))).await;
}

/// A run that asks for a folder, which another one holds.
async fn blocked(pool: &PgPool, id: u128, path: &str) -> Execution {
    let row = make(pool, id, 1).await;
    assert!(lock(pool, id, path).await.is_some(), "{path} is held");
    let wait =
        Wait::new(Uuid::from_u128(1000 + id), WaitingOn::Workspace, later(1), path.to_owned());
    applied(pool, change(&row, |draft| draft.block(&graph(1), wait))).await
}

async fn unblocked(pool: &PgPool, limit: i64, except: &[u128]) -> Vec<u128> {
    let except: Vec<Uuid> = except.iter().map(|id| Uuid::from_u128(*id)).collect();
    let found = store::unblocked_runs(pool, limit, &except).await.unwrap();
    found.iter().map(Uuid::as_u128).collect()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_folder_excludes_those_above_and_below_it_and_no_other(pool: PgPool) {
    for id in 1..=9 {
        make(&pool, id, 1).await;
    }
    assert_eq!(lock(&pool, 1, "/srv/team/a").await, None);
    assert_eq!(lock(&pool, 1, "/srv/team/a").await, None, "it holds it");
    for (id, path, holder) in [
        (2, "/srv/team/a", Some(1)),
        (3, "/srv/team/a/b/c", Some(1)),
        (4, "/srv", Some(1)),
        (5, "/srv/team/a-2", None),
        (6, "/srv/team/a0", None),
        (7, "/srv/team/A", None),
        (8, "/srv/tea", None),
    ] {
        let found = store::workspace_holder(&pool, &folder(path)).await.unwrap();
        assert_eq!(found.map(|holder| holder.run_id.as_u128()), holder, "{path}");
        assert_eq!(lock(&pool, id, path).await, holder, "{path}");
    }
    let elsewhere = HostPath::new("other", Path::new("/srv/team/a"));
    let locked = store::lock_workspace(&pool, Uuid::from_u128(9), &elsewhere, later(0)).await;
    assert_eq!(locked.unwrap(), None, "a folder of another host");
}

#[sqlx::test(migrations = "./migrations")]
async fn runs_are_unblocked_once_the_holder_of_their_folder_has_ended(pool: PgPool) {
    let holder = make(&pool, 1, 1).await;
    assert_eq!(lock(&pool, 1, "/srv/team/a").await, None);
    let other = make(&pool, 2, 1).await;
    assert_eq!(lock(&pool, 2, "/srv/team/b/c").await, None);
    for (id, path) in [
        (11, "/srv/team/a"),
        (12, "/srv/team/a"),
        (13, "/srv/team/a/x/y"),
        (14, "/srv/team"),
        (15, "/srv/team/b"),
    ] {
        blocked(&pool, id, path).await;
    }
    let given_up = blocked(&pool, 16, "/srv/team/a").await;
    end(&pool, &given_up).await;
    assert!(unblocked(&pool, 9, &[]).await.is_empty());
    end(&pool, &holder).await;
    assert_eq!(unblocked(&pool, 9, &[]).await, [11, 12, 13], "b keeps those above it");
    assert_eq!(unblocked(&pool, 2, &[11]).await, [12, 13]);
    assert_eq!(unblocked(&pool, 1, &[]).await, [11], "the one that has waited longest");
    end(&pool, &other).await;
    assert_eq!(unblocked(&pool, 9, &[]).await, [11, 12, 13, 14, 15]);

    let deleted = store::delete_ended_locks(&pool, Uuid::nil()).await.unwrap();
    assert_eq!((deleted.last, deleted.locks), (Uuid::nil(), 3));
    let left = "select run_id from workspace_lock order by run_id";
    let left: Vec<Uuid> = sqlx::query_scalar(left).fetch_all(&pool).await.unwrap();
    assert_eq!(left, [11, 12, 13, 14, 15].map(Uuid::from_u128));
    assert_eq!(lock(&pool, 11, "/srv/team/a").await, None);
    assert_eq!(lock(&pool, 12, "/srv/team/a").await, Some(11));
}

/// Twenty thousand runs that hold a folder each, and as many that have ended with theirs.
const MANY: &str = "
    with made as (
        insert into execution (run_id, namespace, state, version, sequence, priority, lease_epoch,
                               plan_revision, step_states, progress, terminal, deadline_at, updated_at)
        select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'test',
               case when n % 2 = 0 then 'CANCELLED' else 'EXECUTING' end, 1, 1, 0, 0, 1, '', '{}',
               case when n % 2 = 0 then '{}'::json end,
               case when n % 2 = 1 then $1 + interval '1 day' end, $1
        from generate_series(1, 40000) as n
        returning run_id, right(run_id::text, 12)::bigint as n
    )
    insert into workspace_lock (run_id, host, path, held, since)
    select run_id, 'host', '/srv/team/' || n / 2 % 100 || '/project-' || n, true, $1 from made";

/// The most rows that a line of a plan read, all of its loops together.
fn most_read(plan: &str) -> f64 {
    let rows = plan.lines().filter_map(|line| {
        let (_, read) = line.split_once("(actual rows=")?;
        let (rows, loops) = read.trim_end_matches(')').split_once(" loops=")?;
        Some(rows.parse::<f64>().ok()? * loops.parse::<f64>().ok()?)
    });
    rows.fold(0.0, f64::max)
}

#[sqlx::test(migrations = "./migrations")]
async fn no_search_reads_all_locks_of_a_host(pool: PgPool) {
    sqlx::query(MANY).bind(later(0)).execute(&pool).await.unwrap();
    // The statistics are of a time with a few waiting runs.
    for id in 1..=20_u128 {
        let held = 100 * id + 1;
        blocked(&pool, id << 80, &format!("/srv/team/{}/project-{held}/x", held / 2 % 100)).await;
    }
    sqlx::query("vacuum analyze workspace_lock, execution").execute(&pool).await.unwrap();
    let (nothing, at) = ("'{}'", format!("'{}'", later(0)));
    let above = "'{/srv,/srv/team,/srv/team/7,/srv/team/7/new}'";
    let (host, path, below) = ("'host'", "'/srv/team/7/new'", "'/srv/team/7/new/'");
    let taken = [
        ("uuid", "'00000000-0000-7000-9000-000000000001'"),
        ("text", host),
        ("text", path),
        ("timestamptz", &at),
        ("text[]", above),
        ("text", below),
    ];
    let free = [("bigint", "200"), ("uuid[]", nothing)];
    let holder = [("text", host), ("text[]", above), ("text", below)];
    // Above all of them: the first below is enough.
    let top = [("text", host), ("text[]", "'{/srv}'"), ("text", "'/srv/'")];
    for (statement, parameters) in [
        (include_str!("../../src/store/sql/lock_workspace.sql"), taken.as_slice()),
        (include_str!("../../src/store/sql/free_workspaces.sql"), &free),
        (include_str!("../../src/store/sql/workspace_holder.sql"), &holder),
        (include_str!("../../src/store/sql/workspace_holder.sql"), &top),
    ] {
        let plan = carried_out(&pool, statement, parameters).await;
        assert!(most_read(&plan) <= 100.0, "{plan}");
        assert!(read_in_vain(&plan) <= 20, "{plan}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn locks_of_ended_runs_are_deleted_part_by_part(pool: PgPool) {
    sqlx::query(MANY).bind(later(0)).execute(&pool).await.unwrap();
    let count = "select count(*) from workspace_lock where run_id >= $1";
    let newest = "select run_id from workspace_lock order by run_id desc limit 1 offset 499";
    let newest: Uuid = sqlx::query_scalar(newest).fetch_one(&pool).await.unwrap();
    let first = store::delete_ended_locks(&pool, Uuid::nil()).await.unwrap();
    assert!(first.are_many() && first.locks == 500, "half of a thousand: {first:?}");
    let left: i64 = sqlx::query_scalar(count).bind(newest).fetch_one(&pool).await.unwrap();
    assert_eq!(left, 250, "the newest are searched each time");
    let (mut last, mut searches) = (first.last, 1);
    while !last.is_nil() {
        last = store::delete_ended_locks(&pool, last).await.unwrap().last;
        searches += 1;
    }
    assert!(searches <= 81, "{searches}");
    let left: i64 = sqlx::query_scalar(count).bind(Uuid::nil()).fetch_one(&pool).await.unwrap();
    assert_eq!(left, 20_000);
    let none = store::delete_ended_locks(&pool, Uuid::nil()).await.unwrap();
    assert!(!none.are_many() && none.locks == 0, "{none:?}");
}
