//! The runner's own observation of the workspace for the gate: it reads the files that a check
//! names.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::matching;
use crate::tool::workspace::{Kind, RelPath, Workspace};
use std::io::Read;
use surety_common::domain::check::FileType;
use surety_common::domain::receipt::Fact;

/// Which paths an observation counts.
pub type Counts<'c> = &'c dyn Fn(&RelPath) -> Result<bool, ToolError>;

/// Counts every path.
///
/// # Errors
/// None.
pub const fn every(_: &RelPath) -> Result<bool, ToolError> {
    Ok(true)
}

/// Whether a path exists, is what the check asks for and counts. Where no such path exists, `*`, `?` and `[`
/// make it a glob, and one match is enough. A path outside the workspace, or one that cannot be read,
/// counts as missing.
///
/// # Errors
/// `machine_exhausted`: the path was not checked.
pub fn observe_file(
    workspace: &Workspace,
    path: &str,
    file_type: FileType,
    counts: Counts<'_>,
) -> Result<Fact, ToolError> {
    let (path, exists) = first(workspace, path, |path| {
        let is_there = match file_type {
            FileType::File => workspace.kind(path)? == Some(Kind::File),
            FileType::Folder => workspace.kind(path)? == Some(Kind::Folder),
            FileType::Link => workspace.is_link(path)?,
            FileType::Any => workspace.kind(path)?.is_some(),
        };
        Ok(is_there && counts(path)?)
    })?;
    Ok(Fact::FileObserved { path, exists })
}

/// Whether a file contains a text, byte by byte. A file that cannot be read does not. A path is read as
/// in [`observe_file`].
///
/// # Errors
/// `machine_exhausted`: the file was not read.
pub fn observe_content(
    workspace: &Workspace,
    path: &str,
    needle: &str,
    counts: Counts<'_>,
) -> Result<Fact, ToolError> {
    let (path, found) = first(workspace, path, |path| {
        let file = workspace.open_file(path)?;
        let holds = holds(file, needle.as_bytes());
        Ok(holds.map_err(|error| ToolError::io(path.text(), &error))? && counts(path)?)
    })?;
    Ok(Fact::Content { path, contains: needle.to_owned(), found })
}

/// The path as a fact names it, and whether it, or a match of it, fulfils the condition.
fn first(
    workspace: &Workspace,
    given: &str,
    condition: impl Fn(&RelPath) -> Result<bool, ToolError>,
) -> Result<(String, bool), ToolError> {
    let located = match workspace.locate_by_any_name(given) {
        Ok(located) => located,
        Err(error) => return Ok((given.to_owned(), seen(given, Err(error))?)),
    };
    let is_glob = given.contains(['*', '?', '[']) && !exists(workspace, &located)?;
    let fulfilled = if is_glob {
        let condition = |path: &RelPath| seen(&path.text(), condition(path));
        matching::any_match(workspace, &located, &condition)?
    } else {
        seen(given, condition(&located))?
    };
    Ok((located.text(), fulfilled))
}

fn exists(workspace: &Workspace, path: &RelPath) -> Result<bool, ToolError> {
    let there = workspace.kind(path).map(|kind| kind.is_some());
    seen(&path.text(), there)
}

fn seen(path: &str, answer: Result<bool, ToolError>) -> Result<bool, ToolError> {
    match answer {
        Err(error) if error.code != ErrorCode::MachineExhausted => {
            tracing::debug!(path, %error, "not seen");
            Ok(false)
        }
        answer => answer,
    }
}

/// Searches bytes in a stream of any length, in memory that depends only on the needle (Knuth,
/// Morris and Pratt's automaton).
fn holds(mut source: impl Read, needle: &[u8]) -> std::io::Result<bool> {
    let fallbacks = fallbacks(needle);
    let mut buffer = vec![0; 64 << 10];
    let mut matched = 0;
    while matched < needle.len() {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return Ok(false);
        }
        for byte in buffer.iter().take(count) {
            matched = step(needle, &fallbacks, matched, *byte);
            if matched == needle.len() {
                return Ok(true);
            }
        }
    }
    Ok(true)
}

fn step(needle: &[u8], fallbacks: &[usize], mut matched: usize, byte: u8) -> usize {
    loop {
        if needle.get(matched) == Some(&byte) {
            return matched + 1;
        }
        if matched == 0 {
            return 0;
        }
        matched = fallbacks.get(matched - 1).copied().unwrap_or(0);
    }
}

fn fallbacks(needle: &[u8]) -> Vec<usize> {
    let mut fallbacks = Vec::with_capacity(needle.len());
    let mut matched = 0;
    for (place, byte) in needle.iter().enumerate() {
        matched = if place == 0 { 0 } else { step(needle, &fallbacks, matched, *byte) };
        fallbacks.push(matched);
    }
    fallbacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The result does not depend on where the reads split the text.
        #[test]
        fn a_streamed_search_finds_what_a_plain_one_finds(
            hay in "[ab]{0,60}", needle in "[ab]{0,6}", cut in 1usize..7
        ) {
            let streamed = holds(Pieces { rest: hay.as_bytes(), cut }, needle.as_bytes()).unwrap();
            prop_assert_eq!(streamed, hay.contains(&needle));
        }
    }

    struct Pieces<'a> {
        rest: &'a [u8],
        cut: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.cut.min(buffer.len());
            self.rest.read(&mut buffer[..count])
        }
    }
}
