//! A guard process that kills this process's commands if it is killed itself (SIGKILL).
//!
//! ```text
//!   executor ==pipe==> guard: stores the running process groups
//!      X (SIGKILL)  -> the pipe is closed -> the guard kills the groups, and ends
//! ```
//!
//! A command that outlived its executor would continue to write into a workspace that another
//! executor has taken over. The kernel's parent-death signal reaches only the direct child. The
//! guard is a shell script, because every machine that runs commands has a shell; if it does not
//! start, commands run without it.

use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `3 7` puts the running group 7 into slot 3, and `3` empties the slot. At the end of the input
/// the remaining groups are killed. Each line costs the same, however many groups run. The guard
/// ignores signals for the executor and ends with the pipe.
const GUARD: &str = r#"
trap '' INT TERM HUP
places=0
while read -r place group; do
  eval "group_$place=\$group"
  [ "$place" -lt "$places" ] || places=$((place + 1))
done
while [ "$places" -gt 0 ]; do
  places=$((places - 1))
  eval "group=\$group_$places"
  [ -z "$group" ] || kill -s KILL -- "-$group"
done
"#;

static GUARDED: Mutex<Guarded> = Mutex::new(Guarded::none());

/// The running groups, each in a slot, and the guard.
struct Guarded {
    groups: BTreeMap<i32, usize>,
    /// Free slots.
    left: Vec<usize>,
    guard: Option<Guard>,
}

/// The guard's process, and the pipe whose end it waits for.
struct Guard {
    process: Child,
    ear: ChildStdin,
}

/// Starts the guard before the first command, because its start takes longer than a command needs
/// to do damage.
pub(super) fn prepare() {
    lock().prepare();
}

/// Has a group killed if this process dies before [`release`].
pub(super) fn watch(group: Pid) {
    lock().watch(group.as_raw());
}

/// Releases a group that has no processes left.
pub(super) fn release(group: Pid) {
    lock().release(group.as_raw());
}

fn lock() -> MutexGuard<'static, Guarded> {
    GUARDED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guarded {
    const fn none() -> Self {
        Self { groups: BTreeMap::new(), left: Vec::new(), guard: None }
    }

    fn prepare(&mut self) {
        if self.guard.is_none() {
            self.start();
        }
    }

    fn watch(&mut self, group: i32) {
        // Without a free slot, the number of slots equals the number of groups.
        let free = self.groups.len();
        let place = *self.groups.entry(group).or_insert_with(|| self.left.pop().unwrap_or(free));
        let sent = self.guard.as_mut().is_some_and(|guard| guard.send(place, Some(group)));
        if !sent {
            self.start();
        }
    }

    /// Starts a guard, or replaces one that was killed.
    fn start(&mut self) {
        if let Some(dead) = self.guard.take() {
            dead.bury();
        }
        match Guard::start() {
            Ok(mut guard) => {
                if self.groups.iter().all(|(group, place)| guard.send(*place, Some(*group))) {
                    self.guard = Some(guard);
                }
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "guard: it could not be started; if this process is killed, its commands continue to run"
                );
            }
        }
    }

    fn release(&mut self, group: i32) {
        let Some(place) = self.groups.remove(&group) else { return };
        self.left.push(place);
        if let Some(guard) = &mut self.guard {
            // A dead guard is replaced with the next command, then without this group.
            guard.send(place, None);
        }
    }
}

impl Guard {
    fn start() -> std::io::Result<Self> {
        let mut process = Command::new("sh")
            .args(["-c", GUARD, "surety-guard"])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let ear = process.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
        Ok(Self { process, ear })
    }

    /// Sends the content of a slot to the guard. Returns whether the guard is alive.
    fn send(&mut self, place: usize, group: Option<i32>) -> bool {
        let group = group.map(|group| format!(" {group}")).unwrap_or_default();
        self.ear.write_all(format!("{place}{group}\n").as_bytes()).is_ok()
    }

    fn bury(mut self) {
        if let Err(error) = self.process.wait() {
            tracing::debug!(%error, "guard: its end could not be awaited");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use nix::sys::signal::{Signal, kill, killpg};
    use std::io::Read;
    use std::time::{Duration, Instant};

    fn sleeper() -> Child {
        Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().expect("a sh")
    }

    fn group(child: &Child) -> i32 {
        i32::try_from(child.id()).expect("a process id")
    }

    fn ends(child: &mut Child) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if child.try_wait().expect("a child").is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn what_runs_when_the_pipe_ends_is_killed_and_what_was_released_is_not() {
        let mut guarded = Guarded::none();
        let [mut left, mut released] = [sleeper(), sleeper()];
        guarded.watch(group(&left));
        guarded.watch(group(&released));
        guarded.release(group(&released));
        // The end of the process closes it in the same way.
        drop(guarded);
        assert!(ends(&mut left), "it outlived its guard's pipe");
        let remaining = killpg(Pid::from_raw(group(&left)), None);
        assert!(remaining == Err(Errno::ESRCH) || ends(&mut left), "its own child was left");
        assert!(released.try_wait().expect("a child").is_none(), "it had been released");
        killpg(Pid::from_raw(group(&released)), Signal::SIGKILL).expect("it runs");
        released.wait().expect("its end");
    }

    #[test]
    fn a_command_costs_the_guard_no_more_when_many_run() {
        let mut tracing = Command::new("sh");
        tracing.args(["-xc", GUARD]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = tracing.spawn().expect("a sh");
        let ear = process.stdin.take().expect("a pipe");
        let mut trace = process.stderr.take().expect("a pipe");
        let reading = std::thread::spawn(move || {
            let mut traced = String::new();
            trace.read_to_string(&mut traced).map(|_| traced)
        });
        let mut guarded = Guarded { guard: Some(Guard { process, ear }), ..Guarded::none() };
        // Above any process id.
        let groups = 2_000_000_000..2_000_000_400;
        let turns = 3;
        for _ in 0..turns {
            groups.clone().for_each(|group| guarded.watch(group));
            groups.clone().for_each(|group| guarded.release(group));
        }
        assert_eq!(guarded.left.len(), groups.len(), "places are taken again");
        drop(guarded);
        let commands = reading.join().expect("a thread").expect("a trace").lines().count();
        let sent = 2 * turns * groups.len();
        assert!((sent..10 * sent).contains(&commands), "{commands} for {sent} lines");
    }

    #[test]
    fn a_guard_that_was_killed_is_replaced_and_knows_every_group() {
        let mut guarded = Guarded::none();
        let [mut first, mut second] = [sleeper(), sleeper()];
        guarded.watch(group(&first));
        let guard = guarded.guard.as_mut().expect("a guard");
        kill(Pid::from_raw(group(&guard.process)), Signal::SIGKILL).expect("it runs");
        guard.process.wait().expect("its end");
        guarded.watch(group(&second));
        drop(guarded);
        assert!(ends(&mut first) && ends(&mut second));
    }
}
