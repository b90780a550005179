//! The servers of one run, each started with its first call.
//!
//! ```text
//!   acquire --> open? --yes--> the list changed? listed again --> call
//!      |          +--no--> wait for the pause after a failure --> start
//!      +-- deadline, cancellation: nothing was called
//!
//!   a server that may write in the workspace: ends with the lease, and before probes
//!   another one: stays while the run waits, for a time; a run that ends or goes on elsewhere meanwhile leaves it for that time
//! ```

use super::host::Server;
use super::start::{Live, Where, start};
use super::{Answered, McpClient, Request};
use crate::tool::{ErrorCode, ToolContext, ToolError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::config::McpTransport;
use surety_common::telemetry;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// How long a server is kept for a run that waits.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server of the run. One that may write has a process for each write scope, because a process keeps the one that it was
/// started with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    server: String,
    may_write: bool,
    protected: Vec<PathBuf>,
}

/// The servers of one run, under a lease. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunServers {
    kept: Arc<Kept>,
    lost: CancellationToken,
}

/// What stays from one lease to the next.
#[derive(Default)]
struct Kept {
    ended: CancellationToken,
    slots: StdMutex<HashMap<Key, Arc<Mutex<Slot>>>>,
    /// The leases that there were.
    leases: AtomicU64,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

#[derive(Default)]
struct Slot {
    live: Option<Live>,
    failures: u32,
    not_before: Option<Instant>,
}

impl Slot {
    fn failed(&mut self) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + pause);
    }
}

impl std::fmt::Debug for RunServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunServers").finish_non_exhaustive()
    }
}

impl RunServers {
    /// The same servers under another lease. Those that may write are killed when `lost` is cancelled.
    pub fn under(&self, lost: &CancellationToken) -> Self {
        self.kept.leases.fetch_add(1, Ordering::Relaxed);
        Self { kept: Arc::clone(&self.kept), lost: lost.child_token() }
    }

    /// Whether one was started that has not been ended.
    pub(crate) fn are_there(&self) -> bool {
        !self.slots().is_empty()
    }

