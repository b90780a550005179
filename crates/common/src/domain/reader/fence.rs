//! Code fences: runs of three or more backticks around a body.

/// A fence that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fence<'a> {
    /// Byte of the first backtick.
    pub(crate) start: usize,
    /// One past the last backtick.
    pub(crate) end: usize,
    /// The content, without the word that names the language.
    pub(crate) body: &'a str,
}

/// A run of backticks.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    /// The number of its line.
    line: usize,
    ends_line: bool,
}

/// The fences of a text, in order. A run of backticks on the same line closes a fence, or one at
/// the end of a later line. Backticks within a later line, such as in a quoted string, do not. A
/// fence that is never closed is ignored.
pub(crate) fn fences(text: &str) -> Vec<Fence<'_>> {
    let runs = runs(text);
    // For each run, the first later one that ends its line.
    let mut closers = vec![None; runs.len() + 1];
    for (id, run) in runs.iter().enumerate().rev() {
        let later = closers.get(id + 1).copied().flatten();
        if let Some(closer) = closers.get_mut(id) {
            *closer = if run.ends_line { Some(id) } else { later };
        }
    }
    let mut found = Vec::new();
    let mut id = 0;
    while let Some(open) = runs.get(id) {
        let same_line = runs.get(id + 1).filter(|next| next.line == open.line);
        let close = match same_line {
            Some(_) => Some(id + 1),
            None => closers.get(id + 1).copied().flatten(),
        };
        let Some((close_id, close)) = close.and_then(|id| Some((id, runs.get(id)?))) else {
            id += 1;
            continue;
        };
        found.push(Fence {
            start: open.start,
            end: close.end,
            body: without_language(text.get(open.end..close.start).unwrap_or_default()),
        });
        id = close_id + 1;
    }
    found
}

fn runs(text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut at = 0;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let bytes = content.as_bytes();
        let mut column = 0;
        while let Some(offset) = content.get(column..).and_then(|rest| rest.find("```")) {
            let start = column + offset;
            let ticks = bytes.iter().skip(start).take_while(|byte| **byte == b'`').count();
            column = start + ticks;
            runs.push(Run {
                start: at + start,
                end: at + column,
                line,
                ends_line: content.get(column..).unwrap_or_default().trim().is_empty(),
            });
        }
        at += content.len();
    }
    runs
}

/// Removes the language: the rest of the opening line, or on one line the first word.
fn without_language(body: &str) -> &str {
    if let Some((first, rest)) = body.split_once('\n')
        && !first.contains(['{', '['])
    {
        return rest;
    }
    body.trim_start_matches(|letter: char| letter.is_alphanumeric() || "_+-.".contains(letter))
}
