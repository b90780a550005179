//! Deliveries of forges: a burst of signed ones, the tasks that they become, and signatures that are wrong.

use crate::report::{Report, Row};
use crate::stand::Stand;
use anyhow::{Context, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ring::hmac;
use serde_json::json;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use surety_common::wire::client::channel;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_e2e::harness::{Process, Service, token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

const SECRET: &str = "the secret of the hook";
const CONNECTIONS: usize = 64;
const DELIVERIES: usize = 10_000;
/// Wrong signatures a second, and for how many seconds.
const WRONG_RATE: u32 = 1_000;
const WRONG_S: u32 = 10;
/// Connections that send nothing, or a byte a second.
const IDLE: usize = 4_000;
/// How long the tasks of the burst may take.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let database = stand.database().await?;
    let mut environment = stand.environment();
    environment.extend([("SURETY_HOOK_SECRETS", "main@_toolchain=env:HOOK"), ("HOOK", SECRET)]);
    let planner = Process::start(Service::Planner, &database, &environment).await?;
    let forge = v1::Forge::Gitea.into();
    let hook = v1::Hook {
        name: "main".to_owned(),
        forge,
        secrets: vec!["main".to_owned()],
        ..v1::Hook::default()
    };
    let mut toolchain = ToolchainServiceClient::new(channel(&planner.url(), Some(&token()?))?);
    toolchain.put_hook(v1::PutHookRequest { hook: Some(hook) }).await?;
    let pool = database.pool().await?;
    burst(stand, report, &planner, &pool).await?;
    wrong_signatures(stand, report, &planner, &database).await?;
    attack(stand, report, &planner).await?;
    pool.close().await;
    drop(planner);
    database.drop().await
}

/// Signed deliveries from several connections, each with an issue of its own, and the tasks that they become.
async fn burst(
    stand: &Stand<'_>,
    report: &mut Report,
    planner: &Process,
    pool: &PgPool,
) -> Result<()> {
    let deliveries = stand.options.small_or(200, DELIVERIES);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut senders = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (address, next) = (planner.address().to_owned(), Arc::clone(&next));
        senders.spawn(async move {
            let mut stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= deliveries {
                    return anyhow::Ok(times);
                }
                let request = request(number, SECRET);
                let sent = Instant::now();
                stream.write_all(&request).await?;
                let status = status(&mut stream).await?;
                ensure!(status == 202, "a delivery was answered {status}");
                times.push(sent.elapsed());
            }
        });
    }
    let mut times = Vec::new();
    while let Some(sent) = senders.join_next().await {
        times.extend(sent??);
    }
    let answered = began.elapsed();
    ensure!(times.len() == deliveries, "{} answers", times.len());
    times.sort_unstable();
    let count = f64::from(u32::try_from(deliveries)?);
    let percentile = |share: usize| times[(deliveries * share / 100).min(deliveries - 1)];
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    let what =
        format!("{deliveries} signed deliveries from {CONNECTIONS} connections, answer p99 ms");
    let row = Row::new(what, format!("**{}**", ms(percentile(99))));
    report.add(row.beside(format!("target under 250; p50 {}", ms(percentile(50)))));
    report.add(Row::new(
        "deliveries stored a second",
        format!("**{:.0}**", count / answered.as_secs_f64()),
    ));
    let waiting = async {
        loop {
            let open: i64 =
                sqlx::query_scalar("select count(*) from forge_delivery where state = 'stored'")
                    .fetch_one(pool)
                    .await?;
            if open == 0 {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, waiting).await.context("the backlog was not drained")??;
    let drained = began.elapsed();
    let processed: i64 =
        sqlx::query_scalar("select count(*) from forge_delivery where state = 'processed'")
            .fetch_one(pool)
            .await?;
    ensure!(usize::try_from(processed)? == deliveries, "{processed} deliveries became tasks");
    let row = Row::new(
        "tasks made a second, until the backlog was empty",
        format!("**{:.0}**", count / drained.as_secs_f64()),
    );
    report.add(row.beside("target 500; made while deliveries arrive"));
    Ok(())
}

/// Wrong signatures at a steady rate, and the transactions of the database meanwhile.
async fn wrong_signatures(
    stand: &Stand<'_>,
    report: &mut Report,
    planner: &Process,
    database: &surety_e2e::harness::Database,
) -> Result<()> {
    let seconds = stand.options.small_or(2, WRONG_S);
    let mut stream = TcpStream::connect(planner.address()).await?;
    let request = request(0, "another secret");
    let at_rest = rate(stand, database, seconds).await?;
    let before = crate::meter::transactions(stand, database.name()).await?;
    let mut ticks = interval(Duration::from_secs(1) / WRONG_RATE);
    let began = Instant::now();
    for _ in 0..WRONG_RATE * seconds {
        ticks.tick().await;
        stream.write_all(&request).await?;
        let status = status(&mut stream).await?;
        ensure!(status == 401, "a wrong signature was answered {status}");
    }
    let took = began.elapsed().as_secs_f64();
    let after = crate::meter::transactions(stand, database.name()).await?;
    let transactions = f64::from(u32::try_from(after - before)?) / took;
    let refused = f64::from(WRONG_RATE * seconds) / took;
    report.add(Row::new("wrong signatures refused a second", format!("**{refused:.0}**")).beside(
        format!(
            "target 1,000; {transactions:.1} transactions a second meanwhile, {at_rest:.1} at rest"
        ),
    ));
    Ok(())
}

async fn rate(
    stand: &Stand<'_>,
    database: &surety_e2e::harness::Database,
    seconds: u32,
) -> Result<f64> {
    let before = crate::meter::transactions(stand, database.name()).await?;
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let after = crate::meter::transactions(stand, database.name()).await?;
    Ok(f64::from(u32::try_from(after - before)?) / f64::from(seconds))
}

/// Deliveries and health checks beside idle connections.
async fn attack(stand: &Stand<'_>, report: &mut Report, planner: &Process) -> Result<()> {
    let idle = stand.options.small_or(300, IDLE);
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most.min(65_536), most)?;
    let mut streams = Vec::new();
    for place in 0..idle {
        let mut stream = TcpStream::connect(planner.address()).await?;
        if place % 2 == 0 {
            stream.write_all(b"POST /webhooks/gitea/main HTTP/1.1\r\nhost:").await?;
        }
        streams.push(stream);
    }
    let mut slowest = Duration::ZERO;
    for number in 0..50 {
        let began = Instant::now();
        let mut stream = TcpStream::connect(planner.address()).await?;
        stream.write_all(&request(DELIVERIES + number, SECRET)).await?;
        let answered = status(&mut stream).await?;
        ensure!(answered == 202, "a delivery was answered {answered}");
        let health = planner.get("/healthz").await?;
        ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
        slowest = slowest.max(began.elapsed());
    }
    let what =
        format!("a delivery and a health check beside {idle} idle connections, slowest of 50, ms");
    report.add(Row::new(what, format!("**{:.1}**", slowest.as_secs_f64() * 1000.0)));
    drop(streams);
    Ok(())
}

