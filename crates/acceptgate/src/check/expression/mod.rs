//! `expression`: a CEL expression over the receipts' facts, written by whoever wrote the plan.
//!
//! ```text
//!   text -> parse -> estimate -> a place -> run on a thread of its own -> bool
//!    \        \         \            \                \                     \
//!   4,096   256 levels  work and     patience         processor's time      not_bool
//!                       memory       (Shortage)       (Timeout)
//! ```
//!
//! CEL has no cost limit and a running evaluation cannot be stopped from outside. So what it can
//! cost at most is worked out first, from the expression and the facts it will see, and what
//! could cost too much is not begun. The processor's time is the second fence: who waits looks at
//! what the thread has used of it, stops waiting once that is too much, and the thread, whose work is
//! bounded, ends soon after by itself. The number of such threads is bounded too.
//!
//! What decides is the expression, never the load of the machine: an evaluation that waits for a place
//! or for a processor uses none of its time, and one that gets neither is no failure of the expression
//! but a [`Shortage`] of the gate's.

mod clock;
mod estimate;
mod facts;

pub use facts::FactList;

use super::Shortage;
use cel::{Context, Env, Value};
use clock::ProcessorClock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The kind of these checks.
pub const KIND: &str = "expression";
/// The longest expression that is read, in bytes.
const MAX_LENGTH: usize = 4096;

/// Evaluations that may run at once in this process, those nobody waits for any more included.
const MAX_RUNNING: usize = 32;

/// The shortest time between two looks at what an evaluation has used.
const LOOK: Duration = Duration::from_millis(5);

/// What one evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Of a processor. What uses more does not hold, with [`Failure::Timeout`].
    pub processor: Duration,
    /// Of the clock on the wall, from the wait for a place on. What has no outcome by then has met a
    /// [`Shortage`]: it had no place, or too little of a processor.
    pub patience: Duration,
}

/// What a verdict allows, unless its caller knows better.
impl Default for Allowance {
    fn default() -> Self {
        Self { processor: Duration::from_millis(250), patience: Duration::from_secs(10) }
    }
}

/// Room to read the deepest expression: a chain of operators makes a tree nearly as deep as the
/// text is long, and reading and dropping it recurses. A build without optimisation has needed
/// more than 48 MiB. Only what is touched costs memory.
const STACK_BYTES: usize = 256 * 1024 * 1024;

static PLACES: Places = Places { taken: Mutex::new(0), freed: Condvar::new() };

static ENV: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

/// Why an expression does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is false.
    False,
    /// It does not parse, is too long, calls what is not known here, or fails on these facts.
    Invalid,
    /// Its result is neither true nor false.
    NotBool,
    /// It used too much of a processor, or could cost too much to be begun.
    Timeout,
}

impl Failure {
    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::False => "expression_false",
            Self::Invalid => "expression_invalid",
            Self::NotBool => "expression_not_bool",
            Self::Timeout => "expression_timeout",
        }
    }
}

/// Evaluates an expression over `facts`, a list of maps: a fact's own fields, `fact` for its
/// kind, and its receipt's `success`, `source`, `step_id` and `name`. Fields that a fact does not
/// have are absent. Regular expressions, timestamps and optional values are not known here.
///
/// Blocks the calling thread until the outcome is there or `allowance` is used up.
///
/// # Errors
/// [`Shortage`] when the gate could not find out whether it holds.
pub fn evaluate(
    expression: &str,
    facts: &FactList,
    allowance: Allowance,
) -> Result<Result<(), Failure>, Shortage> {
    if expression.len() > MAX_LENGTH {
        return Ok(Err(Failure::Invalid));
    }
    let until = Instant::now() + allowance.patience;
    let slot = PLACES.take(until).ok_or(Shortage)?;
    let (sender, receiver) = mpsc::channel();
    let expression = expression.to_owned();
    let facts = facts.clone();
    thread::Builder::new()
        .name("expression".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || work(&expression, &facts, slot, &sender))
        // The process or the machine has no room for another thread.
        .map_err(|_| Shortage)?;
    receive(&receiver, allowance.processor, until)
}

/// What the thread of an evaluation tells.
enum Progress {
    /// It has begun, and this is its clock.
    Begun(ProcessorClock),
    /// It has ended, after so much of a processor's time.
    Ended(Result<(), Failure>, Option<Duration>),
}

/// Nobody may be waiting any more, and then nobody wants to know.
fn work(expression: &str, facts: &FactList, slot: Slot, sender: &mpsc::Sender<Progress>) {
    let clock = ProcessorClock::of_this_thread();
    sender.send(Progress::Begun(clock)).ok();
    // The library can panic on what it did not expect; that is the expression's fault.
    let outcome =
        catch_unwind(AssertUnwindSafe(|| run(expression, facts))).unwrap_or(Err(Failure::Invalid));
    let used = clock.read();
    drop(slot);
    sender.send(Progress::Ended(outcome, used)).ok();
}

/// Waits for what the thread tells, and looks at its clock meanwhile.
fn receive(
    receiver: &mpsc::Receiver<Progress>,
    processor: Duration,
    until: Instant,
) -> Result<Result<(), Failure>, Shortage> {
    let mut clock = None;
    let mut soonest = processor;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(soonest.max(LOOK).min(left)) {
            Ok(Progress::Begun(its)) => clock = Some(its),
            // However late anybody looked, the same use gives the same answer.
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
                // A thread's time does not run faster than the wall's.
                soonest = processor.saturating_sub(used);
            }
        }
    }
}

fn run(expression: &str, facts: &FactList) -> Result<(), Failure> {
    let parsed = ENV.parser().parse(expression).map_err(|_| Failure::Invalid)?;
    estimate::check(&parsed, facts)?;
    let mut context = Context::with_env(Arc::clone(&ENV));
    context.set_variable_resolver(facts);
    let result = context.resolve(&parsed).map_err(|_| Failure::Invalid)?;
    let Value::Bool(holds) = result else {
        return Err(Failure::NotBool);
    };
    holds.then_some(()).ok_or(Failure::False)
}

/// Where evaluations run.
struct Places {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    /// Waits for a place; none when there is none by then.
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

/// The right to run one evaluation, given back when its work has ended.
struct Slot(&'static Places);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
