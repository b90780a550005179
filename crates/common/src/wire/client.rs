//! The one place where channels to services are made.

mod connector;

use super::token::Token;
use crate::tls::{Tls, TlsError, TlsFiles};
use connector::Connector;
use http::Uri;
use rustls::pki_types::ServerName;
use std::net::IpAddr;
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
const HTTPS: &str = "https://";
const HTTPS_PORT: u16 = 443;

/// A channel that shows the caller's token with every call. It is cheap to clone.
pub type ServiceChannel = InterceptedService<Channel, Credentials>;

/// Puts the caller's token on every call.
#[derive(Clone)]
pub struct Credentials {
    header: Option<MetadataValue<Ascii>>,
}

/// How other processes are reached.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// The certificates; none uses the authorities of the system and shows no certificate.
    pub tls: Option<Tls>,
    /// The hosts, beside loopback, to which a token may be sent without TLS.
    pub plaintext_peers: Vec<String>,
}

#[cfg(feature = "config")]
impl Transport {
    /// The settings of a service.
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn of(config: &crate::config::TlsConfig) -> Result<Self, TlsError> {
        Ok(Self { tls: Tls::watched(config.into())?, plaintext_peers: config.client.peers() })
    }

    /// The settings of a command.
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn of_client(config: &crate::config::ClientTlsConfig) -> Result<Self, TlsError> {
        Ok(Self { tls: Tls::watched(config.into())?, plaintext_peers: config.peers() })
    }
}

/// Why no channel could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not valid.
    #[error(
        "{address:?} is no address of a service; write it as http://host:port or https://host:port"
    )]
    Address {
        /// The given address.
        address: String,
    },
    /// A token would be sent without TLS.
    #[error(
        "a token is not sent to {host} without TLS. Use https://, or name {host} in \
         --plaintext-peers (SURETY_PLAINTEXT_PEERS) if another layer encrypts the connection"
    )]
    Plaintext {
        /// The host.
        host: String,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token cannot be sent in a header.
    #[error("the token cannot be sent in a header")]
    Token(#[from] tonic::metadata::errors::InvalidMetadataValue),
}

impl ClientError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Plaintext { .. } => "plaintext_refused",
            Self::Address { .. } | Self::Tls(_) | Self::Token(_) => "setting_invalid",
        }
    }
}

/// A channel as [`channel_over`] makes it, with the default transport.
///
/// # Errors
/// [`ClientError`]
pub fn channel(address: &str, token: Option<&Token>) -> Result<ServiceChannel, ClientError> {
    channel_over(address, token, &Transport::default())
}

/// A channel to the service at `address` (`http://host:port`, `https://host:port`, or `host:port`). It
/// connects with the first call, and again when the connection is lost. Needs a runtime.
///
/// # Errors
/// [`ClientError`]
pub fn channel_over(
    address: &str,
    token: Option<&Token>,
    transport: &Transport,
) -> Result<ServiceChannel, ClientError> {
    let header = token.map(|token| MetadataValue::try_from(token.header())).transpose()?;
    let channel = match address.strip_prefix(HTTPS) {
        Some(_) => encrypted(address, transport)?,
        None if header.is_some() => plaintext(address, |host| transport.allows_plaintext(host))?,
        None => plaintext(address, |_| true)?,
    };
    Ok(InterceptedService::new(channel, Credentials::new(header)))
}

/// A channel that sends no token, to a receiver that is no service of Surety.
///
/// # Errors
/// [`ClientError`]
pub fn channel_without_token(address: &str, transport: &Transport) -> Result<Channel, ClientError> {
    match address.strip_prefix(HTTPS) {
        Some(_) => encrypted(address, transport),
        None => plaintext(address, |_| true),
    }
}

impl Transport {
    /// Whether secrets and what runs say may go to a host without TLS.
    pub fn allows_plaintext(&self, host: &str) -> bool {
        is_loopback_host(host)
            || self.plaintext_peers.iter().any(|peer| peer.eq_ignore_ascii_case(host))
    }
}

