//! Reads a leased run again as soon as another process reports that it changed it.

use super::engine::Engine;
use std::sync::Arc;
use surety_common::store::Topic;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Refreshes leased runs on notifications until `ended`. The next heartbeat finds a change whose
/// notification was lost.
pub async fn follow(engine: Arc<Engine>, ended: CancellationToken) {
    let mut wakeups = engine.wakeups.subscribe();
    loop {
        let moved = tokio::select! {
            () = ended.cancelled() => return,
            moved = moved(&mut wakeups) => moved,
        };
        for run in engine.registry.of_run(moved) {
            let pool = engine.pool.clone();
            tokio::spawn(async move { run.refresh(&pool).await });
        }
    }
}

async fn moved(wakeups: &mut broadcast::Receiver<Topic>) -> Uuid {
    loop {
        match wakeups.recv().await {
            Ok(Topic::Moved(run_id)) => return run_id,
            Ok(Topic::Run(_) | Topic::Ready | Topic::Waits(_) | Topic::Everything)
            | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
