//! Wrong signatures at a steady rate, and what the database notices of them.

use super::delivery::{request, status};
use super::{judged, ms, percentile};
use crate::meter;
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::whole;
use anyhow::{Result, ensure};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_e2e::harness::{Database, Process};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::interval;

/// Wrong signatures a second, for how many seconds, from how many connections.
const RATE: usize = 1_000;
const SECONDS: usize = 10;
const CONNECTIONS: usize = 16;
/// A client that keeps exactly to the rate ends a little late.
const NEARLY: f64 = 0.98;
/// Servers count the last transactions of an idle connection up to ten seconds late.
const SETTLED: Duration = Duration::from_secs(12);
/// A planner at rest is watched this long.
const AT_REST: Duration = Duration::from_secs(20);
/// Transactions for each refused signature that the jitter of a planner at rest explains.
const NONE_EACH: f64 = 0.005;

pub(super) async fn measure(
    stand: &Stand<'_>,
    report: &mut Report,
    planner: &Process,
    (database, pool): (&Database, &PgPool),
) -> Result<()> {
    let seconds = stand.options.small_or(2, SECONDS);
    let stored = deliveries(pool).await?;
    let transactions = || meter::transactions(stand, database.name());
    // What the burst left to be counted is counted before the first reading.
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(1), SETTLED)).await;
    let (began, first) = (Instant::now(), transactions().await?);
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(2), AT_REST)).await;
    let second = transactions().await?;
    let at_rest = f64::from(u32::try_from(second - first)?) / began.elapsed().as_secs_f64();

    let began = Instant::now();
    let times = send_all(planner.address(), RATE * seconds).await?;
    let took = began.elapsed().as_secs_f64();
    tokio::time::sleep(stand.options.small_or(Duration::from_secs(1), SETTLED)).await;
    let third = transactions().await?;
    let watched = began.elapsed().as_secs_f64();
    let meanwhile = f64::from(u32::try_from(third - second)?);
    ensure!(deliveries(pool).await? == stored, "a delivery with a wrong signature is stored");

    let refused = whole(times.len()) / took;
    let target = ("1,000", refused >= NEARLY * whole(RATE));
    let what = "wrong signatures refused a second, each answered 401";
    report.add(judged(stand, what, &format!("{refused:.0}"), target));
    let p99 = format!("{:.1}", ms(percentile(&times, 99)));
    report.add(Row::new("  answer p99 ms", p99));
    let each = ((meanwhile - at_rest * watched) / whole(times.len())).max(0.0);
    let what = "  transactions of the database for each, above those at rest (pg_stat_database)";
    let row = judged(stand, what, &format!("{each:.4}"), ("0.00", each < NONE_EACH));
    let seen = format!("{:.1}/s meanwhile, {at_rest:.1}/s at rest", meanwhile / watched);
    let beside = format!("{}; {seen}", row.beside);
    report.add(row.beside(beside));
    Ok(())
}

/// How long each answer took, the shortest first.
async fn send_all(address: &str, count: usize) -> Result<Vec<Duration>> {
    let request = Arc::new(request(0, "another secret"));
    let each = Duration::from_secs(1) * u32::try_from(CONNECTIONS)? / u32::try_from(RATE)?;
    let mut senders = JoinSet::new();
    for place in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let request = Arc::clone(&request);
        let own = count / CONNECTIONS + usize::from(place < count % CONNECTIONS);
        senders.spawn(async move {
            // A late tick is made up for at once.
            let mut ticks = interval(each);
            let mut times = Vec::with_capacity(own);
            for _ in 0..own {
                ticks.tick().await;
                let sent = Instant::now();
                stream.write_all(&request).await?;
                let status = status(&mut stream).await?;
                ensure!(status == 401, "a wrong signature was answered {status}");
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::with_capacity(count);
    while let Some(sent) = senders.join_next().await {
        times.extend(sent??);
    }
    times.sort_unstable();
    Ok(times)
}

async fn deliveries(pool: &PgPool) -> Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from forge_delivery").fetch_one(pool).await?)
}
