//! `output_only`: there is something to read at the end.

use super::{Evidence, Reason};

pub(super) fn evaluate(evidence: &Evidence<'_>) -> Result<(), Reason> {
    if evidence.final_text().trim().is_empty() {
        return Err(Reason::OutputEmpty);
    }
    Ok(())
}
