//! The three services as tasks of this process.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use surety_common::config::{
    CommonConfig, ExecutorConfig, GateConfig, ModelDriverConfig, NamespaceDatabase, PlannerConfig,
    Webhook,
};
use surety_common::tls::Tls;
use surety_common::wire::client::Transport;
use surety_common::wire::token::FileTokens;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::health::serving;
use crate::output::note;
use surety_common::wire::server::with_causes;

/// How often a starting service is asked whether it is serving.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// The three opened ports.
pub(super) struct Ports {
    pub(super) planner: TcpListener,
    pub(super) executor: TcpListener,
    pub(super) gate: TcpListener,
}

impl Ports {
    /// Their numbers.
    ///
    /// # Errors
    /// The system does not name the address of an open port.
    pub(super) fn numbers(&self) -> Result<[u16; 3], Failure> {
        let number = |port| Ok::<_, Failure>(address_of(port)?.port());
        Ok([number(&self.planner)?, number(&self.executor)?, number(&self.gate)?])
    }
}

fn address_of(port: &TcpListener) -> Result<SocketAddr, Failure> {
    port.local_addr().map_err(|error| Failure::new(Code::PortUnusable, error.to_string(), ""))
}

/// The input of the services.
pub(super) struct Plan {
    pub(super) common: CommonConfig,
    pub(super) planner: PlannerConfig,
    pub(super) executor: ExecutorConfig,
    pub(super) gate: GateConfig,
    pub(super) models: ModelDriverConfig,
    pub(super) database_url: String,
    pub(super) databases: Vec<NamespaceDatabase>,
    pub(super) webhooks: Vec<Webhook>,
    pub(super) tokens: FileTokens,
    pub(super) transport: Transport,
    /// What commands never see.
    pub(super) hidden: Vec<PathBuf>,
    pub(super) metrics: PrometheusHandle,
}

/// The running services.
pub(super) struct Services {
    /// Planner and executor.
    front: JoinSet<Ended>,
    stop_front: CancellationToken,
    gate: JoinSet<Ended>,
    stop_gate: CancellationToken,
    urls: [String; 3],
    transport: Transport,
}

