//! Every stop reason of the contract is reached through real services. The table says where; what no other test
//! reaches is played here.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Execution, Graph};
use surety_common::domain::journal::{Actor, Entry, PlanStored};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::{Evidence, Plan, PlanStep, ToolCall};
use surety_common::domain::run::{DriverKind, Policy, RunSpec};
use surety_common::domain::stop::StopReason;
use surety_common::store::{Created, Creator, NewRun, Signing, StoredPlan, Waker};
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{noop, plan, step};
use uuid::Uuid;

/// The file and a part of the test or the scenario that reaches each reason.
const REACHED: [(StopReason, &str, &str); 21] = [
    (StopReason::Accepted, "services/drivers/scenarios.rs", "a fenced decision in prose"),
    (StopReason::AcceptCheckFailed, "services/verifying.rs", "StopReason::AcceptCheckFailed"),
    (
        StopReason::RequiredTodoFailed,
        "services/agent_tools.rs",
        "todos_are_kept_by_the_run_and_decide",
    ),
    (
        StopReason::TodoNotConverged,
        "services/agent_tools.rs",
        "todos_are_kept_by_the_run_and_decide",
    ),
    (
        StopReason::MissingCompletionSignal,
        "services/drivers/scenarios.rs",
        "prose without a decision",
    ),
    (StopReason::RepeatCycle, "services/drivers/scenarios.rs", "the same call again and again"),
    (StopReason::MaxReplansReached, "services/drivers/scenarios.rs", "a wish to replan"),
    (StopReason::ReplanParseFailed, "services/planning.rs", "a_refused_patch_is_corrected_once"),
    (StopReason::PlanParseFailed, "services/planning.rs", "a_refused_plan_is_corrected"),
    (StopReason::DependencyDeadlock, "services/stop_reasons.rs", "steps_that_need_each_other"),
    (
        StopReason::MaxRoundsReached,
        "services/drivers/scenarios.rs",
        "the limit of turns ends the run",
    ),
    (
        StopReason::MaxConsecutiveCorrections,
        "services/drivers/scenarios.rs",
        "three refusals in a row",
    ),
    (StopReason::Aborted, "services/drivers/scenarios.rs", "an abort"),
    (StopReason::Cancelled, "services/api.rs", "StopReason::Cancelled"),
    (StopReason::DeadlineExceeded, "services/engine.rs", "StopReason::DeadlineExceeded"),
    (StopReason::BudgetExceeded, "services/budgets.rs", "a_used_up_budget_ends_the_run"),
    (
        StopReason::ConfirmationDenied,
        "services/people/denied.rs",
        "an_agent_sees_why_its_call_was_denied",
    ),
    (
        StopReason::ConfirmationExpired,
        "services/people/denied.rs",
        "a_confirmation_that_expires_ends",
    ),
    (StopReason::InternalError, "crash/panicked.rs", "a_defect_in_a_step_ends_its_run"),
    (StopReason::PlanRejected, "services/model/planning.rs", "ConfirmationAnswer::Deny"),
    (StopReason::ModelUnavailable, "services/model/away.rs", "StopReason::ModelUnavailable"),
];

#[test]
fn each_stop_reason_has_a_test_that_reaches_it() -> Result<()> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for reason in StopReason::ALL {
        let place = REACHED.iter().find(|(reached, ..)| *reached == reason);
        let (_, file, part) =
            place.with_context(|| format!("{}: add it to the list", reason.as_str()))?;
        let text = std::fs::read_to_string(tests.join(file)).with_context(|| (*file).to_owned())?;
        ensure!(text.contains(part), "{}: {file} has no {part:?}", reason.as_str());
        let named = format!("StopReason::{reason:?}");
        ensure!(text.contains(&named), "{file} names no {named}");
    }
    Ok(())
}

async fn ends_as(deployment: &Deployment, run_id: &str, reason: v1::StopReason) -> Result<()> {
    let run = deployment.wait_for_end(run_id).await?;
    let terminal = run.terminal.clone().context("an end")?;
    ensure!(terminal.stop_reason() == reason, "{run:#?}");
    Ok(())
}

/// No call stores such a plan: it is stored as by a planner that does not look for cycles.
#[tokio::test]
async fn steps_that_need_each_other_end_their_run_once_nothing_else_is_left() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    // The planner has brought the database to its schema once it has made a run.
    deployment.create(&plan(&[step("first", &[], &[noop()])]), "").await?;
    let needing = |id: &str, needed: &[&str]| PlanStep {
        id: id.to_owned(),
        description: id.to_owned(),
        dependencies: needed.iter().map(|id| (*id).to_owned()).collect(),
        evidence: Evidence::None,
        script: vec![ToolCall {
            name: "noop".to_owned(),
            arguments: surety_common::domain::json::Value::Object(Vec::new()),
        }],
        ..PlanStep::default()
    };
    let circle = Plan {
        title: "Around in a circle".to_owned(),
        steps: vec![needing("a", &[]), needing("b", &["c"]), needing("c", &["b"])],
        ..Plan::default()
    };
    let waker = Waker::start(pool.clone());
    let new = stored(&circle)?;
    let run_id = new.spec.id;
    let created = Creator::start(pool, waker, Signing::default()).create(new.into(), None).await?;
    ensure!(created == Created::New, "{created:?}");
    ends_as(&deployment, &run_id.to_string(), v1::StopReason::DependencyDeadlock).await?;
    deployment.finish().await
}

fn stored(plan: &Plan) -> Result<NewRun> {
    let (id, now) = (Uuid::now_v7(), surety_common::clock::now());
    let deadline = now + std::time::Duration::from_secs(3600);
    let revision = StoredPlan {
        revision: 1,
        digest: plan.digest(),
        parent_digest: String::new(),
        reason: "a test".to_owned(),
        body: plan.to_json().to_compact(),
        created_at: now,
    };
    let execution = Execution::new(id, "default".to_owned(), deadline, now);
    let mut draft = Draft::new(execution, Actor("test".into()), now);
    draft.journal(Entry::Plan(PlanStored {
        model: None,
        revision: 1,
        digest: revision.digest.clone(),
        parent_digest: String::new(),
        reason: revision.reason.clone(),
    }));
    draft.start_plan(&Graph::of(plan), 1)?;
    Ok(NewRun {
        spec: RunSpec {
            id,
            namespace: "default".to_owned(),
            request_id: String::new(),
            goal: "go around".to_owned(),
            driver: DriverKind::Script,
            workspace: String::new(),
            limits: Limits::default(),
            policy: Policy::default(),
            labels: BTreeMap::new(),
            forked_from: None,
            repository: None,
            trace_parent: String::new(),
            created_at: now,
        },
        submitter: "test".to_owned(),
        request_digest: String::new(),
        plan: Some(revision),
        task: None,
        artifacts: Vec::new(),
        write: draft.into_write(),
    })
}
