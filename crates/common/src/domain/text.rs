//! The free texts of callers: each has a bound, because lists, webhooks and log lines carry it.

use crate::domain::problem::{Code, Problem};

/// The longest reason of a call, in bytes.
pub const MAX_REASON: usize = 2000;
/// The longest goal of a run, in bytes.
pub const MAX_GOAL: usize = 64 << 10;

/// A text without the blanks around it, which the database can store.
///
/// # Errors
/// As [`check_text`].
pub fn read_text(field: &str, text: &str, bytes: usize) -> Result<String, Problem> {
    let text = text.trim();
    check_text(field, text, bytes)?;
    Ok(text.to_owned())
}

/// Checks a text that is taken as it was sent.
///
/// # Errors
/// `too_large`, and `type_mismatch` for the character U+0000, which the database cannot store.
pub fn check_text(field: &str, text: &str, bytes: usize) -> Result<(), Problem> {
    if text.len() > bytes {
        let message =
            format!("is {} bytes long, longer than {bytes} bytes; shorten it", text.len());
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    if text.contains('\0') {
        let message = "contains the character U+0000, which cannot be stored; remove it";
        return Err(Problem::at(Code::TypeMismatch, field, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_trimmed_before_it_is_measured() {
        assert_eq!(read_text("reason", " a b\n", 3), Ok("a b".to_owned()));
        assert_eq!(read_text("reason", "", 3), Ok(String::new()));
    }

    #[test]
    fn a_long_text_is_refused_with_its_size_and_the_bound() {
        let problem = read_text("reason", "four", 3).unwrap_err();
        assert_eq!((problem.code, problem.field.as_deref()), (Code::TooLarge, Some("reason")));
        assert_eq!(problem.message, "is 4 bytes long, longer than 3 bytes; shorten it");
        let problem = read_text("reason", "a\0", 3).unwrap_err();
        assert_eq!((problem.code, problem.field.as_deref()), (Code::TypeMismatch, Some("reason")));
    }
}
