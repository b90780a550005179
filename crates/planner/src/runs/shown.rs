//! Whether an answer is about what was shown.

use surety_common::domain::fault::{Fault, FaultCode};

/// Refuses an answer about another digest; `field` is the field that names it.
pub(super) fn check_digest(asked: &str, answered: &str, field: &str) -> Result<(), Fault> {
    if answered == asked {
        return Ok(());
    }
    let message = format!(
        "the digest {answered:?} is not {asked}, that of what is asked now; look at it again"
    );
    Err(Fault::new(FaultCode::ConfirmationMismatch, message).with_field(field))
}

/// Refuses an answer to a question whose words are not those that the digest stands for.
pub(super) fn check_shown(asked: &str, shown: Option<String>, field: &str) -> Result<(), Fault> {
    if shown.as_deref() == Some(asked) {
        return Ok(());
    }
    let message = format!(
        "what is shown is not what the digest {asked} stands for: the row of the run was changed; cancel the run, and \
         check it with `surety receipts verify`"
    );
    Err(Fault::new(FaultCode::ConfirmationMismatch, message).with_field(field))
}
