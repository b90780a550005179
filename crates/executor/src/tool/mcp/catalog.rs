//! What each server has, as the executor knows it: asked of a process or a session that sees no run.
//!
//! ```text
//!   list --> offered to the Toolbox --> wait: the server says so | a run saw another list | the time passed --+
//!     ^      +-- failed: a pause that grows                                                                   |
//!     +-------------------------------------------------------------------------------------------------------+
//! ```

use super::host::{McpHost, Server};
use super::listing::Listing;
use super::server_tool::McpTool;
use super::start::{Live, Where, start};
use super::{McpClient, SCRATCH_PREFIX};
use crate::blocking::blocking;
use crate::scratch::ScratchFolder;
use crate::tool::{Sandbox, ToolError, Toolbox};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::run::Policy;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a list counts that the server says nothing of: an update of its program may have changed it.
const LIST_COUNTS: Duration = Duration::from_secs(600);
/// The least time between two lists, however often a server says that its list changed.
const BETWEEN_LISTS: Duration = Duration::from_secs(1);
/// The first and the longest pause after failures.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Asks every server for its list, and follows the lists until `shutdown`. It returns when each server was asked once:
/// what works by then is offered.
pub(crate) async fn follow(
    host: &McpHost,
    sandbox: &Sandbox,
    toolbox: &Arc<Toolbox>,
    shutdown: &CancellationToken,
) {
    // What a server is asked for its list has nothing to do with a run's policy.
    let sandbox = sandbox.under(&Policy::default());
    let mut asked = Vec::new();
    for server in host.servers() {
        let (first, known) = oneshot::channel();
        asked.push(known);
        let following = Following {
            server: Arc::clone(server),
            sandbox: sandbox.clone(),
            toolbox: Arc::clone(toolbox),
            shutdown: shutdown.clone(),
            offered: None,
        };
        tokio::spawn(following.run(first));
    }
    for known in asked {
        // A server whose task ended was asked, too.
        known.await.unwrap_or_default();
    }
}

struct Following {
    server: Arc<Server>,
    sandbox: Sandbox,
    toolbox: Arc<Toolbox>,
    shutdown: CancellationToken,
    /// What it offered last.
    offered: Option<Listing>,
}

impl Following {
    async fn run(mut self, first: oneshot::Sender<()>) {
        let mut first = Some(first);
        let mut failures = 0_u32;
        while !self.shutdown.is_cancelled() {
            let begun = Instant::now();
            let listed = tokio::select! {
                () = self.shutdown.cancelled() => return,
                listed = self.list() => listed,
            };
            let live = match listed {
                Ok(live) => Some(live),
                Err(error) => {
                    let pause =
                        FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
                    failures = failures.saturating_add(1);
                    tracing::warn!(
                        server = %self.server.config.name, %error, pause_s = pause.as_secs(),
                        "mcp: the tools of a server could not be listed; the last known list counts"
                    );
                    first.take().and_then(|first| first.send(()).ok());
                    self.pause(pause).await;
                    None
                }
            };
            let Some(live) = live else { continue };
            failures = 0;
            self.offer(live.listing).await;
            first.take().and_then(|first| first.send(()).ok());
            self.keep(live.client.as_ref()).await;
            self.pause(BETWEEN_LISTS.saturating_sub(begun.elapsed())).await;
        }
    }

    async fn pause(&self, pause: Duration) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = sleep(pause) => {}
        }
    }

    async fn list(&self) -> Result<Live, ToolError> {
        let scratch = self.sandbox.scratch().to_owned();
        let folder = blocking(move || {
            ScratchFolder::make(&scratch, SCRATCH_PREFIX)
                .map_err(|error| ToolError::io(scratch.display(), &error))
        });
        let place = Where::Nowhere(Arc::new(folder.await??));
        start(&self.server, &self.sandbox, &place, &self.shutdown).await
    }

    /// Offers what the server has, where that is something else than before.
    async fn offer(&mut self, listing: Listing) {
        if self.offered.as_ref() == Some(&listing) {
            return;
        }
        let name = &self.server.config.name;
        let (tools, left_out) = McpTool::of_server(&self.server, listing.clone());
        if !left_out.is_empty() {
            let left_out = left_out.join("; ");
            tracing::warn!(server = %name, left_out, "mcp: some tools of a server cannot be offered");
        }
        tracing::info!(server = %name, tools = tools.len(), "mcp: the tools of a server are offered");
        let namespaces = self.server.config.namespaces.as_deref();
        match self.toolbox.offer((name, namespaces), tools).await {
            Ok(()) => self.offered = Some(listing),
            // The next list is offered anew.
            Err(error) => tracing::warn!(
                server = %name, %error,
                "mcp: the tools of a server could not be stored, so models plan without them for a while; retrying"
            ),
        }
    }

    /// Waits until the server is to be asked anew. A process is not kept for that, a session is followed.
    async fn keep(&mut self, client: &dyn McpClient) {
        let until = Instant::now() + LIST_COUNTS;
        if self.server.is_process() {
            client.end(false).await;
            self.asked_until(until).await;
            return;
        }
        loop {
            let is_changed = tokio::select! {
                () = self.asked_until(until) => false,
                () = client.changed() => client.is_open(),
            };
            if !is_changed {
                break;
            }
            self.pause(BETWEEN_LISTS).await;
            client.take_changed();
            match client.list().await {
                Ok(listing) => self.offer(listing).await,
                // A new session finds out why.
                Err(_) => break,
            }
        }
        client.end(false).await;
    }

    /// Resolves when a run saw another list, at the shutdown, and at a time.
    async fn asked_until(&self, until: Instant) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = self.server.asked_again() => {}
            () = sleep_until(until) => {}
        }
    }
}
