//! The labels of runs: their bounds, and which labels a run carries.

use crate::domain::problem::{Code, Problem};
use crate::domain::text::check_text;
use std::collections::BTreeMap;

/// The most labels of a run, and the most that a participant names.
pub const MAX_LABELS: usize = 64;
/// The longest name of a label, in bytes.
pub const MAX_LABEL_NAME: usize = 200;
/// The longest value of a label, in bytes.
pub const MAX_LABEL_TEXT: usize = 2000;

/// Checks labels that a caller sent in a field.
///
/// # Errors
/// `too_large`, and `type_mismatch` for the character U+0000, which the database cannot store.
pub fn check_labels(field: &str, labels: &BTreeMap<String, String>) -> Result<(), Problem> {
    if labels.len() > MAX_LABELS {
        let message = format!("has more than {MAX_LABELS} entries; remove some");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    for (name, text) in labels {
        check_text(field, name, MAX_LABEL_NAME)?;
        check_text(&format!("{field}.{name}"), text, MAX_LABEL_TEXT)?;
    }
    Ok(())
}

/// Whether a run with these labels carries all that are wanted.
#[must_use]
pub fn carries(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, text)| labels.get(name) == Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_run_carries_labels_with_the_wanted_names_and_values() {
        let run = labels(&[("team", "a"), ("gpu", "yes")]);
        for (wanted, expected) in [
            (labels(&[]), true),
            (labels(&[("team", "a")]), true),
            (labels(&[("gpu", "yes"), ("team", "a")]), true),
            (labels(&[("team", "b")]), false),
            (labels(&[("team", "a"), ("zone", "x")]), false),
        ] {
            assert_eq!(carries(&run, &wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn labels_beyond_their_bounds_are_refused_by_name() {
        let many = (0..=MAX_LABELS).map(|n| (n.to_string(), String::new())).collect();
        let long = "x".repeat(MAX_LABEL_TEXT + 1);
        for (labels, code, field) in [
            (many, Code::TooLarge, "labels"),
            (labels(&[(&long, "")]), Code::TooLarge, "labels"),
            (labels(&[("a", &long)]), Code::TooLarge, "labels.a"),
            (labels(&[("a", "\0")]), Code::TypeMismatch, "labels.a"),
        ] {
            let problem = check_labels("labels", &labels).unwrap_err();
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some(field)));
        }
        assert!(check_labels("labels", &labels(&[("", ""), ("a", "b")])).is_ok());
    }
}
