//! The items of a source file that are tests, and where they stand.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a source file has of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Items {
    /// Tests, in the order of the file.
    pub(super) tests: Vec<Item>,
    /// Where the items stand that are no tests, by their keys.
    pub(super) others: BTreeMap<String, Range<usize>>,
    /// Places where an item without tests can get some: the item's key, and how.
    pub(super) places: BTreeMap<String, Place>,
    /// How often each item asks whether it is built for tests: its key and the question.
    pub(super) conditions: BTreeMap<(String, String), usize>,
}

/// A test inside a source file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Its path and its kind, unique in the file.
    pub(super) key: String,
    /// For people.
    pub(super) name: String,
    /// Where it stands, in bytes.
    pub(super) range: Range<usize>,
    /// The key of the place that it is put at when the file has it no more.
    pub(super) home: String,
    /// What it says, without blanks and comments. All of it must still be there.
    pub(super) parts: Vec<String>,
    /// The attributes that decide whether it runs, its own and those of what it stands in.
    pub(super) marks: String,
}

/// Where a text is put that a file has no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The byte in front of which it is put.
    pub(super) at: usize,
    /// What stands in front of it and behind it.
    pub(super) before: String,
    pub(super) after: String,
}
