//! Gives offered calls to workers: one loop for all streams of the process.

use super::output::{Chunks, Reports};
use super::streams::HeldCall;
use super::{WorkerSetup, Workers};
use futures::StreamExt;
use futures::stream;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::run::RunRecord;
use surety_common::domain::tool_workers::entry_of;
use surety_common::store::{
    self, DedicatedConnection, HeldLease, LeaseOrder, OfferedWorkerCall, StoreError, Topic,
    WaitLease, WorkerName,
};
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::value::timestamp;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

/// How often offered calls are searched without a wake-up, which may be lost.
const POLL: Duration = Duration::from_secs(1);
/// The shortest time between two scans while wake-ups keep arriving.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause after a scan that failed.
const AFTER_ERROR: Duration = Duration::from_millis(500);
/// The runs that are read at a time.
const READS: usize = 8;

/// A call as a worker gets it.
pub(super) struct Invocation {
    pub(super) call_id: Uuid,
    pub(super) call: HeldCall,
    pub(super) message: v1::ToolInvocation,
}

impl Workers {
    /// Gives calls to the streams until the process shuts down.
    pub(super) async fn dispatch(self) {
        let WorkerSetup { pool, wakes: (_, wakeups), drain, .. } = &self.0.setup;
        let mut topics = wakeups.subscribe();
        let mut dedicated = DedicatedConnection::new(pool.clone());
        let mut rotation = 0;
        loop {
            let begun = Instant::now();
            let (is_wanted, next) = match self.dispatch_once(&mut dedicated, &mut rotation).await {
                Ok(Scan::Idle) => (false, begun + POLL),
                Ok(Scan::Empty) => (true, begun + POLL),
                Ok(Scan::Given) => (true, begun),
                Err(error) => {
                    tracing::warn!(%error, "workers: a scan for calls failed; retrying");
                    (true, begun + AFTER_ERROR)
                }
            };
            tokio::select! {
                biased;
                () = drain.cancelled() => return,
                () = sleep_until(next), if is_wanted => {}
                () = self.0.free.notified() => {}
                () = moved(&mut topics), if is_wanted => {}
            }
            tokio::select! {
                () = drain.cancelled() => return,
                () = sleep_until(begun + PAUSE) => {}
            }
            // One scan covers all earlier wake-ups.
            topics = topics.resubscribe();
        }
    }

