//! The interpreter that the first line of a program names.

use super::nested::is_shell;
use super::wrappers::{base_name, is_python};
use std::borrow::Cow;

/// The interpreters of other languages, with the extension of their sources.
const EXTENSIONS: &[(&str, &str)] = &[
    ("bun", "ts"),
    ("deno", "ts"),
    ("lua", "lua"),
    ("node", "js"),
    ("nodejs", "js"),
    ("perl", "pl"),
    ("php", "php"),
    ("ruby", "rb"),
    ("tsx", "ts"),
];

/// The name of the interpreter that the first line of a program asks for, without `env`; none where it asks for none.
pub fn interpreter_of(text: &str) -> Option<&str> {
    let line = text.strip_prefix("#!")?.lines().next()?;
    let mut words = line.split_whitespace();
    let first = base_name(words.next()?);
    if first != "env" {
        return Some(first);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(base_name)
}

/// The path of a source as its language is read from it: a program without an extension has the one of the interpreter
/// that its first line names.
pub fn as_source<'p>(path: &'p str, text: &str) -> Cow<'p, str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = interpreter_of(text).filter(|_| !name.contains('.')).and_then(|name| {
        let other = EXTENSIONS.iter().find(|(known, _)| *known == name);
        match other {
            Some((_, extension)) => Some(*extension),
            None if is_python(name) => Some("py"),
            None => is_shell(name).then_some("sh"),
        }
    });
    extension.map_or(Cow::Borrowed(path), |extension| Cow::Owned(format!("{path}.{extension}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_an_extension_is_a_source_of_its_interpreter() {
        for (path, text, expected) in [
            ("bin/test", "#!/bin/sh\nexec true\n", "bin/test.sh"),
            ("bin/test", "#! /usr/bin/env bash\n", "bin/test.sh"),
            ("run-tests", "#!/usr/bin/env -S python3 -B\nimport a\n", "run-tests.py"),
            ("a/check", "#!/usr/bin/env NODE_ENV=test node\n", "a/check.js"),
            ("a/check", "#!/usr/bin/perl -w\n", "a/check.pl"),
            ("a.d/check", "#!/bin/sh\n", "a.d/check.sh"),
            ("a/check.rb", "#!/bin/sh\n", "a/check.rb"),
            ("a/check", "#!/opt/other\n", "a/check"),
            ("LICENSE", "Permission is granted\n", "LICENSE"),
        ] {
            assert_eq!(as_source(path, text), expected, "{text}");
        }
    }
}
