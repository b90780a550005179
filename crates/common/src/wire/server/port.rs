//! Accepts the connections of a port, with or without TLS.

use crate::tls::{PeerNames, Tls};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most handshakes at a time; further connections wait in the backlog of the socket.
const MAX_HANDSHAKES: usize = 256;
/// The pause after the operating system refused a connection, for example because no file descriptor
/// is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A connection, without or with TLS.
pub(super) type Connection = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// The client of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// The names in its certificate, if it showed one.
    pub(super) names: Option<PeerNames>,
}

/// The listener of a port.
pub(super) enum Port {
    /// Without TLS.
    Plain(TcpListener),
    /// With TLS: the connections whose handshake is complete.
    Tls(mpsc::Receiver<(Connection, Peer)>),
}

impl Port {
    /// The listener, with TLS if there is a certificate.
    pub(super) fn new(listener: TcpListener, tls: Option<Tls>) -> io::Result<Self> {
        if let Some(tls) = tls.filter(|tls| tls.server().is_some()) {
            let (sender, ready) = mpsc::channel(1);
            tokio::spawn(accept_all(listener, tls, sender));
            return Ok(Self::Tls(ready));
        }
        let address = listener.local_addr()?;
        if !address.ip().to_canonical().is_loopback() {
            tracing::warn!(
                %address,
                "grpc: tokens arrive without encryption; set --tls-cert-file (SURETY_TLS_CERT_FILE), \
                 unless another layer encrypts"
            );
        }
        Ok(Self::Plain(listener))
    }
}

impl Listener for Port {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        match self {
            Self::Plain(listener) => {
                let (stream, _) = accept(listener).await;
                (Either::Left(stream), Peer { names: None })
            }
            Self::Tls(ready) => match ready.recv().await {
                Some(connection) => connection,
                // The sender outlives this receiver, except while the runtime shuts down.
                None => std::future::pending().await,
            },
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { names: None })
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

/// Accepts until the receiver is dropped. Handshakes run concurrently, so a slow client delays no other
/// client.
async fn accept_all(listener: TcpListener, tls: Tls, ready: mpsc::Sender<(Connection, Peer)>) {
    let permits = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, accept(&listener).await)
        };
        let (permit, (stream, address)) = tokio::select! {
            (Ok(permit), connection) = accepted => (permit, connection),
            () = ready.closed() => return,
        };
        tokio::spawn(shake_hands(permit, stream, address, tls.clone(), ready.clone()));
    }
}

async fn shake_hands(
    permit: OwnedSemaphorePermit,
    stream: TcpStream,
    client: SocketAddr,
    tls: Tls,
    ready: mpsc::Sender<(Connection, Peer)>,
) {
    // A reload never removes the certificate of a port.
    let Some(config) = tls.server() else { return };
    match timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => {
            drop(permit);
            let chain = stream.get_ref().1.peer_certificates();
            let names = chain.and_then(|chain| chain.first()).map(|own| PeerNames::of(own));
            // The receiver is dropped when the port stops.
            ready.send((Either::Right(Box::new(stream)), Peer { names })).await.ok();
        }
        Ok(Err(error)) => tracing::debug!(%client, %error, "tls: a handshake failed"),
        Err(_) => tracing::debug!(%client, "tls: a handshake took too long"),
    }
}
