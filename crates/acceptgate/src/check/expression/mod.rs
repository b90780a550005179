//! `expression`: a CEL expression over the receipts' facts, written by the plan's author.
//!
//! ```text
//!   text -> parse -> estimate -> a slot -> evaluate on its own thread -> bool
//!    \        \         \            \                \                     \
//!   4,096   256 levels  work and     patience         processor time        not_bool
//!                       memory       (Shortage)       (Timeout)
//! ```
//!
//! CEL has no cost limit, and a running evaluation cannot be cancelled. Therefore an upper bound of
//! its cost is computed first, and an expression above it is not evaluated. Its processor time is
//! limited too: the caller reads the thread's clock and stops waiting above the limit. The thread's
//! work is bounded, so it ends soon after, and the number of threads is limited.
//!
//! The load of the machine never decides a check. Waiting for a slot or a processor uses no
//! processor time; without one the result is a [`Shortage`] and not a failure of the expression.

mod clock;
mod estimate;
mod facts;
mod failure;

pub use facts::FactList;
pub use failure::Failure;

use super::Shortage;
use cel::{Context, Env, Value};
use clock::ProcessorClock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The longest expression, in bytes.
const MAX_LENGTH: usize = 4096;

/// The most concurrent evaluations in this process, including abandoned ones.
const MAX_RUNNING: usize = 32;

/// The shortest interval between two reads of an evaluation's clock.
const POLL: Duration = Duration::from_millis(5);

/// The limits of one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Processor time. An evaluation that uses more fails with [`Failure::Timeout`].
    pub processor: Duration,
    /// Wall-clock time from the wait for a slot on. An evaluation without a result by then is a
    /// [`Shortage`]: it had no slot, or too little processor time.
    pub patience: Duration,
}

/// The default limits of a verdict.
impl Default for Allowance {
    fn default() -> Self {
        Self { processor: Duration::from_millis(250), patience: Duration::from_secs(10) }
    }
}

/// Enough to parse the deepest expression: a chain of operators makes a tree nearly as deep as the
/// text is long, and parsing and dropping it recurse. An unoptimized build has needed more than 48
/// MiB. Only touched pages use memory.
const STACK_BYTES: usize = 256 * 1024 * 1024;

static PLACES: Places = Places { taken: Mutex::new(0), freed: Condvar::new() };

static ENV: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

/// Evaluates an expression over `facts`, a list of maps: a fact's own fields, `fact` for its kind,
/// and its receipt's `success`, `source`, `step_id` and `name`. Fields that a fact does not have
/// are absent. Regular expressions, timestamps and optional values are not supported.
///
/// Blocks the calling thread until the evaluation ends or `allowance` is used.
///
/// # Errors
/// [`Shortage`] when the gate could not evaluate the expression.
pub fn evaluate(
    expression: &str,
    facts: &FactList,
    allowance: Allowance,
) -> Result<Result<(), Failure>, Shortage> {
    let facts = facts.clone();
    bounded(expression, allowance, move |expression| run(expression, &facts))
}

/// Whether an expression reads, whatever the facts are.
///
/// # Errors
/// As [`evaluate`].
pub fn read(expression: &str) -> Result<Result<(), Failure>, Shortage> {
    let parse = |text: &str| ENV.parser().parse(text).map(drop).map_err(|_| Failure::Invalid);
    bounded(expression, Allowance::default(), parse)
}

fn bounded(
    expression: &str,
    allowance: Allowance,
    task: impl FnOnce(&str) -> Result<(), Failure> + Send + 'static,
) -> Result<Result<(), Failure>, Shortage> {
    if expression.len() > MAX_LENGTH {
        return Ok(Err(Failure::Invalid));
    }
    let until = Instant::now() + allowance.patience;
    let slot = PLACES.take(until).ok_or(Shortage)?;
    let (sender, receiver) = mpsc::channel();
    let expression = expression.to_owned();
    thread::Builder::new()
        .name("expression".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || work(|| task(&expression), slot, &sender))
        // The process or the machine cannot start another thread.
        .map_err(|_| Shortage)?;
    receive(&receiver, allowance.processor, until)
}

/// A message of an evaluation's thread.
enum Progress {
    /// It has started; this is its clock.
    Begun(ProcessorClock),
    /// It has ended, after this processor time.
    Ended(Result<(), Failure>, Option<Duration>),
}

/// The caller may have stopped waiting, and then the result is dropped.
fn work(task: impl FnOnce() -> Result<(), Failure>, slot: Slot, sender: &mpsc::Sender<Progress>) {
    let clock = ProcessorClock::of_this_thread();
    sender.send(Progress::Begun(clock)).ok();
    // The library can panic on unexpected input; that counts as a failure of the expression.
    let outcome = catch_unwind(AssertUnwindSafe(task)).unwrap_or(Err(Failure::Invalid));
    let used = clock.read();
    drop(slot);
    sender.send(Progress::Ended(outcome, used)).ok();
}

/// Receives the thread's messages, and reads its clock in between.
fn receive(
    receiver: &mpsc::Receiver<Progress>,
    processor: Duration,
    until: Instant,
) -> Result<Result<(), Failure>, Shortage> {
    let mut clock = None;
    let mut soonest = processor;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(soonest.max(POLL).min(left)) {
            Ok(Progress::Begun(its)) => clock = Some(its),
            // The result depends on the processor time alone, however late it is read.
            Ok(Progress::Ended(_, Some(used))) if used > processor => {
                return Ok(Err(Failure::Timeout));
            }
            Ok(Progress::Ended(outcome, _)) => return Ok(outcome),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Err(Failure::Invalid)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let used = clock.and_then(ProcessorClock::read).unwrap_or_default();
                if used > processor {
                    return Ok(Err(Failure::Timeout));
                }
                if left.is_zero() {
                    return Err(Shortage);
                }
                // A thread's processor time does not advance faster than the wall clock.
                soonest = processor.saturating_sub(used);
            }
        }
    }
}

fn run(expression: &str, facts: &FactList) -> Result<(), Failure> {
    let parsed = ENV.parser().parse(expression).map_err(|_| Failure::Invalid)?;
    estimate::check(&parsed, facts.size())?;
    let mut context = Context::with_env(Arc::clone(&ENV));
    context.set_variable_resolver(facts);
    let result = context.resolve(&parsed).map_err(|_| Failure::Invalid)?;
    let Value::Bool(holds) = result else {
        return Err(Failure::NotBool);
    };
    holds.then_some(()).ok_or(Failure::False)
}

/// The slots of evaluations.
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    /// Waits for a slot until the given time.
    fn take(&'static self, until: Instant) -> Option<Slot> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = until.saturating_duration_since(Instant::now());
        let waited = self.freed.wait_timeout_while(taken, patience, |taken| *taken >= MAX_RUNNING);
        let (mut taken, gave_up) = waited.unwrap_or_else(PoisonError::into_inner);
        if gave_up.timed_out() {
            return None;
        }
        *taken += 1;
        Some(Slot(self))
    }
}

/// The right to run one evaluation, released when its work has ended.
struct Slot(&'static Places);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
