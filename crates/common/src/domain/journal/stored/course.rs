//! The stored form of a run's progress: transitions, plans, verdicts and answers.

use super::StoredError;
use super::fields::{Fields, missing, optional};
use super::turn::{read_model, write_model};
use crate::domain::fork::ForkedFrom;
use crate::domain::journal::{
    Actor, Answer, PlanStored, Subject, TaskHistory, Transition, VerdictRecord,
};
use crate::domain::json::{ObjectText, Value, write_list, write_string};
use crate::domain::repository::{ChangedFile, RepositoryOutcome};
use crate::domain::stop::StopReason;
use crate::domain::verdict::{Approval, Caution, CheckResult, Strength, Verdict};

pub(super) fn write_transition(out: &mut String, transition: &Transition, actor: &Actor) {
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

pub(super) fn read_transition(body: &Fields<'_>, actor: &Actor) -> Result<Transition, StoredError> {
    let step = body.text("step")?;
    let stop_reason = body.text("stop_reason")?;
    Ok(Transition {
        subject: if step.is_empty() { Subject::Run } else { Subject::Step(step) },
        from: body.text("from")?.into(),
        to: body.text("to")?.into(),
        event: body.text("event")?.into(),
        cause: body.text("cause")?.into(),
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

pub(super) fn write_plan(out: &mut String, plan: &PlanStored) {
    let object = ObjectText::begin(out)
        .number("revision", plan.revision)
        .text("digest", &plan.digest)
        .text("parent_digest", &plan.parent_digest)
        .text("reason", &plan.reason);
    optional(object, "model", plan.model.as_deref(), write_model).end();
}

pub(super) fn read_plan(body: &Fields<'_>) -> Result<PlanStored, StoredError> {
    Ok(PlanStored {
        revision: body.number("revision")?,
        digest: body.text("digest")?,
        parent_digest: body.text("parent_digest")?,
        reason: body.text("reason")?,
        model: body.object("model")?.map(|model| read_model(&model)).transpose()?.map(Box::new),
    })
}

pub(super) fn write_verdict(out: &mut String, record: &VerdictRecord) {
    let object = ObjectText::begin(out)
        .number("plan_revision", record.plan_revision)
        .flag("accepted", record.verdict.accepted)
        .text("stop_reason", record.verdict.stop_reason.as_str())
        .with("results", |out| write_list(out, &record.verdict.results, write_result))
        .text("strength", record.verdict.strength.as_str())
        .number("round", record.verdict.round)
        .with("cautions", |out| write_list(out, &record.verdict.cautions, write_caution))
        .with("approvals", |out| write_list(out, &record.verdict.approvals, write_approval))
        .text("workspace_digest", &record.verdict.workspace_digest)
        .text("sandbox", &record.verdict.sandbox)
        .number("receipts", record.receipts)
        .text("last_receipt_digest", &record.last_receipt_digest)
        .text("plan_digest", &record.plan_digest);
    let object =
        optional(object, "repository", record.verdict.repository.as_ref(), write_repository);
    optional(object, "history", record.history.as_ref(), write_history).end();
}

pub(super) fn read_verdict(body: &Fields<'_>) -> Result<VerdictRecord, StoredError> {
    let stop_reason = StopReason::from_text(&body.text("stop_reason")?);
    let results = body.list("results")?.iter().map(|result| read_result(&Fields::of(result)?));
    let strength = Strength::from_text(&body.text("strength")?);
    let approvals = body.list("approvals")?.iter();
    let approvals = approvals.map(|approval| read_approval(&Fields::of(approval)?));
    let cautions = body.list("cautions")?.iter().map(|caution| read_caution(&Fields::of(caution)?));
    Ok(VerdictRecord {
        plan_revision: body.number("plan_revision")?,
        verdict: Verdict {
            accepted: body.flag("accepted")?,
            stop_reason: stop_reason.ok_or_else(|| missing("stop_reason"))?,
            results: results.collect::<Result<_, _>>()?,
            strength: strength.ok_or_else(|| missing("strength"))?,
            round: body.number("round")?,
            cautions: cautions.collect::<Result<_, _>>()?,
            approvals: approvals.collect::<Result<_, _>>()?,
            workspace_digest: body.text("workspace_digest")?,
            sandbox: body.text("sandbox")?,
            repository: body.object("repository")?.as_ref().map(read_repository).transpose()?,
        },
        receipts: body.number("receipts")?,
        last_receipt_digest: body.text("last_receipt_digest")?,
        plan_digest: body.text("plan_digest")?,
        history: body.object("history")?.as_ref().map(read_history).transpose()?,
    })
}

fn write_history(out: &mut String, history: &TaskHistory) {
    ObjectText::begin(out)
        .number("entries", history.entries)
        .text("last_digest", &history.last_digest)
        .end();
}

fn read_history(history: &Fields<'_>) -> Result<TaskHistory, StoredError> {
    Ok(TaskHistory {
        entries: history.number("entries")?,
        last_digest: history.text("last_digest")?,
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

fn read_caution(caution: &Fields<'_>) -> Result<Caution, StoredError> {
    Ok(Caution {
        code: caution.text("code")?,
        check: caution.text("check")?,
        detail: caution.text("detail")?,
    })
}

fn read_approval(approval: &Fields<'_>) -> Result<Approval, StoredError> {
    Ok(Approval { by: approval.text("by")?, digest: approval.text("digest")? })
}

fn read_repository(body: &Fields<'_>) -> Result<RepositoryOutcome, StoredError> {
    let changed = body.list("changed")?.iter().map(|file| read_changed(&Fields::of(file)?));
    Ok(RepositoryOutcome {
        reference: body.text("ref")?,
        commit: body.text("commit")?,
        base: body.text("base")?,
        files: body.number("files")?,
        insertions: body.number("insertions")?,
        deletions: body.number("deletions")?,
        changed: changed.collect::<Result<_, _>>()?,
    })
}

fn write_repository(out: &mut String, outcome: &RepositoryOutcome) {
    let RepositoryOutcome { reference, commit, base, files, insertions, deletions, changed } =
        outcome;
    ObjectText::begin(out)
        .text("ref", reference)
        .text("commit", commit)
        .text("base", base)
        .number("files", *files)
        .number("insertions", *insertions)
        .number("deletions", *deletions)
        .with("changed", |out| write_list(out, changed, write_changed))
        .end();
}

fn read_changed(file: &Fields<'_>) -> Result<ChangedFile, StoredError> {
    Ok(ChangedFile {
        path: file.text("path")?,
        insertions: file.number("insertions")?,
        deletions: file.number("deletions")?,
        binary: file.flag("binary")?,
    })
}

fn write_changed(out: &mut String, file: &ChangedFile) {
    ObjectText::begin(out)
        .text("path", &file.path)
        .number("insertions", file.insertions)
        .number("deletions", file.deletions)
        .flag("binary", file.binary)
        .end();
}

fn write_approval(out: &mut String, approval: &Approval) {
    ObjectText::begin(out).text("by", &approval.by).text("digest", &approval.digest).end();
}

fn write_caution(out: &mut String, caution: &Caution) {
    ObjectText::begin(out)
        .text("code", &caution.code)
        .text("check", &caution.check)
        .text("detail", &caution.detail)
        .end();
}

fn write_result(out: &mut String, result: &CheckResult) {
    ObjectText::begin(out)
        .text("name", &result.name)
        .flag("passed", result.passed)
        .text("reason", &result.reason)
        .flag("optional", result.optional)
        .end();
}

pub(super) fn write_answer(out: &mut String, answer: &Answer) {
    ObjectText::begin(out)
        .text("wait_id", &answer.wait_id.to_string())
        .text("by", &answer.by.0)
        .text("text", &answer.text)
        .end();
}

pub(super) fn read_answer(body: &Fields<'_>) -> Result<Answer, StoredError> {
    Ok(Answer {
        wait_id: body.uuid("wait_id")?,
        by: Actor(body.text("by")?.into()),
        text: body.text("text")?,
    })
}

pub(super) fn write_fork(out: &mut String, fork: &ForkedFrom) {
    ObjectText::begin(out)
        .text("run_id", &fork.run_id.to_string())
        .text("step_id", &fork.step_id)
        .number("plan_revision", fork.plan_revision)
        .text("plan_digest", &fork.plan_digest)
        .number("receipts", fork.receipts)
        .text("last_receipt_digest", &fork.last_receipt_digest)
        .with("steps", |out| write_list(out, &fork.steps, |out, step| write_string(step, out)))
        .flag("wrote", fork.wrote)
        .end();
}

pub(super) fn read_fork(body: &Fields<'_>) -> Result<ForkedFrom, StoredError> {
    let step = |step: &Value| step.as_str().map(str::to_owned).ok_or_else(|| missing("steps"));
    Ok(ForkedFrom {
        run_id: body.uuid("run_id")?,
        step_id: body.text("step_id")?,
        plan_revision: body.number("plan_revision")?,
        plan_digest: body.text("plan_digest")?,
        receipts: body.number("receipts")?,
        last_receipt_digest: body.text("last_receipt_digest")?,
        steps: body.list("steps")?.iter().map(step).collect::<Result<_, _>>()?,
        wrote: body.flag("wrote")?,
    })
}
