//! References to named secrets: `secret:NAME` stands for a value that the runner alone knows.

use super::problem::{Code, Problem};

/// What a reference begins with.
const PREFIX: &str = "secret:";
/// The longest name, in bytes.
const MAX_NAME: usize = 64;
/// The most secrets of one run.
const MAX_SECRETS: usize = 20;

/// Whether a text is the name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(letter)
}

/// What stands before a reference, and its name: the whole text is one, or its last word, as in
/// `Bearer secret:NAME`. None for a text without a reference.
pub fn reference(text: &str) -> Option<(&str, &str)> {
    let start = text.rfind(' ').map_or(0, |space| space + 1);
    let (before, word) = text.split_at_checked(start)?;
    let name = word.strip_prefix(PREFIX)?;
    is_secret_name(name).then_some((before, name))
}

/// Looks at the names of secrets that a run may use, and leaves out repetitions.
///
/// # Errors
/// `too_large` for too many; `type_mismatch` for a text that is no name.
pub fn read_secret_names(field: &str, names: Vec<String>) -> Result<Vec<String>, Problem> {
    if names.len() > MAX_SECRETS {
        let message = format!("has more than {MAX_SECRETS} secrets; leave some out");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let mut read: Vec<String> = Vec::new();
    for (place, name) in names.into_iter().enumerate() {
        if !is_secret_name(&name) {
            let message = format!(
                "is no name of a secret; use 1 to {MAX_NAME} letters, digits, `_` and `-`, without `secret:`"
            );
            return Err(Problem::at(Code::TypeMismatch, format!("{field}[{place}]"), message));
        }
        if !read.contains(&name) {
            read.push(name);
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_whole_text_or_its_last_word() {
        for (text, found) in [
            ("secret:npm", Some(("", "npm"))),
            ("Bearer secret:npm_2-x", Some(("Bearer ", "npm_2-x"))),
            ("secret:", None),
            ("secret:a b", None),
            ("xsecret:npm", None),
            ("secret:n.pm", None),
            ("npm", None),
        ] {
            assert_eq!(reference(text), found, "{text:?}");
        }
    }

    #[test]
    fn names_are_bounded() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(read_secret_names("s", names(&["a", "a", "b"])), Ok(names(&["a", "b"])));
        let refused = read_secret_names("s", names(&["a", "secret:b"])).unwrap_err();
        assert_eq!((refused.code, refused.field.as_deref()), (Code::TypeMismatch, Some("s[1]")));
        let many = (0..21).map(|at| format!("s{at}")).collect();
        assert_eq!(read_secret_names("s", many).unwrap_err().code, Code::TooLarge);
    }
}
