//! Tasks that wait for an agent: what it is handed when one is registered.

use super::super::AdmittedState::Created;
use super::requests::{pull, states, take, task};
use super::{Fixture, quick};
use crate::planner::Planner;
use chrono::TimeDelta;
use sqlx::PgPool;
use surety_common::domain::plan::Plan;
use surety_common::domain::toolchain::{Agent, AgentDriver, Forge, Language, Role};
use surety_common::store::{self, StoredTask};

async fn register(planner: &Planner, id: &str, language: Language, roles: &[Role]) {
    let account = (Forge::Gitea, id.to_owned());
    let agent = Agent {
        id: id.to_owned(),
        accounts: vec![account],
        roles: roles.to_vec(),
        language,
        concurrency: 10,
        credential: String::new(),
        driver: AgentDriver::Remote,
    };
    store::put_agent(&planner.pool, &agent, "test", planner.now()).await.expect("an agent");
}

/// The task that took the place of another one, and the step that its run has.
async fn replacement(planner: &Planner, waited: &StoredTask) -> (StoredTask, String) {
    let by = "select superseded_by from task where run_id = $1";
    let by = sqlx::query_scalar(by).bind(waited.run_id).fetch_one(&planner.pool).await;
    let found = task(planner, by.expect("a row")).await;
    let run = store::find_run(&planner.pool, found.run_id).await.expect("a row").expect("a run");
    let plan: &Plan = run.plan.as_deref().expect("a plan");
    (found, plan.steps[0].description.clone())
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_task_that_waited_is_handed_in_the_language_and_with_the_clock_of_its_agent(
    pool: PgPool,
) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    store::delete_agent(&pool, "ops").await.expect("no coordinator");
    let asked = take(planner, "pull_request", &pull("review_requested", 1, &["carol"])).await;
    assert_eq!(states(&asked), [Created]);
    let waits = task(planner, asked[0].run_id).await;
    assert_eq!((waits.assignee.as_str(), waits.remind_at), ("", None), "no clock runs");
    planner.assign(waits.run_id).await.expect("a search");
    assert!(!task(planner, Some(waits.run_id)).await.is_superseded);

    register(planner, "carol", Language::Zh, &[]).await;
    planner.assign(waits.run_id).await.expect("an agent");
    let (given, step) = replacement(planner, &waits).await;
    assert_eq!(given.assignee, "carol");
    assert!(given.payload.steps[0].starts_with("阅读 diff"), "{:?}", given.payload.steps);
    assert_eq!(step, given.instructions.trim(), "the run has what the task has");
    assert!(!step.contains("Read the diff"), "{step}");
    let hours = TimeDelta::seconds(i64::try_from(given.remind_after_s).expect("seconds"));
    let began = given.started_at.expect("a run");
    assert_eq!((given.reminders, given.remind_at), (0, Some(began + hours)));
    let waited = task(planner, Some(waits.run_id)).await;
    let said = waited.terminal.expect("an end").user_message;
    assert!(said.contains(&given.run_id.to_string()), "{said}");
    // It is given once.
    planner.assign(waits.run_id).await.expect("nothing to do");
    let (same, _) = replacement(planner, &waits).await;
    assert_eq!(same.run_id, given.run_id);
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_coordinator_that_is_found_late_is_told_whom_to_register(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    store::delete_agent(&pool, "ops").await.expect("no coordinator");
    let asked = take(planner, "pull_request", &pull("review_requested", 1, &["carol"])).await;
    let waits = task(planner, asked[0].run_id).await;
    register(planner, "lead", Language::En, &[Role::Coordinator]).await;
    planner.assign(waits.run_id).await.expect("an agent");
    let (given, step) = replacement(planner, &waits).await;
    assert_eq!(given.assignee, "lead");
    assert_eq!(given.payload.context["unknown_account"], "carol");
    assert!(step.contains("1. Register the agent of the account carol"), "{step}");
}
