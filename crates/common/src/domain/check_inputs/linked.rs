//! Where the links among the check inputs of the start lead: a link keeps its own text when what it leads to is
//! written.

use super::language::language_of;
use super::line::is_product;
use super::words::is_helpers;
use super::{Imports, InputKind, InputRules};
use crate::domain::manifest::{Content, Entry, Kind, Manifest};
use std::collections::{BTreeMap, BTreeSet};

/// Links behind links that are followed.
const MAX_LINKS: usize = 40;

/// The targets of links, inside the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Linked {
    files: BTreeMap<Vec<u8>, InputKind>,
    /// Folders whose data files are check inputs; sources where their name says that they help tests.
    folders: BTreeMap<Vec<u8>, InputKind>,
    /// Sources in such folders that products import.
    products: BTreeSet<Vec<u8>>,
}

/// What a path leads to at the start, and the links on the way.
pub(super) struct Followed {
    pub(super) target: Vec<u8>,
    pub(super) links: Vec<Vec<u8>>,
}

impl Linked {
    /// The targets of every link that is a check input itself.
    pub(super) fn of(rules: &InputRules, imports: &Imports, start: &Manifest, root: &[u8]) -> Self {
        let mut linked = Self::default();
        let is_product_file = |path: &[u8]| imports.has_product(&text(path));
        for entry in start.entries().iter().filter(|entry| entry.kind == Kind::Link) {
            let Some(kind) = rules.kind_of(&entry.path).filter(|_| !entry.ignored) else {
                continue;
            };
            let Some(Followed { target, links }) = follow(start, root, &entry.path) else {
                continue;
            };
            // The first is the link itself.
            linked.files.extend(links.into_iter().skip(1).map(|link| (link, kind)));
            match start.get(&target).filter(|target| !target.ignored).map(|target| target.kind) {
                Some(Kind::Folder) if !is_product(&format!("{}/", text(&target))) => {
                    let sources = sources_in(start, &target);
                    let products = sources.map(|entry| entry.path.to_vec());
                    linked.products.extend(products.filter(|path| is_product_file(path)));
                    linked.folders.insert(target, kind);
                }
                Some(Kind::File) if !is_linked_product(&target, imports) => {
                    linked.files.insert(target, kind);
                }
                _ => {}
            }
        }
        linked
    }

    /// Why a path is a check input, as the target of a link.
    pub(super) fn kind_of(&self, path: &[u8]) -> Option<InputKind> {
        if self.files.is_empty() && self.folders.is_empty() {
            return None;
        }
        let inside = || {
            let is_data = language_of(&text(path)).is_none();
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let above = ends.filter_map(|(end, _)| self.folders.get_key_value(path.get(..end)?));
            let is_one = |folder: &[u8]| {
                is_data || is_helpers(&text(folder)) && !self.products.contains(path)
            };
            let mut found = above.filter(|(folder, _)| is_one(folder)).map(|(_, kind)| *kind);
            found.next()
        };
        self.files.get(path).copied().or_else(inside)
    }
}

/// The sources that links of check inputs lead to: whether they are products depends on what imports them.
pub(super) fn linked_sources(
    rules: &InputRules,
    start: &Manifest,
    root: &[u8],
) -> BTreeSet<String> {
    let links = start.entries().iter().filter(|entry| entry.kind == Kind::Link && !entry.ignored);
    let links = links.filter(|entry| rules.kind_of(&entry.path).is_some());
    links
        .filter_map(|entry| follow(start, root, &entry.path))
        .flat_map(|followed| {
            let inside = sources_in(start, &followed.target).map(|entry| text(&entry.path));
            inside.chain([text(&followed.target)]).collect::<Vec<_>>()
        })
        .filter(|target| language_of(target).is_some())
        .collect()
}

/// The sources in a folder that helps tests.
fn sources_in<'m>(start: &'m Manifest, folder: &[u8]) -> impl Iterator<Item = &'m Entry> {
    let (whole, helps) = ([folder, b"/"].concat(), is_helpers(&text(folder)));
    start.entries().iter().filter(move |entry| {
        helps
            && entry.kind == Kind::File
            && entry.path.starts_with(&whole)
            && language_of(&text(&entry.path)).is_some()
    })
}

/// What tests reach a product by, such as `tests/calc.py -> ../src/calc.py`.
fn is_linked_product(target: &[u8], imports: &Imports) -> bool {
    let path = text(target);
    let is_source = language_of(&path).is_some();
    is_source && (is_product(&path) || !path.contains('/') || imports.has_product(&path))
}

/// Follows a path of the start through every link; none when it leaves the workspace or has no end.
pub(super) fn follow(start: &Manifest, root: &[u8], path: &[u8]) -> Option<Followed> {
    let mut left: Vec<Vec<u8>> = parts(path).rev().map(<[u8]>::to_vec).collect();
    let mut place: Vec<u8> = Vec::new();
    let mut links = Vec::new();
    while let Some(part) = left.pop() {
        if part == b".." {
            let end = place.iter().rposition(|byte| *byte == b'/');
            if place.is_empty() {
                return None;
            }
            place.truncate(end.unwrap_or_default());
            continue;
        }
        let above = place.clone();
        if !place.is_empty() {
            place.push(b'/');
        }
        place.extend(part);
        let Some(entry) = start.get(&place) else { continue };
        let (Kind::Link, Content::Target(target)) = (entry.kind, &entry.content) else { continue };
        links.push(std::mem::replace(&mut place, above));
        if links.len() > MAX_LINKS {
            return None;
        }
        let inside = match target.strip_prefix(b"/") {
            Some(_) => {
                place.clear();
                target.strip_prefix(root)?.strip_prefix(b"/")?
            }
            None => target,
        };
        left.extend(parts(inside).rev().map(<[u8]>::to_vec));
    }
    Some(Followed { target: place, links })
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