/// A service's name, and how it ended.
type Ended = (&'static str, Result<(), Box<dyn Error + Send + Sync>>);

impl Services {
    /// Starts all three. The executor calls the gate at the port that the gate has opened.
    pub(super) fn start(plan: Plan, ports: Ports) -> Result<Self, Failure> {
        let Plan {
            common,
            planner,
            mut executor,
            gate,
            models,
            database_url,
            databases,
            webhooks,
            tokens,
            transport,
            hidden,
            metrics,
        } = plan;
        let Ports { planner: planner_port, executor: executor_port, gate: gate_port } = ports;
        let served = transport.tls.as_ref().and_then(Tls::server);
        let scheme = if served.is_some() { "https" } else { "http" };
        let url = |port: &TcpListener| url_of(scheme, port);
        let urls = [url(&planner_port)?, url(&executor_port)?, url(&gate_port)?];
        let [_, _, gate_url] = &urls;
        executor.gate_url.clone_from(gate_url);
        let (stop_front, stop_gate) = (CancellationToken::new(), CancellationToken::new());
        let (mut front, mut back) = (JoinSet::new(), JoinSet::new());
        let setup = surety_planner::Setup {
            common: common.clone(),
            planner,
            models: models.clone(),
            database_url: Some(database_url.clone()),
            databases,
            webhooks,
            tokens: tokens.clone(),
            transport: transport.clone(),
            metrics: Some(metrics.clone()),
        };
        let stop = stop_front.clone();
        front.spawn(async move {
            let ended = surety_planner::serve(setup, planner_port, stop).await;
            ("planner", ended.map_err(Into::into))
        });
        let setup = surety_executor::Setup {
            hidden,
            common: common.clone(),
            executor,
            models,
            database_url: Some(database_url.clone()),
            drivers: surety_executor::driver::Drivers::default(),
            tokens: tokens.clone(),
            transport: transport.clone(),
            metrics: Some(metrics.clone()),
        };
        let stop = stop_front.clone();
        front.spawn(async move {
            let ended = surety_executor::serve(setup, executor_port, stop).await;
            ("executor", ended.map_err(Into::into))
        });
        let setup = surety_acceptgate::Setup {
            common,
            gate,
            database_url: Some(database_url),
            tokens,
            transport: transport.clone(),
            metrics: Some(metrics),
        };
        let stop = stop_gate.clone();
        back.spawn(async move {
            let ended = surety_acceptgate::serve(setup, gate_port, stop).await;
            ("acceptgate", ended.map_err(Into::into))
        });
        Ok(Self { front, stop_front, gate: back, stop_gate, urls, transport })
    }

    /// The planner's address for callers.
    pub(super) fn planner_url(&self) -> &str {
        let [planner, _, _] = &self.urls;
        planner
    }

    /// Completes when all three are serving.
    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        let (urls, transport) = (self.urls.clone(), self.transport.clone());
        let all_serve = async {
            for url in &urls {
                await_serving(url, &transport).await;
            }
        };
        tokio::select! {
            ended = self.any_ended() => Err(ended),
            () = all_serve => Ok(()),
        }
    }

    /// Completes when a service ends unexpectedly.
    pub(super) async fn any_ended(&mut self) -> Failure {
        let ended = tokio::select! {
            Some(ended) = self.front.join_next() => ended,
            Some(ended) = self.gate.join_next() => ended,
            else => return Failure::new(Code::Internal, "no service is running", ""),
        };
        let (name, reason) = match ended {
            Ok((name, Ok(()))) => (name, "it ended without a request to shut down".to_owned()),
            Ok((name, Err(error))) => (name, with_causes(error.as_ref())),
            Err(error) => ("a service", error.to_string()),
        };
        let message = format!("{name} ended: {reason}");
        Failure::new(Code::ServiceEnded, message, "See its log lines above.")
    }

    /// Drains everything, the gate last; a second signal ends the wait.
    pub(super) async fn stop(mut self, signals: &mut Signals) -> Result<Exit, Failure> {
        let draining = async {
            self.stop_front.cancel();
            let front = drain(&mut self.front).await;
            self.stop_gate.cancel();
            front.and(drain(&mut self.gate).await)
        };
        tokio::select! {
            drained = draining => drained.map(|()| Exit::Done),
            () = signals.first() => {
                note("surety: stopped without draining; interrupted work is recovered after the next start");
                Ok(Exit::Done)
            }
        }
    }
}

/// Asks a service until it serves. A port that is opened and not served yet delays its callers.
async fn await_serving(url: &str, transport: &Transport) {
    let mut warned = false;
    loop {
        match serving(url, transport).await {
            Ok(true) => return,
            Err(error) if !warned => {
                warned = true;
                if url.starts_with("https://") {
                    tracing::warn!(
                        %url,
                        %error,
                        "up: a service does not answer yet; its certificate must name this address \
                         and be issued by an authority in --tls-ca-file (SURETY_TLS_CA_FILE)"
                    );
                } else {
                    tracing::warn!(%url, %error, "up: a service does not answer yet");
                }
            }
            Ok(false) | Err(_) => {}
        }
        tokio::time::sleep(ASK_INTERVAL).await;
    }
}

async fn drain(tasks: &mut JoinSet<Ended>) -> Result<(), Failure> {
    let mut all = Ok(());
    while let Some(ended) = tasks.join_next().await {
        let reason = match ended {
            Ok((_, Ok(()))) => continue,
            Ok((name, Err(error))) => format!("{name}: {}", with_causes(error.as_ref())),
            Err(error) => error.to_string(),
        };
        all = Err(Failure::new(Code::ServiceEnded, reason, "See its log lines above."));
    }
    all
}

/// A local URL of the port: an unspecified address cannot be called.
fn url_of(scheme: &str, port: &TcpListener) -> Result<String, Failure> {
    Ok(format!("{scheme}://{}", reachable(address_of(port)?)))
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address.ip(),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_all_is_called_at_this_machine() {
        let cases = [
            ("0.0.0.0:7401", "127.0.0.1:7401"),
            ("[::]:7401", "[::1]:7401"),
            ("10.1.2.3:7401", "10.1.2.3:7401"),
        ];
        for (address, expected) in cases {
            assert_eq!(reachable(address.parse().unwrap()).to_string(), expected);
        }
    }
}
