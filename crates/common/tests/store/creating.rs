//! Creating runs and storing their plans.

use crate::support::{
    actor, change, create, creator, find, graph, later, make, now, order, plan, remarks, said,
    spec, wait,
};
use sqlx::PgPool;
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::Fault;
use surety_common::domain::machine::run::{Phase, RunEvent, RunState};
use surety_common::domain::repository::Repository;
use surety_common::domain::run::{
    DriverKind, NetworkPolicy, Policy, RunSpec, SandboxPolicy, VerifyCommands,
};
use surety_common::domain::step::StepState;
use surety_common::store::{self, Created, Kept, NewRun, StoreError, StoredPlan};
use uuid::Uuid;

#[sqlx::test(migrations = "./migrations")]
async fn a_run_reads_back_as_it_was_made(pool: PgPool) {
    let spec = RunSpec {
        request_id: "r\u{e9}quest".to_owned(),
        goal: "Größe 東京 🚀 '\"\\".to_owned(),
        driver: DriverKind::Remote,
        workspace: "/srv/p".to_owned(),
        repository: Some(Repository {
            url: "https://example.org/a.git".to_owned(),
            revision: "main".to_owned(),
            secret: "git".to_owned(),
        }),
        policy: Policy {
            verify_commands: VerifyCommands::ReceiptsOnly,
            repeatable_commands: vec!["cargo test".to_owned()],
            network: NetworkPolicy::All,
            sandbox: SandboxPolicy::RequireFull,
            ..Policy::default()
        },
        labels: BTreeMap::from([("team".to_owned(), "α \"β\"".to_owned())]),
        trace_parent: "00-a-b-01".to_owned(),
        ..spec(1)
    };
    let new = order(spec.clone(), 2, now());
    assert_eq!(create(&pool, &new, Some("span")).await.unwrap(), Created::New);
    let found = find(&pool, spec.id).await;
    assert_eq!(found.spec, spec);
    assert_eq!(found.execution, *new.write.execution);
    assert_eq!(found.plan.as_deref(), Some(&plan(2)));
    assert_eq!(found.plan_digest, plan(2).digest());
    let events = store::events(&pool, spec.id, 1, 100).await.unwrap();
    let entries: Vec<_> = events.iter().map(|event| event.entry.clone()).collect();
    assert_eq!(entries, new.write.entries);
    assert!(events.iter().all(|event| event.at == now()));
    assert!(events.iter().all(|event| event.span_id.as_deref() == Some("span")));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_plan_is_what_its_row_says_though_another_text_was_read_under_its_digest(pool: PgPool) {
    let (made, same) = (make(&pool, 1, 2).await.run_id, make(&pool, 2, 2).await.run_id);
    let [first, again] = [find(&pool, made).await, find(&pool, same).await];
    assert_eq!(first.plan, again.plan);
    let write = async |body: String| {
        sqlx::query("update plan set body = $2::json where run_id = $1")
            .bind(made)
            .bind(body)
            .execute(&pool)
            .await
            .unwrap();
    };
    write(plan(3).to_json().to_compact()).await;
    assert_eq!(find(&pool, made).await.plan.as_deref(), Some(&plan(3)));
    assert_eq!(find(&pool, same).await.plan.as_deref(), Some(&plan(2)));
    write("{\"steps\": 1}".to_owned()).await;
    let spoilt = store::find_run(&pool, made).await.unwrap_err();
    assert!(matches!(spoilt, StoreError::Corrupt { .. }), "{spoilt}");
}

#[sqlx::test(migrations = "./migrations")]
async fn the_same_request_makes_one_run_and_another_under_its_id_is_a_conflict(pool: PgPool) {
    let named = |id, namespace: &str, digest: &str| {
        let namespace = namespace.to_owned();
        let spec = RunSpec { request_id: "once".to_owned(), namespace, ..spec(id) };
        NewRun { request_digest: digest.to_owned(), ..order(spec, 1, now()) }
    };
    let first = Uuid::from_u128(1);
    for (new, expected) in [
        (named(1, "a", "x"), Created::New),
        (named(2, "a", "x"), Created::Before(first)),
        (named(3, "a", "y"), Created::Conflict(first)),
        (named(4, "b", "y"), Created::New),
    ] {
        assert_eq!(create(&pool, &new, None).await.unwrap(), expected);
        let there = store::find_run(&pool, new.spec.id).await.unwrap().is_some();
        assert_eq!(there, expected == Created::New);
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn the_same_request_twice_at_once_makes_one_run(pool: PgPool) {
    let named = |id| order(RunSpec { request_id: "once".to_owned(), ..spec(id) }, 1, now());
    let orders: Vec<NewRun> = (1..=6).map(named).collect();
    let made = orders.iter().map(|new| create(&pool, new, None));
    let made = futures::future::try_join_all(made).await.unwrap();
    let new: Vec<usize> = (0..6).filter(|place| made[*place] == Created::New).collect();
    let [new] = new[..] else { panic!("{made:?}") };
    let id = orders[new].spec.id;
    assert!(made.iter().all(|made| [Created::New, Created::Before(id)].contains(made)));
}

/// As after a first attempt whose answer was lost.
#[sqlx::test(migrations = "./migrations")]
async fn a_run_that_is_made_again_is_the_one_that_is_there(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let again = create(&pool, &order(spec(1), 2, now()), None).await.unwrap();
    assert_eq!(again, Created::New);
    assert_eq!(find(&pool, row.run_id).await.execution, row);
}

#[sqlx::test(migrations = "./migrations")]
async fn one_bad_order_does_not_take_the_others_with_it(pool: PgPool) {
    let creator = creator(&pool);
    let nameless = |id| RunSpec { namespace: String::new(), ..spec(id) };
    let orders = [spec(1), nameless(2), spec(3)].map(|spec| Arc::new(order(spec, 1, now())));
    let made = orders.map(|new| creator.create(new, None));
    let [first, bad, last] = &futures::future::join_all(made).await[..] else { panic!() };
    assert!(matches!((first, last), (Ok(Created::New), Ok(Created::New))), "{first:?} {last:?}");
    assert!(matches!(bad, Err(StoreError::Constraint { .. })), "{bad:?}");
}

#[sqlx::test(migrations = "./migrations")]
async fn orders_without_a_request_id_are_never_the_same(pool: PgPool) {
    make(&pool, 1, 1).await;
    make(&pool, 2, 1).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_zero_character_is_the_callers_fault_and_leaves_nothing(pool: PgPool) {
    let zero = "a\u{0}b".to_owned();
    for spec in [
        RunSpec { goal: zero.clone(), ..spec(1) },
        RunSpec { labels: BTreeMap::from([("k".to_owned(), zero.clone())]), ..spec(1) },
    ] {
        let refused = create(&pool, &order(spec, 1, now()), None).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unstorable), "{refused}");
        assert_eq!(Fault::from(refused).reason.as_str(), "type_mismatch");
        assert_eq!(store::find_run(&pool, Uuid::from_u128(1)).await.unwrap(), None);
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_submitted_plan_is_stored_with_its_moves_or_not_at_all(pool: PgPool) {
    let mut draft = Draft::new(
        Execution::new(Uuid::from_u128(1), "test".to_owned(), later(9), now()),
        actor(),
        now(),
    );
    draft.run_event(RunEvent::PlanningStarted, "").unwrap();
    draft.block(&graph(0), wait(7)).unwrap();
    let new = NewRun {
        spec: spec(1),
        submitter: String::new(),
        request_digest: String::new(),
        plan: None,
        task: None,
        artifacts: Vec::new(),
        write: draft.into_write(),
    };
    assert_eq!(create(&pool, &new, None).await.unwrap(), Created::New);
    let waiting = find(&pool, new.spec.id).await;
    assert_eq!(waiting.plan, None);
    assert_eq!(waiting.execution.state, RunState::Blocked(Phase::Planning));

    let stored = StoredPlan { revision: 1, ..order(spec(1), 2, now()).plan.unwrap() };
    let moves = change(&waiting.execution, |draft| {
        draft.unblock(&graph(2), "a plan came")?;
        draft.journal(said("planned"));
        draft.start_plan(&graph(2), 1)
    });
    let change = |plan| store::AnsweredChange { plan, write: Some(&moves), ..Default::default() };
    let submit = || store::apply_answered(&pool, change(Some(&stored)));
    assert_eq!(submit().await.unwrap(), Kept::Applied);
    let executing = find(&pool, new.spec.id).await;
    assert_eq!(executing.plan.as_deref(), Some(&plan(2)));
    assert_eq!(executing.execution.step_states().collect::<Vec<_>>(), [StepState::Ready; 2]);

    let taken = submit().await.unwrap_err();
    assert!(matches!(taken, StoreError::Constraint { constraint } if constraint == "plan_pkey"));
    let next = StoredPlan { revision: 2, ..stored.clone() };
    let late = store::apply_answered(&pool, change(Some(&next))).await.unwrap();
    assert_eq!(late, Kept::Lost);
    assert_eq!(store::find_plan(&pool, new.spec.id, 2).await.unwrap(), None, "nothing of it");
    assert_eq!(store::find_plan(&pool, new.spec.id, 0).await.unwrap(), Some(stored));
    assert_eq!(remarks(&pool, new.spec.id).await, ["planned"]);
}