/// A delivery of Gitea: an issue was assigned.
fn request(number: usize, secret: &str) -> Vec<u8> {
    let user = json!({"id": 7, "login": "dev", "username": "dev"});
    let body = json!({
        "action": "assigned", "number": number + 1,
        "issue": {
            "id": number + 100, "number": number + 1, "title": "The total is wrong", "body": "x".repeat(4000),
            "state": "open", "user": user, "labels": [], "assignee": user, "assignees": [user],
            "html_url": format!("https://forge.example/team/app/issues/{}", number + 1),
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T11:00:00Z"
        },
        "repository": {
            "id": 1, "name": "app", "full_name": "team/app", "owner": user,
            "html_url": "https://forge.example/team/app", "default_branch": "main"
        },
        "sender": {"id": 8, "login": "lead", "username": "lead"}
    })
    .to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let length = body.len();
    format!(
        "POST /webhooks/gitea/main HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nx-gitea-event: issues\r\nx-gitea-delivery: {number}\r\n\
         x-gitea-signature: {signature}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The status of an answer, whose body is read to its end.
async fn status(stream: &mut TcpStream) -> Result<u16> {
    let mut bytes = Vec::new();
    loop {
        let count = stream.read_buf(&mut bytes).await?;
        ensure!(count > 0, "the connection was closed");
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.context("no length")?.trim().parse()? {
            continue;
        }
        return Ok(head.split(' ').nth(1).context("no status")?.parse()?);
    }
}
