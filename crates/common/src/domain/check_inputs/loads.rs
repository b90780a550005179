//! What a script may load besides the files that its imports name.

use super::imports::{CALLS, quoted};
use super::language::language_of;
use super::visits::below_here;
use crate::domain::shell_line::{as_source, segments};

/// The folders of the workspace that a line adds to where Python and Node find modules.
pub fn search_folders(line: &str) -> Vec<String> {
    let words =
        segments(line).into_iter().flat_map(|segment| [segment.words, segment.others].concat());
    let value = |word: String| {
        let value = word.strip_prefix("PYTHONPATH=").or_else(|| word.strip_prefix("NODE_PATH="))?;
        Some(value.to_owned())
    };
    let folders = words.filter_map(value).flat_map(|value| {
        let below = |folder: &str| {
            let inside = below_here(folder).or_else(|| folder.strip_prefix("./"));
            let folder = inside.unwrap_or(folder).trim_end_matches('/');
            let is_one = !folder.is_empty() && !folder.starts_with(['/', '$', '.']);
            is_one.then(|| folder.to_owned())
        };
        value.split(':').filter_map(below).collect::<Vec<_>>()
    });
    folders.collect()
}

/// Whether a source imports what its text does not name: the argument is computed, or is the path of a file.
pub fn imports_unseen(path: &str, text: &str) -> bool {
    let computes = |call: &str, text: &str| {
        text.match_indices(call).any(|(at, _)| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let is_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
            let rest = text.get(at + call.len()..).unwrap_or_default().trim_start();
            !is_word && !rest.starts_with(['"', '\'', '`', ')'])
        })
    };
    match language_of(&as_source(path, text)) {
        Some("python") => {
            let paths = ["run_path(", "spec_from_file_location("];
            CALLS.iter().any(|call| computes(call, text))
                || paths.iter().any(|it| text.contains(it))
        }
        Some("javascript") => ["require(", "import("].iter().any(|call| computes(call, text)),
        Some(_) | None => false,
    }
}

/// Whether a source imports a package of this name, or a part of it.
pub fn imports_package(text: &str, name: &str) -> bool {
    let is_of = |named: &String| {
        named.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    !name.is_empty() && quoted(text).iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_modules_are_those_of_the_line() {
        for (line, expected) in [
            ("PYTHONPATH=mod python3 tests/run.py", &["mod"][..]),
            ("env PYTHONPATH=./a:$PWD/b/:/usr/x python3 t.py", &["a", "b"]),
            ("cd x && NODE_PATH=lib node t.js", &["lib"]),
            ("PYTHONPATH= python3 t.py", &[]),
        ] {
            assert_eq!(search_folders(line), expected, "{line}");
        }
    }

    #[test]
    fn computed_imports_are_unseen_and_literal_ones_are_not() {
        for (path, text, expected) in [
            ("t.py", "calc = importlib.import_module('calc')\n", false),
            ("t.py", "calc = importlib.import_module(NAME)\n", true),
            ("t.py", "runpy.run_path('calc.py')\n", true),
            ("t.py", "import calc\n", false),
            ("t.js", "const calc = require('./calc');\n", false),
            ("t.js", "const calc = require(path.join(__dirname, 'calc'));\n", true),
            ("t.js", "const calc = await import(name);\n", true),
            ("t.js", "const calc = myrequire(name);\n", false),
        ] {
            assert_eq!(imports_unseen(path, text), expected, "{text}");
        }
        assert!(imports_package("require('jsmin/sub');", "jsmin"));
        assert!(!imports_package("require('jsminify');", "jsmin"));
    }
}
