//! The live view at work: the run, what the person typed, and the calls that follow from it.
//!
//! ```text
//!   events of the run --> RunView --+
//!   GetRun, ListWaits --> RunView   +--> page --> Terminal
//!   keys -------------> Prompt -----+
//!                         \--> calls of a person (crate::answering), their results are a notice
//! ```

use std::io;
use std::time::{Duration, Instant};

use chrono::Utc;
use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use surety_common::wire::v1;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::keys::{Act, Asked, Prompt};
use super::page::{ended, page};
use super::terminal::{Terminal, put};
use super::view::RunView;
use crate::answering::{self, Way, asked};
use crate::connection::{Connection, bounded};
use crate::failure::{Code, Failure};
use crate::report::digest_of_question;
use crate::text::{one_line, run_state};

/// How often the view is drawn without events.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
/// How often it is drawn at most: events of the past come by the thousand.
const DRAWN_AFTER: Duration = Duration::from_millis(40);
/// How long after an event the run is read again: many events come together.
const READ_AFTER: Duration = Duration::from_millis(250);
/// How often it is read while a model replies or a worker reports, which no event says.
const READ_EVERY: Duration = Duration::from_millis(500);

/// The view and what it works with.
pub struct Live {
    view: RunView,
    prompt: Prompt,
    terminal: Terminal,
    connection: Connection,
    /// None once the terminal's input is gone.
    input: Option<EventStream>,
    terminate: Signal,
    ticks: Interval,
    sender: UnboundedSender<Came>,
    came: UnboundedReceiver<Came>,
    /// When the run is read again; none where nothing has changed.
    read_at: Option<Instant>,
    is_reading: bool,
    /// None where it has to be drawn at once.
    drawn_at: Option<Instant>,
    /// Calls of the person that have no answer yet. They are waited for before the person leaves.
    calls: usize,
    leaves: bool,
}

/// What a call came to.
enum Came {
    Read(Result<Box<Reading>, Failure>),
    Asked(Asked),
    Acted(Result<String, Failure>),
}

/// The run, as it was read again.
struct Reading {
    run: v1::Run,
    plan: Option<v1::Plan>,
    waits: Vec<v1::Wait>,
}

impl Live {
    /// Takes the terminal for a run.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn open(connection: &Connection, run: &v1::Run) -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let terminal = Terminal::take()?;
        let (sender, came) = unbounded_channel();
        let mut ticks = interval(DRAWN_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            view: RunView::of(run),
            prompt: Prompt::default(),
            terminal,
            connection: connection.clone(),
            input: Some(EventStream::new()),
            terminate,
            ticks,
            sender,
            came,
            read_at: Some(Instant::now()),
            is_reading: false,
            drawn_at: None,
            calls: 0,
            leaves: false,
        })
    }

    pub(super) fn event(&mut self, event: &v1::Event) {
        self.view.take(event);
        self.changed();
    }

    pub(super) fn notice(&mut self, text: &str) {
        text.clone_into(&mut self.prompt.notice);
    }

    /// Shows the run and carries out what keys ask for, until the person leaves.
    ///
    /// # Errors
    /// The terminal is gone, or a panic in any task gave it back.
    ///
    /// # Cancel safety
    /// Nothing is lost: keys and results that were not taken are taken by the next call.
    pub(super) async fn turn(&mut self) -> Result<(), Failure> {
        while !self.leaves || self.calls > 0 {
            if self.terminal.is_lost() {
                return Err(Failure::new(
                    Code::Internal,
                    "the live view ended: a part of this program panicked, and its message stands above",
                    format!(
                        "Report the message. The run continues. To watch it: surety watch {}",
                        self.view.run.id
                    ),
                ));
            }
            self.draw().map_err(Failure::output)?;
            tokio::select! {
                event = next_event(&mut self.input) => match event {
                    Some(Ok(Event::Key(key))) => {
                        self.drawn_at = None;
                        if let Some(act) = self.prompt.press(&self.view, key) {
                            self.begin(act);
                        }
                    }
                    Some(Ok(Event::Resize(..))) => {
                        self.terminal.forget();
                        self.drawn_at = None;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(Failure::output(error)),
                    None => self.input = None,
                },
                Some(came) = self.came.recv() => {
                    self.drawn_at = None;
                    self.take(came);
                }
                _ = self.ticks.tick() => self.read_again(),
                _ = self.terminate.recv() => return Ok(()),
            }
        }
        Ok(())
    }

    /// Gives the terminal back, and leaves the plan as it is on it.
    ///
    /// # Errors
    /// The output is closed.
    pub(super) fn finish(self, run: Option<&v1::Run>) -> Result<(), Failure> {
        let Self { mut view, terminal, .. } = self;
        drop(terminal);
        if let Some(run) = run {
            view.read(run.clone(), None, Vec::new());
        }
        let (width, _) = Terminal::size();
        let mut out = io::stdout().lock();
        let mut write = || -> io::Result<()> {
            for line in ended(&view, width, Utc::now()) {
                put(&mut out, &line)?;
                io::Write::write_all(&mut out, b"\n")?;
            }
            io::Write::flush(&mut out)
        };
        write().map_err(Failure::output)
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.drawn_at.is_some_and(|at| now.duration_since(at) < DRAWN_AFTER) {
            return Ok(());
        }
        self.drawn_at = Some(now);
        let drawn = page(&self.view, &self.prompt, Terminal::size(), Utc::now());
        self.terminal.draw(drawn.lines)?;
        self.prompt.shown(drawn.shows_end, drawn.most_scroll, now);
        Ok(())
    }

    /// The run is read again soon.
    fn changed(&mut self) {
        self.read_at.get_or_insert_with(|| Instant::now() + READ_AFTER);
    }

    fn read_again(&mut self) {
        if self.is_reading || self.read_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        (self.is_reading, self.read_at) = (true, None);
        let (connection, sender) = (self.connection.clone(), self.sender.clone());
        let known = (self.view.run.id.clone(), self.view.run.plan_revision);
        let has_plan = !self.view.title.is_empty();
        tokio::spawn(async move {
            let (run_id, revision) = known;
            let read = read(&connection, &run_id, has_plan.then_some(revision)).await;
            // The view has ended, and with it the need for the answer.
            sender.send(Came::Read(read.map(Box::new))).ok();
        });
    }

    fn take(&mut self, came: Came) {
        match came {
            Came::Read(read) => {
                self.is_reading = false;
                // A lost connection is the follower's to restore, and to name.
                if let Ok(read) = read {
                    let Reading { run, plan, waits } = *read;
                    self.view.read(run, plan, waits);
                    self.turn_to_question();
                    if self.view.hears_reports() {
                        self.read_at.get_or_insert_with(|| Instant::now() + READ_EVERY);
                    }
                }
            }
            Came::Asked(asked) => self.prompt.asked = Some(asked),
            Came::Acted(acted) => {
                self.calls = self.calls.saturating_sub(1);
                self.prompt.notice = acted.unwrap_or_else(|failure| one_line(&failure.to_text()));
                self.changed();
            }
        }
    }

    /// Reads the whole of what the run asks now, where that is another question than before.
    fn turn_to_question(&mut self) {
        let Some(wait) = self.prompt.turn_to(&self.view) else { return };
        let (connection, sender) = (self.connection.clone(), self.sender.clone());
        tokio::spawn(async move {
            let read = asked(&connection, &wait).await;
            let is_whole = read.is_ok();
            let text = read.unwrap_or_else(|failure| failure.to_text());
            let asked = Asked { wait_id: wait.id, text, is_whole };
            sender.send(Came::Asked(asked)).ok();
        });
    }

    /// Begins what a key asks for.
    fn begin(&mut self, act: Act) {
        if act == Act::Leave {
            self.leaves = true;
            return;
        }
        self.calls += 1;
        "…".clone_into(&mut self.prompt.notice);
        let (connection, sender) = (self.connection.clone(), self.sender.clone());
        let run_id = self.view.run.id.clone();
        tokio::spawn(async move {
            sender.send(Came::Acted(carry_out(&connection, run_id, act).await)).ok();
        });
    }
}

