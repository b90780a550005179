//! The stored form of what was committed together: changes, each with its time, its span and its
//! entries, which are objects with one key that names their kind. Empty fields are left out.
//! Numbers a driver wrote keep their spelling.

use super::{
    Actor, Answer, Entry, Event, Intent, Output, PlanStored, Subject, Transition, Turn, Validation,
    VerdictRecord,
};
use crate::domain::decision::{Abort, Action, ExecuteDecision};
use crate::domain::json::{self, ObjectText, Value, write_list, write_string};
use crate::domain::plan::ToolCall;
use crate::domain::problem::Code;
use crate::domain::receipt::read_stored;
use crate::domain::stop::StopReason;
use crate::domain::verdict::{CheckResult, Verdict};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Stored text that is not what this module writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a journal entry does not read: {0}")]
pub struct StoredError(pub String);

impl StoredError {
    pub(super) fn at(self, sequence: i64) -> Self {
        Self(format!("at {sequence}: {}", self.0))
    }
}

/// Changes that were committed together, before they are text: what one writer did to one run.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// When the change was thought out.
    pub at: DateTime<Utc>,
    /// The span it was thought out under.
    pub span_id: Option<&'a str>,
    /// What it says happened.
    pub entries: &'a [Entry],
}

/// The stored text of changes that `actor` committed together at `row_at`: a list of changes, each
/// a list of its time in microseconds after the row's, its span's id, and its entries. Who wrote
/// them is kept beside the text, once.
pub fn write_changes(changes: &[Recorded<'_>], actor: &Actor, row_at: DateTime<Utc>) -> String {
    let mut out = String::with_capacity(1024 * changes.len());
    write_list(&mut out, changes, |out, change| {
        let after = (change.at - row_at).num_microseconds().unwrap_or_default();
        out.extend(["[", &after.to_string(), ",\"", change.span_id.unwrap_or_default(), "\""]);
        for entry in change.entries {
            out.push(',');
            write_entry(out, entry, actor);
        }
        out.push(']');
    });
    out
}

/// What kinds of entries a reader wants; the others are passed over without being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    Everything,
    /// Receipts.
    Receipts,
    /// Turns and receipts.
    Work,
}

impl Wanted {
    fn covers(self, kind: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Receipts => kind == RECEIPT,
            Self::Work => kind == RECEIPT || kind == TURN,
        }
    }
}

pub(super) const RECEIPT: &str = "receipt";
pub(super) const TURN: &str = "turn";

/// A row of the journal, as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredRow<'a> {
    /// The number of its last entry.
    pub sequence: i64,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// Who wrote it.
    pub actor: &'a str,
    /// What [`write_changes`] made of it.
    pub text: &'a str,
}

/// Reads the wanted events of a row.
///
/// # Errors
/// [`StoredError`] when the text was written by something else.
pub fn read_changes(row: StoredRow<'_>, wanted: Wanted) -> Result<Vec<Event>, StoredError> {
    read_measured(row, wanted).map(|(events, _)| events)
}

/// As [`read_changes`], with how many bytes of text the events were read from.
///
/// # Errors
/// [`StoredError`] when the text was written by something else.
pub fn read_measured(
    row: StoredRow<'_>,
    wanted: Wanted,
) -> Result<(Vec<Event>, usize), StoredError> {
    let changes: Vec<Vec<&RawValue>> =
        serde_json::from_str(row.text).map_err(|error| StoredError(error.to_string()))?;
    let actor = Actor(row.actor.into());
    let count: usize = changes.iter().map(|change| change.len().saturating_sub(2)).sum();
    let mut sequence = row.sequence.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
    let mut events = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let [after, span_id, entries @ ..] = &change[..] else {
            return Err(missing("a change's time or span"));
        };
        let after = after.get().parse().map_err(|_| missing("a change's time"))?;
        let at = row.at.checked_add_signed(TimeDelta::microseconds(after));
        let at = at.ok_or_else(|| missing("a change's time"))?;
        let span_id: String =
            serde_json::from_str(span_id.get()).map_err(|_| missing("a change's span"))?;
        let span_id = Some(span_id).filter(|id| !id.is_empty());
        for entry in entries {
            sequence = sequence.saturating_add(1);
            if wanted.covers(kind_of(entry.get())?) {
                bytes += entry.get().len();
                let entry = read_entry(entry.get(), &actor)?;
                events.push(Event { sequence, at, span_id: span_id.clone(), entry });
            }
        }
    }
    Ok((events, bytes))
}

/// The kind of a stored entry: the one key of its object.
pub(super) fn kind_of(entry: &str) -> Result<&str, StoredError> {
    let key = entry.strip_prefix("{\"").and_then(|rest| rest.split_once('"'));
    key.map(|(kind, _)| kind).ok_or_else(|| missing("an entry's kind"))
}

