//! `output_only`: there is something to read at the end, beside control JSON.

use super::{Evidence, Reason};
use crate::domain::control::visible_text;

pub(super) fn evaluate(evidence: &Evidence<'_>) -> Result<(), Reason> {
    if visible_text(evidence.final_text()).is_empty() {
        return Err(Reason::OutputEmpty);
    }
    Ok(())
}
