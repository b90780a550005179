//! The work on one leased run, from its lease until it is released or lost.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::pending_state::UnderWay;
use super::slots::Slot;
use super::verify::unless_called_away;
use super::{programs, repository, secrets, shown_failures, turn, verify, workspace_lock};
use futures::FutureExt;
use futures::future::Either;
use futures::stream::{FuturesUnordered, StreamExt};
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Wait, plan_unblocks};
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::planning::{Planning, ReplanCause};
use surety_common::domain::run::DriverKind;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::store::Topic;
use tracing::Instrument;
use uuid::Uuid;

/// Works until the run ends, blocks, or is no longer leased. `started` are the steps that were
/// started together with the lease.
pub(super) async fn work(run: &Arc<LeasedRun>, started: Vec<usize>, slot: &mut Slot) {
    let ended = caught(run, drive(run, started, slot)).await.and_then(|ended| ended);
    match ended {
        Ok(()) | Err(Ended::NotHeld) => {}
        Err(Ended::Draining) => {
            Box::pin(run.servers.end(false)).await;
            Box::pin(give_back(run)).await;
        }
        Err(
            error @ (Ended::Refused(_)
            | Ended::Store(_)
            | Ended::Gate(_)
            | Ended::Overtaken
            | Ended::Panicked
            | Ended::DriverNotServed(_)),
        ) => {
            tracing::error!(run_id = %run.spec.id, %error, "work: the work on a run failed because of a defect; report the error");
            Box::pin(stop_for_defect(run, &error)).await;
        }
    }
    // By now another executor may hold the run. What cannot write does no harm until that is known.
    if run.is_kept() {
        Box::pin(run.servers.keep()).await;
    } else {
        Box::pin(run.servers.end(true)).await;
    }
    run.remove_empty_folder();
}

async fn drive(
    run: &Arc<LeasedRun>,
    mut started: Vec<usize>,
    slot: &mut Slot,
) -> Result<(), Ended> {
    loop {
        match phase(run, std::mem::take(&mut started), slot).await {
            Ok(Going::On) => {}
            Ok(Going::Over) => return Ok(()),
            Err(Ended::Overtaken) => started = run.catch_up().await?,
            // The plan is not at fault, and the row is read again as soon as the database answers.
            Err(Ended::Store(error)) if error.is_transient() => {
                tracing::warn!(run_id = %run.spec.id, %error, "work: the database was unavailable; the work continues from the row");
                started = run.catch_up().await?;
            }
            Err(ended) => return Err(ended),
        }
    }
}

/// Whether there is more work here.
enum Going {
    On,
    Over,
}

/// Does the work for the run's state. `started` are the steps that wait for work.
async fn phase(
    run: &Arc<LeasedRun>,
    mut started: Vec<usize>,
    slot: &mut Slot,
) -> Result<Going, Ended> {
    if deadline_passed(run).await {
        Box::pin(end_for_deadline(run)).await?;
    }
    let execution = run.execution().await;
    if execution.is_pausing() {
        Box::pin(rest(run)).await?;
        return Ok(Going::On);
    }
    let works =
        matches!(execution.state, RunState::Executing | RunState::Verifying | RunState::Recovering);
    if works && !Box::pin(ensure_place(run)).await? {
        return Ok(Going::On);
    }
    match execution.state {
        RunState::Executing => {
            unless_called_away(run, slot.reacquire_slot()).await?;
            if started.is_empty() {
                started = run
                    .change(|draft| {
                        // No step has work here now: a running one is from before a pause that was
                        // ended.
                        draft.end_leases(&run.graph, "the pause was taken back")?;
                        draft.lease_steps(&run.graph, run.spec.limits.max_parallel_steps)
                    })
                    .await?;
            }
            work_steps(run, started).await?;
            if run.execution().await.lease_owner.is_none() {
                run.settle().await?;
                return Ok(Going::Over);
            }
        }
        RunState::Verifying => {
            Box::pin(verify_run(run, slot)).await?;
        }
        RunState::Recovering => {
            unless_called_away(run, slot.reacquire_slot()).await?;
            Box::pin(recover_run(run)).await?;
        }
        RunState::Intake | RunState::Planning | RunState::Blocked(_) => {
            run.settle().await?;
            return Ok(Going::Over);
        }
        RunState::Done | RunState::Failed | RunState::Cancelled => {
            run.settle().await?;
            run.lease.end();
            return Ok(Going::Over);
        }
    }
    Ok(Going::On)
}

