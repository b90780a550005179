//! The processor time of a thread.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The processor time of one thread, which others can read while it works. It does not advance
/// while the thread has no processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessorClock(ClockId);

impl ProcessorClock {
    /// The clock of the calling thread.
    #[cfg(target_os = "linux")]
    pub(super) fn of_this_thread() -> Self {
        // The result of pthread_getcpuclockid(3) for a thread id, which is part of the kernel's
        // ABI: the id's complement, "of one thread", "as it is scheduled".
        Self(ClockId::from_raw((!nix::unistd::gettid().as_raw() << 3) | 4 | 2))
    }

    /// The clock of the calling thread; another thread that reads it gets its own time.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of_this_thread() -> Self {
        Self(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }

    /// The processor time used so far; none for a thread that has ended.
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
