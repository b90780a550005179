//! What the clock, a crash or the end of a run makes of tasks. Every planner of a database does this.

use super::open_gauge::OpenGauge;
use super::start::{Start, start_runs};
use super::{end, escalate, follow, report};
use crate::planner::Planner;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::Fault;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::stop::StopReason;
use surety_common::domain::toolchain::{EntryKind, Language, SYSTEM};
use surety_common::store::{self, DueTask, NewEntry, StoredTask, TaskCause, Topic};
use surety_common::telemetry;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{Id, JoinSet};
use uuid::Uuid;

/// The interval without a wake-up: one statement.
const INTERVAL: Duration = Duration::from_secs(3);
/// The shortest time between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
/// The most tasks of one cause in a round.
const LIMIT: i64 = 200;
/// The most tasks about which one forge is asked at the same time: a slow one holds the tasks of no other back.
const ASKING_AT_ONCE: usize = 16;
/// The reminders before a task without a report fails.
const MAX_REMINDERS: u32 = 2;

/// Runs until the process shuts down.
pub(crate) async fn run(planner: Arc<Planner>) {
    let mut topics = planner.wakeups.subscribe();
    let mut open = OpenGauge::default();
    let mut asking = Asking::default();
    let database = &planner.whose;
    loop {
        if let Err(fault) = open.measure(&planner).await {
            tracing::warn!(%fault, database, "planner: open tasks could not be counted; retrying");
        }
        match round(&planner, &mut asking).await {
            Ok(()) => {}
            Err(fault) => {
                tracing::warn!(%fault, database, "planner: tasks that are due could not be moved; retrying");
            }
        }
        tokio::time::sleep(PAUSE).await;
        let woken = tokio::time::timeout(INTERVAL, async {
            loop {
                match topics.recv().await {
                    // A wait of a run ended, or its journal grew.
                    Ok(Topic::Waits(_) | Topic::Run(_) | Topic::Everything) => return,
                    Ok(Topic::Ready | Topic::Moved(_)) => {}
                    Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        });
        // Without a wake-up the clock may have made tasks due.
        drop(woken.await);
    }
}

/// What waits for a forge, which may be slow: beside the rounds, so that it holds no other task back.
#[derive(Debug, Default)]
pub(super) struct Asking {
    tasks: JoinSet<()>,
    under_way: HashMap<Id, UnderWay>,
}

/// A task about which a forge is asked.
#[derive(Debug)]
struct UnderWay {
    cause: TaskCause,
    run_id: Uuid,
    /// The name of the forge; empty where the configuration has none for the repository.
    forge: String,
}

impl Asking {
    /// Acts on a task, unless that is under way, or too many are.
    fn start(&mut self, planner: &Arc<Planner>, due: &DueTask) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let id = match ended {
                Ok((id, ())) => id,
                Err(error) => {
                    tracing::error!(%error, "planner: acting on a task panicked; report the error");
                    error.id()
                }
            };
            self.under_way.remove(&id);
        }
        let (cause, run_id) = (due.cause, due.run_id);
        let forge = planner.escalations.forge_of(&due.forge, &due.repo).unwrap_or_default();
        let all = || self.under_way.values();
        let is_under_way = all().any(|known| known.cause == cause && known.run_id == run_id);
        if is_under_way || all().filter(|known| known.forge == forge).count() >= ASKING_AT_ONCE {
            return;
        }
        let planner = Arc::clone(planner);
        let task = self.tasks.spawn(async move { act_on(&planner, cause, run_id).await });
        self.under_way.insert(task.id(), UnderWay { cause, run_id, forge });
    }
}

/// Acts on the tasks that are due, once.
///
/// # Errors
/// `database_unavailable`.
pub(super) async fn round(planner: &Arc<Planner>, asking: &mut Asking) -> Result<(), Fault> {
    for due in store::due_tasks(&planner.pool, planner.now(), LIMIT).await? {
        match due.cause {
            TaskCause::Escalate | TaskCause::Remind => asking.start(planner, &due),
            TaskCause::Start
            | TaskCause::Supersede
            | TaskCause::Report
            | TaskCause::End
            | TaskCause::Assign => act_on(planner, due.cause, due.run_id).await,
        }
    }
    Ok(())
}

/// One task that cannot be moved keeps no other from moving.
async fn act_on(planner: &Planner, cause: TaskCause, run_id: Uuid) {
    if let Err(fault) = act(planner, cause, run_id).await {
        tracing::warn!(%run_id, ?cause, %fault, "planner: a task that is due could not be moved; retrying");
    }
}

