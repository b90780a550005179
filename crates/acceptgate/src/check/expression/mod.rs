//! `expression`: a CEL expression over the receipts' facts, written by whoever wrote the plan.
//!
//! ```text
//!   text -> parse -> estimate -> run on a thread of its own -> bool
//!    \        \         \                 \                     \
//!   4,096   256 levels   work and memory    deadline             not_bool
//! ```
//!
//! CEL has no cost limit and a running evaluation cannot be stopped from outside. So what it can
//! cost at most is worked out first, from the expression and the facts it will see, and what
//! could cost too much is not begun. The deadline is the second fence: whoever waits stops
//! waiting, and the thread, whose work is bounded, ends soon after by itself. The number of such
//! threads is bounded too.

mod estimate;
mod facts;

pub use facts::FactList;

use cel::{Context, Env, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::Duration;

/// The kind of these checks.
pub const KIND: &str = "expression";
/// The longest expression that is read, in bytes.
const MAX_LENGTH: usize = 4096;

/// How long a verdict waits for one expression, unless its caller knows better.
pub const DEADLINE: Duration = Duration::from_millis(250);

/// Evaluations that may run at once in this process, those nobody waits for any more included.
const MAX_RUNNING: usize = 32;

/// Room to read the deepest expression: a chain of operators makes a tree nearly as deep as the
/// text is long, and reading and dropping it recurses. A build without optimisation has needed
/// more than 48 MiB. Only what is touched costs memory.
const STACK_BYTES: usize = 256 * 1024 * 1024;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

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
    /// It did not end in time, or could cost too much to be begun.
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
/// Blocks the calling thread until the outcome is there or the deadline has passed.
///
/// # Errors
/// The reason why it does not hold.
pub fn evaluate(expression: &str, facts: &FactList, deadline: Duration) -> Result<(), Failure> {
    if expression.len() > MAX_LENGTH {
        return Err(Failure::Invalid);
    }
    let slot = Slot::take().ok_or(Failure::Timeout)?;
    let (sender, receiver) = mpsc::channel();
    let expression = expression.to_owned();
    let facts = facts.clone();
    thread::Builder::new()
        .name("expression".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // The library can panic on what it did not expect; that is the expression's fault.
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&expression, &facts)))
                .unwrap_or(Err(Failure::Invalid));
            drop(slot);
            // Nobody may be waiting any more, and then nobody wants to know.
            sender.send(outcome).ok();
        })
        .map_err(|_| Failure::Timeout)?;
    match receiver.recv_timeout(deadline) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(Failure::Timeout),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Failure::Invalid),
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

/// The right to run one evaluation, given back when its thread ends.
struct Slot;

impl Slot {
    fn take() -> Option<Self> {
        let more = |running| (running < MAX_RUNNING).then_some(running + 1);
        RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
