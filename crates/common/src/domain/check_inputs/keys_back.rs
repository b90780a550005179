//! What becomes of a manifest whose keys about tests a run changed.

use super::packages::Origin;
use crate::domain::json::Value;

/// What a view has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysBack {
    /// The text of now with the keys of the start.
    Merged(String),
    /// The file of the start: the keys of the start have no place in that of now, or that one does not read.
    Original,
    /// The text of now: the file of the start does not read.
    Lost,
}

/// A manifest as the run left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now<'t> {
    /// Its text.
    Text(&'t str),
    /// It is no text, too large, or no file.
    Unreadable,
    /// It is gone.
    Gone,
}

/// What a manifest has to know of the folders and files that it names, by their paths from the workspace's root.
pub trait Paths {
    /// Whether it was there at the start.
    fn was_there(&self, path: &str) -> bool;

    /// Whether a run removed this package, which had no tests.
    fn is_dropped(&self, folder: &str) -> bool;

    /// Whether it is there now.
    fn is_there(&self, path: &str) -> bool;

    /// Where the start took a package from that tests are written with; none for any other package.
    fn origin_of(&self, ecosystem: &str, package: &str) -> Option<Origin>;
}

/// A path of a manifest, from the workspace's root.
pub(super) fn beside(manifest: &str, path: &str) -> String {
    let folder = manifest.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = path.trim_start_matches("./").trim_end_matches('/');
    match (folder, path) {
        ("", path) => path.to_owned(),
        (folder, "" | ".") => folder.to_owned(),
        (folder, path) => format!("{folder}/{path}"),
    }
}

/// The list of the start, and what the run added to it. A package that the run removed and that had no tests
/// may be missing.
pub(super) fn with_all<T: Clone + PartialEq>(
    start: &[T],
    now: &[T],
    is_dropped: impl Fn(&T) -> bool,
) -> Vec<T> {
    let kept = start.iter().filter(|item| now.contains(item) || !is_dropped(item));
    let added = now.iter().filter(|item| !start.contains(item));
    kept.chain(added).cloned().collect()
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

/// What tests of manifests know of a workspace.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) was_there: &'static [&'static str],
    pub(super) dropped: &'static [&'static str],
    pub(super) gone: &'static [&'static str],
    /// Packages of tests from a registry, and from elsewhere.
    pub(super) registry: &'static [&'static str],
    pub(super) elsewhere: &'static [&'static str],
}

#[cfg(test)]
impl Known {
    pub(super) const NOTHING: Self =
        Self { was_there: &[], dropped: &[], gone: &[], registry: &[], elsewhere: &[] };
}

#[cfg(test)]
impl Paths for Known {
    fn was_there(&self, path: &str) -> bool {
        self.was_there.contains(&path)
    }

    fn is_dropped(&self, folder: &str) -> bool {
        self.dropped.contains(&folder)
    }

    fn is_there(&self, path: &str) -> bool {
        !self.gone.contains(&path)
    }

    fn origin_of(&self, _: &str, package: &str) -> Option<Origin> {
        let from_registry = self.registry.contains(&package).then_some(Origin::Registry);
        from_registry.or_else(|| self.elsewhere.contains(&package).then_some(Origin::Elsewhere))
    }
}
