//! The connected workers of a process, and the calls that they have.

use super::output::{Chunks, Reports};
use super::words::unknown;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::labels::carries;
use surety_common::domain::tool_workers::ToolWorkerPolicy;
use surety_common::store::{HeldLease, OfferedWorkerCall, ProgressReport, WantedCalls, WorkerName};
use surety_common::wire::caller::Caller;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::value::id;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tonic::Status;
use uuid::Uuid;

/// The most calls of one tool that one scan offers.
const MOST: usize = 256;

/// A worker whose announcement was accepted.
#[derive(Debug, Clone)]
pub(super) struct Accepted {
    /// Who opened the stream.
    pub(super) caller: Caller,
    pub(super) worker: WorkerName,
    /// What it serves, by namespace and tool.
    pub(super) serves: BTreeSet<(String, String)>,
    /// It takes calls of runs that carry all of these labels.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) max_parallel: usize,
}

/// A call that a worker of this process has.
#[derive(Debug)]
pub(super) struct HeldCall {
    pub(super) run_id: Uuid,
    pub(super) wait_id: Uuid,
    pub(super) lease_epoch: i64,
    pub(super) deadline_at: DateTime<Utc>,
    /// Whether its result is being stored.
    pub(super) is_settling: bool,
    pub(super) chunks: Chunks,
    pub(super) reports: Reports,
}

/// One connected worker.
pub(super) struct Stream {
    pub(super) accepted: Accepted,
    pub(super) calls: HashMap<Uuid, HeldCall>,
    pub(super) is_draining: bool,
    /// Places for calls that are being leased.
    reserved: usize,
    outgoing: Outgoing,
    /// Why the stream has to end; none while it goes on.
    end: watch::Sender<Option<Fault>>,
    /// When it was given its last call, as a count.
    given: u64,
}

impl Stream {
    fn free(&self) -> usize {
        match self.is_draining || self.end.borrow().is_some() {
            true => 0,
            false => {
                let taken = self.calls.len() + self.reserved;
                self.accepted.max_parallel.saturating_sub(taken)
            }
        }
    }

    /// The call that a message names.
    ///
    /// # Errors
    /// `type_mismatch`, `tool_call_unknown`, `lease_lost`.
    pub(super) fn held(&mut self, call_id: &str, fence: u64) -> Result<&mut HeldCall, Fault> {
        let known = id("call_id", call_id)?;
        let Some(call) = self.calls.get_mut(&known) else { return Err(unknown(call_id)) };
        if u64::try_from(call.lease_epoch) != Ok(fence) {
            let message = format!(
                "the call {call_id} is leased under another fence than {fence}; repeat that of its invocation"
            );
            return Err(Fault::new(FaultCode::LeaseLost, message).with_field("fence"));
        }
        if call.is_settling {
            let message = format!("the call {call_id} is answered already");
            return Err(Fault::new(FaultCode::ToolCallUnknown, message).with_field("call_id"));
        }
        Ok(call)
    }

    /// Takes a call away, as far as it is still under this lease.
    pub(super) fn remove(&mut self, call_id: Uuid, lease_epoch: i64) {
        if self.calls.get(&call_id).is_some_and(|call| call.lease_epoch == lease_epoch) {
            self.calls.remove(&call_id);
        }
    }

    /// Sends a message, behind those that wait.
    pub(super) fn send(&self, message: Message) {
        if let Err(TrySendError::Full(message)) = self.outgoing.try_send(response(message)) {
            let outgoing = self.outgoing.clone();
            // A worker that is gone needs no message.
            tokio::spawn(async move { drop(outgoing.send(message).await) });
        }
    }
}

/// The messages to one worker.
pub(super) type Outgoing = mpsc::Sender<Result<v1::ConnectResponse, Status>>;

/// One message to a worker.
pub(super) fn response(message: Message) -> Result<v1::ConnectResponse, Status> {
    Ok(v1::ConnectResponse { message: Some(message) })
}

/// The streams by their ids in this process.
#[derive(Default)]
pub(super) struct Streams(Mutex<Table>);

#[derive(Default)]
struct Table {
    streams: BTreeMap<u64, Stream>,
    last_id: u64,
    given: u64,
    /// Runs whose waits changed since the last heartbeat.
    moved: HashSet<Uuid>,
    is_closed: bool,
}