async fn act(planner: &Planner, cause: TaskCause, run_id: Uuid) -> Result<(), Fault> {
    match cause {
        TaskCause::End => end::end_task(planner, run_id).await,
        TaskCause::Report => report::supply(planner, run_id).await.map(drop),
        TaskCause::Assign => planner.assign(run_id).await,
        TaskCause::Escalate => escalate::escalate(planner, run_id).await,
        TaskCause::Start => match store::find_task(&planner.pool, run_id).await? {
            Some(task) => start_runs(planner, vec![Start::from(&task)]).await,
            None => Ok(()),
        },
        TaskCause::Supersede => match store::find_task(&planner.pool, run_id).await? {
            Some(task) => {
                end::cancel_superseded(planner, run_id, &end::why_superseded(&task)).await
            }
            None => Ok(()),
        },
        TaskCause::Remind => match store::find_task(&planner.pool, run_id).await? {
            Some(task) => remind(planner, &task).await,
            None => Ok(()),
        },
    }
}

/// What a task waits for where the forge says so.
const FORGE: &str = "forge";

/// Hands a task again, or ends it after the last reminder. While the forge shows that only CI or a reviewer is missing, or
/// the assignee says that it waits and the forge does not say otherwise, no reminder counts: it is looked at again later.
async fn remind(planner: &Planner, task: &StoredTask) -> Result<(), Fault> {
    let run_id = task.run_id;
    let is_reported = task.reported_at.is_some();
    if is_reported && !matches!(task.state, RunState::Blocked(_)) {
        return Ok(store::end_clock(&planner.pool, run_id).await?);
    }
    let said = Some(task.waiting_for.as_str()).filter(|said| !said.is_empty() && *said != FORGE);
    let waits = match planner.escalations.own_part_holds(task).await {
        Some(true) => said.or(Some(FORGE)),
        Some(false) => None,
        None => said,
    };
    if let Some(waits) = waits {
        return Ok(store::look_again(&planner.pool, run_id, waits, planner.now()).await?);
    }
    let number = task.reminders.saturating_add(1);
    let hours = task.remind_after_s / 3600;
    if number > MAX_REMINDERS {
        // The forge may have taken its time: a report counts that arrived meanwhile. The end of the task stops its clock.
        let now = planner.now();
        let is_due = |task: &StoredTask| task.remind_at.is_some_and(|at| at <= now);
        return match store::find_task(&planner.pool, run_id).await?.filter(is_due) {
            Some(task) => give_up(planner, &task, hours).await,
            None => Ok(()),
        };
    }
    let language = follow::language_of(planner, &task.assignee).await?;
    let entry = NewEntry {
        run_id,
        kind: EntryKind::System,
        author: SYSTEM.to_owned(),
        body: reminder(language, number, (hours, is_reported)),
        links: Vec::new(),
        attachment: String::new(),
        at: planner.now(),
    };
    let signing = &planner.keys.signing;
    if store::remind_task(&planner.pool, signing, task.reminders, &entry).await? {
        telemetry::count_reminder(&task.payload.action_type);
        planner.waker.wake_now(Topic::Waits(run_id));
    }
    Ok(())
}

/// What stands before the instructions, in the language of the assignee.
fn reminder(language: Language, number: u32, (hours, is_reported): (u64, bool)) -> String {
    match (language, is_reported) {
        (Language::En, false) => format!(
            "Reminder {number} of {MAX_REMINDERS}: no action report was submitted for {hours} hours. Carry out each step \
             now, and submit the report; without it the task fails."
        ),
        (Language::Zh, false) => format!(
            "第 {number} 次提醒（共 {MAX_REMINDERS} 次）：{hours} 小时内未提交行动报告。请立即执行每一步并提交报告，否则任务失败。"
        ),
        (Language::En, true) => format!(
            "Reminder {number} of {MAX_REMINDERS}: the action report is stored, and the run has been blocked for {hours} \
             hours. Its state says what unblocks it; if it stays blocked the task fails."
        ),
        (Language::Zh, true) => format!(
            "第 {number} 次提醒（共 {MAX_REMINDERS} 次）：行动报告已保存，运行已阻塞 {hours} 小时。运行状态说明了如何解除阻塞；若持续阻塞，任务失败。"
        ),
    }
}

/// Ends a task that was handed again without a report, or that is blocked since its report.
async fn give_up(planner: &Planner, task: &StoredTask, hours: u64) -> Result<(), Fault> {
    let what = match task.reported_at {
        None => "No report was submitted",
        Some(_) => "The report was submitted, and the run was still blocked",
    };
    let end = Ending {
        stop_reason: StopReason::DeadlineExceeded,
        user_message: format!("{what} after {MAX_REMINDERS} reminders."),
        internal_reason: format!("a reminder every {hours} hours"),
    };
    planner
        .change(task.run_id, &planner.actor(), |record, draft| {
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            // A run that ended first stays as it is.
            draft.stop(&graph, end.clone()).or(Ok(()))
        })
        .await
}
