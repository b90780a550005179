//! The bounds of the port: idle and slow connections keep neither deliveries nor health checks from it.

use super::sender::Intake;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, PATIENCE};
use surety_e2e::toolchain::delivery::{OLD, Sent, answer_of, exchange, new_id};
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
    all_are_closed(idle).await?;
    each_bound_has_its_answer(&intake, &address).await?;
    is_alive(&intake).await?;
    database.drop().await
}

/// Waits until the port has answered and closed each of them. Those that had a request stay in preference to new
/// connections, and are so many that a new one could be closed in favour of another.
async fn all_are_closed(idle: Vec<TcpStream>) -> Result<()> {
    let reading = async {
        for mut stream in idle {
            let mut rest = [0; 512];
            while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.context("connections that are not closed")
}

async fn each_bound_has_its_answer(intake: &Intake, address: &str) -> Result<()> {
    let mut silent = TcpStream::connect(address).await?;
    let mut header = TcpStream::connect(address).await?;
    let mut body = TcpStream::connect(address).await?;
    body.write_all(Sent::gitea(&new_id(), "push", b"{}", OLD).head(1000).as_bytes()).await?;
    let mut chunked = TcpStream::connect(address).await?;
    let head = Sent::gitea(&new_id(), "push", b"{}", OLD).head(0);
    let head = head.replace("content-length: 0", "transfer-encoding: chunked");
    chunked.write_all(head.as_bytes()).await?;
    let mut kept = TcpStream::connect(address).await?;
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    let began = Instant::now();
    // A byte at a time, each long before any idle time ends.
    while began.elapsed() < Duration::from_secs(3) {
        let gone = [
            header.write_all(b"G").await.is_err(),
            body.write_all(b" ").await.is_err(),
            chunked.write_all(b"1\r\n \r\n").await.is_err(),
        ];
        if gone.contains(&true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let slow = [
        (&mut silent, "silent"),
        (&mut header, "header"),
        (&mut body, "body"),
        (&mut chunked, "chunked"),
    ];
    for (stream, name) in slow {
        let answer = answer_of(stream).await.context(name)?;
        assert_eq!(answer.code(), (408, "request_timeout"), "{name}");
    }
    let mut answered = Vec::new();
    kept.read_to_end(&mut answered).await?;
    ensure!(answered.starts_with(b"HTTP/1.1 200"), "the idle connection was answered and closed");
    ensure!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let large = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(40_000));
    assert_eq!(exchange(address, large.as_bytes()).await?.code(), (431, "header_too_large"));
    each_of_two_requests_at_once_has_its_answer(address, &large).await?;
    let metrics = intake.planner.get("/metrics").await?;
    ensure!(metrics.contains(r#"result="request_timeout""#), "{metrics}");
    Ok(())
}

/// Requests that are sent before the answer to the first one.
async fn each_of_two_requests_at_once_has_its_answer(address: &str, large: &str) -> Result<()> {
    let first = Sent::gitea(&new_id(), "push", b"{}", OLD);
    let kept = first.head(2).replace("connection: close\r\n", "");
    let wrong = Sent::gitea(&new_id(), "push", b"{}", "another secret").to_bytes();
    for (second, status) in [(wrong.as_slice(), "401 "), (large.as_bytes(), "431 ")] {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&[kept.as_bytes(), b"{}", second].concat()).await?;
        let mut bytes = Vec::new();
        let reading = async {
            // A server that answers before it has read everything may reset the connection after its answer.
            while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {}
        };
        tokio::time::timeout(PATIENCE, reading).await.context("no answers in time")?;
        let text = String::from_utf8_lossy(&bytes);
        let answers: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
        let [one, other] = answers.as_slice() else { anyhow::bail!("{text}") };
        ensure!(one.starts_with("202 ") && other.starts_with(status), "{text}");
    }
    Ok(())
}
