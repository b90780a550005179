//! The members of one of the message's objects, ignoring the case of their keys.

use super::is_one_of;
use crate::domain::json::Value;
use crate::domain::problem::{Warning, WarningCode};

/// Members by their known names. Null members are kept: the message decides whether null means
/// absent.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    known: Vec<(&'a str, &'a Value)>,
    unknown: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    /// Sorts members into known and unknown ones. A key that differs from a known one only in case
    /// counts as it, with the warning `key_case_folded`. The exact spelling wins over others, and
    /// of several others the last one.
    pub fn fold(
        members: &'a [(String, Value)],
        names: &[&'a str],
        warnings: &mut Vec<Warning>,
    ) -> Self {
        // Most messages spell each key as it is known.
        if members.iter().all(|(key, _)| names.contains(&key.as_str())) {
            let found = names.iter().filter_map(|name| {
                let (_, value) = members.iter().find(|(key, _)| key == name)?;
                Some((*name, value))
            });
            return Self { known: found.collect(), unknown: Vec::new() };
        }
        let mut known = Vec::new();
        for name in names {
            let mut spellings = members.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            let exact = spellings.clone().find(|(key, _)| key == name);
            if spellings.any(|(key, _)| key != name) {
                warn_once(warnings, Warning::at(WarningCode::KeyCaseFolded, *name));
            }
            let last = members.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name));
            if let Some((_, value)) = exact.or(last) {
                known.push((*name, value));
            }
        }
        let unknown = members
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|key| !is_one_of(key, names))
            .collect();
        Self { known, unknown }
    }

    /// The member with this name, null included.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The member with this name, unless it is null.
    pub fn filled(&self, name: &str) -> Option<&'a Value> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// The unknown keys, in their order.
    pub fn unknown(&self) -> &[&'a str] {
        &self.unknown
    }
}

/// Adds a warning unless it was given already.
fn warn_once(warnings: &mut Vec<Warning>, warning: Warning) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}
