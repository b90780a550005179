//! Following a run: its journal from a number on, each event once, and what workers report of its open calls.

use super::not_found;
use crate::planner::Planner;
use futures::Stream;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::execution::StepProgress;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::{Entry, Event, Subject};
use surety_common::domain::plan::PlanStep;
use surety_common::store::{self, Page, Progress, Topic};
use surety_common::wire::v1;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

/// The journal rows that are read at a time while following.
const PAGE_ROWS: i64 = 200;
/// How often a follower polls, in case a wake-up is lost.
const FOLLOW_POLL: Duration = Duration::from_secs(1);
/// The shortest time between two reads of what workers report.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

impl Planner {
    /// The journal of a run from an event's number on, in order, each event once. With `follow` it
    /// continues until the run ends, with `progress` as well beside what workers report meanwhile.
    ///
    /// # Errors
    /// `run_not_found`, `database_unavailable`. The stream ends with `shutting_down` where the planner ends before the run.
    pub async fn watch(
        self: Arc<Self>,
        run_id: Uuid,
        from: i64,
        (follow, progress): (bool, bool),
    ) -> Result<Watch<impl Stream<Item = Result<Watched, Fault>> + Send + 'static>, Fault> {
        // Subscribed before the first read, so that no event is missed between them.
        let wakeups = self.wakeups.subscribe();
        let ahead = Ahead::Unknown;
        let reports = (follow && progress).then(Reports::new);
        let next = from.max(1);
        let mut cursor = Cursor { planner: self, run_id, next, follow, wakeups, ahead, reports };
        let Page { trace_parent, events, .. } = cursor.read().await?;
        let first: Vec<Watched> = events.into_iter().map(Watched::event).collect();
        let events = futures::stream::try_unfold(
            (cursor, first.into_iter()),
            |(mut cursor, mut page)| async move {
                loop {
                    if let Some(watched) = page.next() {
                        return Ok(Some((watched, (cursor, page))));
                    }
                    match cursor.next_page().await? {
                        Some(watched) => page = watched.into_iter(),
                        None => return Ok(None),
                    }
                }
            },
        );
        Ok(Watch { trace_parent, events })
    }
}

/// A follower's stream.
pub struct Watch<S> {
    /// The run's trace context.
    pub trace_parent: String,
    /// What happens.
    pub events: S,
}

/// What a follower sees.
pub enum Watched {
    /// An event of the journal.
    Event(Box<Event>),
    /// A report of a worker.
    Progress(v1::CallProgress),
}

impl Watched {
    fn event(event: Event) -> Self {
        Self::Event(Box::new(event))
    }
}

/// A follower's position in a journal.
struct Cursor {
    planner: Arc<Planner>,
    run_id: Uuid,
    next: i64,
    follow: bool,
    wakeups: broadcast::Receiver<Topic>,
    /// What the last page says about the next one.
    ahead: Ahead,
    /// What workers reported; none where it is not asked for.
    reports: Option<Reports>,
}

/// Whether events follow those that were read so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// Unknown: read the journal.
    Unknown,
    /// None yet: a wake-up announces new ones.
    NothingYet,
    /// None ever: the run has ended.
    TheEnd,
}

impl Ahead {
    /// A page that was not full was the last one when it was read, and a wake-up announces later
    /// events. No event follows a run's end.
    fn after(page: &Page) -> Self {
        let over = page.events.is_empty() && page.state.is_terminal();
        if over || page.events.iter().any(ends_the_run) {
            Self::TheEnd
        } else if page.is_full {
            Self::Unknown
        } else {
            Self::NothingYet
        }
    }
}

fn ends_the_run(event: &Event) -> bool {
    matches!(&event.entry, Entry::Transition(moved)
        if moved.subject == Subject::Run && moved.stop_reason.is_some())
}

impl Cursor {
    /// What happened next; none at the end.
    async fn next_page(&mut self) -> Result<Option<Vec<Watched>>, Fault> {
        loop {
            match self.ahead {
                Ahead::TheEnd => return Ok(None),
                Ahead::NothingYet if !self.follow => return Ok(None),
                // An end without an error would read as the end of the run.
                Ahead::NothingYet if self.planner.shutdown.is_cancelled() => {
                    let message = "the planner shuts down and the run has not ended; follow it from another one";
                    return Err(Fault::new(FaultCode::ShuttingDown, message));
                }
                Ahead::NothingYet => {
                    if let Some(reports) = self.read_reports().await? {
                        return Ok(Some(reports));
                    }
                    self.wait().await;
                }
                Ahead::Unknown => {}
            }
            let page = self.read().await?;
            if !page.events.is_empty() {
                return Ok(Some(page.events.into_iter().map(Watched::event).collect()));
            }
        }
    }

