//! Certificates are replaced without a restart.

use crate::tls::sample::{NAME, TOKEN, client, name_of, serve};
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surety_common::tls::{Tls, TlsFiles};
use surety_common::wire::client::Transport;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{PATIENCE, Process, Service};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// The certificate that a port shows to a new connection.
async fn shown(address: &str, transport: &Transport) -> Result<Vec<u8>> {
    let stream = TcpStream::connect(address).await?;
    let tls = transport.tls.as_ref().context("certificates")?;
    let connector = TlsConnector::from(tls.client());
    let stream = connector.connect("127.0.0.1".try_into()?, stream).await?;
    let chain = stream.get_ref().1.peer_certificates().context("a certificate")?;
    Ok(chain.first().context("a certificate")?.to_vec())
}

async fn wait_for_another(address: &str, transport: &Transport, than: &[u8]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while shown(address, transport).await? == than {
        ensure!(Instant::now() < deadline, "the port still shows the replaced certificate");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Calls until `stop`, over one connection or over a new one for each call, and answers the number of
/// calls; the first failed call is the error.
fn calling(
    url: &str,
    transport: Transport,
    reconnects: bool,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Result<u64>> {
    let (url, stop) = (url.to_owned(), Arc::clone(stop));
    tokio::spawn(async move {
        let kept = client(&url, &transport, Some(TOKEN))?;
        let mut calls = 0;
        while !stop.load(Ordering::Relaxed) {
            let used =
                if reconnects { client(&url, &transport, Some(TOKEN))? } else { kept.clone() };
            ensure!(name_of(used).await? == NAME);
            calls += 1;
        }
        Ok(calls)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_replaced_under_load_and_no_call_fails() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let tls = Tls::watched(ours.files("port"))?.context("certificates")?;
    let url = serve(tls).await?;
    let (address, transport) = (url.trim_start_matches("https://"), ours.client()?);
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = [false, true, false, true]
        .map(|reconnects| calling(&url, transport.clone(), reconnects, &stop))
        .into();
    for _ in 0..3 {
        let before = shown(address, &transport).await?;
        // Between the two files a reader finds a key without its certificate.
        ours.issue("port", "127.0.0.1", VALID)?;
        wait_for_another(address, &transport, &before).await?;
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        ensure!(caller.await?? > 0);
    }
    Ok(())
}

#[tokio::test]
async fn a_client_loads_a_replaced_authority() -> Result<()> {
    let (ours, other) = (Authority::new()?, Authority::new()?);
    ours.issue("port", "127.0.0.1", VALID)?;
    let url = serve(Tls::load(ours.files("port"))?).await?;
    let trusted = other.write("trusted.pem", &std::fs::read_to_string(other.path("ca.pem"))?)?;
    let files = TlsFiles { ca: Some(trusted), ..TlsFiles::default() };
    let transport = Transport { tls: Tls::watched(files)?, ..Transport::default() };
    let kept = client(&url, &transport, Some(TOKEN))?;
    ensure!(name_of(kept.clone()).await.is_err());
    other.write("trusted.pem", &std::fs::read_to_string(ours.path("ca.pem"))?)?;
    let deadline = Instant::now() + PATIENCE;
    while name_of(kept.clone()).await.is_err() {
        ensure!(Instant::now() < deadline, "the channel does not use the replaced authority");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_process_keeps_its_certificate_when_the_changed_file_cannot_be_used() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let environment = ours.environment("port")?;
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, &**value)).collect();
    let process = Process::start_stateless(Service::Gate, &environment).await?;
    let (address, transport) = (process.address(), ours.client()?);
    let before = shown(address, &transport).await?;

    let cert = ours.write("port.pem", "no certificate")?;
    let line = process.wait_for_line(|line| line.contains("stay in force")).await?;
    for part in ["ERROR", &*cert.to_string_lossy(), "SURETY_TLS_CERT_FILE"] {
        ensure!(line.contains(part), "{line}");
    }
    ensure!(shown(address, &transport).await? == before);
    let metrics = crate::tls::processes::get(address, &transport, "/metrics").await?;
    ensure!(metrics.contains("surety_tls_reloads_total{result=\"refused\"} 1"), "{metrics}");
    ensure!(metrics.contains("surety_tls_certificate_expiry_timestamp_seconds"), "{metrics}");

    ours.issue("port", "127.0.0.1", VALID)?;
    wait_for_another(address, &transport, &before).await
}
