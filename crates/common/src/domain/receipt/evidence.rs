//! Which receipts are evidence that work on a step was done.

use super::EvidenceReceipt;

/// The tool that does nothing.
pub const NOOP: &str = "noop";
/// The tool that reads stored outputs of the run.
pub const READ_OUTPUT: &str = "read_output";
/// The tool that waits for a time.
pub const SLEEP: &str = "sleep";
/// The tool that changes the todos of the run: what a driver says about its own work.
pub const TODO: &str = "todo";

/// The tools whose receipts show no work.
pub const PROVES_NOTHING: [&str; 4] = [NOOP, READ_OUTPUT, SLEEP, TODO];

/// Whether a receipt is evidence for the step at `step_index` of the plan's `plan_revision`: it
/// records a success of this very step under this very revision, and not one of a tool
/// that does no work.
pub fn counts_as_evidence(receipt: &EvidenceReceipt, step_index: u32, plan_revision: u32) -> bool {
    receipt.success
        && receipt.step_index == step_index
        && receipt.plan_revision == plan_revision
        && !PROVES_NOTHING.contains(&receipt.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;
    use crate::domain::receipt::read_receipt;

    #[test]
    fn only_a_success_of_this_step_under_this_revision_is_evidence_and_some_tools_give_none() {
        for (step_index, plan_revision, success, name, expected) in [
            (1, 2, true, "write_file", true),
            (1, 2, true, "", true),
            (1, 2, true, "NOOP", true),
            (1, 2, true, NOOP, false),
            (1, 2, true, TODO, false),
            (1, 2, true, READ_OUTPUT, false),
            (1, 2, true, SLEEP, false),
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