    /// Ends those that may write, and keeps the others for the next lease.
    pub(crate) async fn keep(&self) {
        self.end_writers(true).await;
        if !self.are_there() {
            return;
        }
        let (kept, lease) = (Arc::downgrade(&self.kept), self.kept.leases.load(Ordering::Relaxed));
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            if let Some(kept) =
                kept.upgrade().filter(|it| it.leases.load(Ordering::Relaxed) == lease)
            {
                Self { kept, lost: CancellationToken::new() }.end(false).await;
            }
        });
    }

    /// A connection for a call: the open one, or a new one after the pause that earlier failures ask for.
    ///
    /// # Errors
    /// `mcp_unavailable`, `cancelled`, `timeout`; `mcp_tool_changed` where `shown` is the description that the driver
    /// knows and the server has another one.
    pub(super) async fn acquire(
        &self,
        server: &Arc<Server>,
        ctx: &ToolContext,
        shown: Option<(&str, &str)>,
    ) -> Result<Arc<dyn McpClient>, ToolError> {
        ctx.check()?;
        let slot = self.slot(server, ctx)?;
        let mut slot = within(ctx, slot.lock_owned()).await?;
        if let Some(live) = &slot.live
            && !live.client.is_open()
        {
            live.client.end(true).await;
            slot.live = None;
            slot.failed();
        }
        if slot.live.is_none() {
            self.begin(server, ctx, &mut slot).await?;
        }
        let Some(live) = slot.live.as_mut() else {
            let message = "the connection of an MCP server is not kept";
            return Err(ToolError::new(ErrorCode::InternalError, message));
        };
        let name = &server.config.name;
        if live.client.take_changed() {
            let listed = within(ctx, live.client.list()).await?;
            live.listing = listed.map_err(|failure| failure.into_error(name, true))?;
            server.list_again();
        }
        if let Some((tool, digest)) = shown {
            let checked = live.listing.check(name, tool, digest);
            checked.inspect_err(|_| server.list_again())?;
        }
        Ok(Arc::clone(&live.client))
    }

    async fn begin(
        &self,
        server: &Arc<Server>,
        ctx: &ToolContext,
        slot: &mut OwnedMutexGuard<Slot>,
    ) -> Result<(), ToolError> {
        if let Some(not_before) = slot.not_before {
            if not_before >= ctx.deadline {
                let message = format!(
                    "MCP server {}: it failed {} times, and is started again in {} s; nothing was called",
                    server.config.name,
                    slot.failures,
                    not_before.saturating_duration_since(Instant::now()).as_secs() + 1
                );
                return Err(ToolError::new(ErrorCode::McpUnavailable, message));
            }
            within(ctx, sleep_until(not_before)).await?;
        }
        let place = Where::Workspace(Box::new(ctx.clone()));
        let lost = if may_write(server) { &self.lost } else { &self.kept.ended };
        let starting = start(server, &ctx.sandbox, &place, lost);
        let name = &server.config.name;
        match within(ctx, starting).await {
            Ok(Ok(live)) => {
                let outcome = if slot.failures > 0 { "restarted" } else { "started" };
                telemetry::count_mcp_start(name, outcome);
                slot.live = Some(live);
                Ok(())
            }
            Ok(Err(error)) | Err(error) => {
                telemetry::count_mcp_start(name, "failed");
                slot.failed();
                Err(error)
            }
        }
    }

    /// Makes one call over a connection, and ends the connection where the server may still be at work for it.
    pub(super) async fn call(
        &self,
        server: &Arc<Server>,
        ctx: &ToolContext,
        (client, request): (&Arc<dyn McpClient>, &Request),
    ) -> Answered {
        let answered = client.call(request).await;
        match &answered {
            Ok(_) => {
                if let Ok(slot) = self.slot(server, ctx) {
                    slot.lock().await.failures = 0;
                }
            }
            // A process that was told to stop may write on.
            Err(failure) if failure.leaves_work() && server.is_process() => {
                client.end(ctx.kill.is_cancelled()).await;
            }
            Err(_) => {}
        }
        answered
    }

    /// Ends every server, with all that it started. `at_once` leaves them no time.
    pub(crate) async fn end(&self, at_once: bool) {
        self.end_those(at_once, |_| true).await;
    }

    /// Ends those that may write in the workspace.
    pub(crate) async fn end_writers(&self, at_once: bool) {
        self.end_those(at_once, |key| key.may_write).await;
    }

    async fn end_those(&self, at_once: bool, which: impl Fn(&Key) -> bool) {
        let slots: Vec<_> =
            self.slots().extract_if(|key, _| which(key)).map(|(_, slot)| slot).collect();
        let ends = slots.into_iter().map(|slot| async move {
            let live = slot.lock().await.live.take();
            if let Some(live) = live {
                live.client.end(at_once).await;
            }
        });
        futures::future::join_all(ends).await;
    }

    fn slot(&self, server: &Server, ctx: &ToolContext) -> Result<Arc<Mutex<Slot>>, ToolError> {
        let may_write = may_write(server);
        let protected = match may_write {
            true => ctx.write_scope.protected(ctx.workspace()?.root()),
            false => Vec::new(),
        };
        let key = Key { server: server.config.name.clone(), may_write, protected };
        Ok(Arc::clone(self.slots().entry(key).or_default()))
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Mutex<Slot>>>> {
        self.kept.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a server may write in the workspace.
fn may_write(server: &Server) -> bool {
    matches!(&server.config.transport, McpTransport::Command(command) if command.may_write)
}

/// Waits for something within the limits of a call.
async fn within<T>(ctx: &ToolContext, what: impl Future<Output = T>) -> Result<T, ToolError> {
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(ToolError::called_off()),
        () = sleep_until(ctx.deadline) => {
            let message = "the deadline passed before the MCP server could be called; allow more time";
            Err(ToolError::new(ErrorCode::Timeout, message))
        }
        done = what => Ok(done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_failures_grows_to_its_bound() {
        let mut slot = Slot::default();
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let before = Instant::now();
            slot.failed();
            pauses.push(slot.not_before.unwrap().duration_since(before).as_millis() / 250);
        }
        assert_eq!(pauses[..4], [1, 2, 4, 8]);
        assert_eq!(pauses.last(), Some(&120));
    }
}
