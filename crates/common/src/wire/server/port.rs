//! Accepts the connections of a port, with or without TLS, within its bounds.
//!
//! ```text
//!   accept --> Slot (bounds) --> TLS handshake --> opening --> the HTTP server
//!                 \-- no file left: closed
//! ```

use super::bounds::{Bounds, Connections, Slot};
use super::open_files::open_files;
use super::opening::{Opening, open};
use super::watched::Watched;
use crate::tls::{PeerNames, Tls};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// The most connections that wait for the HTTP server to take them.
const READY: usize = 64;
/// The pause after the operating system refused a connection, for example because no file descriptor
/// is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A connection, without or with TLS.
type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
/// A connection within its bounds.
pub(super) type Connection = Watched<Stream>;

/// The client of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether the port itself is on loopback.
    pub is_local_port: bool,
    /// The names in its certificate, if it showed one.
    pub(super) names: Option<PeerNames>,
    pub(super) slot: Option<Arc<Slot>>,
}

impl Peer {
    /// The bounds of the port.
    pub fn bounds(&self) -> Bounds {
        self.slot.as_ref().map(|slot| slot.bounds()).unwrap_or_default()
    }

    /// Receives a request's body: meanwhile the connection can be closed in favour of another one.
    pub async fn receiving<T>(&self, body: impl Future<Output = T>) -> T {
        if let Some(slot) = &self.slot {
            slot.wait();
        }
        let received = body.await;
        self.serve();
        received
    }

    /// Whether the connection was closed in favour of another one.
    pub fn is_evicted(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.evicted.is_cancelled())
    }

    pub(super) fn serve(&self) {
        if let Some(slot) = &self.slot {
            slot.serve();
        }
    }
}

/// A request that is served; dropped with its answer.
pub(super) struct Serving(Peer);

impl Serving {
    pub(super) fn of(peer: &Peer) -> Self {
        peer.serve();
        Self(peer.clone())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(slot) = &self.0.slot {
            slot.wait();
        }
    }
}

/// The listener of a port: the connections whose beginning was read.
pub(super) struct Port {
    ready: mpsc::Receiver<(Connection, Peer)>,
    address: SocketAddr,
}

impl Port {
    /// The listener, with TLS if there is a certificate.
    pub(super) fn new(listener: TcpListener, tls: Option<Tls>, bounds: Bounds) -> io::Result<Self> {
        let tls = tls.filter(|tls| tls.server().is_some());
        let address = listener.local_addr()?;
        if tls.is_none() && !address.ip().to_canonical().is_loopback() {
            tracing::warn!(
                %address,
                "grpc: tokens arrive without encryption; set --tls-cert-file (SURETY_TLS_CERT_FILE), \
                 unless another layer encrypts"
            );
        }
        let connections = Connections::new(bounds, open_files()?);
        let (sender, ready) = mpsc::channel(READY);
        tokio::spawn(accept_all(listener, tls, connections, sender));
        Ok(Self { ready, address })
    }
}

impl Listener for Port {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The sender outlives this receiver, except while the runtime shuts down.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        let address = self.address.ip();
        Ok(Peer { address, is_local_port: address.is_loopback(), names: None, slot: None })
    }
}

impl Connected<IncomingStream<'_, Port>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Port>) -> Self {
        stream.remote_addr().clone()
    }
}

/// The next connection. Small messages are sent at once: a turn waits for each of them.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "grpc: TCP_NODELAY could not be set on a connection");
                }
                return (stream, address);
            }
            Err(error) => {
                tracing::warn!(%error, "grpc: a connection could not be accepted; retrying");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts until the receiver is dropped. Openings are read concurrently, so a slow client delays no other client.
async fn accept_all(
    listener: TcpListener,
    tls: Option<Tls>,
    connections: Arc<Connections>,
    ready: mpsc::Sender<(Connection, Peer)>,
) {
    let local = listener.local_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |own| own.ip());
    let is_local_port = local.to_canonical().is_loopback();
    loop {
        let (stream, client) = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = ready.closed() => return,
        };
        let address = client.ip().to_canonical();
        let Some(slot) = connections.admit(address) else {
            tracing::warn!(%client, "grpc: a connection was closed, because no file is left for it; raise the limit of open files");
            continue;
        };
        let peer = Peer { address, is_local_port, names: None, slot: Some(slot) };
        tokio::spawn(prepare(stream, peer, tls.clone(), ready.clone()));
    }
}

async fn prepare(
    stream: TcpStream,
    mut peer: Peer,
    tls: Option<Tls>,
    ready: mpsc::Sender<(Connection, Peer)>,
) {
    let Some(slot) = peer.slot.clone() else { return };
    let mut stream = match tls {
        None => Either::Left(stream),
        Some(tls) => {
            let handshake = shake_hands(stream, peer.address, &tls, slot.bounds().request);
            let shaken = tokio::select! {
                shaken = handshake => shaken,
                () = slot.evicted.cancelled() => None,
            };
            let Some(stream) = shaken else { return };
            let chain = stream.get_ref().1.peer_certificates();
            peer.names = chain.and_then(|chain| chain.first()).map(|own| PeerNames::of(own));
            Either::Right(stream)
        }
    };
    let (opening, is_http1) = match open(&mut stream, &slot).await {
        Some(Opening::Http1(bytes)) => (bytes, true),
        Some(Opening::Http2(bytes)) => {
            slot.share();
            (bytes, false)
        }
        None => return,
    };
    // The receiver is dropped when the port stops.
    ready.send((Watched::new(stream, opening, slot, is_http1), peer)).await.ok();
}

async fn shake_hands(
    stream: TcpStream,
    client: IpAddr,
    tls: &Tls,
    limit: Duration,
) -> Option<Box<TlsStream<TcpStream>>> {
    // A reload never removes the certificate of a port.
    let config = tls.server()?;
    match timeout(limit, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => return Some(Box::new(stream)),
        Ok(Err(error)) => tracing::debug!(%client, %error, "tls: a handshake failed"),
        Err(_) => tracing::debug!(%client, "tls: a handshake took too long"),
    }
    None
}
