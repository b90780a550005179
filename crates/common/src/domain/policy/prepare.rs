//! Lines that prepare the view of checks.

use crate::domain::problem::{Code, Problem};

/// The most lines that prepare a view, and the most bytes of one.
const MAX_PREPARE: usize = 20;
const MAX_PREPARE_LINE: usize = 4096;

/// Looks at lines that prepare a view, and takes the blanks around them away.
///
/// # Errors
/// `too_large` for too many lines and for a long one; `type_mismatch` for a blank one and for one that cannot
/// be stored.
pub fn read_prepare(field: &str, lines: Vec<String>) -> Result<Vec<String>, Problem> {
    if lines.len() > MAX_PREPARE {
        let message = format!("has more than {MAX_PREPARE} lines; join some, or name a script");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let read = |(place, line): (usize, String)| {
        let at =
            |code, message: String| Err(Problem::at(code, format!("{field}[{place}]"), message));
        let line = line.trim();
        if line.is_empty() {
            return at(Code::TypeMismatch, "is blank; write a command, such as npm ci".to_owned());
        }
        if line.contains('\0') {
            return at(Code::TypeMismatch, "contains the character U+0000; remove it".to_owned());
        }
        if line.len() > MAX_PREPARE_LINE {
            let message = format!("is longer than {MAX_PREPARE_LINE} bytes; name a script");
            return at(Code::TooLarge, message);
        }
        Ok(line.to_owned())
    };
    lines.into_iter().enumerate().map(read).collect()
}
