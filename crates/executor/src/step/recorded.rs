//! What a run's row says of a call, compared with the journal before the executor acts on it. Other services may write the
//! row; the journal is signed, and what persons say is signed by the planner only.
//!
//! ```text
//!   row: approved call -----> journal: a turn that asked for it, its approval, and no intent behind that
//!   row: open call ---------> journal: its intent, and the answer of a person behind it
//!                     else -> the run waits for an operator
//! ```

use super::ended::Ended;
use super::leased_run::LeasedRun;
use surety_common::domain::confirmation::{ApprovedCall, CONFIRMED, call_digest};
use surety_common::domain::execution::{OpenCall, StepProgress, Wait};
use surety_common::domain::fault::FaultCode;
use surety_common::domain::journal::{Entry, Event, Intent};
use surety_common::domain::receipt::EvidenceSource;
use surety_common::domain::signature::SignatureStatus;
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{self, SignedRun};
use uuid::Uuid;

/// Whether the journal has the approval that a row shows. Else the run waits for an operator.
pub(super) async fn is_approved(
    run: &LeasedRun,
    index: usize,
    approved: &ApprovedCall,
) -> Result<bool, Ended> {
    run.settle().await?;
    let (id, digest) = (run.graph.id(index), approved.call.digest.as_str());
    let is_it = |event: &Event| approves(event, id, digest);
    let turn = |event: &Event| matches!(&event.entry, Entry::Turn(turn) if turn.step_id == id);
    // Read backwards: the latest comes first.
    let events = read_back(run, |events| {
        let at = events.iter().position(is_it);
        at.is_some_and(|at| events.iter().skip(at).any(turn))
    })
    .await?;
    let at = events.iter().rposition(is_it);
    let behind = at.and_then(|at| events.get(at + 1..));
    let is_used = |events: &[Event]| events.iter().any(|event| intent_of(event, id).is_some());
    let before = at.and_then(|at| events.get(..at)).unwrap_or_default();
    let asks = |event: &Event| asked_for(event, &run.plan_digest).as_deref() == Some(digest);
    let is_asked = before.iter().rfind(|event| turn(event)).map(asks);
    let is_unread = is_unread(&events);
    if behind.map_or(!is_unread, is_used) || !is_asked.unwrap_or(is_unread) {
        let tool = &approved.call.tool;
        return leave(
            run,
            &format!("its row has an approval of {tool} for step {id} that no person gave"),
        )
        .await;
    }
    is_signed(run).await
}

/// Whether the journal has the intent of an open call, and the answer of a person that a row shows. Else the run waits for an
/// operator.
pub(super) async fn is_open(
    run: &LeasedRun,
    index: usize,
    (open, progress): (&OpenCall, &StepProgress),
) -> Result<bool, Ended> {
    run.settle().await?;
    let id = run.graph.id(index);
    let begins =
        |event: &Event| intent_of(event, id).is_some_and(|intent| intent.call_id == open.call_id);
    let events = read_back(run, |events| events.iter().any(begins)).await?;
    let at = events.iter().rposition(begins);
    let intent = at.and_then(|at| intent_of(events.get(at)?, id));
    let is_it = |tool: &str, arguments: &str| tool == open.tool && arguments == open.arguments_json;
    if intent.is_none() && is_unread(&events) {
        return is_signed(run).await;
    }
    if !intent.is_some_and(|intent| is_it(&intent.tool, &intent.arguments_json)) {
        let tool = &open.tool;
        return leave(
            run,
            &format!("its row has a call of {tool} for step {id} that was never intended"),
        )
        .await;
    }
    let Some(word) = progress.answer else { return is_signed(run).await };
    let behind = at.and_then(|at| events.get(at + 1..)).unwrap_or_default();
    let answers = |event: &Event| match &event.entry {
        Entry::Answer(answer) => {
            answer.text == word.as_str() && *answer.by.0 == *progress.answered_by
        }
        Entry::Turn(_)
        | Entry::Receipt(_)
        | Entry::Output(_)
        | Entry::Transition(_)
        | Entry::Plan(_)
        | Entry::Intent(_)
        | Entry::Verdict(_)
        | Entry::Forked(_) => false,
    };
    if !behind.iter().any(answers) {
        let word = word.as_str();
        return leave(
            run,
            &format!("its row has the answer {word} about a call of step {id} that no person gave"),
        )
        .await;
    }
    is_signed(run).await
}

/// The latest events of the run, back to where there are `enough`.
async fn read_back(
    run: &LeasedRun,
    enough: impl Fn(&[Event]) -> bool + Send + Sync,
) -> Result<Vec<Event>, Ended> {
    let read = || store::latest_events(&run.engine.pool, run.spec.id, &enough);
    Ok(store::patiently(read).await?)
}

/// Whether the journal goes further back than it was read: what is not found may be there.
fn is_unread(events: &[Event]) -> bool {
    events.first().is_some_and(|event| event.sequence > 1)
}

fn approves(event: &Event, step_id: &str, digest: &str) -> bool {
    let Entry::Receipt(receipt) = &event.entry else { return false };
    receipt.source == EvidenceSource::Approval
        && receipt.name == CONFIRMED
        && receipt.success
        && receipt.step_id == step_id
        && receipt.arguments_digest == digest
}

/// The digest of the call that a turn decided for.
fn asked_for(event: &Event, plan_digest: &str) -> Option<String> {
    let Entry::Turn(turn) = &event.entry else { return None };
    let call = turn.decision.as_ref()?.tool_call.as_ref()?;
    Some(call_digest(call, plan_digest))
}

fn intent_of<'e>(event: &'e Event, step_id: &str) -> Option<&'e Intent> {
    match &event.entry {
        Entry::Intent(intent) if intent.step_id == step_id => Some(intent),
        Entry::Intent(_)
        | Entry::Answer(_)
        | Entry::Turn(_)
        | Entry::Receipt(_)
        | Entry::Output(_)
        | Entry::Transition(_)
        | Entry::Plan(_)
        | Entry::Verdict(_)
        | Entry::Forked(_) => None,
    }
}

/// Whether the run's rows are what was signed, where keys are trusted.
async fn is_signed(run: &LeasedRun) -> Result<bool, Ended> {
    let Some(trust) = &run.engine.trust else { return Ok(true) };
    let check = || async {
        let Some(signed) = SignedRun::find(&run.engine.pool, run.spec.id).await? else {
            return Ok(None);
        };
        // The keys come behind the rows: each was trusted before it signed.
        signed.check(Some(&trust.trusted()), |_| ()).await.map(Some)
    };
    let Some(checked) = store::patiently(check).await? else { return Err(Ended::NotHeld) };
    match checked.status {
        SignatureStatus::Broken(place) => {
            leave(run, &format!("its rows are not what was signed: {place}")).await
        }
        SignatureStatus::Signed | SignatureStatus::Unsigned(_) => Ok(true),
    }
}

/// Leaves the run to an operator: what its row asks for is not done.
async fn leave(run: &LeasedRun, why: &str) -> Result<bool, Ended> {
    let why = format!("{}: {why}", FaultCode::ReceiptsInvalid.as_str());
    tracing::error!(run_id = %run.spec.id, why, "recorded: a row is not what the journal says; the run is paused until an operator looks at it");
    run.change(|draft| {
        let on = WaitingOn::Operator;
        let unblocks = format!("call ResumeRun once this is repaired, or CancelRun: {why}");
        let wait = Wait::new(Uuid::now_v7(), on, draft.now(), unblocks);
        draft.pause(&run.graph, wait, why.clone())?;
        draft.end_leases(&run.graph, why.clone())
    })
    .await?;
    Ok(false)
}
