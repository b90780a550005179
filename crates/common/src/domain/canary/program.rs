//! Where the program of a test begins and ends in its text.

use super::flavour::skipped;

/// The place in front of the first statement: of the function `main` in C, else of the file, behind the line that names an
/// interpreter.
pub(super) fn front(text: &str) -> usize {
    if let Some((begin, _)) = main_body(text) {
        return begin;
    }
    match text.starts_with("#!") {
        true => text.find('\n').map_or(text.len(), |end| end + 1),
        false => 0,
    }
}

/// The place in front of the last `return` of the function `main` in C, else of its end; none where `main` may end
/// elsewhere with 0.
pub(super) fn program_end(text: &str) -> Option<usize> {
    let (begin, end) = main_body(text)?;
    let body = text.get(begin..end)?;
    let returns: Vec<usize> = words(body, "return").collect();
    let (last, earlier) = match returns.split_last() {
        Some((last, earlier)) => (*last, earlier),
        None => (body.len(), &[][..]),
    };
    let ends_badly = |at: &usize| {
        let rest = body.get(at + "return".len()..).unwrap_or_default();
        rest.trim_start_matches([' ', '(', '-'])
            .starts_with(|first: char| matches!(first, '1'..='9'))
    };
    // The last one stands behind every other statement.
    let is_last = body.get(last..)?.matches('}').count() == 0;
    (earlier.iter().all(ends_badly) && is_last).then_some(begin + last)
}

/// The places of a word.
fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_inside =
        |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).and_then(|it| it.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|it| it.chars().next());
        !is_inside(before) && !is_inside(after)
    })
}

/// What stands between the braces of `main`.
fn main_body(text: &str) -> Option<(usize, usize)> {
    let at = words(text, "main").find(|at| {
        let before = text.get(..*at).unwrap_or_default().trim_end();
        before.ends_with("int") || before.ends_with("void")
    })?;
    let begin = at + text.get(at..)?.find('{')? + 1;
    let (mut depth, mut at) = (1_usize, begin);
    while let Some(letter) = text.get(at..)?.chars().next() {
        if let Some(length) = skipped(text.get(at..)?)? {
            at += length;
            continue;
        }
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((begin, at));
        }
        at += letter.len_utf8();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_program_is_in_front_of_its_last_return() {
        for (text, expected) in [
            ("int main(void) { a(); return 0; }\n", Some("return 0; }\n")),
            (
                "int main() {\n  if (a) return 1;\n  return failed;\n}\n",
                Some("return failed;\n}\n"),
            ),
            ("int main() {\n  if (a) { return 0; }\n  return 1;\n}\n", None),
            ("int main() {\n  a(\"}\");\n}\nint b;\n", Some("}\nint b;\n")),
            ("int mains() { }\n", None),
        ] {
            let found = program_end(text).and_then(|at| text.get(at..));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(front("#!/bin/sh\nset -e\n"), 10);
        assert_eq!(front("import os\n"), 0);
        assert_eq!(front("int x;\nint main(void) { a(); }\n"), 23);
    }
}
