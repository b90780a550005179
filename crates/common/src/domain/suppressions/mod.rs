//! Comments and attributes that tell a linter, a type checker or a coverage tool to leave code out, and a source
//! without those that a run added.
//!
//! ```text
//!   texts at the start and now --scan--> suppressions, each with its directive and the code on its line
//!                                  \--> more of a directive now than at the start: those on other lines are cut
//! ```
//!
//! Programs do not read them, so a source without them does the same. Only checks that honour them tell the two
//! apart. Strings are skipped; a suppression that the scan misses stays.

mod attribute;
mod directive;
mod scan;
mod syntax;

pub use syntax::may_suppress;

use scan::{Suppression, normal, scan};
use std::collections::{BTreeMap, BTreeSet};
use syntax::syntax_of;

/// The largest text that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Shorter code than this on a line says nothing about where it comes from, in bytes.
const SHORT_CODE: usize = 4;
/// What a comment has in the place of a suppression.
const NEUTRAL: char = 'x';
/// Suppressions of one file that are named.
const MAX_NAMED: usize = 5;

/// The suppressions of all files that a run changed, at the start and now. Code that moves takes its suppressions
/// along, so files are not compared one by one.
#[derive(Debug, Default)]
pub struct Suppressions {
    /// How many more of a directive there are now than at the start.
    more: BTreeMap<String, i64>,
    /// The lines of the start with a suppression: the code, and the directive.
    lines: BTreeSet<(String, String)>,
    /// The code of the lines of the start.
    code: BTreeSet<String>,
}

impl Suppressions {
    /// Whether a text has one.
    pub fn are_in(path: &str, text: &str) -> bool {
        !found(path, text).is_empty()
    }

    /// Adds a file as it was at the start and as it is now; none where it is not there.
    pub fn add(&mut self, path: &str, before: Option<&str>, now: Option<&str>) {
        for suppression in before.map(|text| found(path, text)).unwrap_or_default() {
            *self.more.entry(suppression.directive.clone()).or_default() -= 1;
            self.lines.insert((suppression.code, suppression.directive));
        }
        self.code.extend(before.unwrap_or_default().lines().map(normal));
        for suppression in now.map(|text| found(path, text)).unwrap_or_default() {
            *self.more.entry(suppression.directive).or_default() += 1;
        }
    }

    /// A source of now without the suppressions that the run added, line by line as before, and what they say. Of a
    /// file that is new only those go that leave the whole file out, or code that was there at the start. None
    /// where nothing goes.
    pub fn without_added(
        &self,
        path: &str,
        is_new: bool,
        now: &str,
    ) -> Option<(String, Vec<String>)> {
        let is_added = |it: &Suppression| {
            let more = self.more.get(&it.directive).is_some_and(|more| *more > 0);
            let is_known = self.lines.contains(&(it.code.clone(), it.directive.clone()));
            let was_without = it.code.len() >= SHORT_CODE && self.code.contains(&it.code);
            more && !is_known && (!is_new || it.is_of_file || was_without)
        };
        let added: Vec<Suppression> = found(path, now).into_iter().filter(is_added).collect();
        if added.is_empty() {
            return None;
        }
        let (mut out, mut at) = (String::with_capacity(now.len()), 0);
        for suppression in &added {
            out.push_str(now.get(at..suppression.span.start)?);
            // Without a word the comment would be what other linters and formatters report.
            out.extend(suppression.in_comment.then_some(NEUTRAL));
            // Lines keep their numbers.
            let cut = now.get(suppression.span.clone())?;
            out.extend(cut.chars().filter(|letter| *letter == '\n'));
            at = suppression.span.end;
        }
        out.push_str(now.get(at..)?);
        let said: BTreeSet<String> = added.into_iter().map(|it| it.directive).collect();
        Some((out, said.into_iter().take(MAX_NAMED).collect()))
    }
}

fn found(path: &str, text: &str) -> Vec<Suppression> {
    match syntax_of(path) {
        Some(syntax) if text.len() <= MAX_BYTES => scan(&syntax, text),
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
