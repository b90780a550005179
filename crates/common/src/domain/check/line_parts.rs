//! The parts of a line of a shell, and how each follows on the one before it.

/// How many texts and substitutions inside each other are read, so that no line uses up the stack.
const MAX_NESTED: usize = 32;

/// How a part of a line follows on the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Next,
    And,
    Or,
}

/// One part of a line; of a pipe its last program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'l> {
    pub(super) sign: Sign,
    pub(super) text: &'l str,
    pub(super) is_piped: bool,
    /// Whether the line does not wait for it.
    pub(super) is_behind: bool,
}

/// The parts of a line that are joined by `&&`, `||`, `;`, `&` and line breaks, each with its groups and substitutions; none
/// for a line with anything else that only a shell reads.
pub(super) fn parts(line: &str) -> Option<Vec<Part<'_>>> {
    let (mut parts, mut begin, mut sign, mut is_piped) = (Vec::new(), 0, Sign::Next, false);
    let mut at = 0;
    while let Some(letter) = line.get(at..)?.chars().next() {
        let rest = line.get(at..)?;
        let before = line.get(..at)?.chars().next_back().unwrap_or(' ');
        let opaque = match letter {
            '\'' => rest.get(1..)?.find('\'')? + 2,
            '"' => quoted(rest, MAX_NESTED)?,
            '$' => substitution(rest, MAX_NESTED)?,
            '(' | '{' if line.get(begin..at)?.trim().is_empty() => group(rest, MAX_NESTED)?,
            // A comment, up to the end of its line.
            '#' if before.is_whitespace() => {
                let length = rest.find('\n').unwrap_or(rest.len());
                parts.push(Part {
                    sign,
                    text: line.get(begin..at)?.trim(),
                    is_piped,
                    is_behind: false,
                });
                (begin, sign, is_piped) = (at + length, Sign::Next, false);
                length
            }
            '`' => rest.get(1..)?.find('`')? + 2,
            '(' | ')' | '{' | '}' | '<' | '\\' | '!' => return None,
            _ => 0,
        };
        if opaque > 0 {
            at += opaque;
            continue;
        }
        let doubled = rest.chars().nth(1) == Some(letter);
        let is_behind = letter == '&' && !doubled;
        let (next, length) = match letter {
            // The rest of a redirection, whose beginning says where the part fails.
            '&' if before == '>' => (None, 1),
            '&' if doubled => (Some(Sign::And), 2),
            '|' if doubled => (Some(Sign::Or), 2),
            ';' | '\n' | '&' => (Some(Sign::Next), 1),
            '|' => {
                let length = if rest.starts_with("|&") { 2 } else { 1 };
                (begin, is_piped) = (at + length, true);
                (None, length)
            }
            other => (None, other.len_utf8()),
        };
        if let Some(next) = next {
            parts.push(Part { sign, text: line.get(begin..at)?.trim(), is_piped, is_behind });
            (begin, sign, is_piped) = (at + length, next, false);
        }
        at += length;
    }
    parts.push(Part { sign, text: line.get(begin..)?.trim(), is_piped, is_behind: false });
    // An empty part is that of a line break, or of a sign at the end.
    parts.retain(|part| !part.text.is_empty() || part.sign != Sign::Next);
    Some(parts)
}

/// The length of a text between double quotes, with so many levels inside it at most; none where it does not end.
fn quoted(rest: &str, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    let mut at = 1;
    loop {
        let tail = rest.get(at..)?;
        at += match tail.chars().next()? {
            '"' => return Some(at + 1),
            '$' => substitution(tail, left)?,
            '`' | '\\' => return None,
            letter => letter.len_utf8(),
        };
    }
}

/// The length of what a dollar sign begins: a command, a value in braces, or the sign alone.
fn substitution(rest: &str, left: usize) -> Option<usize> {
    match rest.chars().nth(1) {
        Some('(' | '{') => Some(1 + group(rest.get(1..)?, left)?),
        Some(_) | None => Some(1),
    }
}

/// The length of what stands between brackets, with them; none where they do not close.
fn group(rest: &str, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let tail = rest.get(at..)?;
        let letter = tail.chars().next()?;
        at += match letter {
            '\'' => tail.get(1..)?.find('\'')? + 2,
            '"' => quoted(tail, left)?,
            '\\' | '`' => return None,
            _ => letter.len_utf8(),
        };
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
}
