//! The certificates of a process.

use std::path::PathBuf;

use clap::Args;

use super::settings as s;

/// The certificates of a service.
#[derive(Debug, Clone, Args)]
pub struct TlsConfig {
    /// What a client needs too.
    #[command(flatten)]
    pub client: ClientTlsConfig,

    /// The authorities of clients.
    #[arg(long = s::TLS_CLIENT_CA_FILE.flag, env = s::TLS_CLIENT_CA_FILE.env,
          help = s::TLS_CLIENT_CA_FILE.meaning,
          value_parser = s::TLS_CLIENT_CA_FILE.reads::<PathBuf>())]
    pub tls_client_ca_file: Option<PathBuf>,

    /// Whether a client without a certificate is refused.
    #[arg(long = s::TLS_REQUIRE_CLIENT_CERTIFICATE.flag,
          env = s::TLS_REQUIRE_CLIENT_CERTIFICATE.env,
          help = s::TLS_REQUIRE_CLIENT_CERTIFICATE.meaning,
          value_parser = s::TLS_REQUIRE_CLIENT_CERTIFICATE.reads::<bool>())]
    pub tls_require_client_certificate: bool,

    /// Which certificate is which identity.
    #[arg(long = s::TLS_IDENTITIES_FILE.flag, env = s::TLS_IDENTITIES_FILE.env,
          help = s::TLS_IDENTITIES_FILE.meaning,
          value_parser = s::TLS_IDENTITIES_FILE.reads::<PathBuf>())]
    pub tls_identities_file: Option<PathBuf>,
}

/// The certificates of a command, and of a service as a client.
#[derive(Debug, Clone, Default, Args)]
pub struct ClientTlsConfig {
    /// The certificate chain of the process.
    #[arg(long = s::TLS_CERT_FILE.flag, env = s::TLS_CERT_FILE.env, help = s::TLS_CERT_FILE.meaning,
          value_parser = s::TLS_CERT_FILE.reads::<PathBuf>())]
    pub tls_cert_file: Option<PathBuf>,

    /// Its key.
    #[arg(long = s::TLS_KEY_FILE.flag, env = s::TLS_KEY_FILE.env, help = s::TLS_KEY_FILE.meaning,
          value_parser = s::TLS_KEY_FILE.reads::<PathBuf>())]
    pub tls_key_file: Option<PathBuf>,

    /// The authorities of services.
    #[arg(long = s::TLS_CA_FILE.flag, env = s::TLS_CA_FILE.env, help = s::TLS_CA_FILE.meaning,
          value_parser = s::TLS_CA_FILE.reads::<PathBuf>())]
    pub tls_ca_file: Option<PathBuf>,

    /// Hosts to which a token may go over plain text; read it with [`ClientTlsConfig::peers`].
    #[arg(long = s::PLAINTEXT_PEERS.flag, env = s::PLAINTEXT_PEERS.env,
          help = s::PLAINTEXT_PEERS.meaning, value_parser = s::PLAINTEXT_PEERS.reads::<String>())]
    pub plaintext_peers: Option<String>,
}

impl ClientTlsConfig {
    /// The hosts to which a token may go over plain text.
    #[must_use]
    pub fn peers(&self) -> Vec<String> {
        let named = self.plaintext_peers.as_deref().unwrap_or_default().split(',');
        named.map(str::trim).filter(|host| !host.is_empty()).map(str::to_owned).collect()
    }
}
