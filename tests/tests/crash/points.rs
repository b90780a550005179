//! A process that dies at each named place where something was or was not yet written: its
//! successor finishes the run, every effect is there, and the journal stays lawful.

use super::points_of_leases::{OF_DRAINS, OF_TAKE_OVERS, OF_UNREADABLE};
use super::points_of_moves::OF_MOVES;
use super::points_of_upkeep::{OF_MIGRATIONS, OF_PARTITIONS, OF_RETENTION, OF_SINGLE_MIGRATIONS};
use super::points_of_waits::{OF_OFFERS, OF_WAITS};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::script::{self, Trail, noop, plan, shell, step, write};

/// How often a run is read that ends once only in all of its deaths: a read costs more than a look at a process.
const LOOK_AT_RUN: Duration = Duration::from_millis(100);
/// More changes than one such run makes.
const MANY: usize = 40;
/// The executor's places: those of its own, and those of every writer.
const OF_EXECUTORS: [&str; 11] = [
    "executor.before_register",
    "executor.after_register",
    "executor.before_claim",
    "executor.after_claim",
    "executor.after_intent",
    "executor.after_effect",
    "executor.before_output",
    "executor.after_output",
    "executor.after_step_checks",
    "committer.before_write",
    "committer.after_write",
];
/// The places of a run on a git repository; the tests `git_workspace` and `toolchain_intake` let executors die there.
const OF_REPOSITORIES: [&str; 5] = [
    "executor.after_repository_begins",
    "executor.before_git_push",
    "executor.after_git_push",
    "executor.before_branch_push",
    "executor.after_branch_push",
];
/// The places of a forge's delivery and of a message; the tests `toolchain_intake` and `mail` let planners die there.
const OF_MAIL: [&str; 3] =
    ["planner.before_mail", "planner.after_mail", "planner.after_dead_letter"];
const OF_DELIVERIES: [&str; 5] = [
    "planner.before_delivery",
    "planner.after_delivery",
    "planner.after_take_delivery",
    "planner.before_processed",
    "planner.after_processed",
];
const OF_GATES: [&str; 4] = [
    "gate.before_verdict",
    "gate.after_verdict",
    "committer.before_write",
    "committer.after_write",
];
/// The places of tasks; the test `toolchain` lets planners die there.
const OF_TASKS: [&str; 10] = [
    "planner.after_task_stored",
    "planner.after_assignment",
    "planner.before_entry_waits",
    "planner.before_reminder",
    "planner.after_withdrawal",
    "planner.before_task_end",
    "planner.after_task_end",
    "planner.after_take_escalation",
    "planner.before_escalation_receipt",
    "planner.after_escalation_receipt",
];
const OF_PLANNERS: [&str; 6] = [
    "planner.before_create",
    "planner.after_create",
    "planner.before_submit",
    "planner.after_submit",
    "committer.before_write",
    "committer.after_write",
];

/// Says more than the journal holds.
const MUCH: &str = "head -c 40000 /dev/zero | tr '\\0' x";
/// A run's effects: two in files, and a command.
const EFFECTS: usize = 3;
const OF_EFFECTS: [&str; 2] = ["executor.after_intent", "executor.after_effect"];
/// Writes that nothing can be handed in behind: before and after each effect, before the commands of
/// two checks, and before the gate is asked.
const WRITES: usize = 2 * EFFECTS + 3;

/// The places in Rust files under a folder.
fn points_under(folder: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            points_under(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            for behind in text.split("crash::point(").skip(1) {
                let name = behind.trim_start().strip_prefix('"').and_then(|it| it.split_once('"'));
                let (name, _) = name.with_context(|| format!("a point of {}", path.display()))?;
                found.insert(name.to_owned());
            }
        }
    }
    Ok(())
}

