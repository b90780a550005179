//! Keeps the leases of the calls of live streams, and cancels calls whose leases ended: one statement a process.

use super::{WorkerSetup, Workers};
use std::time::Duration;
use surety_common::clock;
use surety_common::store::{self, HeldLease, StoreError, Topic};
use surety_common::telemetry;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

/// How long after a wake-up the calls of its run are looked at, together with those of others.
const SOON: Duration = Duration::from_millis(100);
/// How long reports of progress are gathered before they are stored.
const REPORTS: Duration = Duration::from_millis(500);

impl Workers {
    /// Extends leases until the process shuts down; then no stream is added any more.
    pub(super) async fn beat(self) {
        let WorkerSetup { wakes: (_, wakeups), drain, .. } = &self.0.setup;
        let mut topics = wakeups.subscribe();
        let mut due = Instant::now() + self.interval();
        let mut soon: Option<Instant> = None;
        loop {
            let next = soon.map_or(due, |soon| soon.min(due));
            tokio::select! {
                biased;
                () = drain.cancelled() => return self.0.streams.close(),
                () = sleep_until(next) => {
                    let all = Instant::now() >= due;
                    if all {
                        due = Instant::now() + self.interval();
                    }
                    soon = None;
                    if let Err(error) = self.beat_once(all).await {
                        tracing::warn!(%error, "workers: leases of calls could not be extended; retrying");
                    }
                }
                () = self.0.reported.notified() => {
                    soon.get_or_insert(Instant::now() + REPORTS);
                }
                topic = topics.recv() => match topic {
                    Ok(Topic::Waits(run_id)) if self.0.streams.mark_moved(run_id) => {
                        let at = Instant::now() + SOON;
                        soon = Some(soon.map_or(at, |soon| soon.min(at)));
                    }
                    Ok(Topic::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        due = due.min(Instant::now() + SOON);
                    }
                    Ok(Topic::Waits(_) | Topic::Ready | Topic::Run(_) | Topic::Moved(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            }
        }
    }

    async fn beat_once(&self, all: bool) -> Result<(), StoreError> {
        let (workers, calls) = self.0.streams.load();
        telemetry::set_workers(workers, calls);
        let held = self.0.streams.leases(all);
        let lost = self.extend(&held).await?;
        let now = clock::now();
        for (stream, call_id, lease_epoch) in lost {
            self.0.streams.cancel(stream, call_id, lease_epoch, now);
            self.0.free.notify_one();
        }
        let pool = &self.0.setup.pool;
        let workers = self.0.streams.workers();
        if all && !workers.is_empty() {
            store::touch_workers(pool, &workers, self.times()).await?;
        }
        let reports = self.0.streams.take_reports();
        if reports.is_empty() {
            return Ok(());
        }
        store::report_progress(pool, &reports).await?;
        // For those that watch the runs.
        let (waker, _) = &self.0.setup.wakes;
        reports.iter().for_each(|report| waker.wake(Topic::Run(report.run_id)));
        Ok(())
    }

    /// Extends leases, and answers those that are lost.
    pub(super) async fn extend(
        &self,
        held: &[(u64, Uuid, HeldLease)],
    ) -> Result<Vec<(u64, Uuid, i64)>, StoreError> {
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let leases = held.iter().map(|(_, _, lease)| lease.clone()).collect();
        let extended = self.0.heartbeats.extend(leases, clock::now()).await?;
        let lost = held.iter().zip(extended).filter(|(_, extended)| extended.is_none());
        Ok(lost
            .map(|((stream, call_id, lease), _)| (*stream, *call_id, lease.lease_epoch))
            .collect())
    }
}
