//! The result of a call: stored as one change of its run by the executor that received it, which goes on with the run.

use super::output::Chunks;
use super::streams::{HeldCall, Outgoing};
use super::words::{one_line, refused, unknown};
use super::{WorkerSetup, Workers};
use crate::participant::check_words;
use crate::step::NotStored;
use chrono::TimeDelta;
use surety_common::clock;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::wait_rows::AnsweredWait;
use surety_common::domain::execution::{Graph, NextAttempt, WorkerResult};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::Actor;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::machine::Refusal;
use surety_common::domain::path::Workspace;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::{EvidenceReceipt, Fact};
use surety_common::domain::run::RunSpec;
use surety_common::store::{self, Artifact};
use surety_common::telemetry;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::value::id;
use uuid::Uuid;

/// The largest output in a result itself. Of a larger one the parts come before.
const INLINE_OUTPUT: usize = 32 << 10;
/// The longest summary, and the longest error.
const MAX_SUMMARY: usize = 1000;
const MAX_ERROR: usize = 4 << 10;
/// The longest time after which a call is made again, in seconds.
const MAX_RETRY_AFTER_S: i64 = 24 * 3600;

/// A result that can be stored.
struct Taken {
    call_id: Uuid,
    run_id: Uuid,
    lease: AnsweredWait,
    by: String,
    success: bool,
    summary: String,
    error: String,
    output: String,
    facts: Vec<Fact>,
    facts_text: String,
    is_unknown: bool,
    retry: Option<Option<TimeDelta>>,
}

impl Workers {
    /// Takes a result, and stores it beside the messages that follow.
    ///
    /// # Errors
    /// `type_mismatch`, `too_large`, `limit_out_of_range`, `tool_call_unknown`, `lease_lost`, and `overloaded` where a
    /// part of its output was; then the call goes on.
    pub(super) fn take_result(
        &self,
        (stream, outgoing): (u64, &Outgoing),
        result: v1::ToolResult,
    ) -> Result<(), Fault> {
        let call_id = id("result.call_id", &result.call_id)?;
        let (name, fence) = (result.call_id.clone(), result.fence);
        let mut taken = read(call_id, result)?;
        let found = self.0.streams.with(stream, |stream| {
            let by = stream.accepted.worker.identity.clone();
            let call = stream.held(&name, fence)?;
            if !taken.output.is_empty() && !call.chunks.bytes().is_empty() {
                let message = "is set, and parts of the output were sent; send one of both";
                return Err(Problem::at(Code::TypeMismatch, "result.output", message).into());
            }
            let chunks = call.chunks.take(taken.success && taken.output.is_empty())?;
            call.is_settling = true;
            let HeldCall { run_id, wait_id, lease_epoch, .. } = *call;
            (taken.run_id, taken.by) = (run_id, by);
            taken.lease = AnsweredWait { id: wait_id, lease_epoch };
            Ok(chunks)
        });
        let chunks = found.unwrap_or_else(|| Err(unknown(&name)))?;
        let (workers, outgoing) = (self.clone(), outgoing.clone());
        tokio::spawn(async move { workers.settle(stream, outgoing, (taken, chunks)).await });
        Ok(())
    }

    /// Stores a result, and tells the worker what came of it.
    async fn settle(&self, stream: u64, outgoing: Outgoing, (taken, chunks): (Taken, Chunks)) {
        let Taken { call_id, run_id, lease, .. } = &taken;
        let stored = self.store(&taken, chunks.bytes()).await;
        let message = match stored {
            Ok(()) => {
                telemetry::count_worker_result("stored");
                // Another attempt of the same call may be there already, under a fence of its own.
                self.0.streams.with(stream, |stream| stream.remove(*call_id, lease.lease_epoch));
                let fence = u64::try_from(lease.lease_epoch).unwrap_or_default();
                Message::Stored(v1::ResultStored { call_id: call_id.to_string(), fence })
            }
            Err(fault) => {
                telemetry::count_worker_result("refused");
                tracing::info!(%run_id, %call_id, worker = taken.by, %fault, "workers: a result was refused");
                let is_over = matches!(
                    fault.reason,
                    surety_common::domain::fault::Reason::Service(
                        FaultCode::LeaseLost | FaultCode::RunTerminal
                    )
                );
                self.0.streams.with(stream, |stream| match stream.calls.get_mut(call_id) {
                    Some(call) if !is_over && call.lease_epoch == lease.lease_epoch => {
                        call.is_settling = false;
                        call.chunks = chunks.refused();
                    }
                    Some(_) | None => stream.remove(*call_id, lease.lease_epoch),
                });
                refused(call_id.to_string(), &fault)
            }
        };
        self.0.free.notify_one();
        // A worker that does not read is cut off by its session.
        drop(self.say(&outgoing, message).await);
    }

