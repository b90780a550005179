//! A further task type is one module, this one, and one line of the registry: its tasks are made, judged and ended like the others.

use super::super::template::{HandedTask, TemplateError, Templates};
use super::super::upkeep::{Asking, round};
use super::super::{TASK_TYPES, TaskType, ensure_started};
use super::{Fixture, quick};
use crate::planner::Planner;
use serde_json::Map;
use sqlx::PgPool;
use surety_common::domain::check::CheckKind;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::stop::StopReason;
use surety_common::domain::toolchain::{
    FailureClass, Subject, TaskFailure, TaskOutcome, TaskPayload, is_task_namespace,
};
use surety_common::store::{self, Admission, NewTask, StoredTask};
use surety_e2e::forge::Failure;
use uuid::Uuid;

/// A task type that only this test has.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Ticket;

impl TaskType for Ticket {
    fn name(&self) -> &'static str {
        "ticket"
    }

    fn namespace(&self) -> &'static str {
        "_ticket"
    }

    fn instructions(&self, _: &Templates, task: &HandedTask<'_>) -> Result<String, TemplateError> {
        Ok(format!("Close the ticket of {}.", task.payload.from))
    }

    fn checks(&self) -> &'static [CheckKind] {
        &[CheckKind::ActionReport]
    }

    fn class_of(&self, _: TaskFailure, _: u32) -> FailureClass {
        FailureClass::Business
    }

    fn retention_days(&self) -> Option<u32> {
        None
    }

    fn escalates(&self) -> bool {
        true
    }
}

/// Makes a ticket about pull request 1 of a repository.
async fn make(planner: &Planner, repo: &str) -> Uuid {
    let (run_id, now) = (Uuid::now_v7(), planner.now());
    let subject = Subject {
        server: String::new(),
        repo: repo.to_owned(),
        number: Some(1),
        is_pull_request: true,
    };
    let task = NewTask {
        run_id,
        task_type: Ticket.name().to_owned(),
        namespace: Ticket.namespace().to_owned(),
        event_key: run_id.to_string(),
        origin_key: String::new(),
        payload: TaskPayload {
            event_type: "ticket".to_owned(),
            action_type: "ticket".to_owned(),
            steps: vec!["Close it.".to_owned()],
            from: "lead".to_owned(),
            context: Map::new(),
            source: "gitea".to_owned(),
        },
        instructions: "Close it.".to_owned(),
        forge: "gitea".to_owned(),
        subject,
        happened_at: now,
        addressee: "agent dev".to_owned(),
        assignee: "dev".to_owned(),
        is_notice: false,
        chain_id: run_id,
        caused_by: None,
        depth: 1,
        business_failures: 0,
        created_at: now,
        remind_after_s: 0,
    };
    let mut admission = Admission::begin(&planner.pool, []).await.expect("a transaction");
    admission.insert(&task).await.expect("a row");
    admission.commit().await.expect("a task");
    ensure_started(planner, run_id).await.expect("a run");
    run_id
}

async fn find(planner: &Planner, run_id: Uuid) -> StoredTask {
    store::find_task(&planner.pool, run_id).await.expect("a row").expect("a task")
}

#[sqlx::test(migrations = "../common/migrations")]
async fn a_third_task_type_ends_and_is_handed_again_as_what_it_is(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let planner = &fixture.planner;
    assert!(TASK_TYPES.iter().all(|kind| is_task_namespace(kind.namespace())));
    let run_id = make(planner, &fixture.forges[0].repo).await;
    let end = Ending {
        stop_reason: StopReason::Aborted,
        user_message: "Nothing was done.".to_owned(),
        internal_reason: String::new(),
    };
    planner
        .change(run_id, &planner.actor(), |record, draft| {
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            draft.stop(&graph, end.clone()).or(Ok(()))
        })
        .await
        .expect("the run ends");
    round(planner, &mut Asking::default()).await.expect("a round");
    let ended = find(planner, run_id).await;
    assert_eq!(ended.end.map(|end| end.outcome), Some(TaskOutcome::Failed), "{ended:?}");
    let again = sqlx::query_scalar("select run_id from task where caused_by = $1").bind(run_id);
    let again: Uuid = again.fetch_one(&pool).await.expect("the task again");
    let again = find(planner, again).await;
    assert_eq!((again.task_type.as_str(), again.namespace.as_str()), ("ticket", "_ticket"));
    assert_eq!(again.instructions, "Close the ticket of lead.");
}
