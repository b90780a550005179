//! Deliveries and health checks beside connections that say nothing, or a byte a second.

use super::burst::DELIVERIES;
use super::delivery::{SECRET, request, status};
use super::{judged, ms};
use crate::report::{Report, Row};
use crate::stand::Stand;
use anyhow::{Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use surety_e2e::harness::Process;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

/// Connections of the attacker. Those that the planner closes are made again each second.
const IDLE: usize = 4_000;
const ROUNDS: usize = 50;
/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_secs(1);

/// A connection of the attacker: silent, or with a header that grows by a byte a second.
struct Slow {
    stream: TcpStream,
    writes: bool,
}

impl Slow {
    async fn open(address: &str, writes: bool) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        if writes {
            stream.write_all(b"POST /webhooks/gitea/main HTTP/1.1\r\nhost:").await?;
        }
        Ok(Self { stream, writes })
    }

    /// Writes its next byte. Whether the planner still has the connection.
    fn goes_on(&self) -> bool {
        if self.writes && self.stream.try_write(b"x").is_err() {
            return false;
        }
        let read = self.stream.try_read(&mut [0; 512]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

/// What the attacker saw.
#[derive(Default)]
struct Seen {
    closed: usize,
    seconds: usize,
}

#[derive(Default)]
struct Slowest {
    delivery: Duration,
    health: Duration,
}

pub(super) async fn measure(
    stand: &Stand<'_>,
    report: &mut Report,
    planner: &Process,
) -> Result<()> {
    let idle = stand.options.small_or(300, IDLE);
    let rounds = stand.options.small_or(10, ROUNDS);
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most.min(65_536), most)?;
    let mut slow = Vec::new();
    for place in 0..idle {
        slow.push(Slow::open(planner.address(), place % 2 == 0).await?);
    }
    let mut seen = Seen::default();
    let slowest = tokio::select! {
        measured = calls(planner, rounds) => measured?,
        failed = trickle(planner, &mut slow, &mut seen) => return failed,
    };
    let beside = format!("beside {idle} connections that are idle or send a byte a second");
    for (name, time) in [("a delivery", slowest.delivery), ("/healthz", slowest.health)] {
        let what = format!("{name} {beside}, slowest of {rounds}, ms");
        let target = ("under 1,000, each answered", time < SOON);
        report.add(judged(stand, what, &format!("{:.1}", ms(time)), target));
    }
    let what = "  of those, closed by the planner and made again a second";
    report.add(Row::new(what, (seen.closed / seen.seconds.max(1)).to_string()));
    Ok(())
}

/// Has each connection write its byte each second, and makes those again that the planner closed. Ends by an error only.
async fn trickle(planner: &Process, slow: &mut [Slow], seen: &mut Seen) -> Result<()> {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        seen.seconds += 1;
        for one in &mut *slow {
            if !one.goes_on() {
                seen.closed += 1;
                *one = Slow::open(planner.address(), one.writes).await?;
            }
        }
    }
}

/// One delivery and one health check after the other, each on a connection of its own.
async fn calls(planner: &Process, rounds: usize) -> Result<Slowest> {
    let mut slowest = Slowest::default();
    for number in 0..rounds {
        let request = request(DELIVERIES + number, SECRET);
        let began = Instant::now();
        let mut stream = TcpStream::connect(planner.address()).await?;
        stream.write_all(&request).await?;
        let answered = status(&mut stream).await?;
        ensure!(answered == 202, "a delivery was answered {answered}");
        slowest.delivery = slowest.delivery.max(began.elapsed());
        let began = Instant::now();
        let health = planner.get("/healthz").await?;
        ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
        slowest.health = slowest.health.max(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(slowest)
}
