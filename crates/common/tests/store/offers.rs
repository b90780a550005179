//! Which participant is offered which wait: by namespaces, labels, priority and age.

use crate::plans::{carried_out, plan_for_values, read_in_vain};
use crate::support::{
    applied, change, dedicated, find, graph, later, make_from, remark, remarks, spec,
};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use sqlx::types::Json;
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::clock::PRIMARY_SHARD;
use surety_common::domain::execution::Wait;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::wait_rows::WaitKind;
use surety_common::domain::run::RunSpec;
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{
    self, AnsweredChange, HeldLease, Kept, Listener, Offers, Scope, WaitLease, Wakeups,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Labels = BTreeMap<String, String>;

fn labels(of: &[(&str, &str)]) -> Labels {
    of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// A run of one step that waits for its driver since a second. Its wait has the same number.
async fn waiting(pool: &PgPool, id: u128, namespace: &str, labels: Labels, since_s: i64) {
    let (namespace, created_at) = (namespace.to_owned(), later(since_s));
    let row = make_from(pool, RunSpec { namespace, labels, created_at, ..spec(id) }, 1).await;
    let begun = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(1), 1).map(drop)
    });
    let row = applied(pool, begun).await;
    let at = later(since_s);
    let wait = Wait::new(Uuid::from_u128(id), WaitingOn::Driver, at, "a decision".to_owned());
    let mut draft = Draft::new(row, crate::support::actor(), at);
    draft.await_reply(&graph(1), 0, wait).unwrap();
    applied(pool, draft.into_write()).await;
}

async fn urgent(pool: &PgPool, id: u128, namespace: &str, priority: i16, since_s: i64) {
    let labels = labels(&[("priority", &priority.to_string())]);
    waiting(pool, id, namespace, labels, since_s).await;
}