    async fn store(&self, taken: &Taken, chunks: &[u8]) -> Result<(), Fault> {
        let pool = &self.0.setup.pool;
        let mut output_digest = String::new();
        if chunks.len() > INLINE_OUTPUT || std::str::from_utf8(chunks).is_err() {
            output_digest = sha256_hex(chunks);
            let digest = output_digest.as_str();
            let artifact = Artifact { digest, body: chunks, created_at: clock::now() };
            store::keep(pool, taken.run_id, artifact).await?;
        }
        let output = match (output_digest.is_empty(), chunks.is_empty()) {
            (true, false) => String::from_utf8_lossy(chunks).into_owned(),
            (_, true) => taken.output.clone(),
            (false, false) => String::new(),
        };
        let result = WorkerResult {
            by: taken.by.clone(),
            success: taken.success,
            summary: taken.summary.clone(),
            error: taken.error.clone(),
            output,
            output_digest,
            facts: taken.facts_text.clone(),
            at: clock::now(),
        };
        let answer = |spec: &RunSpec, graph: &Graph, draft: &mut Draft| -> Result<(), Fault> {
            if draft.execution().state.is_terminal() {
                let message = "the run has ended; the result changes nothing";
                return Err(Fault::new(FaultCode::RunTerminal, message));
            }
            self.check_paths(spec, &taken.facts)?;
            taken.answer(graph, draft, result.clone()).map_err(|_| lease_lost(taken.call_id))
        };
        self.answer(taken, answer).await
    }

    /// Goes on with the run at once where this executor can, else leaves that to the next claim.
    async fn answer(
        &self,
        taken: &Taken,
        answer: impl Fn(&RunSpec, &Graph, &mut Draft) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let WorkerSetup { claimer, replies, news, known, .. } = &self.0.setup;
        let Taken { run_id, lease, .. } = *taken;
        // From before the first change, so that none is missed.
        let follower = news.follow(run_id);
        let mut record = known.waiting_with(run_id, lease.id);
        if let Some(known_run) = &record {
            match claimer.answer_at_once(known_run, &answer).await {
                Ok(Some(over)) => {
                    if follower.sees_answer(lease, over).await {
                        return Ok(());
                    }
                    // Another change of the run was first.
                    known.forget(run_id);
                    record = None;
                }
                Ok(None) => {}
                // What is wrong is said by what the row says.
                Err(_) => record = None,
            }
        }
        let by = author(&taken.by);
        match replies.store_answer(run_id, record, &by, &answer).await {
            Ok(()) => Ok(()),
            Err(NotStored::Store(error)) => Err(error.into()),
            // It was stored by the change that began the work, after all.
            Err(_) if follower.saw_answer(lease) => Ok(()),
            Err(NotStored::Refused(fault)) => Err(fault),
            Err(NotStored::RunNotFound | NotStored::LeaseLost) => Err(lease_lost(taken.call_id)),
        }
    }