impl Streams {
    /// Adds a stream. One of the same worker ends with `replaced`. None when the process shuts down.
    pub(super) fn add(
        &self,
        accepted: Accepted,
        outgoing: Outgoing,
        replaced: &Fault,
    ) -> Option<(u64, watch::Receiver<Option<Fault>>)> {
        let mut table = self.lock();
        if table.is_closed {
            return None;
        }
        let same = |stream: &&mut Stream| stream.accepted.worker == accepted.worker;
        if let Some(older) = table.streams.values_mut().find(same) {
            older.calls.clear();
            older.end.send_replace(Some(replaced.clone()));
        }
        let (end, ended) = watch::channel(None);
        table.last_id += 1;
        let id = table.last_id;
        let (calls, is_draining, reserved, given) = (HashMap::new(), false, 0, 0);
        let stream = Stream { accepted, calls, is_draining, reserved, outgoing, end, given };
        table.streams.insert(id, stream);
        Some((id, ended))
    }

    /// Removes a stream, and answers the calls that it had.
    pub(super) fn remove(&self, id: u64) -> Option<Stream> {
        self.lock().streams.remove(&id)
    }

    /// Changes or reads one stream; none when it has ended.
    pub(super) fn with<T>(&self, id: u64, work: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        self.lock().streams.get_mut(&id).map(work)
    }

    /// What the streams with free places take.
    pub(super) fn wanted(&self) -> Vec<WantedCalls> {
        let table = self.lock();
        let mut wanted: BTreeMap<(&str, &str, &BTreeMap<String, String>), usize> = BTreeMap::new();
        for stream in table.streams.values() {
            let free = stream.free();
            if free == 0 {
                continue;
            }
            let Accepted { serves, labels, .. } = &stream.accepted;
            for (namespace, tool) in serves {
                *wanted.entry((namespace, tool, labels)).or_default() += free;
            }
        }
        let call = |((namespace, tool, labels), most): ((&str, &str, &BTreeMap<_, _>), usize)| {
            WantedCalls {
                namespace: namespace.to_owned(),
                tool: tool.to_owned(),
                labels: labels.clone(),
                most: i64::try_from(most.min(MOST)).unwrap_or(i64::MAX),
            }
        };
        wanted.into_iter().map(call).collect()
    }

    /// Takes a place for a call at the stream with the smallest part of its places taken, of equal ones that which was
    /// given none for longest.
    pub(super) fn reserve(
        &self,
        call: &OfferedWorkerCall,
        entry: &ToolWorkerPolicy,
    ) -> Option<(u64, WorkerName, Caller)> {
        let mut table = self.lock();
        table.given += 1;
        let given = table.given;
        let wanted = (call.namespace.clone(), entry.tool.clone());
        let serves = |stream: &Stream| {
            let Accepted { worker, serves, labels, .. } = &stream.accepted;
            stream.free() > 0
                && serves.contains(&wanted)
                && carries(&call.labels, labels)
                && entry.admits(&worker.identity)
        };
        let serving = table.streams.iter_mut().filter(|(_, stream)| serves(stream));
        let (id, stream) = serving.min_by_key(|(_, stream)| {
            let taken = stream.calls.len() + stream.reserved;
            (taken * 1000 / stream.accepted.max_parallel.max(1), stream.given)
        })?;
        stream.reserved += 1;
        stream.given = given;
        Some((*id, stream.accepted.worker.clone(), stream.accepted.caller.clone()))
    }

    /// Ends a stream, which gets no call any more.
    pub(super) fn end(&self, id: u64, fault: Fault) {
        self.with(id, |stream| stream.end.send_replace(Some(fault)));
    }

    /// Gives a place up that no call took.
    pub(super) fn unreserve(&self, id: u64) {
        self.with(id, |stream| stream.reserved = stream.reserved.saturating_sub(1));
    }

    /// Gives a call to a stream at a reserved place. Returns false when the stream has ended.
    pub(super) fn give(&self, id: u64, call_id: Uuid, call: HeldCall, message: Message) -> bool {
        let given = self.with(id, |stream| {
            stream.reserved = stream.reserved.saturating_sub(1);
            if stream.end.borrow().is_some() {
                return false;
            }
            stream.calls.insert(call_id, call);
            stream.send(message);
            true
        });
        given.unwrap_or(false)
    }

    /// The leases of all calls, or of those of runs whose waits changed.
    pub(super) fn leases(&self, all: bool) -> Vec<(u64, Uuid, HeldLease)> {
        let mut table = self.lock();
        let moved = std::mem::take(&mut table.moved);
        let mut leases = Vec::new();
        for (id, stream) in &table.streams {
            for (call_id, call) in &stream.calls {
                if all || moved.contains(&call.run_id) {
                    let identity = stream.accepted.worker.identity.clone();
                    let HeldCall { run_id, lease_epoch, .. } = *call;
                    leases.push((*id, *call_id, HeldLease { run_id, lease_epoch, identity }));
                }
            }
        }
        leases
    }