fn write_entry(out: &mut String, entry: &Entry, actor: &Actor) {
    let object = ObjectText::begin(out);
    match entry {
        Entry::Transition(transition) => {
            object.with("transition", |out| write_transition(out, transition, actor))
        }
        Entry::Plan(plan) => object.with("plan", |out| write_plan(out, plan)),
        Entry::Turn(turn) => object.with(TURN, |out| write_turn(out, turn)),
        Entry::Intent(intent) => object.with("intent", |out| write_intent(out, intent)),
        Entry::Receipt(receipt) => object.with(RECEIPT, |out| receipt.write(out)),
        Entry::Output(output) => object.with("output", |out| write_output(out, output)),
        Entry::Verdict(record) => object.with("verdict", |out| write_verdict(out, record)),
        Entry::Answer(answer) => object.with("answer", |out| write_answer(out, answer)),
    }
    .end();
}

pub(super) fn read_entry(text: &str, actor: &Actor) -> Result<Entry, StoredError> {
    let parsed = json::parse_stored(text).map_err(|error| StoredError(error.to_string()))?;
    let value = &parsed.value;
    let [(kind, body)] = value.as_object().ok_or_else(|| missing("an object"))? else {
        return Err(missing("one key"));
    };
    let body = Fields::of(body)?;
    Ok(match kind.as_str() {
        "transition" => Entry::Transition(read_transition(&body, actor)?),
        "plan" => Entry::Plan(read_plan(&body)?),
        TURN => Entry::Turn(Box::new(read_turn(&body)?)),
        "intent" => Entry::Intent(read_intent(&body)?),
        RECEIPT => Entry::Receipt(Box::new(
            read_stored(body.0).map_err(|error| StoredError(error.to_string()))?,
        )),
        "output" => Entry::Output(read_output(&body)?),
        "verdict" => Entry::Verdict(Box::new(read_verdict(&body)?)),
        "answer" => Entry::Answer(read_answer(&body)?),
        other => return Err(StoredError(format!("the kind {other:?} is not known"))),
    })
}

/// Reads an object field by field; what was left out is empty, what is of another type an error.
struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    fn of(value: &'a Value) -> Result<Self, StoredError> {
        value.as_object().map(|_| Fields(value)).ok_or_else(|| missing("an object"))
    }

    fn optional<T>(
        &self,
        key: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, StoredError> {
        self.0.get(key).map(|value| read(value).ok_or_else(|| missing(key))).transpose()
    }

    fn text(&self, key: &str) -> Result<String, StoredError> {
        Ok(self.optional(key, Value::as_str)?.unwrap_or_default().to_owned())
    }

    fn number<T: std::str::FromStr + Default>(&self, key: &str) -> Result<T, StoredError> {
        let number = self.optional(key, |value| value.as_number()?.parse().ok())?;
        Ok(number.unwrap_or_default())
    }

    fn uuid(&self, key: &str) -> Result<Uuid, StoredError> {
        Uuid::parse_str(&self.text(key)?).map_err(|_| missing(key))
    }

    fn flag(&self, key: &str) -> Result<bool, StoredError> {
        Ok(self.optional(key, Value::as_bool)?.unwrap_or_default())
    }

    fn list(&self, key: &str) -> Result<&'a [Value], StoredError> {
        Ok(self.optional(key, Value::as_array)?.unwrap_or_default())
    }

    fn object(&self, key: &str) -> Result<Option<Fields<'a>>, StoredError> {
        self.0.get(key).map(Fields::of).transpose()
    }
}

/// Writes what is there.
fn optional<'o, T>(
    object: ObjectText<'o>,
    key: &str,
    value: Option<T>,
    write: impl FnOnce(&mut String, T),
) -> ObjectText<'o> {
    match value {
        Some(value) => object.with(key, |out| write(out, value)),
        None => object,
    }
}

fn missing(what: &str) -> StoredError {
    StoredError(format!("{what} is missing or of another type"))
}

fn write_transition(out: &mut String, transition: &Transition, actor: &Actor) {
    let other = if transition.actor == *actor { "" } else { &transition.actor.0 };
    let step = match &transition.subject {
        Subject::Run => "",
        Subject::Step(id) => id,
    };
    ObjectText::begin(out)
        .text("step", step)
        .text("from", &transition.from)
        .text("to", &transition.to)
        .text("event", &transition.event)
        .text("cause", &transition.cause)
        .text("actor", other)
        .text("stop_reason", transition.stop_reason.map_or("", StopReason::as_str))
        .end();
}

