//! The tokens of a Rust file, flat: deep nesting costs no stack.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::Range;
use std::str::FromStr;

/// The deepest nesting of brackets that is read.
const MAX_NESTING: usize = 256;

/// The tokens of a file in order.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<Token>);

#[derive(Debug)]
struct Token {
    text: String,
    range: Range<usize>,
    /// For a bracket that opens: the index of the one that closes it.
    close: Option<usize>,
}

/// The tokens of a text; none when it is not Rust, or nested too deeply.
pub(super) fn flat(text: &str) -> Option<Tokens> {
    // Positions count from the first character behind a mark of the byte order.
    if text.starts_with('\u{feff}') {
        return None;
    }
    let read = TokenStream::from_str(text).ok().and_then(flatten);
    // The library keeps the texts of a thread until it is told to forget them.
    proc_macro2::extra::invalidate_current_thread_spans();
    read
}

fn flatten(stream: TokenStream) -> Option<Tokens> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut open: Vec<(proc_macro2::token_stream::IntoIter, usize, Range<usize>, &str)> =
        Vec::new();
    let mut now = stream.into_iter();
    loop {
        let Some(tree) = now.next() else {
            let Some((above, opened, range, text)) = open.pop() else {
                return Some(Tokens(tokens));
            };
            let close = tokens.len();
            tokens.get_mut(opened)?.close = Some(close);
            tokens.push(Token { text: text.to_owned(), range, close: None });
            now = above;
            continue;
        };
        let range = tree.span().byte_range();
        match tree {
            TokenTree::Group(group) => {
                if open.len() >= MAX_NESTING {
                    return None;
                }
                let (first, last) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                let (start, end) =
                    (group.span_open().byte_range(), group.span_close().byte_range());
                let opened = tokens.len();
                tokens.push(Token { text: first.to_owned(), range: start, close: None });
                let above = std::mem::replace(&mut now, group.stream().into_iter());
                open.push((above, opened, end, last));
            }
            TokenTree::Ident(ident) => push(&mut tokens, ident.to_string(), range),
            TokenTree::Punct(punct) => push(&mut tokens, punct.as_char().to_string(), range),
            TokenTree::Literal(literal) => push(&mut tokens, literal.to_string(), range),
        }
    }
}

fn push(tokens: &mut Vec<Token>, text: String, range: Range<usize>) {
    tokens.push(Token { text, range, close: None });
}

impl Tokens {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of a token; empty behind the last one.
    pub(super) fn text(&self, at: usize) -> &str {
        self.0.get(at).map_or("", |token| &token.text)
    }

    pub(super) fn is(&self, at: usize, text: &str) -> bool {
        self.text(at) == text
    }

    pub(super) fn close_of(&self, at: usize) -> Option<usize> {
        self.0.get(at)?.close
    }

    /// The first byte of a token.
    pub(super) fn start(&self, at: usize) -> usize {
        self.0.get(at).map_or(0, |token| token.range.start)
    }

    /// The byte behind a token.
    pub(super) fn end(&self, at: usize) -> usize {
        self.0.get(at).map_or(0, |token| token.range.end)
    }

    /// What some tokens say, the same for every layout: without documentation, and without commas in
    /// front of brackets that close.
    pub(super) fn normal(&self, from: usize, to: usize) -> String {
        let mut out = String::new();
        let mut at = from;
        while at < to {
            let doc = self.is(at, "#")
                && self.is(at + 1, "[")
                && self.is(at + 2, "doc")
                && self.is(at + 3, "=");
            if let Some(close) = self.close_of(at + 1).filter(|_| doc) {
                at = close + 1;
                continue;
            }
            let is_last = self.is(at, ",") && matches!(self.text(at + 1), ")" | "]" | "}");
            if !is_last {
                if !out.is_empty() {
                    out.push(' ');
                }
                out.push_str(self.text(at));
            }
            at += 1;
        }
        out
    }

    /// Each `cfg` or `cfg_attr` among some tokens that asks whether tests are built.
    pub(super) fn questions(&self, from: usize, to: usize) -> Vec<String> {
        let ask = |at: usize| {
            if !matches!(self.text(at), "cfg" | "cfg_attr") {
                return None;
            }
            let open = if self.is(at + 1, "!") { at + 2 } else { at + 1 };
            let close = self.close_of(open).filter(|close| *close <= to)?;
            (open..close).any(|at| self.is(at, "test")).then(|| self.normal(at, close + 1))
        };
        (from..to).filter_map(ask).collect()
    }
}