fn plaintext(address: &str, allowed: impl Fn(&str) -> bool) -> Result<Channel, ClientError> {
    let full =
        if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let uri = read(&full)?;
    let host = host_of(&uri);
    if !allowed(host) {
        return Err(ClientError::Plaintext { host: host.to_owned() });
    }
    Ok(endpoint(&full)?.connect_lazy())
}

/// The library gets an address without TLS, because the connector adds the TLS.
fn encrypted(address: &str, transport: &Transport) -> Result<Channel, ClientError> {
    let invalid = || ClientError::Address { address: address.to_owned() };
    let uri = read(address)?;
    let host = host_of(&uri).to_owned();
    let port = uri.port_u16().unwrap_or(HTTPS_PORT);
    let name = ServerName::try_from(host.clone()).map_err(|_| invalid())?;
    let authority =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let tls = match &transport.tls {
        Some(tls) => tls.clone(),
        None => Tls::load(TlsFiles::default())?,
    };
    let endpoint = endpoint(&format!("http://{authority}"))?.origin(uri);
    Ok(endpoint.connect_with_connector_lazy(Connector::new(tls, name, authority)))
}

fn read(address: &str) -> Result<Uri, ClientError> {
    let uri = address.parse::<Uri>().ok().filter(|uri| uri.host().is_some());
    uri.ok_or_else(|| ClientError::Address { address: address.to_owned() })
}

fn endpoint(address: &str) -> Result<Endpoint, ClientError> {
    let endpoint = Endpoint::from_shared(address.to_owned())
        .map_err(|_| ClientError::Address { address: address.to_owned() })?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE_INTERVAL))
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// The host of an address, an IPv6 address without its brackets.
fn host_of(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether an address is of this machine.
#[must_use]
pub fn is_loopback(address: &str) -> bool {
    read(address).is_ok_and(|uri| is_loopback_host(host_of(&uri)))
}

impl Credentials {
    fn new(mut header: Option<MetadataValue<Ascii>>) -> Self {
        if let Some(header) = &mut header {
            // Keeps it out of HTTP/2's header tables and of every Debug output.
            header.set_sensitive(true);
        }
        Self { header }
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
    async fn an_invalid_address_is_refused_with_what_to_do() {
        for address in ["http://", "https://", "https://a b"] {
            let error = channel(address, None).err().unwrap();
            assert!(error.to_string().contains("https://host:port"), "{error}");
        }
        assert!(channel("127.0.0.1:7401", None).is_ok());
        assert!(channel("https://a:1", None).is_ok());
    }

    #[tokio::test]
    async fn a_token_is_sent_without_tls_to_loopback_and_to_named_hosts_only() {
        let token = Token::new("t").unwrap();
        let peers = Transport { plaintext_peers: vec!["mesh".to_owned()], ..Transport::default() };
        for address in ["http://127.0.0.1:1", "[::1]:1", "LocalHost:1", "https://far:1"] {
            assert!(channel(address, Some(&token)).is_ok(), "{address}");
        }
        for address in ["http://far:1", "10.0.0.1:1", "http://localhost.far:1", "HTTP://far:1"] {
            let refused = channel(address, Some(&token)).err().unwrap();
            assert!(matches!(refused, ClientError::Plaintext { .. }), "{address}: {refused}");
            assert_eq!(refused.code(), "plaintext_refused");
            for expected in ["SURETY_PLAINTEXT_PEERS", "https://"] {
                assert!(refused.to_string().contains(expected), "{refused}");
            }
            assert!(channel(address, None).is_ok(), "{address}");
        }
        assert!(channel_over("http://Mesh:1", Some(&token), &peers).is_ok());
        let refused = channel_over("http://far:1", Some(&token), &peers).err().unwrap();
        assert!(refused.to_string().contains("far"), "{refused}");
    }

    #[test]
    fn an_address_of_this_machine_is_distinguished_from_similar_ones() {
        let cases = [
            ("http://127.0.0.1:7401", true),
            ("https://[::1]:7401", true),
            ("http://localhost:7401", true),
            ("http://10.0.0.1:7401", false),
            ("http://localhost.example.com:7401", false),
            ("http://127.0.0.1.example.com:1", false),
            ("no url", false),
        ];
        for (address, expected) in cases {
            assert_eq!(is_loopback(address), expected, "{address}");
        }
    }
}
