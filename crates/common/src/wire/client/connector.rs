//! Makes the connections of a channel with TLS.

use crate::tls::Tls;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

/// Makes each connection with the certificates that are in force at that time. The library's own
/// connector keeps those of its start.
#[derive(Clone)]
pub(super) struct Connector {
    tls: Tls,
    name: ServerName<'static>,
    /// Host and port.
    authority: String,
}

impl Connector {
    pub(super) const fn new(tls: Tls, name: ServerName<'static>, authority: String) -> Self {
        Self { tls, name, authority }
    }

    async fn connect(self) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(self.tls.client());
        let connected = connector.connect(self.name, stream).await;
        let failed = |error: io::Error| {
            let text = format!("the TLS handshake with {} failed: {error}", self.authority);
            io::Error::new(error.kind(), text)
        };
        Ok(TokioIo::new(connected.map_err(failed)?))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}
