//! Words of lists and lines of compilers that were added and left out.

use super::items::{COMPILERS, has_extension_of_source, is_source};
use super::known::Known;

/// What a shell reads.
const SHELL: &[char] = &['|', '&', ';', '<', '>', '`', '\'', '"', '*', '?', '#', '\\'];
/// Programs that put objects together, and those that remove files.
const ARCHIVERS: &[&str] = &["$(AR)", "${AR}", "ar"];
const REMOVERS: &[&str] = &["$(RM)", "${RM}", "rm"];
/// Programs behind which a line goes on in the same folder, beside compilers and those of the workspace.
const STAYS: &[&str] = &["$(RM)", "[", "echo", "mkdir", "printf", "rm", "test"];

/// A word that the start did not have.
pub(super) struct Added<'w> {
    pub(super) word: &'w str,
    place: usize,
    /// The word in front of it.
    before: &'w str,
    /// Whether the start had a source there.
    is_at_source: bool,
}

/// The words that were added; none where words are missing whose files are still there, or stand in another order. A
/// word behind an option is its value: it neither goes nor gets one in front of it.
pub(super) fn added<'w, T: AsRef<str>>(
    before: &'w [T],
    now: &'w [T],
    known: &Known<'_>,
) -> Option<Vec<Added<'w>>> {
    let mut wanted = before.iter().map(AsRef::as_ref).peekable();
    let stays = |word: &str| now.iter().any(|it| it.as_ref() == word) || !known.is_gone(word);
    let (mut added, mut of_start, mut of_now) = (Vec::new(), "", "");
    let skip = |wanted: &mut std::iter::Peekable<_>, of_start: &mut &'w str| {
        let mut has_skipped = false;
        while let Some(gone) = wanted.next_if(|word: &&str| !stays(word)) {
            if known.order.takes_value(of_start) {
                return None;
            }
            *of_start = gone;
            has_skipped = true;
        }
        Some(has_skipped)
    };
    let mut has_skipped = false;
    for (place, word) in now.iter().map(AsRef::as_ref).enumerate() {
        has_skipped |= skip(&mut wanted, &mut of_start)?;
        if let Some(same) = wanted.next_if_eq(&word) {
            (of_start, has_skipped) = (same, false);
        } else {
            let is_at_source =
                has_skipped || wanted.peek().is_some_and(|word| has_extension_of_source(word));
            if known.order.takes_value(of_now) {
                return None;
            }
            added.push(Added { word, place, before: of_now, is_at_source });
        }
        of_now = word;
    }
    skip(&mut wanted, &mut of_start)?;
    wanted.peek().is_none().then_some(added)
}

/// Whether a line says the same, where its commands that compile have further sources beside those that they had, lack
/// sources that are gone, and have libraries of the system at their ends.
pub(super) fn compiles_more(line: &str, now: &str, known: &Known<'_>) -> bool {
    // There one shell runs all lines, so one above may have gone to another folder.
    if known.words.contains(".ONESHELL") {
        return false;
    }
    let (before, after): (Vec<&str>, Vec<&str>) =
        (line.split("&&").collect(), now.split("&&").collect());
    let mut is_here = true;
    before.len() == after.len()
        && before.iter().zip(after).all(|(command, now)| {
            let is_one = *command == now || is_here && command_compiles_more(command, now, known);
            is_here &= stays_here(command);
            is_one
        })
}

fn program(command: &str) -> &str {
    let words = command.trim_start_matches(['@', '-', ' ', '\t']).split_whitespace().next();
    words.unwrap_or_default()
}

/// Whether what stands behind a command runs in the same folder, and is a command of its own.
fn stays_here(command: &str) -> bool {
    let program = program(command);
    !command.contains(SHELL)
        && (COMPILERS.contains(&program) || STAYS.contains(&program) || program.starts_with("./"))
}

fn command_compiles_more(command: &str, now: &str, known: &Known<'_>) -> bool {
    let program = program(command);
    let removes = REMOVERS.contains(&program);
    if !removes && ![COMPILERS, ARCHIVERS].concat().contains(&program) || command.contains(SHELL) {
        return false;
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    let now: Vec<&str> = now.split_whitespace().collect();
    if removes {
        // An object that the start has no word of is one of the run's own.
        let is_new = |word: &str| {
            word.ends_with(".o") && is_source(word, known.files) && !known.words.contains(word)
        };
        let of_start = now.iter().filter(|word| !is_new(word));
        return of_start.eq(&words);
    }
    let libraries = now.iter().rev().take_while(|word| known.is_library(word)).count();
    let may_be_added = |it: &Added<'_>| {
        let is_beside_source = has_extension_of_source(it.before) || it.is_at_source;
        it.place + libraries >= now.len()
            // In front of the first word it is the program.
            || it.place > 0 && is_beside_source && is_source(it.word, known.files)
    };
    added(&words, &now, known).is_some_and(|it| it.iter().all(may_be_added))
}
