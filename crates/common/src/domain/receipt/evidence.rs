//! Which receipts are evidence that work on a step was done.

use super::EvidenceReceipt;

/// The tool that does nothing. A receipt of it shows no work.
pub const NOOP: &str = "noop";

/// Whether a receipt is evidence for the step at `step_index` of the plan's `plan_revision`: it
/// records a success of this very step under this very revision, and not one of [`NOOP`].
pub fn counts_as_evidence(receipt: &EvidenceReceipt, step_index: u32, plan_revision: u32) -> bool {
    receipt.success
        && receipt.step_index == step_index
        && receipt.plan_revision == plan_revision
        && receipt.name != NOOP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;
    use crate::domain::receipt::read_receipt;

    #[test]
    fn only_a_success_of_this_step_under_this_revision_is_evidence_and_a_noop_is_none() {
        for (step_index, plan_revision, success, name, expected) in [
            (1, 2, true, "write_file", true),
            (1, 2, true, "", true),
            (1, 2, true, "NOOP", true),
            (1, 2, true, NOOP, false),
            (1, 2, false, "write_file", false),
            (0, 2, true, "write_file", false),
            (1, 1, true, "write_file", false),
            (1, 3, true, "write_file", false),
        ] {
            let text = format!(
                r#"{{"step_index":{step_index},"plan_revision":{plan_revision},"name":"{name}",
                    "source":"tool_observation","success":{success}}}"#
            );
            let receipt = read_receipt(&json::parse(&text).unwrap().value).unwrap();
            assert_eq!(counts_as_evidence(&receipt, 1, 2), expected, "{text}");
        }
    }
}
