//! How much of a processor a thread has had.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The processor's time of one thread, which others can read while it works. It stands still while
/// the machine has no processor for the thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessorClock(ClockId);

impl ProcessorClock {
    /// The clock of the thread that asks.
    #[cfg(target_os = "linux")]
    pub(super) fn of_this_thread() -> Self {
        // What pthread_getcpuclockid(3) makes of a thread's number, which is part of what the kernel
        // promises to programs: the number's complement, "of one thread", "as it is scheduled".
        Self(ClockId::from_raw((!nix::unistd::gettid().as_raw() << 3) | 4 | 2))
    }

    /// The clock of the thread that asks; another one reads its own time in it.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of_this_thread() -> Self {
        Self(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }

    /// What the thread has used so far; nothing is known of one that has ended.
    pub(super) fn read(self) -> Option<Duration> {
        clock_gettime(self.0).ok().map(Duration::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_time_of_another_thread_stands_still_while_it_waits() {
        let (sender, receiver) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            sender.send(ProcessorClock::of_this_thread()).unwrap();
            ended.recv().unwrap();
        });
        let clock = receiver.recv().unwrap();
        let own = ProcessorClock::of_this_thread();
        let begun = own.read().unwrap();
        while own.read().unwrap() - begun < Duration::from_millis(50) {}
        assert!(clock.read().unwrap() < Duration::from_millis(50));
        end.send(()).unwrap();
        other.join().unwrap();
    }
}