    async fn read(&mut self) -> Result<Page, Fault> {
        let page = self.planner.journals.page(self.run_id, self.next, PAGE_ROWS).await?;
        let page = page.ok_or_else(|| not_found(self.run_id))?;
        if let Some(last) = page.events.last() {
            self.next = last.sequence + 1;
        }
        self.ahead = Ahead::after(&page);
        Ok(page)
    }

    /// The new reports of workers, if it is time to read them.
    async fn read_reports(&mut self) -> Result<Option<Vec<Watched>>, Fault> {
        let Some(reports) = self.reports.as_mut().filter(|reports| reports.are_due()) else {
            return Ok(None);
        };
        reports.next_at = Instant::now() + REPORT_PAUSE;
        reports.are_wanted = false;
        let found = store::list_progress(&self.planner.pool, vec![self.run_id]).await?;
        let new = reports.take(found);
        if new.is_empty() {
            return Ok(None);
        }
        let record = self.planner.find(self.run_id).await?;
        let planned = record.plan.iter().flat_map(|plan| &plan.steps);
        let steps = record.execution.steps.iter().zip(planned);
        let of_step =
            |(progress, step): (&Arc<StepProgress>, &PlanStep)| shown(progress, step, &new);
        let shown: Vec<Watched> = steps.filter_map(of_step).map(Watched::Progress).collect();
        Ok((!shown.is_empty()).then_some(shown))
    }

    /// Waits until the run may have new events, or it is time to read new reports.
    async fn wait(&mut self) {
        let woken = async {
            loop {
                match self.wakeups.recv().await {
                    Ok(Topic::Run(id) | Topic::Moved(id)) if id == self.run_id => return,
                    Ok(Topic::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Ok(Topic::Run(_) | Topic::Moved(_) | Topic::Waits(_) | Topic::Ready) => {}
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let due = self.reports.as_ref().filter(|reports| reports.are_wanted);
        let due = due.map(|reports| reports.next_at);
        tokio::select! {
            () = woken => if let Some(reports) = &mut self.reports {
                reports.are_wanted = true;
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            () = sleep(FOLLOW_POLL) => {}
            () = self.planner.shutdown.cancelled() => {}
        }
    }
}

/// What a follower was told of the reports of workers.
struct Reports {
    /// The reports that it has, by their waits.
    sent: HashMap<Uuid, Progress>,
    /// A wake-up came since the last read.
    are_wanted: bool,
    /// The earliest time of the next read.
    next_at: Instant,
}

impl Reports {
    fn new() -> Self {
        Self { sent: HashMap::new(), are_wanted: true, next_at: Instant::now() }
    }

    fn are_due(&self) -> bool {
        self.are_wanted && self.next_at <= Instant::now()
    }

    /// The reports that are new among all of the run's open calls.
    fn take(&mut self, found: Vec<Progress>) -> HashMap<Uuid, Progress> {
        let found: HashMap<Uuid, Progress> =
            found.into_iter().map(|report| (report.wait_id, report)).collect();
        let is_new =
            |(wait_id, report): &(&Uuid, &Progress)| self.sent.get(wait_id) != Some(report);
        let new = found.iter().filter(is_new).map(|(id, report)| (*id, report.clone())).collect();
        self.sent = found;
        new
    }
}

/// The report of a step's call, where there is a new one.
fn shown(
    progress: &StepProgress,
    step: &PlanStep,
    new: &HashMap<Uuid, Progress>,
) -> Option<v1::CallProgress> {
    let report = new.get(&progress.wait.as_deref()?.id)?;
    let call = progress.open_call.as_deref()?;
    Some(v1::CallProgress {
        call_id: call.call_id.to_string(),
        step_id: step.id.clone(),
        tool: call.tool.clone(),
        message: report.message.clone(),
        percent: report.percent.and_then(|percent| u32::try_from(percent).ok()),
    })
}
