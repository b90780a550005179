//! How the languages write comments, strings and attributes.

use crate::domain::check_inputs::language_of;

/// Attributes and pragmas that a compiler or a linter reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    /// There are none.
    None,
    /// `#[...]`
    Rust,
    /// `#pragma` on a line of its own.
    C,
    /// `#pragma` on a line of its own, and `[...]`.
    DotNet,
    /// `@Name(...)`
    Jvm,
    /// `@name`
    Python,
}

/// How a language is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syntax {
    /// Marks of comments up to the end of the line.
    pub(super) lines: &'static [&'static str],
    /// Marks around comments.
    pub(super) blocks: &'static [(&'static str, &'static str)],
    /// Marks around strings.
    pub(super) quotes: &'static str,
    /// Marks around strings over several lines.
    pub(super) long: &'static [&'static str],
    /// Its attributes.
    pub(super) attributes: Attributes,
}

const HASH: Syntax =
    Syntax { lines: &["#"], blocks: &[], quotes: "\"'", long: &[], attributes: Attributes::None };
const PYTHON: Syntax = Syntax { long: &["\"\"\"", "'''"], attributes: Attributes::Python, ..HASH };
const SLASHES: Syntax = Syntax { lines: &["//"], blocks: &[("/*", "*/")], quotes: "\"'", ..HASH };
const SCRIPT: Syntax = Syntax { quotes: "\"'`", long: &["`"], ..SLASHES };
/// The mark of a lifetime is no quote.
const RUST: Syntax = Syntax { quotes: "\"", attributes: Attributes::Rust, ..SLASHES };
const C: Syntax = Syntax { attributes: Attributes::C, ..SLASHES };
const DOT_NET: Syntax = Syntax { attributes: Attributes::DotNet, ..SLASHES };
const JVM: Syntax = Syntax { long: &["\"\"\""], attributes: Attributes::Jvm, ..SLASHES };
const PHP: Syntax = Syntax { lines: &["//", "#"], ..SLASHES };
const DASHES: Syntax = Syntax { lines: &["--"], blocks: &[("{-", "-}")], ..HASH };
const PERCENT: Syntax = Syntax { lines: &["%"], quotes: "\"", ..HASH };
const MARKUP: Syntax = Syntax { lines: &[], blocks: &[("<!--", "-->")], quotes: "", ..HASH };
const COMPONENT: Syntax = Syntax { blocks: &[("<!--", "-->"), ("/*", "*/")], ..SCRIPT };
const STYLE: Syntax = Syntax { lines: &[], ..SLASHES };

/// Files without a language whose linters read comments, by the end of their names.
const OTHERS: &[(&str, Syntax)] = &[
    (".yml", HASH),
    (".yaml", HASH),
    (".toml", HASH),
    (".tf", HASH),
    ("Dockerfile", HASH),
    (".sql", DASHES),
    (".css", STYLE),
    (".scss", SLASHES),
    (".less", SLASHES),
    (".md", MARKUP),
    (".html", MARKUP),
];

/// How a file is written; none where no linter is known that reads its comments.
pub(super) fn syntax_of(path: &str) -> Option<Syntax> {
    let Some(language) = language_of(path) else {
        let of = |(end, syntax): &(&str, Syntax)| path.ends_with(end).then_some(*syntax);
        return OTHERS.iter().find_map(of);
    };
    Some(match language {
        "python" => PYTHON,
        "javascript" if path.ends_with(".vue") || path.ends_with(".svelte") => COMPONENT,
        "javascript" => SCRIPT,
        "rust" => RUST,
        "c" => C,
        "dotnet" => DOT_NET,
        "jvm" => JVM,
        "php" => PHP,
        "go" | "dart" => SCRIPT,
        "swift" | "zig" => SLASHES,
        "lua" | "haskell" => DASHES,
        "beam" if path.ends_with(".erl") => PERCENT,
        _ => HASH,
    })
}

/// Whether linters are known that read comments of such a file.
pub fn may_suppress(path: &str) -> bool {
    syntax_of(path).is_some()
}
