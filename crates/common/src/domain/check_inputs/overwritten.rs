//! Check inputs that the command of a check wrote itself while it ran, as receipts have them.
//!
//! ```text
//!   the command writes none                                  in order
//!   it writes the same ones with the workspace of the start  in order: a formatter, a generator
//!   it writes others                                         check_inputs_changed: the product wrote its exam
//! ```

use crate::domain::receipt::{EvidenceReceipt, Fact};
use std::collections::BTreeSet;

/// The output of a receipt with such a file.
const OVERWRITTEN: &str = "check_input_overwritten";
/// The output that says that the command ran with the workspace of the start to be compared.
const COMPARED: &str = "overwritten_at_start";
/// Files that a receipt names, and that a caution names.
const MAX_LISTED: usize = 200;
const MAX_NAMED: usize = 3;

/// The facts of a command that wrote these files.
pub fn facts_of_overwritten(paths: impl IntoIterator<Item = String>) -> Vec<Fact> {
    let paths = paths.into_iter().take(MAX_LISTED);
    paths.map(|path| Fact::of_output(OVERWRITTEN, path)).collect()
}

/// Whether these facts name such a file.
pub fn overwrites(facts: &[Fact]) -> bool {
    facts.iter().any(|fact| matches!(fact, Fact::Output { key, .. } if key == OVERWRITTEN))
}

/// The facts of the run that is compared: the files that the command wrote with the workspace of the start.
pub fn facts_of_compared(facts: Vec<Fact>) -> Vec<Fact> {
    let own = facts.into_iter().filter(|fact| overwrites(std::slice::from_ref(fact)));
    own.chain([Fact::of_output(COMPARED, "yes")]).collect()
}

/// What the command of a check wrote of its check inputs and did not write at the start, and whether that is known.
pub fn overwritten_in(
    ran: &EvidenceReceipt,
    at_start: Option<&EvidenceReceipt>,
) -> Option<(String, bool)> {
    let compared = at_start.filter(|receipt| receipt.outputs(COMPARED).next().is_some());
    let before: BTreeSet<&str> =
        compared.map(|receipt| receipt.outputs(OVERWRITTEN).collect()).unwrap_or_default();
    let more: Vec<&str> = ran.outputs(OVERWRITTEN).filter(|path| !before.contains(path)).collect();
    if more.is_empty() {
        return None;
    }
    let named: Vec<&str> = more.iter().copied().take(MAX_NAMED).collect();
    let rest = more.len().saturating_sub(named.len());
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let detail = format!("the command wrote {}{rest} while it ran", named.join(", "));
    Some((detail, compared.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;
    use crate::domain::receipt::read_receipt;

    fn receipt(facts: Vec<Fact>) -> EvidenceReceipt {
        let text = r#"{"step_index": 0, "source": "probe", "success": true}"#;
        let receipt = read_receipt(&json::parse(text).unwrap().value).unwrap();
        EvidenceReceipt { facts, ..receipt }
    }

    #[test]
    fn what_the_command_writes_at_the_start_too_is_in_order() {
        let written = |paths: &[&str]| facts_of_overwritten(paths.iter().map(ToString::to_string));
        let ran = |paths: &[&str]| receipt(written(paths));
        let at_start = |paths: &[&str]| receipt(facts_of_compared(written(paths)));
        let detail = |text: &str| format!("the command wrote {text} while it ran");
        for (now, before, expected) in [
            (ran(&[]), Some(at_start(&[])), None),
            (ran(&["a"]), Some(at_start(&["a", "b"])), None),
            (ran(&["a", "b"]), Some(at_start(&["a"])), Some((detail("b"), true))),
            // The start could not be made again.
            (ran(&["a"]), Some(receipt(Vec::new())), Some((detail("a"), false))),
            (ran(&["a"]), None, Some((detail("a"), false))),
            (
                ran(&["a", "b", "c", "d"]),
                Some(at_start(&[])),
                Some((detail("a, b, c and 1 more"), true)),
            ),
        ] {
            assert_eq!(overwritten_in(&now, before.as_ref()), expected);
        }
        assert!(overwrites(&written(&["a"])) && !overwrites(&facts_of_compared(Vec::new())));
    }
}