    async fn dispatch_once(
        &self,
        dedicated: &mut DedicatedConnection,
        rotation: &mut usize,
    ) -> Result<Scan, StoreError> {
        let wanted = self.0.streams.wanted();
        if wanted.is_empty() {
            return Ok(Scan::Idle);
        }
        let now = clock::now();
        let offered = store::offered_calls(dedicated, &wanted, now).await?;
        // They may have changed since the workers connected.
        let mut policies = HashMap::new();
        for OfferedWorkerCall { namespace, .. } in &offered {
            if !policies.contains_key(namespace) {
                policies.insert(namespace.clone(), self.0.policies.find(namespace).await?);
            }
        }
        *rotation = rotation.wrapping_add(1);
        let mut takers = HashMap::new();
        let mut orders = Vec::new();
        for call in in_turns(offered, *rotation) {
            let Some(policy) = policies.get(&call.namespace) else { continue };
            let Some(entry) = entry_of(&policy.tool_workers, &call.tool) else { continue };
            let Some((stream, worker)) = self.0.streams.reserve(&call.namespace, entry) else {
                continue;
            };
            let (holder, lease_ms) = (worker.holder(), self.lease_ms());
            orders.push(LeaseOrder { wait_id: call.wait_id, holder, lease_ms });
            takers.insert(call.wait_id, (stream, worker));
        }
        if orders.is_empty() {
            return Ok(Scan::Empty);
        }
        let leased = store::lease_waits(dedicated, &orders, now).await;
        let (leases, failed) = match leased {
            Ok(leases) => (leases, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let given: Vec<_> = leases
            .into_iter()
            .filter_map(|lease| Some((lease, takers.remove(&lease.wait_id)?)))
            .collect();
        // Another executor was first.
        takers.into_values().for_each(|(stream, _)| self.0.streams.unreserve(stream));
        stream::iter(given)
            .for_each_concurrent(READS, |(lease, (stream, worker))| {
                self.hand_out(lease, stream, worker)
            })
            .await;
        failed.map_or(Ok(Scan::Given), Err)
    }

    /// Sends a leased call to its worker. One that cannot be sent is offered again.
    async fn hand_out(&self, lease: WaitLease, stream: u64, worker: WorkerName) {
        let invocation = self.invocation(lease, false).await;
        let given = match invocation {
            Ok(Some(Invocation { call_id, call, message })) => {
                self.0.streams.give(stream, call_id, call, Message::Invocation(message))
            }
            // The wait ended in between.
            Ok(None) => return self.0.streams.unreserve(stream),
            Err(error) => {
                tracing::warn!(run_id = %lease.run_id, %error, "workers: the run of a call could not be read; the call is offered again");
                self.0.streams.unreserve(stream);
                false
            }
        };
        if given {
            return;
        }
        let WaitLease { run_id, lease_epoch, .. } = lease;
        let held = HeldLease { run_id, lease_epoch, identity: worker.identity };
        if let Err(error) = store::release_wait(&self.0.setup.pool, &held, clock::now()).await {
            tracing::warn!(%run_id, %error, "workers: a call that was not sent could not be released; its lease expires");
            return;
        }
        let (waker, wakeups) = &self.0.setup.wakes;
        waker.wake_now(Topic::Waits(run_id));
        wakeups.wake_here(Topic::Waits(run_id));
    }

    /// A leased call as its worker gets it; none when its wait has ended.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(super) async fn invocation(
        &self,
        lease: WaitLease,
        resumed: bool,
    ) -> Result<Option<Invocation>, StoreError> {
        let record = store::find_run(&self.0.setup.pool, lease.run_id).await?;
        Ok(record.and_then(|record| self.invocation_of(&record, lease, resumed)))
    }

    fn invocation_of(
        &self,
        record: &RunRecord,
        lease: WaitLease,
        resumed: bool,
    ) -> Option<Invocation> {
        let WaitLease { wait_id, run_id, lease_epoch, .. } = lease;
        let mut steps = record.execution.steps.iter().enumerate();
        let (index, step) =
            steps.find(|(_, step)| step.wait.as_deref().is_some_and(|wait| wait.id == wait_id))?;
        let (open, task) = (step.open_call.as_deref()?, step.worker_call.as_deref()?);
        let step_id = record.plan.as_deref()?.steps.get(index)?.id.clone();
        let call = HeldCall {
            run_id,
            wait_id,
            lease_epoch,
            deadline_at: task.deadline_at,
            is_settling: false,
            chunks: Chunks::default(),
            reports: Reports::new(),
        };
        let message = v1::ToolInvocation {
            call_id: open.call_id.to_string(),
            tool: open.tool.clone(),
            arguments_json: open.arguments_json.clone(),
            idempotency_key: open.call_id.to_string(),
            deadline: Some(timestamp(task.deadline_at)),
            run_id: run_id.to_string(),
            step_id,
            traceparent: record.spec.trace_parent.clone(),
            workspace: self.workspace_of(record),
            fence: u64::try_from(lease_epoch).unwrap_or_default(),
            attempt: task.attempt,
            namespace: record.spec.namespace.clone(),
            resumed,
        };
        Some(Invocation { call_id: open.call_id, call, message })
    }

    /// The absolute path of a run's folder.
    pub(super) fn workspace_of(&self, record: &RunRecord) -> String {
        if record.spec.repository.is_some() {
            // Each executor has a clone of its own.
            return String::new();
        }
        match record.spec.workspace.as_str() {
            "" => {
                let folder = self.0.setup.workspaces.join(record.spec.id.to_string());
                let folder = std::path::absolute(&folder).unwrap_or(folder);
                folder.to_string_lossy().into_owned()
            }
            named => named.to_owned(),
        }
    }
}

/// What one scan came to.
enum Scan {
    /// No stream has a free place.
    Idle,
    /// No call is offered.
    Empty,
    /// Calls were given, and more may be offered.
    Given,
}

/// The calls of the namespaces by turns, beginning with another one each time.
fn in_turns(offered: Vec<OfferedWorkerCall>, rotation: usize) -> Vec<OfferedWorkerCall> {
    let mut by_namespace: BTreeMap<String, VecDeque<OfferedWorkerCall>> = BTreeMap::new();
    for call in offered {
        by_namespace.entry(call.namespace.clone()).or_default().push_back(call);
    }
    let mut queues: VecDeque<VecDeque<OfferedWorkerCall>> = by_namespace.into_values().collect();
    let first = rotation.checked_rem(queues.len()).unwrap_or_default();
    queues.rotate_left(first);
    let mut ordered = Vec::new();
    while let Some(mut queue) = queues.pop_front() {
        ordered.extend(queue.pop_front());
        if !queue.is_empty() {
            queues.push_back(queue);
        }
    }
    ordered
}

/// Resolves when a wake-up says that a call is offered, or may be.
async fn moved(topics: &mut broadcast::Receiver<Topic>) {
    loop {
        match topics.recv().await {
            Ok(Topic::Waits(_) | Topic::Everything)
            | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(Topic::Ready | Topic::Run(_) | Topic::Moved(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