fn read_transition(body: &Fields<'_>, actor: &Actor) -> Result<Transition, StoredError> {
    let step = body.text("step")?;
    let stop_reason = body.text("stop_reason")?;
    Ok(Transition {
        subject: if step.is_empty() { Subject::Run } else { Subject::Step(step) },
        from: body.text("from")?.into(),
        to: body.text("to")?.into(),
        event: body.text("event")?.into(),
        cause: body.text("cause")?,
        actor: match body.0.get("actor") {
            Some(_) => Actor(body.text("actor")?.into()),
            None => actor.clone(),
        },
        stop_reason: match stop_reason.as_str() {
            "" => None,
            word => Some(StopReason::from_text(word).ok_or_else(|| missing("stop_reason"))?),
        },
    })
}

fn write_plan(out: &mut String, plan: &PlanStored) {
    ObjectText::begin(out)
        .number("revision", plan.revision)
        .text("digest", &plan.digest)
        .text("parent_digest", &plan.parent_digest)
        .text("reason", &plan.reason)
        .end();
}

fn read_plan(body: &Fields<'_>) -> Result<PlanStored, StoredError> {
    Ok(PlanStored {
        revision: body.number("revision")?,
        digest: body.text("digest")?,
        parent_digest: body.text("parent_digest")?,
        reason: body.text("reason")?,
    })
}

fn write_turn(out: &mut String, turn: &Turn) {
    // Most turns pass all three, and then the list says nothing that its absence does not.
    let validations = Some(&turn.validations).filter(|said| !all_passed(said));
    let object = ObjectText::begin(out)
        .text("step", &turn.step_id)
        .number("attempt", turn.attempt)
        .number("number", turn.number);
    let object = optional(object, "decision", turn.decision.as_ref(), write_decision);
    let write = |out: &mut String, said: &Vec<Validation>| write_list(out, said, write_validation);
    optional(object, "validations", validations, write).text("correction", &turn.correction).end();
}

fn read_turn(body: &Fields<'_>) -> Result<Turn, StoredError> {
    Ok(Turn {
        step_id: body.text("step")?,
        attempt: body.number("attempt")?,
        number: body.number("number")?,
        decision: body.object("decision")?.map(|decision| read_decision(&decision)).transpose()?,
        validations: match body.optional("validations", Value::as_array)? {
            None => VALIDATIONS.map(passed).to_vec(),
            Some(list) => list
                .iter()
                .map(|validation| read_validation(&Fields::of(validation)?))
                .collect::<Result<_, _>>()?,
        },
        correction: body.text("correction")?,
    })
}

/// Flow, evidence and safety.
const VALIDATIONS: [&str; 3] = ["flow", "evidence", "safety"];

/// Whether they are exactly these three, each passed and with nothing more to say.
fn all_passed(said: &[Validation]) -> bool {
    let passed = |said: &Validation| said.passed && said.code.is_none() && said.reason.is_empty();
    said.len() == VALIDATIONS.len()
        && said.iter().zip(VALIDATIONS).all(|(said, name)| said.name == name && passed(said))
}

fn passed(name: &'static str) -> Validation {
    Validation { name: name.into(), passed: true, code: None, reason: String::new() }
}

fn write_validation(out: &mut String, validation: &Validation) {
    ObjectText::begin(out)
        .text("name", &validation.name)
        .flag("passed", validation.passed)
        .text("code", validation.code.map_or("", Code::as_str))
        .text("reason", &validation.reason)
        .end();
}

fn read_validation(body: &Fields<'_>) -> Result<Validation, StoredError> {
    let code = body.text("code")?;
    Ok(Validation {
        name: body.text("name")?.into(),
        passed: body.flag("passed")?,
        code: match code.as_str() {
            "" => None,
            word => Some(Code::from_text(word).ok_or_else(|| missing("code"))?),
        },
        reason: body.text("reason")?,
    })
}

fn write_decision(out: &mut String, decision: &ExecuteDecision) {
    let object = ObjectText::begin(out)
        .text("action", decision.action.as_str())
        .text("speak", &decision.speak)
        .text("reason", &decision.reason)
        .text("goal_check", &decision.goal_check);
    let object = optional(object, "tool_call", decision.tool_call.as_ref(), write_call);
    optional(object, "abort", decision.abort.as_ref(), write_abort).end();
}

fn read_decision(body: &Fields<'_>) -> Result<ExecuteDecision, StoredError> {
    let action = body.text("action")?;
    Ok(ExecuteDecision {
        action: Action::ALL
            .into_iter()
            .find(|known| known.as_str() == action)
            .ok_or_else(|| missing("action"))?,
        speak: body.text("speak")?,
        reason: body.text("reason")?,
        goal_check: body.text("goal_check")?,
        tool_call: body.object("tool_call")?.map(|call| read_call(&call)).transpose()?,
        abort: body.object("abort")?.map(|abort| read_abort(&abort)).transpose()?,
    })
}