/// Whether the workspace, the programs and the secrets of the run are here; else it stopped or waits.
async fn ensure_place(run: &LeasedRun) -> Result<bool, Ended> {
    Ok(repository::ensure(run).await?
        && workspace_lock::ensure(run).await?
        && programs::ensure(run).await?
        && secrets::ensure(run).await?)
}

async fn verify_run(run: &LeasedRun, slot: &mut Slot) -> Result<(), Ended> {
    // No process of the run that may write is alive when the round begins.
    run.servers.end_writers(false).await;
    unless_called_away(run, slot.reacquire_slot()).await?;
    verify::verify(run, slot).await
}

/// The concurrent work in a run.
enum Part {
    /// The work on a step is over. It returns the steps that its end started.
    Step(usize, Result<Vec<usize>, Ended>),
    /// The row was read again beside the steps. It returns the running ones without work here.
    Row(Result<Option<Vec<usize>>, Ended>),
}

/// Works on steps concurrently until none that was started here is left. They share the run's task;
/// long work runs in other processes or on blocking threads.
///
/// Concurrent changes, such as an answer, are read beside running steps: a step must not wait for
/// its slowest sibling. The same holds for a step whose change was lost.
async fn work_steps(run: &Arc<LeasedRun>, started: Vec<usize>) -> Result<(), Ended> {
    let under_way = UnderWay::default();
    let begin = |index: usize| {
        let new = under_way.begin(index);
        new.then(|| Either::Left(work_step(run, index).map(move |over| Part::Step(index, over))))
    };
    let mut parts: FuturesUnordered<_> = started.into_iter().filter_map(begin).collect();
    let mut ended = Ok(());
    let mut reading = false;
    loop {
        let takes_in = !reading && may_go_on(&ended) && !run.engine.drain.is_cancelled();
        let over = tokio::select! {
            biased;
            over = parts.next() => over,
            () = run.lease.news.notified(), if takes_in => {
                reading = true;
                // It is awaited like the steps, because its result must not be lost.
                parts.push(Either::Right(run.take_in(&under_way).map(Part::Row)));
                continue;
            }
        };
        match over {
            Some(Part::Step(index, over)) => {
                under_way.end(index);
                match over {
                    Ok(next) => parts.extend(next.into_iter().filter_map(begin)),
                    Err(Ended::Overtaken) if may_go_on(&ended) => {
                        ended = Err(Ended::Overtaken);
                        run.lease.news.notify_one();
                    }
                    Err(Ended::Overtaken) => {}
                    Err(error) => ended = Err(error),
                }
            }
            Some(Part::Row(read)) => {
                reading = false;
                match read {
                    Ok(Some(idle)) if may_go_on(&ended) => {
                        ended = Ok(());
                        parts.extend(idle.into_iter().filter_map(begin));
                    }
                    Ok(_) => {}
                    Err(error) => ended = Err(error),
                }
            }
            None => return ended,
        }
    }
}

/// Whether the work was ended only by a lost change.
const fn may_go_on(ended: &Result<(), Ended>) -> bool {
    matches!(ended, Ok(()) | Err(Ended::Overtaken))
}

/// Works on one step. Returns the steps that its end started.
async fn work_step(run: &LeasedRun, index: usize) -> Result<Vec<usize>, Ended> {
    let working = caught(run, turn::work_step(run, index)).instrument(run.step_span(index));
    working.await.and_then(|worked| worked)
}

