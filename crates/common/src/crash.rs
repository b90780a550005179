//! Named places where a test may have the process die, freeze or panic, so that recovery from exactly
//! there is tested without luck. They exist in debug builds only. A commit boundary has one on each side,
//! and a test fails for one where no test dies.

/// Kills the process when `SURETY_CRASH_POINT` is `name` or `name:n`, freezes it when
/// `SURETY_FREEZE_POINT` is, until somebody continues it, and panics when `SURETY_PANIC_POINT` is, as a
/// defect would; with a number the `n`th passing is meant, counted from 1.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "what a test asks for")]
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
