//! The files that a command may start as tests of their own.

use crate::domain::check_inputs::{Role, language_of, scripts_in};
use crate::domain::shell_line::{
    Segment, listed, module_of_python, segments, started_by, texts, unwrapped,
};

/// The deepest nesting of lines that is followed.
const MAX_DEPTH: usize = 8;

/// The paths that a command in a folder, which ends with a slash unless it is the root, may start: scripts, modules of
/// Python, and what a folder is started by. Of those in a loop, and of those that are listed, the patterns of their
/// names. What is not there counts for nothing, and neither does a command of which a part goes on beside the others,
/// because that part is ended by them.
pub fn candidates(folder: &str, command: &str, root: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let all = all_segments(command, 0);
    if all.iter().any(|segment| segment.background) {
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
        if script.role == Role::Configuration {
            continue;
        }
        if script.role == Role::Script && language_of(&script.path).is_none() {
            ["__main__.py", "index.js"].iter().for_each(|it| add(&format!("{}/{it}", script.path)));
        }
        add(&script.path);
    }
    for segment in all {
        let words: Vec<&str> = segment.words.iter().map(String::as_str).collect();
        let own = unwrapped(&words);
        let started = started_by(own);
        for (module, _) in [own, &started].into_iter().filter_map(module_of_python) {
            let path = module.replace('.', "/");
            [".py", "/__main__.py"].iter().for_each(|end| add(&format!("{path}{end}")));
        }
        let is_pattern = |word: &&&str| word.contains('*') && language_of(word).is_some();
        let mut listed = if own.first() == Some(&"find") { listed(own) } else { Vec::new() };
        listed.retain(|name| language_of(name).is_some());
        if listed.is_empty() {
            words.iter().filter(is_pattern).for_each(|word| add(word));
        }
        listed.iter().for_each(|pattern| add(pattern));
    }
    found
}

/// The commands of a line and those of the lines inside it.
fn all_segments(line: &str, depth: usize) -> Vec<Segment> {
    let mut found = Vec::new();
    for segment in segments(line) {
        let words: Vec<&str> = segment.words.iter().map(String::as_str).collect();
        let inner = if depth < MAX_DEPTH { texts(unwrapped(&words)) } else { Vec::new() };
        found.push(segment);
        found.extend(inner.iter().flat_map(|text| all_segments(text, depth + 1)));
    }
    found
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
            ("", "sh -c 'for t in tests/*.py; do python3 $t; done'", &["tests/*.py"]),
            ("", "sh -c 'ls tests/*.py | xargs -n1 python3'", &["tests/*.py"]),
            ("", "find tests -name '*.py' | while read t; do python3 $t; done", &["tests/**/*.py"]),
            ("", "sh -c 'python3 -munit.run'", &["unit/run.py", "unit/run/__main__.py"]),
            ("", "sh tests/a.sh x", &["tests/a.sh"]),
            ("", "./run-tests && bin/test", &["bin/test", "run-tests"]),
            ("", "echo a", &[]),
            ("", "python3 tests/serve.py & python3 tests/a.py", &[]),
        ] {
            assert_eq!(candidates(folder, command, ""), expected, "{command}");
        }
    }
}
