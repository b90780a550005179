//! Opens a port.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Other machines could reach it, and callers would not be authenticated.
    #[error(
        "{0} is reachable from other machines and callers are not authenticated; set --token-file \
         (SURETY_TOKEN_FILE), require client certificates, or listen on 127.0.0.1"
    )]
    OpenToAll(SocketAddr),
    /// Another process uses the port.
    #[error("port {} is in use at {}; stop the process that uses it, or choose another port", .0.port(), .0.ip())]
    InUse(SocketAddr),
    /// The operating system refused.
    #[error("cannot listen on {addr}")]
    Refused {
        /// The address.
        addr: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

/// Listens on `addr`; port 0 selects a free one. An address that is not loopback requires
/// authenticated callers, so that a service is never exposed to the network by accident.
///
/// # Errors
/// [`BindError`], which says what to do.
pub async fn bind(addr: SocketAddr, authenticated: bool) -> Result<TcpListener, BindError> {
    if !authenticated && !addr.ip().to_canonical().is_loopback() {
        return Err(BindError::OpenToAll(addr));
    }
    TcpListener::bind(addr).await.map_err(|source| {
        if source.kind() == ErrorKind::AddrInUse {
            BindError::InUse(addr)
        } else {
            BindError::Refused { addr, source }
        }
    })
}

/// Logs the address on which `component` serves, once its configuration was read: what reads the log takes this line
/// for the end of a start.
pub fn announce(component: &str, listener: &TcpListener) {
    match listener.local_addr() {
        Ok(address) => tracing::info!(%address, "{component}: listening"),
        Err(error) => {
            tracing::warn!(%error, "{component}: the address that it listens on is unknown");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_open_port_without_a_token_is_refused() {
        for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let error = bind(addr.parse().unwrap(), false).await.unwrap_err();
            assert!(matches!(error, BindError::OpenToAll(_)), "{addr}");
            assert!(error.to_string().contains("SURETY_TOKEN_FILE"), "{error}");
        }
        assert!(bind("0.0.0.0:0".parse().unwrap(), true).await.is_ok());
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let first = bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let addr = first.local_addr().unwrap();
        let error = bind(addr, false).await.unwrap_err();
        assert!(error.to_string().contains(&addr.port().to_string()), "{error}");
    }
}
