//! Attributes and pragmas that turn off what a compiler or a linter says.

use super::syntax::Attributes;
use std::ops::Range;

/// Attributes of Rust by what they begin with, without layout.
const RUST: &[&str] =
    &["allow(", "expect(", "warn(", "coverage(off", "rustfmt::skip", "rustfmt_skip"];
/// Attributes of .NET.
const DOT_NET: &[&str] = &["SuppressMessage", "ExcludeFromCodeCoverage"];
/// Annotations of Java and Kotlin.
const JVM: &[&str] = &["SuppressWarnings", "SuppressFBWarnings", "Suppress", "file:Suppress"];
/// Decorators of Python by their last name: checkers of types pass over what they are about.
const PYTHON: &[&str] = &["no_type_check", "no_type_check_decorator"];
/// Pragmas of compilers, without layout, in lower case.
const PRAGMAS: &[&str] = &[
    "#pragmagccdiagnosticignored",
    "#pragmaclangdiagnosticignored",
    "#pragmagccdiagnosticwarning",
    "#pragmaclangdiagnosticwarning",
    "#pragmagccsystem_header",
    "#pragmaclangsystem_header",
    "#pragmawarning(disable",
    "#pragmawarning(push,0",
    "#pragmawarningdisable",
];

/// An attribute at a place outside strings and comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute {
    /// Where it stands.
    pub(super) span: Range<usize>,
    /// Whether it is about the whole file.
    pub(super) is_of_file: bool,
}

/// The attribute that begins at a place, if it turns something off.
pub(super) fn attribute_at(kind: Attributes, text: &str, at: usize) -> Option<Attribute> {
    let rest = text.get(at..)?;
    let own_line = || text.get(..at).is_some_and(|before| is_blank(last_line(before)));
    match kind {
        Attributes::None => None,
        Attributes::Rust => {
            let is_of_file = rest.starts_with("#![");
            let open = if is_of_file { 2 } else { 1 };
            let end = closed(rest, open, ('[', ']'))?;
            let inner = dense(rest.get(open + 1..end - 1)?);
            let is_one = match inner.strip_prefix("cfg_attr(") {
                Some(given) => RUST.iter().any(|word| given.contains(&format!(",{word}"))),
                None => {
                    RUST.iter().any(|word| inner.starts_with(word)) || hides_from_linter(&inner)
                }
            };
            (rest.starts_with('#') && is_one)
                .then_some(Attribute { span: at..at + end, is_of_file })
        }
        Attributes::Python => {
            let name = rest.strip_prefix('@')?.lines().next()?.trim_end();
            let last = name.rsplit('.').next()?;
            (PYTHON.contains(&last) && own_line())
                .then(|| Attribute { span: at..at + 1 + name.len(), is_of_file: false })
        }
        Attributes::C => {
            pragma(rest, at).filter(|_| own_line()).or_else(|| pragma_operator(rest, at))
        }
        Attributes::DotNet if rest.starts_with('[') => {
            let end = closed(rest, 0, ('[', ']'))?;
            let inner = rest.get(1..end - 1)?;
            let is_of_file = inner.starts_with("assembly:") || inner.starts_with("module:");
            let is_one = DOT_NET.iter().any(|word| inner.contains(word));
            is_one.then_some(Attribute { span: at..at + end, is_of_file })
        }
        Attributes::DotNet => pragma(rest, at).filter(|_| own_line()),
        Attributes::Jvm => {
            let whole = rest.strip_prefix('@')?.trim_start();
            let is_of_name = |letter: char| letter.is_alphanumeric() || "_.:".contains(letter);
            let name = whole.split(|letter| !is_of_name(letter)).next()?;
            JVM.contains(&name.rsplit('.').next()?).then_some(())?;
            let behind = whole.get(name.len()..)?;
            let open = rest.len() - behind.trim_start().len();
            let end = match rest.get(open..)?.starts_with('(') {
                true => closed(rest, open, ('(', ')'))?,
                false => rest.len() - behind.len(),
            };
            Some(Attribute { span: at..at + end, is_of_file: name.starts_with("file:") })
        }
    }
}

/// Whether a condition, without layout, leaves an item out where the linter reads: `cfg(not(clippy))`. Programs have it.
fn hides_from_linter(inner: &str) -> bool {
    let has = |text: &str, wanted: &str| {
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        text.split(|letter| !is_name(letter)).any(|word| word == wanted)
    };
    inner.strip_prefix("cfg(").is_some_and(|asked| has(asked, "not") && has(asked, "clippy"))
}

/// A pragma, which ends with its line.
fn pragma(rest: &str, at: usize) -> Option<Attribute> {
    if !rest.starts_with('#') {
        return None;
    }
    let line = rest.split('\n').next()?;
    let dense = dense(line).to_ascii_lowercase();
    let is_one = PRAGMAS.iter().any(|known| dense.starts_with(known));
    is_one.then_some(Attribute { span: at..at + line.len(), is_of_file: true })
}

/// The operator that stands for a pragma: `_Pragma("GCC diagnostic ignored \"-Wall\"")`.
fn pragma_operator(rest: &str, at: usize) -> Option<Attribute> {
    let behind = rest.strip_prefix("_Pragma")?;
    let open = rest.len() - behind.trim_start().len();
    let end = closed(rest, open, ('(', ')'))?;
    let said = rest.get(open + 1..end - 1)?.trim().trim_start_matches('L').strip_prefix('"')?;
    let pragma = dense(&format!("#pragma{said}")).to_ascii_lowercase();
    let is_one = PRAGMAS.iter().any(|known| pragma.starts_with(known));
    is_one.then_some(Attribute { span: at..at + end, is_of_file: true })
}

/// Behind the bracket that closes the one at `open`; none where that is no such bracket or is not closed.
fn closed(text: &str, open: usize, (begin, end): (char, char)) -> Option<usize> {
    let inner = text.get(open..)?.strip_prefix(begin)?;
    let (mut depth, mut in_string, mut escaped) = (1_u32, false, false);
    for (at, letter) in inner.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            _ if letter == begin => depth += 1,
            _ if letter == end => {
                depth -= 1;
                if depth == 0 {
                    return Some(open + begin.len_utf8() + at + end.len_utf8());
                }
            }
            _ => {}
        }
    }
    None
}

fn dense(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).collect()
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or_default()
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
