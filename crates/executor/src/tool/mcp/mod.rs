//! Tools of MCP servers: what a server lists becomes tools `server__tool` of the executor.
//!
//! ```text
//!   file of the operator --> Catalog: lists of each server, from a process that sees no run --> Toolbox
//!   call of a run ---------> RunServers: a process in the sandbox (or an HTTP session) for the run alone
//!                              |-- McpClient: the protocol, behind a trait of our own
//!                              +-- ends with the lease of the run, before each round of the runner, and at a drain
//! ```
//!
//! What a server says is data: its annotations count where the operator's file repeats them, and its facts are its
//! own words.

mod catalog;
mod client;
mod content;
mod error;
mod framing;
mod host;
mod http;
mod listing;
mod process;
mod server_tool;
mod servers;
mod start;
mod stdio;
mod text;

pub(crate) use catalog::follow;
pub use host::{McpError, McpHost};
pub use servers::RunServers;

pub(super) use server_tool::McpTool;

use error::CallFailure;
use futures::future::BoxFuture;
use listing::Listing;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What the names of the scratch folders of servers begin with.
pub(crate) const SCRATCH_PREFIX: &str = "mcp-";

/// What a receipt says of whose words it holds, before the name of the server.
const WITNESS: &str = "mcp:";

/// How long a server may take to end by itself once its input is closed.
const LEAVING: Duration = Duration::from_millis(500);

/// One call of a server.
struct Request {
    /// What is asked.
    what: Asked,
    /// The call's idempotency key, the same in every repetition.
    call_id: Uuid,
    /// The time by which it must end.
    deadline: Instant,
    /// Cancels it.
    cancel: CancellationToken,
}

/// What is asked of a server.
enum Asked {
    /// To call one of its tools.
    Tool {
        /// Its own name of it.
        name: String,
        /// The arguments.
        arguments: Map<String, Value>,
    },
    /// To list its resources, from a cursor on.
    Resources(Option<String>),
    /// To read one of its resources.
    Resource(String),
}

/// What a server answered.
#[derive(Debug, Clone, Default, PartialEq)]
struct Answer {
    /// The parts in their order.
    parts: Vec<Part>,
    /// The structured result.
    structured: Option<Value>,
    /// Whether the server says that the call failed.
    is_error: bool,
}

/// What comes of a call.
type Answered = Result<Answer, CallFailure>;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A text.
    Text(String),
    /// Bytes in base64.
    Media {
        /// What it is: image, audio, resource.
        kind: &'static str,
        /// Its type, as the server states it.
        mime: String,
        /// The address of a resource; empty for others.
        uri: String,
        /// The bytes.
        base64: String,
    },
    /// A text behind an address.
    Resource {
        /// The address.
        uri: String,
        /// The text.
        text: String,
    },
    /// An address alone.
    Link {
        /// The address.
        uri: String,
        /// Its name.
        name: String,
    },
}

/// One connection to a server: all that the executor knows of the protocol.
trait McpClient: Send + Sync {
    /// Its tools, all pages of them, and whether it has resources.
    fn list(&self) -> BoxFuture<'_, Result<Listing, CallFailure>>;

    /// Makes a call. It ends at the deadline or the cancellation, of which the server is told.
    fn call<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Answered>;

    /// Whether the server said that its list changed, since the last time this was asked.
    fn take_changed(&self) -> bool;

    /// Resolves when the server says that its list changed, or the connection is over.
    fn changed(&self) -> BoxFuture<'_, ()>;

    /// Whether calls can be made.
    fn is_open(&self) -> bool;

    /// What confines it; empty for a server that runs elsewhere.
    fn sandbox(&self) -> &str;

    /// Ends the connection, and the process behind it with all that it started. `at_once` leaves it no time.
    fn end(&self, at_once: bool) -> BoxFuture<'_, ()>;
}