/// The offers of a process, and what ends them.
struct Served {
    offers: Offers,
    ended: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Served {
    fn start(pool: &PgPool) -> Self {
        Self::of(pool, Offers::of(WaitKind::Decision, pool.clone(), PRIMARY_SHARD))
    }

    fn of(pool: &PgPool, offers: Offers) -> Self {
        let ended = CancellationToken::new();
        let wakeups = Wakeups::start(pool.clone(), Listener::Worker);
        tokio::spawn(offers.clone().run(wakeups, ended.clone()));
        Self { offers, ended }
    }

    /// The number of the wait that a participant with this scope is given.
    async fn next(&self, scope: Scope) -> u128 {
        let holder = ("agent".to_owned(), "one".to_owned());
        let next = self.offers.next(scope, holder, 60_000);
        let leased: Option<WaitLease> = timeout(Duration::from_secs(60), next).await.unwrap();
        leased.unwrap().wait_id.as_u128()
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn waits_are_offered_by_turns_between_namespaces_then_by_priority_then_by_age(pool: PgPool) {
    for (id, namespace, priority, since) in [
        (1, "a", 0, 10),
        (2, "a", 5, 30),
        (3, "a", 0, 5),
        (4, "a", 5, 20),
        (5, "b", 0, 40),
        (6, "b", -1, 0),
        (7, "c", 9, 50),
    ] {
        urgent(&pool, id, namespace, priority, since).await;
    }
    let served = Served::start(&pool);
    let mut order = Vec::new();
    for _ in 0..7 {
        order.push(served.next(Scope::default()).await);
    }
    assert_eq!(order, [4, 5, 7, 2, 6, 3, 1]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_participant_of_one_namespace_does_not_hold_another_one_back(pool: PgPool) {
    for id in 1..=6 {
        urgent(&pool, id, "a", 0, 0).await;
        urgent(&pool, 10 + id, "b", 0, 0).await;
    }
    let served = Served::start(&pool);
    let of = |namespace: &str| Scope { namespaces: vec![namespace.to_owned()], ..Scope::default() };
    let mut others = Vec::new();
    for _ in 0..3 {
        assert!(served.next(of("b")).await > 10);
        others.push(served.next(Scope::default()).await);
    }
    assert!(
        others.iter().all(|id| *id < 10),
        "b is served meanwhile, so it is the turn of a: {others:?}"
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn many_participants_at_once_are_served_by_the_same_order(pool: PgPool) {
    for id in 1..=4 {
        urgent(&pool, id, "many", 0, 0).await;
    }
    urgent(&pool, 5, "few", -7, 60).await;
    let served = Served::start(&pool);
    let two = tokio::join!(served.next(Scope::default()), served.next(Scope::default()));
    let mut two = [two.0, two.1];
    two.sort_unstable();
    assert!((1..=4).contains(&two[0]) && two[1] == 5, "each namespace has one: {two:?}");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_participant_that_names_labels_and_namespaces_takes_only_waits_with_all_of_them(
    pool: PgPool,
) {
    let (team, gpu) = (("team", "a"), ("gpu", "yes"));
    for (id, namespace, of) in [
        (1, "x", labels(&[])),
        (2, "x", labels(&[team])),
        (3, "x", labels(&[team, gpu])),
        (4, "y", labels(&[team, gpu])),
        (5, "z", labels(&[team, gpu])),
        (6, "x", labels(&[("team", "b"), gpu])),
    ] {
        waiting(&pool, id, namespace, of, i64::try_from(id).unwrap()).await;
    }
    let served = Served::start(&pool);
    let scope = |of: &[(&str, &str)], namespaces: &[&str]| Scope {
        labels: labels(of),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        ..Scope::default()
    };
    let both = [team, gpu];
    assert_eq!(served.next(scope(&both, &["x", "y"])).await, 3);
    assert_eq!(served.next(scope(&both, &["x", "y"])).await, 4);
    assert_eq!(served.next(scope(&[gpu], &["x", "y"])).await, 6);
    assert_eq!(
        served.next(scope(&[team], &[])).await,
        5,
        "it is the turn of z, which was never served"
    );
    assert_eq!(served.next(scope(&[team], &[])).await, 2);
    assert_eq!(served.next(scope(&[], &["x"])).await, 1, "none without labels is left out");
}

/// As in a rolling update: a service of an earlier version opens a wait, and knows no labels.
#[sqlx::test(migrations = "./migrations")]
async fn a_wait_that_names_no_labels_has_those_of_its_run(pool: PgPool) {
    let row = make_from(&pool, RunSpec { labels: labels(&[("team", "a")]), ..spec(1) }, 1).await;
    let opening = "insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld)
                   values ($1, $1, 'decision', 'test', 0, now(), false)";
    sqlx::query(opening).bind(row.run_id).execute(&pool).await.unwrap();
    let stored: Json<Labels> =
        sqlx::query_scalar("select labels from wait").fetch_one(&pool).await.unwrap();
    assert_eq!(stored.0, labels(&[("team", "a")]));
}

async fn plan_of_offers(pool: &PgPool, wanted: &Labels) -> String {
    let statement = concat!(
        include_str!("../../src/store/sql/offered_waits.sql"),
        include_str!("../../src/store/sql/offered_waits_labels.sql"),
        include_str!("../../src/store/sql/offered_waits_end.sql")
    );
    let labels = format!("'{}'", serde_json::to_string(wanted).unwrap());
    let parameters =
        [("text", "'decision'"), ("text[]", "'{test}'"), ("bigint", "1"), ("jsonb", &labels)];
    plan_for_values(pool, statement, &parameters).await
}

#[sqlx::test(migrations = "./migrations")]
async fn rare_labels_are_found_by_their_index_and_common_ones_by_urgency(pool: PgPool) {
    let many = "insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld, labels)
                select gen_random_uuid(), gen_random_uuid(), 'decision', 'test', 0,
                       $1 + make_interval(secs => n), false,
                       case when n % 5000 = 0 then '{\"team\":\"a\"}'::jsonb else '{\"team\":\"b\"}'::jsonb end
                from generate_series(1, 20000) as n";
    sqlx::query(many).bind(later(0)).execute(&pool).await.unwrap();
    sqlx::query("analyze wait").execute(&pool).await.unwrap();
    let rare = plan_of_offers(&pool, &labels(&[("team", "a")])).await;
    assert!(rare.contains("wait_offered_by_label"), "{rare}");
    let common = plan_of_offers(&pool, &labels(&[("team", "b")])).await;
    assert!(common.contains("Index Scan using wait_offered on wait"), "{common}");
    let namespaces =
        store::offered_namespaces(&mut dedicated(&pool), WaitKind::Decision, later(0)).await;
    assert_eq!(namespaces.unwrap(), ["test"]);
}

/// Twenty thousand open waits of a kind in one namespace, each of a run of its own.
async fn many_waits(pool: &PgPool, kind: &str, offered_at: Option<DateTime<Utc>>) {
    let many = "insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld, labels, offered_at)
                select gen_random_uuid(), gen_random_uuid(), $1, 'test', 0, $2 + make_interval(secs => n),
                       false, '{}', $3
                from generate_series(1, 20000) as n";
    let many = sqlx::query(many).bind(kind).bind(later(0)).bind(offered_at);
    many.execute(pool).await.unwrap();
    sqlx::query("vacuum analyze wait").execute(pool).await.unwrap();
}

#[sqlx::test(migrations = "./migrations")]
async fn the_waits_of_named_runs_are_found_without_the_others(pool: PgPool) {
    many_waits(&pool, "decision", None).await;
    let named = "select array_agg(run_id) from (select run_id from wait limit 3) as named";
    let named: Vec<Uuid> = sqlx::query_scalar(named).fetch_one(&pool).await.unwrap();
    let named = named.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
    let named = format!("'{{{named}}}'");
    let at = format!("'{}'", later(0));
    let parameters =
        [("text", "'decision'"), ("uuid[]", &named), ("text[]", "'{test}'"), ("timestamptz", &at)];
    let statement = include_str!("../../src/store/sql/offered_run_waits.sql");
    let plan = carried_out(&pool, statement, &parameters).await;
    assert!(plan.contains("wait_by_run"), "{plan}");
    assert_eq!(read_in_vain(&plan), 0, "{plan}");
}

#[sqlx::test(migrations = "./migrations")]
async fn waits_that_are_put_off_cost_a_scan_nothing_and_are_offered_once_they_are_due(
    pool: PgPool,
) {
    let far = "2200-01-01T00:00:00Z".parse().unwrap();
    many_waits(&pool, "model_decision", Some(far)).await;
    let first =
        "update wait set offered_at = $1 where id = (select id from wait limit 1) returning id";
    let due: Uuid = sqlx::query_scalar(first).bind(later(10)).fetch_one(&pool).await.unwrap();
    let statement = include_str!("../../src/store/sql/offered_namespaces.sql");
    let at = format!("'{}'", later(10));
    let parameters = [("text", "'model_decision'"), ("timestamptz", &at), ("bigint", "9")];
    let plan = carried_out(&pool, statement, &parameters).await;
    assert_eq!(read_in_vain(&plan), 0, "{plan}");

    let mut own = dedicated(&pool);
    let mut offered =
        async |at| store::offered_namespaces(&mut own, WaitKind::ModelDecision, at).await.unwrap();
    assert!(offered(later(9)).await.is_empty());
    assert_eq!(offered(later(10)).await, ["test"]);
    let offers = Offers::of(WaitKind::ModelDecision, pool.clone(), PRIMARY_SHARD);
    let served = Served::of(&pool, offers);
    assert_eq!(served.next(Scope::default()).await, due.as_u128());
}

/// As for a run that cannot be read, which must not hold up the others.
#[sqlx::test(migrations = "./migrations")]
async fn the_wait_of_an_agent_that_is_given_back_until_a_time_lets_the_others_pass(pool: PgPool) {
    urgent(&pool, 1, "a", 9, 1).await;
    urgent(&pool, 2, "a", 0, 2).await;
    let served = Served::start(&pool);
    let holder = ("agent".to_owned(), "one".to_owned());
    let next = served.offers.next(Scope::default(), holder, 60_000);
    let leased = timeout(Duration::from_secs(60), next).await.unwrap().unwrap();
    assert_eq!(leased.wait_id.as_u128(), 1);
    let WaitLease { run_id, lease_epoch, .. } = leased;
    let lease = HeldLease { run_id, lease_epoch, identity: "agent".to_owned() };
    let far = "2200-01-01T00:00:00Z".parse().unwrap();
    assert!(store::release_until(&pool, &lease, (later(3), Some(far))).await.unwrap());
    assert_eq!(served.next(Scope::default()).await, 2);
    let namespaces =
        store::offered_namespaces(&mut dedicated(&pool), WaitKind::Decision, later(9)).await;
    assert!(namespaces.unwrap().is_empty());
}

#[sqlx::test(migrations = "./migrations")]
async fn a_change_under_a_lease_is_stored_only_while_that_is_held(pool: PgPool) {
    urgent(&pool, 1, "a", 0, 1).await;
    let served = Served::start(&pool);
    let holder = ("agent".to_owned(), "one".to_owned());
    let next = served.offers.next(Scope::default(), holder, 60_000);
    let WaitLease { run_id, lease_epoch, .. } =
        timeout(Duration::from_secs(60), next).await.unwrap().unwrap();
    let held = HeldLease { run_id, lease_epoch, identity: "agent".to_owned() };
    let earlier = HeldLease { lease_epoch: lease_epoch - 1, ..held.clone() };
    let of_another = HeldLease { identity: "other".to_owned(), ..held.clone() };
    let row = find(&pool, run_id).await.execution;
    let write = remark(&row, "a fact");
    for (lease, expected) in
        [(&earlier, Kept::Lost), (&of_another, Kept::Lost), (&held, Kept::Applied)]
    {
        let (write, lease) = (Some(&write), Some(lease));
        let change = AnsweredChange { write, lease, ..AnsweredChange::default() };
        assert_eq!(store::apply_answered(&pool, change).await.unwrap(), expected, "{lease:?}");
        let is_stored = remarks(&pool, run_id).await == ["a fact"];
        assert_eq!(is_stored, expected == Kept::Applied);
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_participant_that_names_a_run_takes_only_its_waits_beside_others(pool: PgPool) {
    let team = labels(&[("team", "a")]);
    for (id, of) in [(1, labels(&[])), (2, team.clone()), (3, labels(&[]))] {
        waiting(&pool, id, "x", of, i64::try_from(id).unwrap()).await;
    }
    let served = Served::start(&pool);
    let run = |id: u128| Scope { run_id: Some(Uuid::from_u128(id)), ..Scope::default() };
    let no_team = Scope { labels: team.clone(), ..run(3) };
    let elsewhere = Scope { namespaces: vec!["y".to_owned()], ..run(3) };
    let holder = || ("agent".to_owned(), "one".to_owned());
    let mut refused =
        [no_team, elsewhere].map(|scope| Box::pin(served.offers.next(scope, holder(), 60_000)));
    for next in &mut refused {
        assert!(futures::poll!(next).is_pending());
    }
    let with_label = Scope { labels: team, ..run(2) };
    let three =
        tokio::join!(served.next(run(3)), served.next(with_label), served.next(Scope::default()),);
    assert_eq!(three, (3, 2, 1));
    for next in &mut refused {
        assert!(futures::poll!(next).is_pending(), "it names what the run has not");
    }
}