/// Converts a panic into an error: the run stops instead of waiting for ever under a lease without
/// work. Not an async function, which would hold the work twice.
fn caught<'r, T>(
    run: &'r LeasedRun,
    work: impl Future<Output = T> + 'r,
) -> impl Future<Output = Result<T, Ended>> + 'r {
    let report = |panic: Box<dyn Any + Send>| {
        let said = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(run_id = %run.spec.id, panic = said, "executor: the work on a run panicked; the run ends with internal_error, please report it");
        Ended::Panicked
    };
    AssertUnwindSafe(work).catch_unwind().map(move |worked| worked.map_err(report))
}

/// No work of the run is in progress here: it is BLOCKED, unless the pause was ended.
async fn rest(run: &LeasedRun) -> Result<(), Ended> {
    run.change(|draft| draft.end_leases(&run.graph, "the run is being paused")).await
}

/// Recovers with what the failed checks showed as the hint.
async fn recover_run(run: &LeasedRun) -> Result<(), Ended> {
    let shown = shown_failures::of_verdict(run).await?;
    run.change(|draft| {
        draft.explain_repair(&shown);
        recover(run, draft)
    })
    .await
}

/// A script is tried again; an agent is asked for a patch of the plan.
fn recover(run: &LeasedRun, draft: &mut Draft) -> Result<(), Refusal> {
    match run.spec.driver {
        DriverKind::Script => draft.recover(&run.graph, &run.spec.limits),
        DriverKind::Model | DriverKind::Remote => {
            let planning = Planning { cause: ReplanCause::StepFailed, ..Planning::default() };
            let of_model = run.spec.driver == DriverKind::Model;
            let wait = Wait {
                model: of_model.then(Box::default),
                planning: Some(Box::new(planning)),
                ..Wait::new(
                    Uuid::now_v7(),
                    WaitingOn::Model,
                    draft.now(),
                    plan_unblocks(of_model, draft.execution().plan_revision).to_owned(),
                )
            };
            let limits = &run.spec.limits;
            draft.recover_by_plan(&run.graph, limits, wait)?;
            draft.reserve_plan(&run.graph, limits, run.spec.policy.on_budget)
        }
    }
}

async fn deadline_passed(run: &LeasedRun) -> bool {
    run.execution().await.deadline_at.is_some_and(|deadline| deadline <= run.engine.now())
}

async fn end_for_deadline(run: &LeasedRun) -> Result<(), Ended> {
    let end = || Ending::late(run.spec.limits.run_deadline_s);
    run.change(|draft| draft.stop(&run.graph, end())).await
}

/// Releases the run at once, so that another executor need not wait for the heartbeat to age.
async fn give_back(run: &LeasedRun) {
    let given = run
        .insist(|draft| {
            draft.end_leases(&run.graph, "the executor drains")?;
            draft.release();
            Ok(())
        })
        .await;
    match given {
        Ok(()) => run.engine.waker.wake_now(Topic::Ready),
        // A verdict ended it in the meantime, or another process did.
        Err(Ended::NotHeld) => {}
        Err(error) => {
            tracing::warn!(run_id = %run.spec.id, %error, "work: the run could not be released; other executors take it over by the heartbeat's age");
        }
    }
}

/// A defect ends the run visibly, instead of leaving it leased for ever.
async fn stop_for_defect(run: &LeasedRun, error: &Ended) {
    let stopped = run
        .insist(|draft| {
            draft.stop(
                &run.graph,
                Ending {
                    stop_reason: StopReason::InternalError,
                    user_message:
                        "The service failed because of an internal defect; the run was stopped."
                            .to_owned(),
                    internal_reason: error.to_string(),
                },
            )
        })
        .await;
    if let Err(error) = stopped {
        tracing::error!(run_id = %run.spec.id, %error, "work: the run could not be stopped");
    }
}
