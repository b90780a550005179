//! One stream of a worker, from its announcement to its end.

use super::dispatch::Invocation;
use super::streams::{Accepted, HeldCall, Outgoing, response};
use super::words::{one_line, refused, unknown};
use super::{BEATS, Workers};
use std::collections::BTreeSet;
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::problem::{Code, Problem};
use surety_common::store::{self, HeldLease, WorkerName, WorkerTimes};
use surety_common::wire::caller::Caller;
use surety_common::wire::status::to_status;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_request::Message as Sent;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::value::wire_duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use uuid::Uuid;

/// How long results are accepted once the process shuts down.
const GRACE: Duration = Duration::from_secs(2);
/// How long the last message may take to a worker that reads slowly.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest report of progress, in bytes.
const MAX_PROGRESS: usize = 1000;

impl Workers {
    /// Serves a stream until it ends. `closed` is cancelled when a worker does not even read why.
    pub(super) async fn serve(
        self,
        caller: Caller,
        mut incoming: Streaming<v1::ConnectRequest>,
        outgoing: Outgoing,
        closed: CancellationToken,
    ) {
        let Err(fault) = self.session(&caller, &mut incoming, &outgoing).await else { return };
        tracing::info!(worker = caller.name(), %fault, "workers: a stream was ended");
        let last = timeout(LAST_WORDS, outgoing.send(Err(to_status(&fault))));
        if last.await.is_err() {
            closed.cancel();
        }
    }

    async fn session(
        &self,
        caller: &Caller,
        incoming: &mut Streaming<v1::ConnectRequest>,
        outgoing: &Outgoing,
    ) -> Result<(), Fault> {
        let first = timeout(self.silence(), incoming.message()).await.map_err(|_| silent())?;
        let announce = match first {
            Ok(Some(v1::ConnectRequest { message: Some(Sent::Announce(announce)) })) => announce,
            Ok(Some(_)) => {
                let message = "the first message is no announcement; announce the worker first";
                return Err(Problem::at(Code::FieldMissing, "announce", message).into());
            }
            Ok(None) | Err(_) => return Ok(()),
        };
        let accepted = self.accept(caller, announce).await?;
        let worker = accepted.worker.clone();
        // Before the stream takes calls, so that none is sent twice.
        let held = store::held_calls(&self.0.setup.pool, &worker, clock::now()).await?;
        let resumed = held.len();
        self.say(outgoing, Message::Announced(self.announced(&accepted))).await?;
        let added = self.0.streams.add(accepted, outgoing.clone(), &replaced());
        let (stream, mut ended) = added.ok_or_else(shutting_down)?;
        tracing::info!(
            identity = worker.identity,
            worker_id = worker.worker_id,
            resumed,
            "workers: a worker connected"
        );
        for lease in held {
            if let Some(Invocation { call_id, call, message }) =
                self.invocation(lease, true).await?
            {
                self.0.streams.give(stream, call_id, call, Message::Invocation(message));
            }
        }
        self.0.free.notify_one();
        let end = self.talk((stream, outgoing), incoming, &mut ended).await;
        self.leave(stream, &worker).await;
        end
    }

    fn announced(&self, accepted: &Accepted) -> v1::Announced {
        let namespaces: BTreeSet<&String> =
            accepted.serves.iter().map(|(namespace, _)| namespace).collect();
        v1::Announced {
            executor_id: self.0.setup.executor_id.to_string(),
            lease: Some(wire_duration(self.0.setup.terms.lease)),
            heartbeat_interval: Some(wire_duration(self.interval())),
            namespaces: namespaces.into_iter().cloned().collect(),
        }
    }

    fn silence(&self) -> Duration {
        self.interval() * BEATS
    }

    /// Reads messages until the stream ends.
    async fn talk(
        &self,
        (stream, outgoing): (u64, &Outgoing),
        incoming: &mut Streaming<v1::ConnectRequest>,
        ended: &mut watch::Receiver<Option<Fault>>,
    ) -> Result<(), Fault> {
        let drain = &self.0.setup.drain;
        let mut until: Option<Instant> = None;
        let mut heard_at = Instant::now();
        loop {
            let idle = self.0.streams.with(stream, |stream| stream.calls.is_empty());
            if until.is_some() && idle.unwrap_or(true) {
                return Err(shutting_down());
            }
            let over = until.unwrap_or_else(|| heard_at + self.silence());
            let message = tokio::select! {
                biased;
                fault = replaced_by(ended) => return Err(fault),
                () = drain.cancelled(), if until.is_none() => {
                    until = Some(Instant::now() + GRACE);
                    continue;
                }
                // The answer ended: the token was revoked, or the connection broke.
                () = outgoing.closed() => return Ok(()),
                message = incoming.message() => message,
                () = sleep_until(over) => {
                    return Err(if until.is_some() { shutting_down() } else { silent() });
                }
            };
            // A broken connection is the end of the stream, too.
            let Ok(Some(v1::ConnectRequest { message })) = message else { return Ok(()) };
            heard_at = Instant::now();
            if let Some(message) = message {
                self.hear((stream, outgoing), message).await?;
            }
        }
    }

