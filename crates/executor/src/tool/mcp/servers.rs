//! The servers of one run: each started with its first call, and ended with the run's lease.
//!
//! ```text
//!   acquire --> open? --yes--> the list changed? listed again --> call
//!      |          +--no--> wait for the pause after a failure --> start
//!      +-- deadline, cancellation: nothing was called
//! ```

use super::host::Server;
use super::start::{Live, Where, start};
use super::{Answered, McpClient, Request};
use crate::tool::{ErrorCode, ToolContext, ToolError};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;
use surety_common::config::McpTransport;
use surety_common::telemetry;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server of the run: one process for each write scope, because a process keeps the one that it was started with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    server: String,
    protected: Vec<PathBuf>,
}

/// The servers of one run. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunServers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    lost: CancellationToken,
    slots: StdMutex<HashMap<Key, Arc<Mutex<Slot>>>>,
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
    /// No server yet. All are killed when `lost` is cancelled.
    pub fn new(lost: &CancellationToken) -> Self {
        Self(Arc::new(Inner { lost: lost.child_token(), slots: StdMutex::default() }))
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
        let starting = start(server, &ctx.sandbox, &place, &self.0.lost);
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
        let slots: Vec<_> = {
            let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        let ends = slots.into_iter().map(|slot| async move {
            let live = slot.lock().await.live.take();
            if let Some(live) = live {
                live.client.end(at_once).await;
            }
        });
        futures::future::join_all(ends).await;
    }

    fn slot(&self, server: &Server, ctx: &ToolContext) -> Result<Arc<Mutex<Slot>>, ToolError> {
        let protected = match &server.config.transport {
            McpTransport::Command(command) if command.may_write => {
                ctx.write_scope.protected(ctx.workspace()?.root())
            }
            McpTransport::Command(_) | McpTransport::Url(_) => Vec::new(),
        };
        let key = Key { server: server.config.name.clone(), protected };
        let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(slots.entry(key).or_default()))
    }
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
