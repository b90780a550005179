//! Following a run: its journal from a sequence number on, through lost connections, to its end.
//!
//! ```text
//!   WatchRun --event--> Screen          lines, a live view, or JSON
//!      | lost: again from the sequence after the last event, with growing pauses
//!      | over: GetRun says whether the run ended or the service did
//! ```

mod keys;
mod live;
mod page;
mod patience;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;
mod tree;
mod view;
mod wrap;

use std::time::Instant;

use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::{Request, Status};

pub use screen::Screen;

use self::patience::{Next, Patience};
use crate::connection::{Connection, is_lost};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::note;
use crate::report::{Journal, ending, evidence, needs_a_person, waits_for};
use crate::wire_json;

/// News of a run that were read and not yet shown.
const NEWS: usize = 64;

/// What is shown of a run that is followed.
enum News {
    Event(Box<v1::Event>),
    Progress(v1::CallProgress),
    Notice(String),
}

/// Follows a run until it ends, waits for a user whom no terminal asks, or the person leaves.
///
/// # Errors
/// The run does not exist, or the connection could not be restored.
pub async fn follow(
    connection: &Connection,
    run: &v1::Run,
    from_sequence: u64,
    mut screen: Screen,
) -> Result<Exit, Failure> {
    let (sender, mut news) = channel(NEWS);
    let follower = Follower {
        connection,
        run_id: &run.id,
        next: from_sequence.max(1),
        opened: None,
        ends_at_waits: !screen.has_a_person(),
        asks_for_progress: screen.shows_progress(),
        news: sender,
    };
    let stopped = show(follower, &mut news, &mut screen).await;
    let shown = screen.has_a_person();
    let stopped = match stopped {
        Ok(stopped) => stopped,
        Err(failure) => {
            screen.finish(None)?;
            return Err(failure);
        }
    };
    let output = screen.finish(stopped.as_ref())?;
    let Some(run) = stopped else {
        note(&format!(
            "The run continues. To watch it:   surety watch {id}\nTo cancel it:  surety cancel {id}",
            id = run.id
        ));
        return Ok(Exit::Interrupted);
    };
    if shown {
        // Without its journal the run has ended all the same, and the verdict names each check.
        if let Ok(events) = connection.journal(&run.id).await {
            let evidence = evidence(&run, &Journal(&events));
            if !evidence.is_empty() {
                output.line(&evidence)?;
            }
        }
    }
    let text = if run.terminal.is_some() { ending(&run) } else { waits_for(&run) };
    output.either(&wire_json::object([("run", wire_json::message("Run", &run))]), || text)?;
    Ok(Exit::of(&run))
}

/// Shows a run until the follower ends, which answers the run, or the person leaves.
async fn show(
    follower: Follower<'_>,
    news: &mut Receiver<News>,
    screen: &mut Screen,
) -> Result<Option<v1::Run>, Failure> {
    let put = |screen: &mut Screen, said: News| match said {
        News::Event(event) => screen.event(&event),
        News::Progress(report) => screen.progress(&report),
        News::Notice(text) => {
            screen.notice(&text);
            Ok(())
        }
    };
    let (following, interrupted) = (follower.run_out(), tokio::signal::ctrl_c());
    tokio::pin!(following, interrupted);
    let run = loop {
        tokio::select! {
            biased;
            Some(said) = news.recv() => put(screen, said)?,
            run = &mut following => break run?,
            _ = &mut interrupted => return Ok(None),
            left = screen.left() => return left.map(|()| None),
        }
    };
    while let Ok(said) = news.try_recv() {
        put(screen, said)?;
    }
    Ok(Some(run))
}

struct Follower<'a> {
    connection: &'a Connection,
    run_id: &'a str,
    next: u64,
    opened: Option<Instant>,
    /// Whether a run that waits for a person is followed no further, because no terminal asks one.
    ends_at_waits: bool,
    /// Whether reports of workers are shown as they arrive.
    asks_for_progress: bool,
    news: Sender<News>,
}

/// Why one stream ended.
enum Pass {
    /// It ended by itself.
    Over,
    /// The run waits for a user, and none is at the terminal.
    Waiting(Box<v1::Run>),
}

impl Follower<'_> {
    async fn run_out(mut self) -> Result<v1::Run, Failure> {
        let mut patience = Patience::default();
        loop {
            let before = self.next;
            let reason = match self.pass().await? {
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
                        let text = format!("the connection was lost ({reason}); reconnecting");
                        self.tell(News::Notice(text)).await;
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Reads one stream. The outer error ends everything, the inner one this stream.
    async fn pass(&mut self) -> Result<Result<Pass, Status>, Failure> {
        // The event that blocked the run may be before the first one that is asked for.
        let waiting = self.waiting().await;
        if let Some(run) = waiting.as_ref().filter(|run| run.last_sequence < self.next) {
            return Ok(Ok(Pass::Waiting(Box::new(run.clone()))));
        }
        let waits_from = waiting.map(|run| run.last_sequence);
        let request = v1::WatchRunRequest {
            run_id: self.run_id.to_owned(),
            from_sequence: self.next,
            follow: true,
            progress: self.asks_for_progress,
        };
        let mut stream = match self.connection.runs().watch_run(Request::new(request)).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return Ok(Err(status)),
        };
        self.opened = Some(Instant::now());
        loop {
            let event = match stream.message().await {
                Ok(None) => return Ok(Ok(Pass::Over)),
                Err(status) => return Ok(Err(status)),
                Ok(Some(v1::WatchRunResponse { event: None, progress })) => {
                    if let Some(report) = progress {
                        self.tell(News::Progress(report)).await;
                    }
                    continue;
                }
                Ok(Some(v1::WatchRunResponse { event: Some(event), .. })) => event,
            };
            if event.sequence < self.next {
                continue;
            }
            self.next = event.sequence + 1;
            let sequence = event.sequence;
            let blocks = blocks_the_run(&event) || waits_from == Some(sequence);
            self.tell(News::Event(Box::new(event))).await;
            if blocks
                && let Some(run) = self.waiting().await
                // A wait that was answered before also had such an event.
                && run.last_sequence <= sequence.saturating_add(1)
            {
                return Ok(Ok(Pass::Waiting(Box::new(run))));
            }
        }
    }

    async fn tell(&self, news: News) {
        // The receiver lives as long as this future.
        self.news.send(news).await.ok();
    }

    /// The run, where only a user can continue it and no terminal asks one. After a failed read the run is followed
    /// further.
    async fn waiting(&self) -> Option<v1::Run> {
        if !self.ends_at_waits {
            return None;
        }
        let answer = self.connection.run(self.run_id, v1::RunView::Basic).await.ok()?;
        let waits = |blocked: &v1::Blocked| needs_a_person(blocked.waiting_on());
        answer.run.filter(|run| run.blocked.as_ref().is_some_and(waits))
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
