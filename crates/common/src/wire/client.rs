//! The only place where channels to services are created.

use super::token::Token;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// The time limit to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an idle connection is pinged: often enough to detect a broken one soon, and well below
/// the rate that servers refuse.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// The time limit of the answer to a ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A channel that sends the caller's token with every call. It is cheap to clone.
pub type ServiceChannel = InterceptedService<Channel, Credentials>;

/// Adds the caller's token to every call.
#[derive(Clone)]
pub struct Credentials {
    header: Option<MetadataValue<Ascii>>,
}

/// Why no channel could be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is invalid.
    #[error("{address:?} is not a valid service address; write it as http://host:port")]
    Address {
        /// The address.
        address: String,
        /// The reason.
        source: tonic::transport::Error,
    },
    /// The address requires TLS, which this build does not support.
    #[error("{0:?} requires TLS, which this build does not support; use http:// or a local proxy")]
    Tls(String),
    /// The token is not valid in a header.
    #[error("the token is not valid in an HTTP header; use visible ASCII characters")]
    Token(#[from] tonic::metadata::errors::InvalidMetadataValue),
}

/// A channel to the service at `address` (`http://host:port`, or `host:port`). It connects with the
/// first call, and again after a loss. Needs a runtime.
///
/// # Errors
/// [`ClientError`] when the address or the token is invalid.
pub fn channel(address: &str, token: Option<&Token>) -> Result<ServiceChannel, ClientError> {
    if address.starts_with("https://") {
        return Err(ClientError::Tls(address.to_owned()));
    }
    let full =
        if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(full)
        .map_err(|source| ClientError::Address { address: address.to_owned(), source })?;
    let channel = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE_INTERVAL))
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_lazy();
    Ok(InterceptedService::new(channel, Credentials::new(token)?))
}

impl Credentials {
    fn new(token: Option<&Token>) -> Result<Self, ClientError> {
        let header = token.map(|token| MetadataValue::try_from(token.header())).transpose()?.map(
            |mut header| {
                // Excludes it from HTTP/2's header tables and from Debug output.
                header.set_sensitive(true);
                header
            },
        );
        Ok(Self { header })
    }
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_is_none_is_refused_with_what_to_do() {
        let error = channel("http://", None).err().unwrap();
        assert!(error.to_string().contains("http://host:port"), "{error}");
        assert!(matches!(channel("https://a:1", None), Err(ClientError::Tls(_))));
        assert!(channel("127.0.0.1:7401", None).is_ok());
    }
}