fn read_call(call: &Fields<'_>) -> Result<ToolCall, StoredError> {
    Ok(ToolCall {
        name: call.text("name")?,
        arguments: call.0.get("arguments").cloned().unwrap_or(Value::Object(Vec::new())),
    })
}

fn read_abort(abort: &Fields<'_>) -> Result<Abort, StoredError> {
    Ok(Abort {
        code: abort.text("code")?,
        user_message: abort.text("user_message")?,
        internal_reason: abort.text("internal_reason")?,
    })
}

fn write_call(out: &mut String, call: &ToolCall) {
    ObjectText::begin(out)
        .text("name", &call.name)
        .with("arguments", |out| call.arguments.write_compact(out))
        .end();
}

fn write_abort(out: &mut String, abort: &Abort) {
    ObjectText::begin(out)
        .text("code", &abort.code)
        .text("user_message", &abort.user_message)
        .text("internal_reason", &abort.internal_reason)
        .end();
}

fn write_intent(out: &mut String, intent: &Intent) {
    ObjectText::begin(out)
        .text("step", &intent.step_id)
        .text("call_id", &intent.call_id.to_string())
        .text("tool", &intent.tool)
        .text("arguments_json", &intent.arguments_json)
        .end();
}

fn read_intent(body: &Fields<'_>) -> Result<Intent, StoredError> {
    Ok(Intent {
        step_id: body.text("step")?,
        call_id: body.uuid("call_id")?,
        tool: body.text("tool")?,
        arguments_json: body.text("arguments_json")?,
    })
}

fn write_output(out: &mut String, output: &Output) {
    let object = ObjectText::begin(out)
        .text("call_id", &output.call_id)
        .text("digest", &output.digest)
        .number("bytes", output.bytes);
    // An empty text is not the same as one that is kept elsewhere.
    optional(object, "text", output.text.as_deref(), |out, text| write_string(text, out)).end();
}

fn read_output(body: &Fields<'_>) -> Result<Output, StoredError> {
    Ok(Output {
        call_id: body.text("call_id")?,
        digest: body.text("digest")?,
        bytes: body.number("bytes")?,
        text: body.optional("text", Value::as_str)?.map(str::to_owned),
    })
}

fn write_verdict(out: &mut String, record: &VerdictRecord) {
    ObjectText::begin(out)
        .number("plan_revision", record.plan_revision)
        .flag("accepted", record.verdict.accepted)
        .text("stop_reason", record.verdict.stop_reason.as_str())
        .with("results", |out| write_list(out, &record.verdict.results, write_result))
        .number("receipts", record.receipts)
        .text("last_receipt_digest", &record.last_receipt_digest)
        .end();
}

fn read_verdict(body: &Fields<'_>) -> Result<VerdictRecord, StoredError> {
    let stop_reason = StopReason::from_text(&body.text("stop_reason")?);
    let results = body.list("results")?.iter().map(|result| read_result(&Fields::of(result)?));
    Ok(VerdictRecord {
        plan_revision: body.number("plan_revision")?,
        verdict: Verdict {
            accepted: body.flag("accepted")?,
            stop_reason: stop_reason.ok_or_else(|| missing("stop_reason"))?,
            results: results.collect::<Result<_, _>>()?,
        },
        receipts: body.number("receipts")?,
        last_receipt_digest: body.text("last_receipt_digest")?,
    })
}

fn read_result(result: &Fields<'_>) -> Result<CheckResult, StoredError> {
    Ok(CheckResult {
        name: result.text("name")?,
        passed: result.flag("passed")?,
        reason: result.text("reason")?,
        optional: result.flag("optional")?,
    })
}

fn write_result(out: &mut String, result: &CheckResult) {
    ObjectText::begin(out)
        .text("name", &result.name)
        .flag("passed", result.passed)
        .text("reason", &result.reason)
        .flag("optional", result.optional)
        .end();
}

fn write_answer(out: &mut String, answer: &Answer) {
    ObjectText::begin(out)
        .text("wait_id", &answer.wait_id.to_string())
        .text("by", &answer.by.0)
        .text("text", &answer.text)
        .end();
}

fn read_answer(body: &Fields<'_>) -> Result<Answer, StoredError> {
    Ok(Answer {
        wait_id: body.uuid("wait_id")?,
        by: Actor(body.text("by")?.into()),
        text: body.text("text")?,
    })
}
