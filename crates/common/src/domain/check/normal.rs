//! The normal form of a check: equivalent checks become equal, and are decided once.

use super::AcceptCheck;
use crate::domain::problem::{Warning, WarningCode};
use std::collections::{BTreeMap, HashMap};

/// The param that is compared exactly, including blanks.
const NEEDLE: &str = "contains";

impl AcceptCheck {
    /// Trims all fields except the needle, and drops empty params.
    #[must_use]
    pub fn normalised(self) -> Self {
        Self {
            id: self.id.trim().to_owned(),
            target: self.target.trim().to_owned(),
            params: tidy_params(self.params),
            ..self
        }
    }
}

/// Of keys that are equal once trimmed, the one that needed no trimming wins.
fn tidy_params(params: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (exact, loose): (Vec<_>, Vec<_>) =
        params.into_iter().partition(|(key, _)| key.trim().len() == key.len());
    let tidy = |(key, value): (String, String)| {
        let key = key.trim().to_owned();
        let value = if key == NEEDLE { value } else { value.trim().to_owned() };
        (key, value)
    };
    let all = loose.into_iter().chain(exact).map(tidy);
    all.filter(|(key, value)| !key.is_empty() && !value.is_empty()).collect()
}

/// Normalizes checks; of equal ones the first stays. The function is idempotent. `path` is the
/// list's field path, for the warning `duplicate_check_dropped`, which is given when the ids
/// differ.
pub fn normalise_checks(checks: Vec<AcceptCheck>, path: &str) -> (Vec<AcceptCheck>, Vec<Warning>) {
    let checks = checks.into_iter().map(AcceptCheck::normalised).collect();
    collapse(checks, path)
}

pub(super) fn collapse(checks: Vec<AcceptCheck>, path: &str) -> (Vec<AcceptCheck>, Vec<Warning>) {
    let mut seen = HashMap::new();
    let mut kept = Vec::with_capacity(checks.len());
    let mut warnings = Vec::new();
    for check in checks {
        let question = (
            check.kind.clone(),
            check.target.clone(),
            check.r#match.as_str(),
            check.params.clone(),
            check.required,
            check.owner,
            check.overlay.digest().to_owned(),
        );
        match seen.get(&question) {
            None => {
                seen.insert(question, check.id.clone());
                kept.push(check);
            }
            Some(first) if *first == check.id => {}
            Some(_) => warnings.push(Warning::at(WarningCode::DuplicateCheckDropped, path)),
        }
    }
    (kept, warnings)
}