    async fn hear(&self, to: (u64, &Outgoing), message: Sent) -> Result<(), Fault> {
        let (stream, outgoing) = to;
        let (call_id, heard) = match message {
            Sent::Announce(_) => {
                let message = "the worker has announced its tools; connect again to change them";
                return Err(Fault::new(FaultCode::FailedPrecondition, message));
            }
            Sent::Heartbeat(v1::WorkerHeartbeat {}) => return Ok(()),
            Sent::Draining(v1::WorkerDraining {}) => {
                self.0.streams.with(stream, |stream| stream.is_draining = true);
                return Ok(());
            }
            Sent::Result(result) => (result.call_id.clone(), self.take_result(to, result)),
            Sent::Progress(progress) => {
                (progress.call_id.clone(), self.take_progress(stream, &progress))
            }
            Sent::Output(chunk) => (chunk.call_id.clone(), self.take_chunk(stream, &chunk)),
        };
        match heard {
            Ok(()) => Ok(()),
            Err(fault) => self.say(outgoing, refused(call_id, &fault)).await,
        }
    }

    fn take_chunk(&self, stream: u64, chunk: &v1::ToolOutputChunk) -> Result<(), Fault> {
        let v1::ToolOutputChunk { call_id, fence, data } = chunk;
        let found = self.0.streams.with(stream, |stream| {
            stream.held(call_id, *fence)?.chunks.add(data, &self.0.buffered)
        });
        found.unwrap_or_else(|| Err(unknown(call_id)))
    }

    fn take_progress(&self, stream: u64, progress: &v1::ToolProgress) -> Result<(), Fault> {
        let v1::ToolProgress { call_id, message, percent, fence } = progress;
        let at = |code, field: &str, text: String| {
            Err(Problem::at(code, format!("progress.{field}"), text).into())
        };
        if message.len() > MAX_PROGRESS {
            let text = format!("is longer than {MAX_PROGRESS} bytes; shorten it");
            return at(Code::TooLarge, "message", text);
        }
        if message.contains('\0') {
            let text = "contains the character U+0000; remove it".to_owned();
            return at(Code::TypeMismatch, "message", text);
        }
        if let Some(percent) = percent.filter(|percent| *percent > 100) {
            let text = format!("is {percent}; choose 0 to 100");
            return at(Code::LimitOutOfRange, "percent", text);
        }
        let percent = percent.and_then(|percent| i16::try_from(percent).ok());
        let found = self.0.streams.with(stream, |stream| {
            stream.held(call_id, *fence)?.reports.add(one_line(message), percent)
        });
        found.unwrap_or_else(|| Err(unknown(call_id)))?;
        self.0.reported.notify_one();
        Ok(())
    }

    /// Sends a message. A worker that does not read has to be cut off.
    pub(super) async fn say(&self, outgoing: &Outgoing, message: Message) -> Result<(), Fault> {
        let sent = timeout(self.silence(), outgoing.send(response(message))).await;
        sent.map(drop).map_err(|_| silent())
    }

    /// Takes a stream away. Its calls stay leased for one lease time from now on.
    async fn leave(&self, stream: u64, worker: &WorkerName) {
        let Some(left) = self.0.streams.remove(stream) else { return };
        let lease = |(call_id, call): (&Uuid, &HeldCall)| {
            let identity = worker.identity.clone();
            let (run_id, lease_epoch) = (call.run_id, call.lease_epoch);
            (stream, *call_id, HeldLease { run_id, lease_epoch, identity })
        };
        let held: Vec<_> = left.calls.iter().map(lease).collect();
        let calls = held.len();
        tracing::info!(
            identity = worker.identity,
            worker_id = worker.worker_id,
            calls,
            "workers: a worker disconnected; its calls stay leased until their leases expire"
        );
        let gone = WorkerTimes { live: chrono::TimeDelta::zero(), ..self.times() };
        let is_back = self.0.streams.workers().contains(worker);
        let ended = async {
            self.extend(&held).await?;
            match is_back {
                true => Ok(()),
                false => {
                    let workers = std::slice::from_ref(worker);
                    store::touch_workers(&self.0.setup.pool, workers, gone).await
                }
            }
        };
        if let Err(error) = ended.await {
            tracing::warn!(%error, "workers: the end of a stream could not be stored; its leases expire earlier");
        }
    }
}

/// The fault with which the stream has to end.
async fn replaced_by(ended: &mut watch::Receiver<Option<Fault>>) -> Fault {
    match ended.wait_for(Option::is_some).await.map(|fault| fault.clone()) {
        Ok(Some(fault)) => fault,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

fn silent() -> Fault {
    let message =
        "no message came for three heartbeat intervals; connect again, and send heartbeats";
    Fault::new(FaultCode::WorkerSilent, message)
}

fn replaced() -> Fault {
    let message = "the same worker connected again; give each process a worker_id of its own";
    Fault::new(FaultCode::WorkerReplaced, message)
}

fn shutting_down() -> Fault {
    Fault::new(FaultCode::ShuttingDown, "the executor shuts down; connect to another one")
}
