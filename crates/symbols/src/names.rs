//! Identifiers, and where they stand in bytes.

use memchr::memmem;

/// The most bytes of a name.
const LIMIT: usize = 200;

/// A name to look for: an identifier, and where it was given as `Container.name` or `Container::name`, the
/// container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The last segment.
    pub last: String,
    /// The segment before it.
    pub container: Option<String>,
}

impl Name {
    /// The name that a text states.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > LIMIT {
            return Err(format!("the name has {} bytes; it must have 1 to {LIMIT}", text.len()));
        }
        let dotted = text.replace("::", ".");
        let mut segments = dotted.split('.');
        if !segments.clone().all(is_identifier) {
            return Err("the name is no identifier, and no Container.name or Container::name; \
                        search for other text with grep"
                .to_owned());
        }
        let last = segments.next_back().unwrap_or_default().to_owned();
        Ok(Self { last, container: segments.next_back().map(str::to_owned) })
    }
}

fn is_identifier(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|first| is_part(first) && !first.is_numeric()) && text.chars().all(is_part)
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// Whether bytes contain a name that is no part of a longer one.
pub fn contains_word(bytes: &[u8], name: &str) -> bool {
    words(bytes, name).next().is_some()
}

/// Where a name stands that is no part of a longer one. In bytes that are no UTF-8 text a neighbour beyond ASCII
/// counts as a part of the name.
pub(crate) fn words<'b>(bytes: &'b [u8], name: &'b str) -> impl Iterator<Item = usize> + 'b {
    memmem::find_iter(bytes, name.as_bytes()).filter(move |start| {
        let before = start.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(start + name.len());
        ![before, after].into_iter().flatten().any(|byte| is_part_byte(*byte))
    })
}

const fn is_part_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_identifier_with_an_optional_container() {
        let name = |last: &str, container: Option<&str>| {
            Ok(Name { last: last.to_owned(), container: container.map(str::to_owned) })
        };
        assert_eq!(Name::read("größe"), name("größe", None));
        assert_eq!(Name::read("Type::method"), name("method", Some("Type")));
        assert_eq!(Name::read("a.b::Type.$method"), name("$method", Some("Type")));
        let long = "a".repeat(201);
        for wrong in ["", "a b", "a.", "::a", "1a", "a()", "a-b", "*", long.as_str()] {
            assert!(Name::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_word_is_no_part_of_a_longer_one() {
        let found = |text: &str| words(text.as_bytes(), "run").collect::<Vec<_>>();
        assert_eq!(found("run rerun run_all $run run.run(ürun) run"), [0, 23, 27, 38]);
        assert!(contains_word(b"\xff(run", "run") && !contains_word(b"runs", "run"));
    }
}