    /// A worker states nothing about files outside the workspace.
    fn check_paths(&self, spec: &RunSpec, facts: &[Fact]) -> Result<(), Fault> {
        let workspace = Workspace::new(&self.workspace_of(spec));
        for (place, fact) in facts.iter().enumerate() {
            let path = match fact {
                Fact::FileWritten { path, .. }
                | Fact::FileObserved { path, .. }
                | Fact::Content { path, .. } => path,
                Fact::Command { .. }
                | Fact::Verification { .. }
                | Fact::Output { .. }
                | Fact::Tests { .. } => continue,
            };
            if workspace.resolve(path).is_none_or(|path| path.is_empty()) {
                let message = format!(
                    "{path:?} is no path of a file in the workspace of the run; leave the fact out"
                );
                let field = format!("result.facts[{place}].path");
                return Err(Problem::at(Code::TypeMismatch, field, message).into());
            }
        }
        Ok(())
    }
}

impl Taken {
    /// Ends the call in its run, or offers it again.
    fn answer(
        &self,
        graph: &Graph,
        draft: &mut Draft,
        result: WorkerResult,
    ) -> Result<(), Refusal> {
        let next = Uuid::now_v7();
        match self.is_unknown {
            true => draft.forsake_worker_call(graph, (self.lease, &self.by), next),
            false => {
                let retry = self.retry.map(|after| NextAttempt { wait_id: next, after });
                draft.answer_worker_call(graph, self.lease, result, retry)
            }
        }
    }
}

fn author(worker: &str) -> Actor {
    Actor(format!("worker/{worker}").into())
}

fn lease_lost(call_id: Uuid) -> Fault {
    let message = format!(
        "the lease of the call {call_id} was lost, or the call has ended; the result changes nothing"
    );
    Fault::new(FaultCode::LeaseLost, message).with_field("fence")
}

/// Reads what a worker says of a call; the call itself is found later.
fn read(call_id: Uuid, result: v1::ToolResult) -> Result<Taken, Fault> {
    let v1::ToolResult {
        call_id: _,
        success,
        output,
        summary,
        facts,
        error,
        fence: _,
        retryable,
        retry_after,
        outcome_unknown,
    } = result;
    let at = |code, field: &str, message: String| -> Fault {
        Problem::at(code, format!("result.{field}"), message).into()
    };
    for (field, text, most) in [
        ("output", &output, INLINE_OUTPUT),
        ("summary", &summary, MAX_SUMMARY),
        ("error", &error, MAX_ERROR),
    ] {
        if text.len() > most {
            let more = if field == "output" { "; send it in chunks before the result" } else { "" };
            let message = format!("has {} bytes; at most {most} are kept{more}", text.len());
            return Err(at(Code::TooLarge, field, message));
        }
        if text.contains('\0') {
            let message = "contains the character U+0000, which cannot be stored; remove it";
            return Err(at(Code::TypeMismatch, field, message.to_owned()));
        }
    }
    if success && !error.is_empty() {
        let message = "is set for a call that succeeded; set one of both".to_owned();
        return Err(at(Code::TypeMismatch, "error", message));
    }
    let retry = match retry_after {
        Some(after) if !(0..=MAX_RETRY_AFTER_S).contains(&after.seconds) || after.nanos < 0 => {
            let message = format!("is {} s; choose at most {MAX_RETRY_AFTER_S} s", after.seconds);
            return Err(at(Code::LimitOutOfRange, "retry_after", message));
        }
        Some(after) => {
            Some(TimeDelta::seconds(after.seconds) + TimeDelta::nanoseconds(after.nanos.into()))
        }
        None => None,
    };
    let words = v1::EvidenceReceipt {
        step_index: Some(0),
        source: v1::EvidenceSource::ToolObservation.into(),
        name: "worker".to_owned(),
        facts,
        ..v1::EvidenceReceipt::default()
    };
    let words = EvidenceReceipt::try_from(words).map_err(|error| error.under("result"))?;
    check_words(&words, "result")?;
    let facts_text = if words.facts.is_empty() { String::new() } else { words.to_text() };
    Ok(Taken {
        call_id,
        run_id: Uuid::nil(),
        lease: AnsweredWait { id: Uuid::nil(), lease_epoch: 0 },
        by: String::new(),
        success,
        summary: one_line(&summary),
        error: one_line(&error),
        output,
        facts: words.facts,
        facts_text,
        is_unknown: outcome_unknown,
        retry: (retryable && !success).then_some(retry),
    })
}
