//! The one place where channels to services are made.

use super::token::Token;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an idle connection is asked whether it is alive: often enough that a cut one is seen
/// before a person wonders, and well above what servers count as too many pings.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long the answer may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A channel that shows the caller's token with every call. It is cheap to clone.
pub type ServiceChannel = InterceptedService<Channel, Credentials>;

/// Puts the caller's token on every call.
#[derive(Clone)]
pub struct Credentials {
    header: Option<MetadataValue<Ascii>>,
}

/// Why no channel could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error("{address:?} is no address of a service; write it as http://host:port")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
    /// The address asks for what this build does not have.
    #[error("{0:?} asks for TLS, which this build does not have; use http:// or a local proxy")]
    Tls(String),
    /// The token cannot travel in a header.
    #[error("the token cannot travel in a header")]
    Token(#[from] tonic::metadata::errors::InvalidMetadataValue),
}

/// A channel to the service at `address` (`http://host:port`, or `host:port`). Nothing is sent yet:
/// it connects with the first call, and again whenever the connection is lost. Needs a runtime.
///
/// # Errors
/// [`ClientError`] when no such channel can be made.
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
                // Keeps it out of HTTP/2's header tables and of every Debug output.
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
