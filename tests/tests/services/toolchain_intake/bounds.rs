//! The bounds of the port: idle and slow connections keep neither deliveries nor health checks from it.

use super::sender::{Intake, OLD, Sent, answer_of, exchange, new_id};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BOUNDS: [(&str, &str); 4] = [
    ("SURETY_WAITING_CONNECTIONS", "64"),
    ("SURETY_WAITING_CONNECTIONS_PER_PEER", "48"),
    ("SURETY_REQUEST_TIMEOUT_MS", "1500"),
    ("SURETY_IDLE_TIMEOUT_MS", "3000"),
];
/// Far more than wait at a time.
const IDLE: usize = 600;
/// How long an answer may take under attack.
const SOON: Duration = Duration::from_secs(1);

/// A delivery and a health check are answered soon.
async fn is_alive(intake: &Intake) -> Result<()> {
    let began = Instant::now();
    let answer = intake.send(&Sent::gitea(&new_id(), "push", b"{}", OLD)).await?;
    ensure!(answer.status == 202, "{answer:?}");
    let health = intake.planner.get("/healthz").await?;
    ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
    ensure!(began.elapsed() < SOON, "it took {:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn idle_and_slow_connections_stop_neither_deliveries_nor_health() -> Result<()> {
    let database = Database::create().await?;
    let intake = Intake::start(&database, &BOUNDS).await?;
    intake.put("main", v1::Forge::Gitea, &["old"]).await?;
    let address = intake.planner.address().to_owned();
    let mut idle = Vec::new();
    for place in 0..IDLE {
        let mut stream = TcpStream::connect(&address).await?;
        let slow = Sent::gitea(&new_id(), "push", b"{}", OLD);
        match place % 3 {
            0 => {}
            // A header that does not end, and a body that does not.
            1 => stream.write_all(b"POST /webhooks/gitea/main HTTP/1.1\r\nhost:").await?,
            _ => stream.write_all(slow.head(1000).as_bytes()).await?,
        }
        idle.push(stream);
        if place % 100 == 99 {
            is_alive(&intake).await.with_context(|| format!("after {place} connections"))?;
        }
    }
    // The first one made place for others and was told so.
    let first = idle.first_mut().context("a connection")?;
    assert_eq!(answer_of(first).await?.code(), (503, "too_many_connections"));
    drop(idle);
    each_bound_has_its_answer(&intake, &address).await?;
    is_alive(&intake).await?;
    database.drop().await
}

async fn each_bound_has_its_answer(intake: &Intake, address: &str) -> Result<()> {
    let mut silent = TcpStream::connect(address).await?;
    let mut header = TcpStream::connect(address).await?;
    let mut body = TcpStream::connect(address).await?;
    body.write_all(Sent::gitea(&new_id(), "push", b"{}", OLD).head(1000).as_bytes()).await?;
    let mut kept = TcpStream::connect(address).await?;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    let began = Instant::now();
    // A byte at a time, each long before any idle time ends.
    while began.elapsed() < Duration::from_secs(3) {
        if header.write_all(b"G").await.is_err() | body.write_all(b" ").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (stream, name) in [(&mut silent, "silent"), (&mut header, "header"), (&mut body, "body")] {
        let answer = answer_of(stream).await.context(name)?;
        assert_eq!(answer.code(), (408, "request_timeout"), "{name}");
    }
    let mut answered = Vec::new();
    kept.read_to_end(&mut answered).await?;
    ensure!(answered.starts_with(b"HTTP/1.1 200"), "the idle connection was answered and closed");
    ensure!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let large = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(40_000));
    assert_eq!(exchange(address, large.as_bytes()).await?.code(), (431, "header_too_large"));
    let metrics = intake.planner.get("/metrics").await?;
    ensure!(metrics.contains(r#"result="request_timeout""#), "{metrics}");
    Ok(())
}