#[test]
fn each_named_point_is_one_where_a_test_dies() -> Result<()> {
    let of_leases = [&OF_TAKE_OVERS[..], &OF_DRAINS, &OF_UNREADABLE].concat();
    let of_migrations = [&OF_MIGRATIONS[..], &OF_SINGLE_MIGRATIONS].concat();
    let of_upkeep = [&of_migrations[..], &OF_PARTITIONS, &OF_RETENTION].concat();
    let of_services = [&OF_EXECUTORS[..], &OF_GATES, &OF_PLANNERS].concat();
    let of_waits = [&OF_WAITS[..], &OF_OFFERS, &OF_MOVES].concat();
    let of_others = [&OF_REPOSITORIES[..], &OF_TASKS, &OF_DELIVERIES, &OF_MAIL].concat();
    let here = [&of_services[..], &of_waits, &of_leases, &of_upkeep, &of_others].concat();
    let here: BTreeSet<String> = here.into_iter().map(str::to_owned).collect();
    let mut there = BTreeSet::new();
    points_under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut there)?;
    assert_eq!(here, there, "where tests die, and the points in the code");
    Ok(())
}

pub(super) fn order(trail: &Trail, mark: &str, workspace: &str) -> v1::CreateRunRequest {
    let look = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    let edit = json!({"name": "edit_file", "arguments": edit});
    let mut checked = step("write", &[], &[write("a.txt", "one\n"), edit]);
    checked["verify"] = json!([{"kind": "command_success", "target": "grep -q two a.txt"}]);
    let steps = [
        checked,
        step("command", &["write"], &[shell(&format!("{}; {MUCH}", trail.mark(mark)))]),
        step("look", &["write"], &[look]),
    ];
    let plan = json!({"title": "Three steps", "steps": steps, "verify": [
        {"kind": "command_success", "target": "grep two a.txt"},
        {"kind": "content_contains", "target": "a.txt", "params": {"contains": "two"}},
        {"kind": "workspace_change"}
    ]});
    script::repeatable(script::request(&plan, workspace))
}

