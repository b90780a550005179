//! Gives offered calls to workers: those that a scan finds, and those that this process opened.

use super::output::{Chunks, Reports};
use super::streams::HeldCall;
use super::{WorkerSetup, Workers};
use futures::StreamExt;
use futures::stream;
use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use surety_common::clock;
use surety_common::domain::run::{RunRecord, RunSpec};
use surety_common::domain::tool_workers::{ToolWorkerPolicy, entry_of};
use surety_common::store::{
    self, DedicatedConnection, HeldLease, LeaseOrder, OfferedWorkerCall, Scanner, StoreError,
    Topic, Turns, WaitLease, WorkerName, scan_until,
};
use surety_common::telemetry;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::value::timestamp;
use uuid::Uuid;

/// The runs that are read at a time.
const READS: usize = 8;

/// A call as a worker gets it.
pub(super) struct Invocation {
    pub(super) call_id: Uuid,
    pub(super) call: HeldCall,
    pub(super) message: v1::ToolInvocation,
}

/// What became of offered calls.
struct Given {
    /// How many were leased, by this executor or by another one just before.
    leased: usize,
    /// The namespaces of those, in their order.
    served: Vec<String>,
    /// The namespaces and tools of those for which there was no place.
    left: HashSet<(String, String)>,
}

fn kind_of(call: &OfferedWorkerCall) -> (String, String) {
    (call.namespace.clone(), call.tool.clone())
}

/// Searches calls for the streams with free places.
struct Scans {
    workers: Workers,
    turns: Turns,
}

impl Scanner for Scans {
    const WHAT: &'static str = "calls of workers";

    fn is_wanted(&self) -> bool {
        !self.workers.0.streams.wanted().is_empty()
    }

    async fn wanted(&self) {
        self.workers.0.free.notified().await;
    }

    async fn scan(&mut self) -> Result<bool, StoreError> {
        let Workers(shared) = &self.workers;
        let wanted = shared.streams.wanted();
        if wanted.is_empty() {
            return Ok(false);
        }
        let mut dedicated = shared.giving.lock().await;
        let offered = store::offered_calls(&mut dedicated, &wanted, clock::now()).await?;
        let offered = self.turns.order(offered);
        let Given { leased, served, left } = self.workers.give(&mut dedicated, offered).await?;
        served.iter().for_each(|namespace| self.turns.served(namespace));
        *shared.backlog.lock().unwrap_or_else(PoisonError::into_inner) = left;
        Ok(leased > 0)
    }
}

impl Workers {
    /// Gives the calls that scans find to the streams until the process shuts down.
    pub(super) async fn search(self) {
        let scans = Scans { workers: self.clone(), turns: Turns::default() };
        let WorkerSetup { wakes: (_, wakeups), drain, .. } = &self.0.setup;
        scan_until(scans, wakeups, drain).await;
    }

    /// Gives the calls that this process opened to its streams, without a scan, until the process shuts down. Where more
    /// calls of a tool wait than there are places, a scan picks the most urgent ones.
    pub(super) async fn give_opened(self) {
        let Self(shared) = &self;
        loop {
            let opened = tokio::select! {
                () = shared.setup.drain.cancelled() => return,
                opened = shared.setup.known.opened() => opened,
            };
            let mut dedicated = shared.giving.lock().await;
            // The results that were stored together with these calls free their places first.
            tokio::task::yield_now().await;
            let opened = {
                let backlog = shared.backlog.lock().unwrap_or_else(PoisonError::into_inner);
                let has_place = |call: &OfferedWorkerCall| !backlog.contains(&kind_of(call));
                opened.into_iter().filter(has_place).collect()
            };
            if let Err(error) = self.give(&mut dedicated, opened).await {
                tracing::warn!(%error, "workers: calls could not be given at once; a scan finds them");
            }
        }
    }

    /// Gives calls to streams with free places, as far as there are any.
    async fn give(
        &self,
        dedicated: &mut DedicatedConnection,
        offered: Vec<OfferedWorkerCall>,
    ) -> Result<Given, StoreError> {
        // They may have changed since the workers connected.
        let mut policies = HashMap::new();
        for OfferedWorkerCall { namespace, .. } in &offered {
            if !policies.contains_key(namespace) {
                policies.insert(namespace.clone(), self.0.policies.find(namespace).await?);
            }
        }
        let mut takers = HashMap::new();
        let mut orders = Vec::new();
        let (mut served, mut left) = (Vec::new(), HashSet::new());
        for call in offered {
            let Some(policy) = policies.get(&call.namespace) else { continue };
            let Some(entry) = entry_of(&policy.tool_workers, &call.tool) else { continue };
            let Some((stream, worker)) = self.place_for(&call, entry).await else {
                left.insert(kind_of(&call));
                continue;
            };
            let (holder, lease_ms) = (worker.holder(), self.lease_ms());
            orders.push(LeaseOrder { wait_id: call.wait_id, holder, lease_ms });
            takers.insert(call.wait_id, (stream, worker));
            served.push(call.namespace);
        }
        if orders.is_empty() {
            return Ok(Given { leased: 0, served, left });
        }
        let leased = store::lease_waits(dedicated, &orders, clock::now()).await;
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
        failed.map_or(Ok(Given { leased: orders.len(), served, left }), Err)
    }

    /// Takes a place for a call at a stream. One whose token was revoked ends before it is leased a call, because another
    /// worker may take that call at once.
    async fn place_for(
        &self,
        call: &OfferedWorkerCall,
        entry: &ToolWorkerPolicy,
    ) -> Option<(u64, WorkerName)> {
        loop {
            let (stream, worker, caller) = self.0.streams.reserve(call, entry)?;
            let Some(fault) = caller.revoked().await else { return Some((stream, worker)) };
            self.0.streams.end(stream, fault);
        }
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
        let WaitLease { wait_id, run_id, .. } = lease;
        if let Some(record) = self.0.setup.known.waiting_with(run_id, wait_id) {
            return Ok(self.invocation_of(&record, lease, resumed));
        }
        let Some(record) = store::find_run(&self.0.setup.pool, run_id).await? else {
            return Ok(None);
        };
        let invocation = self.invocation_of(&record, lease, resumed);
        if invocation.is_some() {
            self.0.setup.known.keep(record);
        }
        Ok(invocation)
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
        let trace_parent = task.span.as_ref().and_then(telemetry::below_call);
        let message = v1::ToolInvocation {
            call_id: open.call_id.to_string(),
            tool: open.tool.clone(),
            arguments_json: open.arguments_json.clone(),
            idempotency_key: open.call_id.to_string(),
            deadline: Some(timestamp(task.deadline_at)),
            run_id: run_id.to_string(),
            step_id,
            traceparent: trace_parent.unwrap_or_else(|| record.spec.trace_parent.clone()),
            workspace: self.workspace_of(&record.spec),
            fence: u64::try_from(lease_epoch).unwrap_or_default(),
            attempt: task.attempt,
            namespace: record.spec.namespace.clone(),
            resumed,
        };
        Some(Invocation { call_id: open.call_id, call, message })
    }

    /// The absolute path of a run's folder.
    pub(super) fn workspace_of(&self, spec: &RunSpec) -> String {
        if spec.repository.is_some() {
            // Each executor has a clone of its own.
            return String::new();
        }
        match spec.workspace.as_str() {
            "" => {
                let folder = self.0.setup.workspaces.join(spec.id.to_string());
                let folder = std::path::absolute(&folder).unwrap_or(folder);
                folder.to_string_lossy().into_owned()
            }
            named => named.to_owned(),
        }
    }
}
