//! `surety mcp`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use surety_common::config::{
    ClientConfig, GateProbeConfig, McpSessionsConfig, SandboxConfig, read_client_token,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::contract::{Opening, Wanted};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::mcp::{Driver, Observer, Role, listen, serve_lines};
use crate::output::note;

/// Serves a contract to an agent that speaks MCP.
#[derive(Debug, Args)]
pub struct Mcp {
    /// The folder that the agent works in; by default the current one.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// The git revision that a new contract compares with; by default HEAD. An open contract keeps its own.
    #[arg(long, value_name = "REV")]
    base: Option<String>,

    /// The file with the user's checks of a new contract; by default `.surety/checks.yaml` of the revision, where
    /// it has one. An open contract keeps its own.
    #[arg(long, value_name = "FILE")]
    checks: Option<PathBuf>,

    /// Let the agent drive runs of the executor at this address instead of working in a folder: each decision and
    /// each tool call goes through the service, with the token of a driver (--token-file, else that of `surety up`).
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "http://127.0.0.1:7402",
          conflicts_with_all = ["workspace", "base", "checks"])]
    drive: Option<String>,

    /// Serve HTTP on this address, such as 127.0.0.1:7410, instead of standard input and output.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,

    /// The file with the bearer token that HTTP requests must show; needed where other machines reach the address.
    #[arg(long, value_name = "FILE", requires = "listen")]
    listen_token_file: Option<PathBuf>,

    #[command(flatten)]
    sessions: McpSessionsConfig,

    #[command(flatten)]
    probe: GateProbeConfig,

    #[command(flatten)]
    sandbox: SandboxConfig,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

impl Mcp {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let token = self.listen_token_file.as_deref().map(read_client_token).transpose()?;
        let ended = CancellationToken::new();
        watch_signals(ended.clone())?;
        let listening = match self.listen {
            Some(address) => Some(listen(address, token, &self.sessions).await?),
            None => None,
        };
        let role = match &self.drive {
            Some(url) => Role::Driving(Arc::new(Driver::open(url, &self.client, ended)?)),
            None => {
                let opening = Opening {
                    folder: self.workspace.unwrap_or_else(|| PathBuf::from(".")),
                    client: *self.client,
                    sandbox: self.sandbox,
                };
                let wanted = Wanted { base: self.base, checks: self.checks };
                let allowed = self.probe.gate_probe_allow;
                Role::Observed(Arc::new(Observer::open(opening, &wanted, allowed, ended).await?))
            }
        };
        match listening {
            Some(listening) => {
                note(&format!("surety: serving MCP at {}", listening.url()));
                listening.serve(role).await?;
            }
            None => serve_lines(role).await?,
        }
        Ok(Exit::Done)
    }
}

/// Ends everything at the first signal that asks for it.
fn watch_signals(ended: CancellationToken) -> Result<(), Failure> {
    let unwatched = |error: std::io::Error| {
        Failure::new(Code::Internal, format!("signals cannot be watched: {error}"), "")
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(unwatched)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unwatched)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        ended.cancel();
    });
    Ok(())
}