/// Waits until the first executor died, or the run ended without that.
pub(super) async fn died(deployment: &mut Deployment, run_id: &str) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    let mut look_at_run = Instant::now();
    loop {
        if deployment.first_executor()?.has_ended()? {
            return Ok(true);
        }
        if look_at_run <= Instant::now() {
            if deployment.run(run_id).await?.terminal.is_some() {
                return Ok(false);
            }
            look_at_run = Instant::now() + LOOK_AT_RUN;
        }
        ensure!(Instant::now() < deadline, "neither died nor ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets executors die at the first, second, ... passing of a point, until a run passes it less
/// often than that. Answers how many died.
async fn executors_die_at(point: &str) -> Result<usize> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let pool = deployment.database.pool().await?;
    let trail = Trail::new()?;
    for passing in 1..MANY {
        let workspace = tempfile::tempdir()?;
        let mark = format!("m{passing}");
        let order = order(&trail, &mark, &workspace.path().to_string_lossy());
        let run = deployment.create_run(order).await?;
        let named = format!("{point}:{passing}");
        deployment.add_executor(&[("SURETY_CRASH_POINT", &named)]).await?;
        if !died(&mut deployment, &run.id).await? {
            deployment.finish_at_rest().await?;
            return Ok(passing - 1);
        }
        // As if its heartbeat's age limit had passed.
        sqlx::query("update executor set heartbeat_at = 'epoch'").execute(&pool).await?;
        deployment.executors.clear();
        deployment.add_executor(&[]).await?;
        let run = deployment.wait_for_end(&run.id).await.context(named.clone())?;
        assert_eq!(run.state(), v1::RunState::Done, "{named}: {run:#?}");
        assert_eq!(std::fs::read_to_string(workspace.path().join("a.txt"))?, "two\n", "{named}");
        let marks = trail.marks(&mark);
        assert!((1..=2).contains(&marks), "{named}: the command ran {marks} times");
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
    }
    anyhow::bail!("a run passed {point} {MANY} times")
}

#[tokio::test]
async fn an_executors_death_before_any_write_is_recovered_from() -> Result<()> {
    let deaths = executors_die_at("committer.before_write").await?;
    assert!(deaths >= WRITES, "{deaths}");
    Ok(())
}

#[tokio::test]
async fn an_executors_death_after_any_write_is_recovered_from() -> Result<()> {
    let deaths = executors_die_at("committer.after_write").await?;
    assert!(deaths >= WRITES, "{deaths}");
    Ok(())
}

#[tokio::test]
async fn an_executors_death_around_any_effect_or_claim_is_recovered_from() -> Result<()> {
    for point in OF_EXECUTORS.into_iter().filter(|point| point.starts_with("executor.")) {
        let deaths = executors_die_at(point).await?;
        let passings = if OF_EFFECTS.contains(&point) { EFFECTS } else { 1 };
        // A claim that finds nothing passes the place before it as well.
        let expected = if point == "executor.before_claim" { deaths.max(1) } else { passings };
        assert_eq!(deaths, expected, "{point}");
    }
    Ok(())
}

#[tokio::test]
async fn a_gates_death_at_any_point_is_recovered_from() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    let plan = plan(&[step("only", &[], &[noop()])]);
    for point in OF_GATES {
        deployment.replace_gate_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let run = deployment.create(&plan, "").await?;
        deployment.gate.wait_for_exit().await.with_context(|| format!("{point} is not passed"))?;
        deployment.start_gate_with(&[]).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{point}: {run:#?}");
        let verdict = |event: &&v1::Event| matches!(event.kind, Some(v1::event::Kind::Verdict(_)));
        let verdicts = deployment.events(&run.id).await?.iter().filter(verdict).count();
        assert_eq!(verdicts, 1, "{point}");
    }
    deployment.finish_at_rest().await.map(drop)
}

/// What a client does who wants a run: it is made without a plan, gets one, is ended by a cancel,
/// and each call is made again until it is answered.
async fn one_of_each_call(deployment: &mut Deployment, request_id: &str) -> Result<v1::Run> {
    let request = v1::CreateRunRequest {
        request_id: request_id.to_owned(),
        goal: "a plan is to come".to_owned(),
        ..v1::CreateRunRequest::default()
    };
    let made = loop {
        match deployment.runs()?.create_run(request.clone()).await {
            Ok(made) => break made.into_inner().run.context("no run")?,
            Err(_) => revive(deployment).await?,
        }
    };
    let trail = Trail::new()?;
    let plan = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let submit = v1::SubmitPlanRequest {
        run_id: made.id.clone(),
        plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(plan.to_string())),
        ..v1::SubmitPlanRequest::default()
    };
    loop {
        match deployment.plans()?.submit_plan(submit.clone()).await {
            Ok(_) => break,
            // The plan of the first call was stored.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => break,
            Err(_) => revive(deployment).await?,
        }
    }
    let cancel = v1::CancelRunRequest {
        run_id: made.id.clone(),
        reason: String::new(),
        ..Default::default()
    };
    while deployment.runs()?.cancel_run(cancel.clone()).await.is_err() {
        revive(deployment).await?;
    }
    deployment.wait_for_end(&made.id).await
}

/// Starts another planner where one died; a call that failed otherwise is a defect.
async fn revive(deployment: &mut Deployment) -> Result<()> {
    deployment.planner.wait_for_exit().await?;
    deployment.replace_planner().await
}

#[tokio::test]
async fn a_planners_death_at_any_point_is_recovered_from() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    for point in OF_PLANNERS {
        deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let first = deployment.planner.pid()?;
        let run = one_of_each_call(&mut deployment, point).await.context(point)?;
        assert_eq!(run.state(), v1::RunState::Cancelled, "{point}: {run:#?}");
        assert_ne!(deployment.planner.pid()?, first, "{point} is never passed");
    }
    let list = v1::ListRunsRequest::default();
    let runs = deployment.runs()?.list_runs(list).await?.into_inner().runs;
    assert_eq!(runs.len(), OF_PLANNERS.len(), "an order was taken twice, or never");
    deployment.finish_at_rest().await.map(drop)
}
