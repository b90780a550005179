//! The languages that are parsed: their file extensions, grammars and queries.

use std::path::Path;
use tree_sitter::Language as Grammar;

/// A language that is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// C, and headers, which may be C++.
    C,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript, with JSX.
    JavaScript,
    /// Python.
    Python,
    /// Rust.
    Rust,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::C,
        Self::Go,
        Self::Java,
        Self::JavaScript,
        Self::Python,
        Self::Rust,
        Self::TypeScript,
        Self::Tsx,
    ];

    /// The language of a file, by its extension.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::ALL.into_iter().find(|language| language.extensions().contains(&extension))
    }

    /// The extensions of its files.
    pub const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::C => &["c", "h"],
            Self::Go => &["go"],
            Self::Java => &["java"],
            Self::JavaScript => &["js", "jsx", "mjs", "cjs"],
            Self::Python => &["py", "pyi"],
            Self::Rust => &["rs"],
            Self::TypeScript => &["ts", "mts", "cts"],
            Self::Tsx => &["tsx"],
        }
    }

    pub(crate) fn grammar(self) -> Grammar {
        let grammar = match self {
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
            Self::Java => tree_sitter_java::LANGUAGE,
            Self::JavaScript => tree_sitter_javascript::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        };
        grammar.into()
    }

    /// The published query of the grammar, then what it leaves out: where both find a name, the first one says
    /// what it is.
    pub(crate) fn query(self) -> String {
        let parts: &[&str] = match self {
            Self::C => &[tree_sitter_c::TAGS_QUERY, include_str!("../queries/c.scm")],
            Self::Go => &[tree_sitter_go::TAGS_QUERY, include_str!("../queries/go.scm")],
            Self::Java => &[tree_sitter_java::TAGS_QUERY, include_str!("../queries/java.scm")],
            Self::JavaScript => {
                &[tree_sitter_javascript::TAGS_QUERY, include_str!("../queries/javascript.scm")]
            }
            Self::Python => {
                &[tree_sitter_python::TAGS_QUERY, include_str!("../queries/python.scm")]
            }
            Self::Rust => &[tree_sitter_rust::TAGS_QUERY, include_str!("../queries/rust.scm")],
            // As the grammar's own configuration has it: that of TypeScript extends that of JavaScript.
            Self::TypeScript | Self::Tsx => &[
                tree_sitter_javascript::TAGS_QUERY,
                tree_sitter_typescript::TAGS_QUERY,
                include_str!("../queries/typescript.scm"),
            ],
        };
        parts.join("\n")
    }
}
