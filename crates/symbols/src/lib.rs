//! Finds definitions and uses of a name in source files.
//!
//! ```text
//!   executor -- Request --> serve: for each file  Began -> Symbol... -> Parsed | NotParsed
//! ```
//!
//! The grammars are C code that reads untrusted files. [`serve`] is therefore the main function of a process in
//! the sandbox, and no service parses in its own process. What the process prints is untrusted as well.

mod language;
mod message;
mod names;
mod parse;
mod serve;
mod source;

pub use language::Language;
pub use message::{Line, Reason, Request, Role, Symbol, TEXT_LIMIT};
pub use names::{Name, contains_word};
pub use parse::{Found, Parser, Room, Stopped};
pub use serve::{STUCK, serve};
pub use source::FILE_LIMIT;
