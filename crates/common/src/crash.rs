//! Named places where a test may have the process die, freeze or panic, so that recovery from exactly
//! there is tested without luck. They exist in debug builds only.

/// Every place there is: a commit boundary has one on each side.
pub const POINTS: [&str; 36] = [
    "store.before_migrations",
    "store.after_migrations",
    "planner.before_create",
    "planner.after_create",
    "planner.before_submit",
    "planner.after_submit",
    "planner.before_partition",
    "planner.after_partition",
    "planner.before_forget",
    "planner.after_forget",
    "planner.before_take_out",
    "planner.after_take_out",
    "planner.before_drop",
    "planner.after_drop",
    "planner.before_thin",
    "planner.after_thin",
    "executor.before_register",
    "executor.after_register",
    "executor.before_retire",
    "executor.after_retire",
    "executor.before_claim",
    "executor.after_claim",
    "executor.before_take_over",
    "executor.after_take_over",
    "executor.before_give_back",
    "executor.after_give_back",
    "executor.before_let_go",
    "executor.after_let_go",
    "executor.after_intent",
    "executor.after_effect",
    "executor.before_output",
    "executor.after_output",
    "committer.before_write",
    "committer.after_write",
    "gate.before_verdict",
    "gate.after_verdict",
];

/// Kills the process when `SURETY_CRASH_POINT` is `name` or `name:n`, freezes it when
/// `SURETY_FREEZE_POINT` is, until somebody continues it, and panics when `SURETY_PANIC_POINT` is, as a
/// defect would; with a number the `n`th passing is meant, counted from 1.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "what a test asks for")]
pub fn point(name: &str) {
    use nix::sys::signal::{Signal, raise};
    debug_assert!(POINTS.contains(&name), "{name} is not among the crash points");
    // As by `kill -9`: no handler, no destructor, no other thread runs any more.
    if armed::KILLED.is_due(name) && raise(Signal::SIGKILL).is_err() {
        std::process::abort();
    }
    if armed::FROZEN.is_due(name) && raise(Signal::SIGSTOP).is_err() {
        std::process::abort();
    }
    if armed::PANICKED.is_due(name) {
        panic!("SURETY_PANIC_POINT is {name}");
    }
}

/// Nothing: a release has no such places.
#[cfg(not(debug_assertions))]
pub const fn point(_: &str) {}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(super) static KILLED: Place = Place::named_by("SURETY_CRASH_POINT");
    pub(super) static FROZEN: Place = Place::named_by("SURETY_FREEZE_POINT");
    pub(super) static PANICKED: Place = Place::named_by("SURETY_PANIC_POINT");

    pub(super) struct Place {
        variable: &'static str,
        armed: OnceLock<Option<Armed>>,
    }

    struct Armed {
        name: String,
        passings_left: AtomicU32,
    }

    impl Place {
        const fn named_by(variable: &'static str) -> Self {
            Self { variable, armed: OnceLock::new() }
        }

        pub(super) fn is_due(&self, name: &str) -> bool {
            let armed = self.armed.get_or_init(|| read(&std::env::var(self.variable).ok()?));
            armed.as_ref().is_some_and(|armed| {
                armed.name == name && armed.passings_left.fetch_sub(1, Ordering::Relaxed) == 1
            })
        }
    }

    fn read(text: &str) -> Option<Armed> {
        let (name, passing) = match text.split_once(':') {
            Some((name, passing)) => (name, passing.parse().ok()?),
            None => (text, 1),
        };
        Some(Armed { name: name.to_owned(), passings_left: AtomicU32::new(passing) })
    }
}
