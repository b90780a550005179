//! Where the suppressions of a text stand.

use super::attribute::attribute_at;
use super::directive::directive_in;
use super::syntax::Syntax;
use std::ops::Range;

/// One suppression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suppression {
    /// What to cut: the directive up to the end of its comment, or the attribute.
    pub(super) span: Range<usize>,
    /// What it says, without layout.
    pub(super) directive: String,
    /// The code on its line in front of it, without layout; for one on a line of its own that of the next line.
    pub(super) code: String,
    /// Whether it leaves out the whole file.
    pub(super) is_of_file: bool,
    /// Whether it stands in a comment.
    pub(super) in_comment: bool,
}

/// The suppressions of a text, in their order.
pub(super) fn scan(syntax: &Syntax, text: &str) -> Vec<Suppression> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(comment) = comment_at(syntax, text, at) {
            let inner = text.get(comment.inner.clone()).unwrap_or_default();
            if let Some(directive) = directive_in(inner) {
                let span = comment.inner.start + directive.start..comment.inner.end;
                let own = suppression(text, (at, span), directive.is_of_file);
                found.extend(own.map(|own| Suppression { in_comment: true, ..own }));
            }
            at = comment.end;
        } else if let Some(attribute) = attribute_at(syntax.attributes, text, at) {
            let end = attribute.span.end;
            found.extend(suppression(text, (at, attribute.span), attribute.is_of_file));
            at = end;
        } else if let Some(mark) = syntax.long.iter().find(|mark| rest.starts_with(**mark)) {
            let inner = at + mark.len();
            let length = text.get(inner..).and_then(|inner| inner.find(mark));
            at = length.map_or(text.len(), |length| inner + length + mark.len());
        } else {
            let letter = rest.chars().next().unwrap_or_default();
            at += match syntax.quotes.contains(letter) {
                true => string(rest, letter),
                false => letter.len_utf8(),
            };
        }
    }
    found
}

/// A comment.
struct Comment {
    /// What stands between its marks.
    inner: Range<usize>,
    /// Behind it.
    end: usize,
}

fn comment_at(syntax: &Syntax, text: &str, at: usize) -> Option<Comment> {
    let rest = text.get(at..)?;
    for (begin, close) in syntax.blocks {
        if rest.starts_with(begin) {
            let start = at + begin.len();
            let inner = text.get(start..)?;
            let length = inner.find(close).unwrap_or(inner.len());
            let end = (start + length + close.len()).min(text.len());
            return Some(Comment { inner: start..start + length, end });
        }
    }
    let mark = syntax.lines.iter().find(|mark| rest.starts_with(**mark))?;
    // Within a word it is no comment: `$#`, `http://`.
    let before = text.get(..at)?.chars().next_back();
    let begins = before.is_none_or(|letter| {
        letter.is_whitespace() || *mark != "#" && !matches!(letter, ':' | '\\')
    });
    if !begins || rest.starts_with("#[") && syntax.lines.len() > 1 {
        return None;
    }
    let length = rest.find('\n').unwrap_or(rest.len());
    Some(Comment { inner: at + mark.len()..at + length, end: at + length })
}

/// The length of a string, which ends with its line at the latest, unless that goes on.
fn string(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            // A line that ends with a backslash goes on with the next one.
            _ if escaped => escaped = false,
            '\n' => return at,
            '\\' => escaped = true,
            _ if letter == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn suppression(
    text: &str,
    (start, span): (usize, Range<usize>),
    is_of_file: bool,
) -> Option<Suppression> {
    let line = text.get(..start)?.rsplit('\n').next()?;
    let after = text.get(span.end..)?;
    let code = match line.trim() {
        // An attribute may stand in front of its code.
        "" => after.trim_start().split('\n').next().unwrap_or_default(),
        own => own,
    };
    let (directive, code) = (normal(text.get(span.clone())?), normal(code));
    Some(Suppression { span, directive, code, is_of_file, in_comment: false })
}

/// A text without layout.
pub(super) fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
