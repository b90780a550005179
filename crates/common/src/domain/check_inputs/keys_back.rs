//! What becomes of a manifest whose keys about tests a run changed.

use crate::domain::json::Value;

/// What a view has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysBack {
    /// The text of now with the keys of the start.
    Merged(String),
    /// The text of now: the keys of the start have no place in it.
    Lost,
}

/// Sets a member of an object, or takes it out.
pub(super) fn put(members: &mut Vec<(String, Value)>, key: &str, value: Option<Value>) {
    let place = members.iter().position(|(known, _)| known == key);
    match (place.and_then(|place| members.get_mut(place)), value) {
        (Some((_, there)), Some(value)) => *there = value,
        (Some(_), None) => members.retain(|(known, _)| known != key),
        (None, Some(value)) => members.push((key.to_owned(), value)),
        (None, None) => {}
    }
}
