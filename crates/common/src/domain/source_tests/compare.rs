//! Compares the tests of a source file with those of the start, item by item.

use super::item::{Item, Items};
use super::language::{items, without_mark};
use super::moved::{Here, Moved};
use std::collections::BTreeMap;

/// What a run did to the tests of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The names of tests that are changed or gone.
    pub changed: Vec<String>,
    /// The names of items without tests that ask whether they are built for tests, and did not before.
    pub conditions: Vec<String>,
    /// The text of now with the original tests; none when they cannot be put back so that it reads, or
    /// where nothing is changed.
    pub restored: Option<String>,
    /// Whether the text of now reads.
    pub reads: bool,
}

impl Default for Comparison {
    /// Nothing is changed.
    fn default() -> Self {
        let (changed, conditions) = (Vec::new(), Vec::new());
        Self { changed, conditions, restored: None, reads: true }
    }
}

impl Comparison {
    /// Whether the run left the file's tests as they were.
    pub fn is_same(&self) -> bool {
        self.changed.is_empty() && self.conditions.is_empty()
    }
}

/// Compares two texts of one file. What does not read has no tests, and a file whose tests no longer read
/// has lost them. What stands in a file that they moved to is not lost.
pub fn compare(path: &[u8], before: &str, after: &str, moved: &Moved) -> Comparison {
    let (before, after) = (without_mark(before), without_mark(after));
    let Some(old) = items(path, before) else { return Comparison::default() };
    let new = items(path, after);
    let none = Items::default();
    let now = new.as_ref().unwrap_or(&none);
    let moved = moved.here(path, &old, now);
    let changed: Vec<&Item> = old.tests.iter().filter(|item| !stands(item, now, &moved)).collect();
    let conditions = now.conditions.iter().filter(|(condition, count)| {
        old.conditions.get(*condition).is_none_or(|before| before < *count)
    });
    Comparison {
        changed: changed.iter().map(|item| item.name.clone()).collect(),
        conditions: conditions.map(|((key, question), _)| format!("{key} {question}")).collect(),
        reads: new.is_some(),
        restored: match &new {
            Some(new) if !changed.is_empty() => restored(path, before, after, &changed, new),
            Some(_) | None => None,
        },
    }
}

/// Whether all that an original says is still there, or where it moved to.
fn stands(item: &Item, now: &Items, moved: &Here<'_>) -> bool {
    // Under another attribute (`ignore`, `should_panic`, a condition) the same text says something else.
    let is_it = |other: &&Item| other.key == item.key && other.marks == item.marks;
    let found = now.tests.iter().find(is_it);
    if found.is_none() && moved.is_empty() {
        return false;
    }
    let mut own: BTreeMap<&str, usize> = BTreeMap::new();
    for part in found.into_iter().flat_map(|other| &other.parts) {
        *own.entry(part).or_default() += 1;
    }
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    item.parts.iter().all(|part| {
        let part = part.as_str();
        let used = used.entry(part).or_default();
        *used += 1;
        let of = |counts: Option<&usize>| counts.copied().unwrap_or_default();
        *used <= of(own.get(part)) + moved.count(&item.marks, part)
    })
}

pub(super) fn restored(
    path: &[u8],
    before: &str,
    after: &str,
    changed: &[&Item],
    new: &Items,
) -> Option<String> {
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    for item in changed {
        let text = before.get(item.range.clone())?;
        let test = new.tests.iter().find(|other| other.key == item.key).map(|other| &other.range);
        match test.or_else(|| new.others.get(&item.key)) {
            Some(range) => edits.push((range.start, range.end, text.to_owned())),
            None => {
                let place = new.places.get(&item.home)?;
                edits.push((place.at, place.at, format!("{}{text}{}", place.before, place.after)));
            }
        }
    }
    edits.sort_by_key(|(start, end, _)| (*start, *end));
    let mut out = String::with_capacity(after.len());
    let mut at = 0;
    for (start, end, text) in edits {
        // An edit inside another one: the file is built otherwise than it was.
        out.push_str(after.get(at..start)?);
        out.push_str(&text);
        at = end;
    }
    out.push_str(after.get(at..)?);
    let read = items(path, &out)?;
    changed.iter().all(|item| stands(item, &read, &Here::default())).then_some(out)
}
