//! A certificate authority of a test, with a folder for the certificates that it issues.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_common::tls::{Tls, TlsFiles};
use surety_common::wire::client::Transport;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

/// A year in which every test has ended.
pub const VALID: i32 = 2999;
/// A year before every test.
pub const EXPIRED: i32 = 2021;

/// The authority.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, whose certificate is in the file `ca.pem`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two authorities of one name would differ by their signatures only.
        let name = format!("authority {}", Uuid::now_v7());
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let authority = Self { folder: tempfile::tempdir()?, issuer };
        write(&authority.path("ca.pem"), &authority.issuer.pem())?;
        Ok(authority)
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that only its owner can read.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        write(&path, text)?;
        Ok(path)
    }

    /// Issues a certificate into `NAME.pem` and its key into `NAME.key`: with the common name `name`, for
    /// one host, valid to the first day of a year.
    ///
    /// # Errors
    /// The host is invalid, or a file cannot be written.
    pub fn issue(&self, name: &str, host: &str, year: i32) -> Result<()> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.try_into()?),
        }];
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        self.write(&format!("{name}.key"), &key.serialize_pem())?;
        self.write(&format!("{name}.pem"), &certificate.pem())?;
        Ok(())
    }

    /// The files of a process with the certificate `name` that trusts services of this authority.
    pub fn files(&self, name: &str) -> TlsFiles {
        TlsFiles {
            cert: Some(self.path(&format!("{name}.pem"))),
            key: Some(self.path(&format!("{name}.key"))),
            ca: Some(self.path("ca.pem")),
            ..TlsFiles::default()
        }
    }

    /// The same files as environment variables.
    ///
    /// # Errors
    /// The folder's path is not Unicode.
    pub fn environment(&self, name: &str) -> Result<Vec<(&'static str, String)>> {
        let text = |file: &str| -> Result<String> {
            Ok(self.path(file).to_str().context("a path in Unicode")?.to_owned())
        };
        Ok(vec![
            ("SURETY_TLS_CERT_FILE", text(&format!("{name}.pem"))?),
            ("SURETY_TLS_KEY_FILE", text(&format!("{name}.key"))?),
            ("SURETY_TLS_CA_FILE", text("ca.pem")?),
        ])
    }

    /// A client that trusts this authority and has no certificate.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn client(&self) -> Result<Transport> {
        transport(TlsFiles { ca: Some(self.path("ca.pem")), ..TlsFiles::default() })
    }

    /// A client that trusts this authority, with one of its certificates.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn client_as(&self, name: &str) -> Result<Transport> {
        transport(self.files(name))
    }

    /// Serves TLS with the certificate `name` on a free port of loopback, and forwards what arrives to
    /// a server without TLS.
    ///
    /// # Errors
    /// The files cannot be read, or no port is free.
    pub async fn proxy(&self, name: &str, to: SocketAddr) -> Result<SocketAddr> {
        let tls = Tls::load(self.files(name))?.server().context("a certificate")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = TlsAcceptor::from(tls.clone());
                tokio::spawn(async move {
                    let mut client = acceptor.accept(stream).await?;
                    let mut server = TcpStream::connect(to).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Ok(address)
    }
}

/// A transport with these certificates.
///
/// # Errors
/// The files cannot be read.
pub fn transport(files: TlsFiles) -> Result<Transport> {
    Ok(Transport { tls: Some(Tls::load(files)?), ..Transport::default() })
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}
