//! What the parser's process reads and prints.

use serde::{Deserialize, Serialize};

/// The most characters of a line's text.
pub const TEXT_LIMIT: usize = 200;

/// What to look for; the process reads one from its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The identifier.
    pub name: String,
    /// The type, module or function that a definition must be in; none for any.
    pub container: Option<String>,
    /// Which lines to print; all are counted.
    pub role: Option<Role>,
    /// The most definitions to print, and the most uses.
    pub limit: usize,
    /// Paths relative to the working directory, in the order in which they are parsed.
    pub files: Vec<String>,
    /// Milliseconds until files that were not begun are left out.
    pub time_ms: u64,
}

/// Whether a symbol is introduced or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is introduced here.
    Definition,
    /// It is used here.
    Use,
}

/// One place of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// As in the request.
    pub path: String,
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
    /// Whether it is introduced or used.
    pub role: Role,
    /// What the grammar's query calls it, such as `function` or `call`; `name` for any other use.
    pub kind: String,
    /// The nearest type, module or function around a definition.
    pub container: Option<String>,
    /// The line, without blanks around it, up to [`TEXT_LIMIT`] characters.
    pub text: String,
}

/// One line of the process's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Line {
    /// A file is opened next. Where the process ends without another line about it, this file ended it.
    Began {
        /// As in the request.
        path: String,
    },
    /// A place in the file.
    Symbol(Symbol),
    /// The file was parsed.
    Parsed {
        /// As in the request.
        path: String,
        /// All of its definitions, printed or not.
        definitions: u64,
        /// All of its uses, printed or not.
        uses: u64,
    },
    /// The file was not parsed, or not to its end.
    NotParsed {
        /// As in the request.
        path: String,
        /// Why.
        reason: Reason,
    },
}

/// Why a file was not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// More bytes than are parsed.
    TooLarge,
    /// It contains NUL.
    Binary,
    /// It is no UTF-8 text, or its name is not.
    NotUtf8,
    /// A pipe, a socket, a device or a folder.
    NotAFile,
    /// A link leads out of the workspace.
    OutsideWorkspace,
    /// It was removed meanwhile.
    Removed,
    /// The operating system refused.
    Unreadable,
    /// It took longer than one file may.
    TooSlow,
    /// The parser's process ended in it.
    Crashed,
    /// The parser's process used more memory than it may.
    TooMuchMemory,
    /// The time for all files was over, or other files had ended the process too often.
    NotReached,
}

impl Reason {
    /// The word in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Binary => "binary",
            Self::NotUtf8 => "not_utf8",
            Self::NotAFile => "not_a_file",
            Self::OutsideWorkspace => "outside_workspace",
            Self::Removed => "removed",
            Self::Unreadable => "unreadable",
            Self::TooSlow => "too_slow",
            Self::Crashed => "parser_crashed",
            Self::TooMuchMemory => "too_much_memory",
            Self::NotReached => "not_reached",
        }
    }
}