/// The next event of the terminal; never one once its input is gone.
async fn next_event(input: &mut Option<EventStream>) -> Option<io::Result<Event>> {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}

/// Reads the run, its open waits, and its plan where the known revision is another one.
async fn read(
    connection: &Connection,
    run_id: &str,
    known: Option<u32>,
) -> Result<Reading, Failure> {
    let failure = |status: tonic::Status| connection.failure(&status);
    let answer = connection.run(run_id, v1::RunView::Basic).await.map_err(failure)?;
    let run = answer.run.unwrap_or_default();
    let request = v1::ListWaitsRequest { run_id: run_id.to_owned(), ..Default::default() };
    let waits = connection.runs().list_waits(bounded(request)).await.map_err(failure)?;
    let plan = if run.plan_revision > 0 && known != Some(run.plan_revision) {
        let request = v1::GetPlanRequest { run_id: run_id.to_owned(), revision: 0 };
        connection.plans().get_plan(bounded(request)).await.map_err(failure)?.into_inner().plan
    } else {
        None
    };
    Ok(Reading { run, plan, waits: waits.into_inner().waits })
}

/// Carries out what a key asks for. Answers what came of it.
async fn carry_out(connection: &Connection, run_id: String, act: Act) -> Result<String, Failure> {
    let (done, run) = match act {
        Act::Resolve(wait, answer) => {
            let word = match answer {
                v1::ConfirmationAnswer::Approve => "approved",
                v1::ConfirmationAnswer::Deny | v1::ConfirmationAnswer::Unspecified => "denied",
            };
            let request = v1::ResolveConfirmationRequest {
                wait_id: wait.id,
                answer: answer.into(),
                call_digest: wait.call_digest,
                ..Default::default()
            };
            (word, answering::resolve(connection, request).await?)
        }
        Act::Answer(wait, text) => {
            let digest = digest_of_question(&wait);
            ("answered", answering::answer(connection, (wait.id, digest), text).await?)
        }
        Act::Extend => {
            let (add_tokens, add_cost_micros) = answering::budgets(connection, &run_id).await?;
            let request = v1::ExtendBudgetRequest {
                run_id,
                add_tokens,
                add_cost_micros,
                ..Default::default()
            };
            ("extended", answering::extend(connection, request).await?)
        }
        Act::End => {
            let request = v1::ExtendBudgetRequest { run_id, stop: true, ..Default::default() };
            ("stopped", answering::extend(connection, request).await?)
        }
        Act::Control(way) => {
            let word = match way {
                Way::Pause => "pauses once its running turns have ended",
                Way::Resume => "resumed",
                Way::Cancel => "cancelled",
            };
            (word, answering::control(connection, run_id, String::new(), way).await?)
        }
        Act::Leave => return Ok(String::new()),
    };
    Ok(format!("{done}; the run is {}", run_state(run.state())))
}
