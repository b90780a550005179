//! Lines of a report.

use std::fmt::Write;

/// Adds a named value, unless it is blank.
pub(super) fn push(text: &mut String, name: &str, value: &str) {
    if !value.trim().is_empty() {
        let value = value.trim_end().replace('\n', "\n             ");
        push_inline(text, &format!("\n  {name:<10} {value}"));
    }
}

/// Adds text as it is.
pub(super) fn push_inline(text: &mut String, more: &str) {
    // Writing to a String cannot fail, so there is no error to return.
    text.write_str(more).unwrap_or_default();
}
