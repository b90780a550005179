//! The server's process: a child that ends with its parent.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::Notify;

use super::account::Account;
use super::binaries::Binaries;
use super::durability::Durability;
use super::error::PostgresError;
use super::layout::{Layout, PORT};
use super::process::{FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN, send};

/// How long a drop waits for a fast shutdown before it sends a stronger signal.
const DROP_PATIENCE: Duration = Duration::from_secs(10);

/// A server that runs, or ran.
#[derive(Debug)]
pub(super) struct Server {
    pid: u32,
    end: Arc<End>,
}

/// How the server ended, once it has.
#[derive(Debug, Default)]
struct End {
    status: Mutex<Option<String>>,
    reached: Condvar,
    notify: Notify,
}

impl Server {
    pub(super) fn start(
        binaries: &Binaries,
        layout: &Layout,
        account: &Account,
        settings: &[String],
    ) -> Result<Self, PostgresError> {
        let log = layout.open_log()?;
        let copy = log.try_clone().map_err(PostgresError::folder(layout.cluster()))?;
        let mut command = dying_with_us(binaries, account);
        command.arg("-D").arg(layout.cluster());
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        // In its own process group: Ctrl-C goes to this process only, which still needs the server
        // to drain.
        command.stdin(Stdio::null()).stdout(log).stderr(copy).process_group(0);
        Self::keep(command).map_err(|source| PostgresError::Program {
            program: binaries.program("postgres"),
            source,
        })
    }

    /// How it ended, once it has.
    pub(super) fn ended(&self) -> Option<String> {
        self.end.status().clone()
    }

    /// Completes when it has ended, and says how.
    pub(super) async fn end(&self) -> String {
        loop {
            let notified = self.end.notify.notified();
            if let Some(status) = self.ended() {
                return status;
            }
            notified.await;
        }
    }

    pub(super) async fn stop(self, deadline: Duration) -> Result<(), PostgresError> {
        let pid = self.pid;
        // Waiting blocks, and so would the drop at the end of this function.
        let stopped = tokio::task::spawn_blocking(move || self.end_within(deadline)).await;
        if matches!(stopped, Ok(true)) { Ok(()) } else { Err(PostgresError::NotStopped { pid }) }
    }

    /// Starts and waits on a thread that lives as long as the server. The kernel sends the
    /// parent-death signal when the thread that started the child ends, and tokio's idle threads
    /// end.
    fn keep(mut command: Command) -> std::io::Result<Self> {
        let end = Arc::new(End::default());
        let (sender, started) = mpsc::channel();
        let kept = Arc::clone(&end);
        thread::Builder::new().name("surety-postgres".to_owned()).spawn(move || {
            let spawned = command.spawn();
            let (pid, child) = match spawned {
                Ok(child) => (Ok(child.id()), Some(child)),
                Err(error) => (Err(error), None),
            };
            // The receiver is dropped only when the whole start was abandoned, which stops the
            // server too.
            let delivered = sender.send(pid).is_ok();
            let Some(mut child) = child else { return };
            if !delivered && let Err(error) = child.kill() {
                tracing::debug!(%error, "postgres: the server had already ended");
            }
            kept.reach(child.wait());
        })?;
        let pid = started.recv().map_err(std::io::Error::other)??;
        Ok(Self { pid, end })
    }

    fn end_within(&self, deadline: Duration) -> bool {
        let patience = [
            (FAST_SHUTDOWN, deadline),
            (IMMEDIATE_SHUTDOWN, DROP_PATIENCE),
            (Signal::SIGKILL, DROP_PATIENCE),
        ];
        patience.into_iter().any(|(signal, deadline)| {
            if self.ended().is_some() {
                return true;
            }
            if let Ok(pid) = i32::try_from(self.pid) {
                send(pid, signal);
            }
            self.end.wait(deadline)
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.end_within(DROP_PATIENCE) {
            tracing::error!(
                pid = self.pid,
                "postgres: the server did not stop; end it with kill -9"
            );
        }
    }
}

impl End {
    fn status(&self) -> MutexGuard<'_, Option<String>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, status: std::io::Result<ExitStatus>) {
        let text = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        *self.status() = Some(text);
        self.reached.notify_all();
        self.notify.notify_waiters();
    }

    /// Whether the server ended within `deadline`.
    fn wait(&self, deadline: Duration) -> bool {
        let waiting = |status: &mut Option<String>| status.is_none();
        let waited = self.reached.wait_timeout_while(self.status(), deadline, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

/// The server's command, wrapped in `setpriv` if that can end the server even when this process is
/// killed. On other systems the next start finds the server and stops it.
fn dying_with_us(binaries: &Binaries, account: &Account) -> Command {
    const TIED: [&str; 3] = ["--pdeathsig", "INT", "--"];
    let postgres = binaries.program("postgres");
    let setpriv = std::path::Path::new("setpriv");
    let mut probe = account.command(setpriv);
    probe.args(TIED).arg(&postgres).arg("--version");
    let works = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        return account.command(&postgres);
    }
    let mut command = account.command(setpriv);
    command.args(TIED).arg(postgres);
    command
}

/// The server's settings. The last value of a name counts, so the settings that keep the server
/// private come last.
pub(super) fn settings(layout: &Layout, durability: Durability, own: &[&str]) -> Vec<String> {
    let (fsync, synchronous_commit) = match durability {
        Durability::Full => ("on", "on"),
        Durability::Fast => ("off", "off"),
    };
    let mut settings = vec![
        format!("fsync={fsync}"),
        format!("synchronous_commit={synchronous_commit}"),
        "shared_buffers=128MB".to_owned(),
        "max_connections=200".to_owned(),
    ];
    settings.extend(own.iter().map(|&setting| setting.to_owned()));
    settings.extend([
        "listen_addresses=".to_owned(),
        format!("unix_socket_directories={}", layout.socket().display()),
        "unix_socket_permissions=0700".to_owned(),
        format!("port={PORT}"),
    ]);
    settings
}
