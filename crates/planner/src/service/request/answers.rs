//! Answers to waits: confirmations, questions and budgets.

use super::fields::missing;
use crate::runs::{Confirmation, Extension, Granted};
use surety_common::domain::decision::Usage;
use surety_common::domain::grant::{MAX_TTL_S, MAX_USES};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::text::read_text;
use surety_common::wire::v1;
use surety_common::wire::value::seconds;

/// The longest comment of an answer, in bytes.
const MAX_COMMENT: usize = 2000;
/// The longest answer to a question, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// The answer of a request to a confirmation.
///
/// # Errors
/// `field_missing` without an answer, `type_mismatch` for an unknown one, for an approval with `stop`, for a denial with
/// `grant` and for a comment that cannot be stored, `too_large` for a long comment, `limit_out_of_range` for a grant.
pub(in crate::service) fn read_confirmation(
    request: v1::ResolveConfirmationRequest,
) -> Result<Confirmation, Problem> {
    let v1::ResolveConfirmationRequest { answer, call_digest, comment, stop, grant, .. } = request;
    let approved = match v1::ConfirmationAnswer::try_from(answer) {
        Ok(v1::ConfirmationAnswer::Approve) => true,
        Ok(v1::ConfirmationAnswer::Deny) => false,
        Ok(v1::ConfirmationAnswer::Unspecified) => return Err(missing("answer")),
        Err(_) => {
            let message = "is no value of this enum";
            return Err(Problem::at(Code::TypeMismatch, "answer", message));
        }
    };
    if approved && stop {
        let message = "an approval does not end the run; leave it out, or deny";
        return Err(Problem::at(Code::TypeMismatch, "stop", message));
    }
    if !approved && grant.is_some() {
        let message = "a denial grants nothing; leave it out, or approve";
        return Err(Problem::at(Code::TypeMismatch, "grant", message));
    }
    let comment = read_text("comment", &comment, MAX_COMMENT)?;
    let grant = grant.map(read_grant).transpose()?;
    Ok(Confirmation { approved, stop, digest: call_digest, comment, grant })
}

fn read_grant(terms: v1::GrantTerms) -> Result<Granted, Problem> {
    let v1::GrantTerms { arguments, uses, ttl } = terms;
    if !(1..=MAX_USES).contains(&uses) {
        let message = format!("is {uses}; a grant has 1 to {MAX_USES} uses");
        return Err(Problem::at(Code::LimitOutOfRange, "grant.uses", message));
    }
    let ttl_s = ttl.map(|ttl| seconds("grant.ttl", ttl)).transpose()?;
    if let Some(ttl_s) = ttl_s.filter(|ttl_s| !(1..=MAX_TTL_S).contains(ttl_s)) {
        let message = format!("is {ttl_s} s; a grant lasts 1 to {MAX_TTL_S} s");
        return Err(Problem::at(Code::LimitOutOfRange, "grant.ttl", message));
    }
    if let Some((name, _)) = arguments.iter().find(|(_, pattern)| pattern.contains('\0')) {
        let message = "contains the character U+0000, which cannot be stored; remove it";
        return Err(Problem::at(Code::TypeMismatch, format!("grant.arguments[{name}]"), message));
    }
    Ok(Granted { arguments, uses, ttl_s })
}

/// The answer of a request to a question.
///
/// # Errors
/// `field_missing` for a blank one, `too_large` for a long one, `type_mismatch` for one that cannot be stored.
pub(in crate::service) fn read_answer(answer: &str) -> Result<String, Problem> {
    let answer = read_text("answer", answer, MAX_ANSWER)?;
    if answer.is_empty() {
        let message = "the answer is blank; write a text";
        return Err(Problem::at(Code::FieldMissing, "answer", message));
    }
    Ok(answer)
}

/// What a request adds to the budgets of a run.
///
/// # Errors
/// `field_missing` when nothing is added, `type_mismatch` for stop beside an amount.
pub(in crate::service) fn read_extension(
    request: &v1::ExtendBudgetRequest,
) -> Result<Extension, Problem> {
    let added = Usage { tokens: request.add_tokens, cost_micros: request.add_cost_micros };
    match (request.stop, added.is_zero()) {
        (true, true) => Ok(Extension::Stop),
        (false, false) => Ok(Extension::Add(added)),
        (true, false) => {
            let message = "is set beside an amount; choose one of both";
            Err(Problem::at(Code::TypeMismatch, "stop", message))
        }
        (false, true) => {
            let message = "nothing is added; set add_tokens, add_cost_micros or stop";
            Err(Problem::at(Code::FieldMissing, "add_tokens", message))
        }
    }
}
