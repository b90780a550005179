//! The statements at the top of a Gradle build, in Groovy or Kotlin: each with its head and, where it has one, its
//! block in braces.

use std::ops::Range;

/// The largest text that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// What stands before its block; the whole statement without one.
    pub(super) head: String,
    /// Its place.
    pub(super) span: Range<usize>,
    /// Whether it has a block.
    pub(super) has_body: bool,
}

/// The statements; none where brackets or quotes do not close, or the text is too long.
pub(super) fn blocks(text: &str) -> Option<Vec<Block>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (mut found, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    let mut head: Option<usize> = None;
    let mut at = 0;
    let end_of = |found: &mut Vec<Block>, span: Range<usize>, head: Option<usize>| -> Option<()> {
        let own = text.get(span.clone())?;
        if !own.trim().is_empty() {
            let head_text = text.get(span.start..head.unwrap_or(span.end))?.trim().to_owned();
            found.push(Block { head: head_text, span, has_body: head.is_some() });
        }
        Some(())
    };
    while let Some(letter) = text.get(at..)?.chars().next() {
        let rest = text.get(at..)?;
        if let Some(length) = passed(rest)? {
            // A comment between statements belongs to none.
            if depth == 0 && rest.starts_with('/') && text.get(from..at)?.trim().is_empty() {
                from = at + length;
            }
            at += length;
            continue;
        }
        at += letter.len_utf8();
        match letter {
            '{' | '(' | '[' => {
                if letter == '{' && depth == 0 {
                    head = head.or(Some(at - 1));
                }
                depth += 1;
            }
            '}' | ')' | ']' => {
                depth = depth.checked_sub(1)?;
                if letter == '}' && depth == 0 {
                    end_of(&mut found, from..at, head.take())?;
                    from = at;
                }
            }
            '\n' | ';' if depth == 0 => {
                // The brace of a block may stand on the next line.
                let next = text.get(at..)?.trim_start();
                if !next.starts_with('{') {
                    end_of(&mut found, from..at, head.take())?;
                    from = at;
                }
            }
            _ => {}
        }
    }
    end_of(&mut found, from..text.len(), head)?;
    (depth == 0).then_some(found)
}

/// The length of a comment or a text in quotes at the front; none inside for anything else, and nothing at all
/// where it does not end.
fn passed(rest: &str) -> Option<Option<usize>> {
    for (start, end) in [("//", "\n"), ("/*", "*/"), ("\"\"\"", "\"\"\""), ("'''", "'''")] {
        let Some(inside) = rest.strip_prefix(start) else { continue };
        return match (inside.find(end), end) {
            (Some(length), "\n") => Some(Some(start.len() + length)),
            (Some(length), end) => Some(Some(start.len() + length + end.len())),
            (None, "\n") => Some(Some(rest.len())),
            (None, _) => None,
        };
    }
    let Some(mark) = rest.chars().next().filter(|letter| matches!(letter, '"' | '\'')) else {
        return Some(None);
    };
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return None,
            letter if letter == mark => return Some(Some(at + 1)),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_with_their_blocks_or_lines() {
        let text = "// test {\nplugins { id 'a}' }\ntasks.test\n{\n  a(\"}\") /* } */\n}\nversion = '1'; x = [\n 1]\n";
        let found = blocks(text).unwrap();
        let heads: Vec<_> =
            found.iter().map(|block| (block.head.as_str(), block.has_body)).collect();
        let expected = [
            ("plugins", true),
            ("tasks.test", true),
            ("version = '1';", false),
            ("x = [\n 1]", false),
        ];
        assert_eq!(heads, expected);
        for broken in ["a {", "}", "\"a", "/* a", "'''a"] {
            assert_eq!(blocks(broken), None, "{broken}");
        }
    }
}
