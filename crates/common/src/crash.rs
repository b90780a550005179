//! Named places where a test may have the process die, so that recovery from exactly there is
//! tested without luck. They exist in debug builds only.

/// Every place there is: a commit boundary has one on each side.
pub const POINTS: [&str; 15] = [
    "planner.before_create",
    "planner.after_create",
    "planner.before_submit",
    "planner.after_submit",
    "executor.after_register",
    "executor.before_claim",
    "executor.after_claim",
    "executor.after_intent",
    "executor.after_effect",
    "executor.before_output",
    "executor.after_output",
    "committer.before_write",
    "committer.after_write",
    "gate.before_verdict",
    "gate.after_verdict",
];

/// Ends the process as a crash would when `SURETY_CRASH_POINT` is `name` or `name:n`; with a
/// number the `n`th passing is meant, counted from 1.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    debug_assert!(POINTS.contains(&name), "{name} is not among the crash points");
    if armed::is_due(name) {
        std::process::abort();
    }
}

/// Nothing: a release has no such places.
#[cfg(not(debug_assertions))]
pub const fn point(_: &str) {}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Armed {
        name: String,
        passings_left: AtomicU32,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn is_due(name: &str) -> bool {
        let armed = ARMED.get_or_init(|| read(&std::env::var("SURETY_CRASH_POINT").ok()?));
        armed.as_ref().is_some_and(|armed| {
            armed.name == name && armed.passings_left.fetch_sub(1, Ordering::Relaxed) == 1
        })
    }

    fn read(text: &str) -> Option<Armed> {
        let (name, passing) = match text.split_once(':') {
            Some((name, passing)) => (name, passing.parse().ok()?),
            None => (text, 1),
        };
        Some(Armed { name: name.to_owned(), passings_left: AtomicU32::new(passing) })
    }
}
