//! Following a run: its journal from a sequence number on, through lost connections, to its end.
//!
//! ```text
//!   WatchRun --event--> Screen          lines, a live view, or JSON
//!      | lost: again from the sequence after the last event, with growing pauses
//!      | over: GetRun says whether the run ended or the service did
//! ```

mod live;
mod patience;
mod screen;
mod view;

use std::time::{Duration, Instant};

use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use tonic::{Request, Status};

pub use screen::Screen;
pub use view::{RunView, StepView};

use self::patience::{Next, Patience};
use crate::connection::{Connection, is_lost};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::note;
use crate::report::{ending, needs_a_person, waits_for};
use crate::wire_json;

/// How often a live view is redrawn without events.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Follows a run until it ends, waits for a user, or Ctrl-C.
///
/// # Errors
/// The run does not exist, or the connection could not be restored.
pub async fn follow(
    connection: &Connection,
    run: &v1::Run,
    from_sequence: u64,
    screen: &mut Screen,
) -> Result<Exit, Failure> {
    let follower =
        Follower { connection, run_id: &run.id, next: from_sequence.max(1), opened: None };
    let stopped = tokio::select! {
        stopped = follower.run_out(screen) => Some(stopped?),
        _ = tokio::signal::ctrl_c() => None,
    };
    let Some(run) = stopped else {
        screen.clear();
        note(&format!(
            "The run continues. To watch it:   surety watch {id}\nTo cancel it:  surety cancel {id}",
            id = run.id
        ));
        return Ok(Exit::Interrupted);
    };
    screen.clear();
    let shown = if run.terminal.is_some() { ending(&run) } else { waits_for(&run) };
    screen
        .output()
        .either(&wire_json::object([("run", wire_json::message("Run", &run))]), || shown)?;
    Ok(Exit::of(&run))
}

struct Follower<'a> {
    connection: &'a Connection,
    run_id: &'a str,
    next: u64,
    opened: Option<Instant>,
}

/// Why one stream ended.
enum Pass {
    /// It ended by itself.
    Over,
    /// The run waits for a user, and none is at the terminal.
    Waiting(Box<v1::Run>),
}

impl Follower<'_> {
    async fn run_out(mut self, screen: &mut Screen) -> Result<v1::Run, Failure> {
        let mut patience = Patience::default();
        loop {
            let before = self.next;
            let reason = match self.pass(screen).await? {
                Ok(Pass::Waiting(run)) => return Ok(*run),
                Ok(Pass::Over) => {
                    match self.connection.run(self.run_id, v1::RunView::Basic).await {
                        Ok(v1::GetRunResponse { run: Some(run), .. }) if run.terminal.is_some() => {
                            return Ok(run);
                        }
                        Ok(_) => "the service ended the stream".to_owned(),
                        Err(status) => self.reason(&status)?,
                    }
                }
                Err(status) => self.reason(&status)?,
            };
            match patience.lost(Instant::now(), self.opened.take(), self.next > before) {
                Next::GiveUp => return Err(self.given_up(&reason)),
                Next::Retry { pause, first } => {
                    if first {
                        screen.notice(&format!("the connection was lost ({reason}); reconnecting"));
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Reads one stream. The outer error ends everything, the inner one this stream.
    async fn pass(&mut self, screen: &mut Screen) -> Result<Result<Pass, Status>, Failure> {
        let request = v1::WatchRunRequest {
            run_id: self.run_id.to_owned(),
            from_sequence: self.next,
            follow: true,
            progress: screen.shows_progress(),
        };
        let mut stream = match self.connection.runs().watch_run(Request::new(request)).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return Ok(Err(status)),
        };
        self.opened = Some(Instant::now());
        let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
        loop {
            let item = tokio::select! {
                item = stream.message() => item,
                _ = redraw.tick() => {
                    screen.redraw();
                    continue;
                }
            };
            let event = match item {
                Ok(None) => return Ok(Ok(Pass::Over)),
                Err(status) => return Ok(Err(status)),
                Ok(Some(v1::WatchRunResponse { event: None, progress })) => {
                    progress.iter().try_for_each(|report| screen.progress(report))?;
                    continue;
                }
                Ok(Some(v1::WatchRunResponse { event: Some(event), .. })) => event,
            };
            if event.sequence < self.next {
                continue;
            }
            screen.event(&event)?;
            self.next = event.sequence + 1;
            if blocks_the_run(&event)
                && let Some(run) = self.waits_for_a_person(event.sequence).await
                && screen.blocked(&run)
            {
                return Ok(Ok(Pass::Waiting(Box::new(run))));
            }
        }
    }

    /// The run, if it is still in the state of this event and only a user can continue it. After a
    /// failed read the run is followed further.
    async fn waits_for_a_person(&self, sequence: u64) -> Option<v1::Run> {
        let answer = self.connection.run(self.run_id, v1::RunView::Basic).await.ok()?;
        let run = answer.run?;
        let still =
            run.blocked.as_ref().is_some_and(|blocked| needs_a_person(blocked.waiting_on()));
        // A wait that was answered before also had such an event.
        (still && run.last_sequence <= sequence.saturating_add(1)).then_some(run)
    }

    fn reason(&self, status: &Status) -> Result<String, Failure> {
        if is_lost(status) {
            Ok(status.message().to_owned())
        } else {
            Err(self.connection.failure(status))
        }
    }

    fn given_up(&self, reason: &str) -> Failure {
        Failure::new(
            Code::ConnectionLost,
            format!("the connection was lost and could not be restored: {reason}"),
            format!(
                "The run continues. Once the service is available: surety watch {}",
                self.run_id
            ),
        )
    }
}

fn blocks_the_run(event: &v1::Event) -> bool {
    let Some(Kind::Transition(moved)) = &event.kind else { return false };
    matches!(moved.subject, Some(v1::transition::Subject::RunId(_)))
        && moved.run_to() == v1::RunState::Blocked
}