    /// Takes a call away whose lease ended, and tells the worker. A call whose result is being stored ends by itself.
    pub(super) fn cancel(&self, id: u64, call_id: Uuid, fence: i64, now: DateTime<Utc>) {
        self.with(id, |stream| {
            let ended = |call: &HeldCall| call.lease_epoch == fence && !call.is_settling;
            if !stream.calls.get(&call_id).is_some_and(ended) {
                return;
            }
            let Some(call) = stream.calls.remove(&call_id) else { return };
            let reason = match call.deadline_at <= now {
                true => "the deadline of the call passed",
                false => "the run no longer waits for the call: it ended, or the lease was lost",
            };
            let fence = u64::try_from(fence).unwrap_or_default();
            let (call_id, reason) = (call_id.to_string(), reason.to_owned());
            stream.send(Message::Cancel(v1::CancelInvocation { call_id, reason, fence }));
        });
    }

    /// Marks a run whose waits changed. Returns whether a call of it is here.
    pub(super) fn mark_moved(&self, run_id: Uuid) -> bool {
        let mut table = self.lock();
        let mut calls = table.streams.values().flat_map(|stream| stream.calls.values());
        let is_here = calls.any(|call| call.run_id == run_id);
        if is_here {
            table.moved.insert(run_id);
        }
        is_here
    }

    /// What workers reported since the last time.
    pub(super) fn take_reports(&self) -> Vec<ProgressReport> {
        let mut table = self.lock();
        let calls = table.streams.values_mut().flat_map(|stream| stream.calls.values_mut());
        let report = |call: &mut HeldCall| {
            let (message, percent) = call.reports.take()?;
            let HeldCall { run_id, wait_id, lease_epoch, .. } = *call;
            Some(ProgressReport { run_id, wait_id, lease_epoch, message, percent })
        };
        calls.filter_map(report).collect()
    }

    /// The workers that are connected.
    pub(super) fn workers(&self) -> Vec<WorkerName> {
        self.lock().streams.values().map(|stream| stream.accepted.worker.clone()).collect()
    }

    /// How many workers are connected, and how many calls they have.
    pub(super) fn load(&self) -> (usize, usize) {
        let table = self.lock();
        let calls = table.streams.values().map(|stream| stream.calls.len()).sum();
        (table.streams.len(), calls)
    }

    /// Takes no more streams, and tells those that are there.
    pub(super) fn close(&self) {
        let mut table = self.lock();
        table.is_closed = true;
        for stream in table.streams.values_mut() {
            stream.is_draining = true;
            stream.send(Message::Draining(v1::ExecutorDraining {}));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests")]
mod tests {
    use super::*;
    use surety_common::domain::identity::Role;

    /// A worker may get the next attempt of a call before the end of the one before is noted. Both have the same id.
    #[test]
    fn the_end_of_an_attempt_leaves_the_next_one_of_the_same_call() {
        let (streams, call) = (Streams::default(), Uuid::now_v7());
        let caller = Caller::internal("agent", Role::Worker, "/surety.v1.ToolService/Connect");
        let accepted = Accepted {
            caller: caller.unwrap(),
            worker: WorkerName { identity: "agent".to_owned(), worker_id: "w".to_owned() },
            serves: BTreeSet::new(),
            labels: BTreeMap::new(),
            max_parallel: 1,
        };
        let (outgoing, _answers) = mpsc::channel(1);
        let replaced = Fault::new(FaultCode::LeaseLost, "replaced");
        let (stream, _end) = streams.add(accepted, outgoing, &replaced).unwrap();
        let held = HeldCall {
            run_id: Uuid::now_v7(),
            wait_id: Uuid::now_v7(),
            lease_epoch: 2,
            deadline_at: DateTime::<Utc>::MAX_UTC,
            is_settling: false,
            chunks: Chunks::default(),
            reports: Reports::new(),
        };
        streams.with(stream, |stream| {
            stream.calls.insert(call, held);
            stream.remove(call, 1);
            assert!(stream.held(&call.to_string(), 2).is_ok(), "the next attempt is gone");
            stream.remove(call, 2);
            assert_eq!(stream.held(&call.to_string(), 2).err(), Some(unknown(&call.to_string())));
        });
    }
}
