//! A burst of signed deliveries from several connections, and the tasks that they become.

use super::delivery::{SECRET, request, status};
use super::{judged, ms, percentile};
use crate::report::{Report, Row};
use crate::stand::Stand;
use crate::throughput::whole;
use anyhow::{Context, Result, ensure};
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use surety_e2e::harness::Process;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 64;
pub(super) const DELIVERIES: usize = 10_000;
const P99: Duration = Duration::from_millis(250);
const TASKS_PER_SECOND: f64 = 500.0;
/// How often the backlog is looked at: each look costs the planner's database some milliseconds.
const LOOK: Duration = Duration::from_millis(100);
/// How long the tasks of the burst may take.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) async fn measure(
    stand: &Stand<'_>,
    report: &mut Report,
    planner: &Process,
    pool: &PgPool,
) -> Result<()> {
    let deliveries = stand.options.small_or(200, DELIVERIES);
    crate::meter::wait_for_quiet(stand).await?;
    // Made before, so that the sender's own work is no part of the times.
    let requests: Arc<Vec<Vec<u8>>> =
        Arc::new((0..deliveries).map(|number| request(number, SECRET)).collect());
    let began = Instant::now();
    let times = send_all(planner.address(), requests).await?;
    let answered = began.elapsed();
    ensure!(times.len() == deliveries, "{} answers", times.len());
    let waiting = waiting(pool).await?;
    drain(pool).await?;
    let drained = began.elapsed();
    nothing_is_lost(pool, deliveries).await?;

    let p99 = percentile(&times, 99);
    let what =
        format!("{deliveries} signed deliveries from {CONNECTIONS} connections, answer p99 ms");
    let target = ("under 250", p99 < P99);
    report.add(judged(stand, what, &format!("{:.1}", ms(p99)), target));
    let most = times.last().copied().unwrap_or_default();
    let beside = format!("slowest {:.1}", ms(most));
    report.add(Row::new("  p50 ms", format!("{:.1}", ms(percentile(&times, 50)))).beside(beside));
    let lost = "  deliveries lost: each was answered 202, is processed and has a task with a run";
    report.add(judged(stand, lost, "0", ("0", true)));
    let stored = whole(deliveries) / answered.as_secs_f64();
    report.add(
        Row::new("  deliveries stored a second", format!("{stored:.0}"))
            .beside("tasks are made meanwhile"),
    );
    // The planner answers and makes tasks at the same time, so the whole time counts.
    let in_all = whole(deliveries) / drained.as_secs_f64();
    let what = "  tasks made a second, from the first delivery to the last run";
    let target = ("500 or more", in_all >= TASKS_PER_SECOND);
    report.add(judged(stand, what, &format!("{in_all:.0}"), target));
    let rest = (drained - answered).as_secs_f64();
    let what = format!("  tasks made a second after the last answer, of {waiting} that waited");
    report.add(Row::new(what, format!("{:.0}", whole(waiting) / rest.max(0.001))));
    Ok(())
}

/// How long each answer took, the shortest first.
async fn send_all(address: &str, requests: Arc<Vec<Vec<u8>>>) -> Result<Vec<Duration>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, next) = (Arc::clone(&requests), Arc::clone(&next));
        senders.spawn(async move {
            let mut times = Vec::new();
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = Instant::now();
                stream.write_all(request).await?;
                let status = status(&mut stream).await?;
                ensure!(status == 202, "a delivery was answered {status}");
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(sent) = senders.join_next().await {
        times.extend(sent??);
    }
    times.sort_unstable();
    Ok(times)
}

/// The deliveries that are no tasks yet.
async fn waiting(pool: &PgPool) -> Result<usize> {
    let count: i64 =
        sqlx::query_scalar("select count(*) from forge_delivery where state = 'stored'")
            .fetch_one(pool)
            .await?;
    Ok(usize::try_from(count)?)
}

async fn drain(pool: &PgPool) -> Result<()> {
    let draining = async {
        while waiting(pool).await? > 0 {
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, draining).await.context("the backlog was not drained")?
}

/// Every delivery is one task, and every task has its run.
async fn nothing_is_lost(pool: &PgPool, deliveries: usize) -> Result<()> {
    let (processed, tasks, runs): (i64, i64, i64) = sqlx::query_as(
        "select (select count(*) from forge_delivery where state = 'processed' and cardinality(tasks) = 1),
                (select count(distinct number) from task where started_at is not null),
                (select count(*) from task join execution on execution.run_id = task.run_id)",
    )
    .fetch_one(pool)
    .await?;
    for (count, what) in [(processed, "deliveries"), (tasks, "tasks"), (runs, "runs")] {
        ensure!(usize::try_from(count)? == deliveries, "{count} {what} of {deliveries} are there");
    }
    Ok(())
}
