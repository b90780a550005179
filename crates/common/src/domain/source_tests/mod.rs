//! Tests inside source files: what a run did to them, and the file with the original ones put back.
//!
//! ```text
//!   text at the start, text now --compare--> changed items, new conditions on tests
//!                                       \--> the text of now with the original items, where it reads
//! ```
//!
//! Rust: items under `cfg(test)`, `#[test]` functions and the code in doc comments. Python: doctests, and classes of unittest. Zig:
//! `test`. D: `unittest`. A
//! file that does not read, or that is too large or too deep, has no items.

mod block;
mod compare;
mod document;
mod gone;
mod item;
mod language;
mod moved;
mod python;
mod roots;
mod rust;

pub use compare::{Comparison, compare};
pub use document::{missing_documents, missing_examples};
pub use gone::{Gone, Remaining};
pub use language::{MAX_BYTES, has_documents, has_tests, may_have_tests};
pub use moved::{Modules, Moved};
pub use roots::{Manifests, selects_targets};

#[cfg(test)]
mod tests;
