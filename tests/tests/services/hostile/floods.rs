//! Many connections, many polls, and those that never say what they want.

use super::{Case, Scene, broken, held};
use futures::FutureExt;
use futures::future::join_all;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};
use surety_e2e::agent::{AGENT, OTHER, call};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Status;

/// Connections that are open at once; more than one address may have waiting.
const BURST: usize = 500;
/// Bursts that follow one another without a pause: 10,000 connections.
const BURSTS: usize = 20;
/// Connections that begin a message and never end it.
const SLOW: usize = 100;
/// Long polls of one identity.
const POLLS: usize = 300;
/// The beginning of HTTP/2, without its settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn address(scene: &Scene) -> Result<String, Status> {
    let executor = scene.deployment.executors.first();
    Ok(executor.ok_or_else(|| Status::internal("no executor"))?.address().to_owned())
}

/// Opens connections, and sends the same bytes on each. Those that the port closes meanwhile are left out.
async fn connect(address: &str, count: usize, bytes: &[u8]) -> Result<Vec<TcpStream>, Status> {
    let opening = (0..count).map(|_| async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(bytes).await?;
        std::io::Result::Ok(stream)
    });
    let closed = |error: &std::io::Error| {
        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
    };
    let opened = join_all(opening).await.into_iter();
    let kept = opened.filter(|opened| !opened.as_ref().is_err_and(closed));
    kept.collect::<Result<_, _>>().map_err(broken)
}

/// Opens and closes 10,000 connections as fast as this machine can, and says how many a second that were.
async fn storm(address: &str) -> Result<(), Status> {
    let began = Instant::now();
    for _ in 0..BURSTS {
        connect(address, BURST, b"").await?;
    }
    let opened = u128::try_from(BURST * BURSTS).map_err(broken)?;
    let rate = opened * 1000 / began.elapsed().as_millis().max(1);
    writeln!(std::io::stderr(), "{rate} connections a second").map_err(broken)
}

/// What a connection that made place for others is told.
async fn told(stream: &mut TcpStream) -> Result<String, Status> {
    let mut text = String::new();
    let reading = stream.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(20), reading)
        .await
        .map_err(broken)?
        .map_err(broken)?;
    Ok(text)
}

/// The honest agent takes a turn in time, whatever else goes on.
async fn still_served(victim: &super::Victim) -> Result<(), Status> {
    let look = call("noop", serde_json::json!({})).to_string();
    let turn = victim.agent.submit(&victim.work, &look);
    let answer = tokio::time::timeout(Duration::from_secs(20), turn).await.map_err(broken)??;
    held(answer.next.is_some(), answer)
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a burst of connections that say nothing",
            code: "",
            act: |scene, victim| {
                async move {
                    let mut open = connect(&address(scene)?, BURST, b"").await?;
                    still_served(victim).await?;
                    let first = open.first_mut().ok_or_else(|| broken("no connection"))?;
                    let text = told(first).await?;
                    held(text.contains("503") && text.contains("too_many_connections"), text)
                }
                .boxed()
            },
        },
        Case {
            name: "10,000 connections a second that say nothing",
            code: "",
            act: |scene, victim| {
                async move {
                    let address = address(scene)?;
                    let (stormed, served) = tokio::join!(storm(&address), still_served(victim));
                    served.and(stormed)?;
                    still_served(victim).await
                }
                .boxed()
            },
        },
        Case {
            name: "connections that begin and never go on",
            code: "",
            act: |scene, victim| {
                async move {
                    let _open = connect(&address(scene)?, SLOW, PREFACE).await?;
                    still_served(victim).await
                }
                .boxed()
            },
        },
        Case {
            name: "connections that send no HTTP/2",
            code: "",
            act: |scene, victim| {
                async move {
                    let _open = connect(&address(scene)?, SLOW, &[0xff; 4096]).await?;
                    still_served(victim).await
                }
                .boxed()
            },
        },
        Case {
            name: "long polls of one identity that are given up",
            code: "",
            act: |scene, victim| {
                async move {
                    let greedy = scene.of(OTHER)?;
                    let polls = (0..POLLS).map(|_| {
                        let greedy = greedy.clone();
                        tokio::spawn(async move { greedy.lease("", 30).await })
                    });
                    let polls: Vec<_> = polls.collect();
                    let served = still_served(victim).await;
                    polls.iter().for_each(tokio::task::JoinHandle::abort);
                    served
                }
                .boxed()
            },
        },
        Case {
            name: "leases of one identity that it never uses come back",
            code: "",
            act: |scene, victim| {
                async move {
                    victim.agent.release(&victim.work).await?;
                    let greedy = scene.of(OTHER)?;
                    let taken = greedy.lease(&victim.run_id, 5).await?;
                    held(taken.is_some(), "the greedy one got the step")?;
                    // The lease expires without a sign of life.
                    let again = scene.of(AGENT)?.work(&victim.run_id).await.map_err(broken)?;
                    let later = taken
                        .is_some_and(|taken| again.lease.lease_epoch > taken.lease.lease_epoch);
                    held(later, &again.lease)?;
                    scene.of(AGENT)?.release(&again).await.map(drop)
                }
                .boxed()
            },
        },
    ]
}
