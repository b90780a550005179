//! The start of a server: its process or its session, the handshake, and its first list.

use super::client::{Handshake, NotConnected, RmcpClient};
use super::error::CallFailure;
use super::host::Server;
use super::listing::Listing;
use super::process::{Input, Pipes, ServerProcess};
use super::stdio::{StdioTransport, Verdict};
use super::{McpClient, http};
use crate::blocking::blocking;
use crate::scratch::ScratchFolder;
use crate::tool::sandbox::{ServerCommand, ServerPlace};
use crate::tool::{ErrorCode, Sandbox, ToolContext, ToolError};
use std::sync::Arc;
use surety_common::config::{McpCommand, McpTransport, WORKSPACE};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A server that can be called.
pub(super) struct Live {
    pub(super) client: Arc<dyn McpClient>,
    pub(super) listing: Listing,
}

/// Where a server of a process works.
#[derive(Clone)]
pub(super) enum Where {
    /// In the workspace of a run.
    Workspace(Box<ToolContext>),
    /// In an empty folder: it is only asked what it has.
    Nowhere(Arc<ScratchFolder>),
}

impl Where {
    /// It opens the workspace, so it blocks.
    fn place(&self, command: &McpCommand) -> Result<ServerPlace, ToolError> {
        match self {
            Self::Workspace(ctx) => {
                let workspace = ctx.workspace()?;
                let root = workspace.root().to_owned();
                let protected =
                    if command.may_write { ctx.write_scope.protected(&root) } else { Vec::new() };
                let git = ctx.folder.git()?.to_vec();
                Ok(ServerPlace { given: workspace.given().to_owned(), root, protected, git })
            }
            Self::Nowhere(folder) => {
                let root = folder.path().to_owned();
                let (protected, git) = (Vec::new(), Vec::new());
                Ok(ServerPlace { given: root.clone(), root, protected, git })
            }
        }
    }
}

/// Starts a server, and asks what it has. Its process is killed when `lost` is cancelled.
///
/// # Errors
/// `mcp_unavailable`; what the sandbox and the workspace say.
pub(super) async fn start(
    server: &Server,
    sandbox: &Sandbox,
    place: &Where,
    lost: &CancellationToken,
) -> Result<Live, ToolError> {
    let limit = server.config.start_timeout;
    let starting = async {
        let client = connect(server, sandbox, place, lost).await?;
        match client.list().await {
            Ok(listing) => Ok(Live { client, listing }),
            Err(failure) => {
                client.end(true).await;
                Err(unavailable(server, failure))
            }
        }
    };
    timeout(limit, starting).await.unwrap_or_else(|_| {
        let message = format!(
            "MCP server {}: it did not answer within its start_timeout_s of {} s; nothing was called",
            server.config.name,
            limit.as_secs()
        );
        Err(ToolError::new(ErrorCode::McpUnavailable, message))
    })
}

async fn connect(
    server: &Server,
    sandbox: &Sandbox,
    place: &Where,
    lost: &CancellationToken,
) -> Result<Arc<dyn McpClient>, ToolError> {
    for handshake in [Handshake::Initialize, Handshake::Discover] {
        let connected = match &server.config.transport {
            McpTransport::Url(url) => {
                let limit = server.config.max_output;
                let transport = http::transport(&server.http, &url.url, &server.headers, limit);
                RmcpClient::connect(transport, handshake, (None, Verdict::default())).await
            }
            McpTransport::Command(command) => {
                let spawned = spawn(server, command, sandbox, place, lost).await;
                let (process, Pipes { input, output }) =
                    spawned.map_err(|error| named(server, error))?;
                let transport = StdioTransport::new(input, output, server.config.max_output);
                let verdict = transport.verdict();
                RmcpClient::connect(transport, handshake, (Some(process), verdict)).await
            }
        };
        match connected {
            Ok(client) => return Ok(Arc::new(client)),
            Err(NotConnected::OtherHandshake) => {}
            Err(NotConnected::Failed(failure)) => return Err(unavailable(server, failure)),
        }
    }
    let why = "it accepts neither initialize nor server/discover";
    Err(unavailable(server, CallFailure::Unreadable(why.to_owned())))
}

/// A start that failed called nothing, whatever failed of it.
fn unavailable(server: &Server, failure: CallFailure) -> ToolError {
    let why = match failure {
        CallFailure::NotSent(why)
        | CallFailure::Refused(why)
        | CallFailure::TooLarge(why)
        | CallFailure::Unreadable(why)
        | CallFailure::Lost(why) => why,
        CallFailure::TimedOut => "it did not answer in time".to_owned(),
        CallFailure::Cancelled => "the work on its run was cancelled".to_owned(),
    };
    let message =
        format!("MCP server {}: it cannot be used: {why}; nothing was called", server.config.name);
    ToolError::new(ErrorCode::McpUnavailable, message)
}

fn named(server: &Server, error: ToolError) -> ToolError {
    ToolError { message: format!("MCP server {}: {}", server.config.name, error.message), ..error }
}

async fn spawn(
    server: &Server,
    command: &McpCommand,
    sandbox: &Sandbox,
    place: &Where,
    lost: &CancellationToken,
) -> Result<(ServerProcess, Pipes), ToolError> {
    let (described, confined, place) = (command.clone(), sandbox.clone(), place.clone());
    let environment = server.environment.clone();
    let (spec, input) = blocking(move || {
        let input = Input::make(confined.scratch())?;
        let place = place.place(&described)?;
        let root = place.root.to_string_lossy().into_owned();
        let server = ServerCommand {
            argv: described.argv.iter().map(|word| word.replace(WORKSPACE, &root)).collect(),
            environment,
            read_only: described.read_only,
            network: described.network,
            may_write: described.may_write,
            input: input.path(),
        };
        Ok::<_, ToolError>((confined.server_spec(&place, server)?, input))
    })
    .await??;
    ServerProcess::start(&spec, input, lost).await
}
