//! `output_only`: the final text is not blank once control JSON is removed.

use super::{Evidence, Reason};
use crate::domain::control::visible_text;

pub(super) fn evaluate(evidence: &Evidence<'_>) -> Result<(), Reason> {
    if visible_text(evidence.final_text()).is_empty() {
        return Err(Reason::OutputEmpty);
    }
    Ok(())
}
