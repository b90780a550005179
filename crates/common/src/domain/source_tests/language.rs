//! Which files may have tests inside, by their names and their words.

use super::block::{self, Form};
use super::item::Items;
use super::{python, rust};
use memchr::memmem;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Whether a file of this name may have tests beside its product.
pub fn may_have_tests(path: &[u8]) -> bool {
    language(path).is_some()
}

/// Whether a text of this name has tests; a short test by words that every such file has.
pub fn has_tests(path: &[u8], text: &[u8]) -> bool {
    let words: &[&[u8]] = match language(path) {
        Some(Language::Rust) => &[
            b"test]",
            b"test)",
            b"test(",
            b"test,",
            b"bench]",
            b"quickcheck]",
            b"```",
            b"include_str!",
        ],
        Some(Language::Python) => &[b">>>", b"TestCase"],
        Some(Language::Zig) => &[b"test \"", b"test {", b"test "],
        Some(Language::D) => &[b"unittest"],
        None => return false,
    };
    text.len() <= MAX_BYTES && words.iter().any(|word| memmem::find(text, word).is_some())
}

/// Whether a Rust source may have a document as documentation.
pub fn has_documents(path: &[u8], text: &[u8]) -> bool {
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    path.ends_with(b".rs") && text.len() <= MAX_BYTES && has(b"include_str!") && has(b"doc")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Rust,
    Python,
    Zig,
    D,
}

pub(super) fn language(path: &[u8]) -> Option<Language> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    match name.rsplit(|byte| *byte == b'.').next()? {
        b"rs" => Some(Language::Rust),
        b"py" => Some(Language::Python),
        b"zig" => Some(Language::Zig),
        b"d" => Some(Language::D),
        _ => None,
    }
}

/// Compilers skip a mark of the byte order.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The items of a text; none when it does not read.
pub(super) fn items(path: &[u8], text: &str) -> Option<Items> {
    if text.len() > MAX_BYTES {
        return None;
    }
    match language(path)? {
        Language::Rust => rust::items(text),
        Language::Python => python::items(text),
        Language::Zig => block::items(Form::Zig, text),
        Language::D => block::items(Form::D, text),
    }
}
