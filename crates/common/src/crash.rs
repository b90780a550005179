//! Named points where a test makes the process die, freeze or panic, to test the recovery from
//! exactly there. They exist in debug builds only. Each commit has one before and one after it, and
//! a test fails for a point that no test uses.

/// Kills the process when `SURETY_CRASH_POINT` is `name` or `name:n`. Freezes it for
/// `SURETY_FREEZE_POINT`, until a SIGCONT, and panics for `SURETY_PANIC_POINT`, as a defect would.
/// `n` is the pass at which this happens, counted from 1.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a test requests it")]
pub fn point(name: &str) {
    use nix::sys::signal::{Signal, raise};
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

/// Does nothing: a release has no such points.
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
