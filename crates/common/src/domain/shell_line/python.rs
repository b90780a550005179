//! What Python is asked to start.

use super::wrappers::{base_name, is_python};

/// What the arguments of Python name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfPython<'a> {
    /// The module of `-m`.
    Module(&'a str),
    /// The code of `-c`.
    Code(&'a str),
    /// A script.
    File(&'a str),
}

/// Options of one letter that have a value, those of a module and of code included.
const VALUED: &[char] = &['W', 'X', 'c', 'm'];
/// Long ones, those of `coverage run` included.
const LONG_VALUED: &[&str] = &[
    "--check-hash-based-pycs",
    "--concurrency",
    "--context",
    "--data-file",
    "--include",
    "--omit",
    "--rcfile",
    "--save-signal",
    "--source",
    "--source-dirs",
    "--source-pkgs",
];

/// What Python starts by its arguments, and the arguments of that; none where it reads its input. Options of one letter
/// may stand in one word with each other and with their value: `-Bm unittest`, `-munittest`.
pub fn given_to_python<'w, 'a>(arguments: &'w [&'a str]) -> Option<(OfPython<'a>, &'w [&'a str])> {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        let behind = |taken: usize| arguments.get(at + taken..).unwrap_or_default();
        let Some(letters) = word.strip_prefix('-') else {
            return Some((OfPython::File(word), behind(1)));
        };
        if letters.is_empty() {
            return None;
        }
        if letters.starts_with('-') {
            at += if LONG_VALUED.contains(word) { 2 } else { 1 };
            continue;
        }
        let Some((option, value)) = letters.split_once(VALUED) else {
            at += 1;
            continue;
        };
        let (value, taken) = match value {
            "" => (*arguments.get(at + 1)?, 2),
            value => (value, 1),
        };
        match letters.get(option.len()..).and_then(|rest| rest.chars().next()) {
            Some('m') => return Some((OfPython::Module(value), behind(taken))),
            Some('c') => return Some((OfPython::Code(value), behind(taken))),
            Some(_) | None => at += taken,
        }
    }
    None
}

/// The module that a command starts by Python, and the arguments of it.
pub fn module_of_python<'w, 'a>(words: &'w [&'a str]) -> Option<(&'a str, &'w [&'a str])> {
    let (program, rest) = words.split_first()?;
    match given_to_python(rest).filter(|_| is_python(base_name(program)))? {
        (OfPython::Module(module), rest) => Some((module, rest)),
        (OfPython::Code(_) | OfPython::File(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_given_a_module_code_or_a_script() {
        use OfPython::{Code, File, Module};
        for (line, expected) in [
            ("-m unittest -v", Some((Module("unittest"), &["-v"][..]))),
            ("-munittest", Some((Module("unittest"), &[]))),
            ("-Bm unittest a", Some((Module("unittest"), &["a"]))),
            ("-Wd -OO -W error -Xdev -m pytest", Some((Module("pytest"), &[]))),
            ("--check-hash-based-pycs always -m unittest", Some((Module("unittest"), &[]))),
            ("--source a --context=x -m unittest", Some((Module("unittest"), &[]))),
            ("-Ic pass", Some((Code("pass"), &[]))),
            ("-u a.py -m x", Some((File("a.py"), &["-m", "x"]))),
            ("- a", None),
            ("-V", None),
            ("-m", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(given_to_python(&words), expected, "{line}");
        }
    }
}
