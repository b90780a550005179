//! The files that a command may start as tests of their own.

use crate::domain::check_inputs::{Role, language_of, scripts_in};
use crate::domain::shell_line::{base_name, is_python, segments, unwrapped};

/// Options of Python that have a value.
const VALUED: &[&str] = &["-W", "-X"];

/// The paths that a command in a folder, which ends with a slash unless it is the root, may start: scripts, modules of
/// Python, and what a folder is started by. Of those in a loop the patterns of their names. What is not there counts for
/// nothing, and neither does a command of which a part goes on beside the others, because that part is ended by them.
pub fn candidates(folder: &str, command: &str, root: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if segments(command).iter().any(|segment| segment.background) {
        return found;
    }
    let mut add = |path: &str| {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        for path in [format!("{folder}{path}"), path.to_owned()] {
            if !path.is_empty() && !found.contains(&path) {
                found.push(path);
            }
        }
    };
    for script in scripts_in(command, root) {
        let is_program = script.role == Role::Program && language_of(&script.path).is_some();
        if script.role != Role::Script && !is_program {
            continue;
        }
        if language_of(&script.path).is_none() {
            ["__main__.py", "index.js"].iter().for_each(|it| add(&format!("{}/{it}", script.path)));
        }
        add(&script.path);
    }
    for segment in segments(command) {
        let words: Vec<&str> = segment.words.iter().map(String::as_str).collect();
        if let Some(module) = module_of(unwrapped(&words)) {
            let path = module.replace('.', "/");
            [".py", "/__main__.py"].iter().for_each(|end| add(&format!("{path}{end}")));
        }
        let is_pattern = |word: &&&str| word.contains('*') && language_of(word).is_some();
        words.iter().filter(is_pattern).for_each(|word| add(word));
    }
    found
}

/// The module that Python starts.
fn module_of<'a>(words: &[&'a str]) -> Option<&'a str> {
    let (program, rest) = words.split_first()?;
    if !is_python(base_name(program)) {
        return None;
    }
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-m" => return rest.next().copied(),
            word if VALUED.contains(&word) => drop(rest.next()),
            word if word.starts_with('-') => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_starts_scripts_modules_folders_and_loops() {
        for (folder, command, expected) in [
            ("", "python3 tests/a.py && node test/b.js", &["test/b.js", "tests/a.py"][..]),
            ("sub/", "python3 a.py", &["sub/a.py", "a.py"]),
            ("", "python3 -B -m tests.run", &["tests/run.py", "tests/run/__main__.py"]),
            ("", "python3 tests", &["tests/__main__.py", "tests/index.js", "tests"]),
            ("", "'for' 't' 'in' 'tests/test_*.py'", &["tests/test_*.py"]),
            ("", "sh tests/a.sh x", &["tests/a.sh"]),
            ("", "echo a", &[]),
            ("", "python3 tests/serve.py & python3 tests/a.py", &[]),
        ] {
            assert_eq!(candidates(folder, command, ""), expected, "{command}");
        }
    }
}
