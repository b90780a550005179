//! What a program of tests relies on and its product may have replaced: functions of the language, assertions of its own
//! library, the clock, randomness. At its end the program reports each kind that is as it was.

use super::flavour::is_module;
use super::integrity::{ASSERTIONS, BUILT_IN, CLOCK, LIBRARIES, RANDOMNESS, SYSTEM};
use super::javascript::{
    INTRINSICS_OF_SCRIPT, MODULES_OF_SCRIPT, NETWORK_OF_SCRIPT, SYSTEM_OF_SCRIPT,
};
use super::masked::{Script, words};

/// What a body that finds all as it was raises.
const MARK: &str = "40971";

/// Bodies of Python, and the modules that they compare.
const OF_PYTHON: &[(&str, &[&str])] = &[
    (BUILT_IN, &["builtins", "math"]),
    (LIBRARIES, &["unittest", "random", "secrets", "uuid"]),
    (CLOCK, &["time", "datetime"]),
    (RANDOMNESS, &["random", "os"]),
    (
        SYSTEM,
        &[
            "ast",
            "asyncio",
            "builtins",
            "filecmp",
            "glob",
            "hashlib",
            "json",
            "os",
            "pathlib",
            "re",
            "shutil",
            "subprocess",
            "tempfile",
            "threading",
        ],
    ),
    (ASSERTIONS, &[]),
];
/// Bodies of JavaScript, and the objects that they compare.
const OF_JAVASCRIPT: &[(&str, &[&str])] = &[
    (
        INTRINSICS_OF_SCRIPT,
        &[
            "Array", "BigInt", "Boolean", "Date", "Error", "Function", "Intl", "JSON", "Map",
            "Math", "Number", "Object", "Promise", "Reflect", "RegExp", "Set", "String", "Symbol",
        ],
    ),
    (
        MODULES_OF_SCRIPT,
        &["assert", "Buffer", "globalThis", "global", "performance", "process", "URL", "util"],
    ),
    (SYSTEM_OF_SCRIPT, &["child_process", "crypto", "fs", "os", "path", "process", "vm"]),
    (
        NETWORK_OF_SCRIPT,
        &[
            "dns",
            "EventEmitter",
            "events",
            "global",
            "globalThis",
            "http",
            "https",
            "Module",
            "net",
            "readline",
            "stream",
            "worker_threads",
        ],
    ),
];
/// Words of C that a header of the product may have made a macro.
const KEYWORDS_OF_C: &[&str] = &["for", "if", "while"];
/// Holds while these words are as they were.
const KEYWORDS_INTACT: &str = "__extension__ ({ int it_1 = 0, it_2 = 0, it_3 = 0; if (1) it_1 = 1; \
    while (it_2 < 1) it_2++; for (; it_3 < 1; it_3++) ; it_1 && it_2 && it_3; })";
/// Functions of C that compare and that no compiler replaces by code of its own, with their types, and arguments for which
/// they answer something else than 0.
const OF_C: &[(&str, &str, &str)] = &[
    ("abs", "int (*volatile it)(int)", "-2"),
    ("atoi", "int (*volatile it)(const char *)", "\"7\""),
    ("fabs", "double (*volatile it)(double)", "-2.0"),
    ("strcasecmp", "int (*volatile it)(const char *, const char *)", "\"a\", \"b\""),
    ("strcmp", "int (*volatile it)(const char *, const char *)", "\"a\", \"b\""),
    ("strncmp", "int (*volatile it)(const char *, const char *, __SIZE_TYPE__)", "\"a\", \"b\", 1"),
    (
        "strncasecmp",
        "int (*volatile it)(const char *, const char *, __SIZE_TYPE__)",
        "\"a\", \"b\", 1",
    ),
    ("memcmp", "int (*volatile it)(const void *, const void *, __SIZE_TYPE__)", "\"a\", \"b\", 1"),
];

/// What a text says where it replaces something for its tests, and the same at the start of a name.
const REPLACES: &[&str] = &[
    "monkeypatch",
    "Mock",
    "mock",
    "setattr(",
    "sinon",
    "spyOn",
    "time_machine",
    "FakeTimers",
    "fake-timers",
];
const REPLACES_AT_START: &[&str] = &["freeze", "patch(", "patch.", "stub("];

/// Whether a text of tests may itself replace what they rely on.
pub(super) fn replaces(text: &str) -> bool {
    let mut parts = OF_PYTHON.iter().chain(OF_JAVASCRIPT).flat_map(|(_, parts)| parts.iter());
    says_replaced(text) || parts.any(|part| is_assigned(text, part))
}

/// Whether a text names a means to replace what tests rely on.
fn says_replaced(text: &str) -> bool {
    let starts = |word: &&str| {
        text.match_indices(*word).any(|(at, _)| {
            let before = text.get(..at).and_then(|front| front.chars().next_back());
            !before.is_some_and(|letter| letter.is_alphanumeric() || "_.".contains(letter))
        })
    };
    REPLACES.iter().any(|word| text.contains(word)) || REPLACES_AT_START.iter().any(starts)
}

/// The reports of a program: their names, which begin with a word, and its code for them.
pub(super) struct Reports {
    pub(super) names: Vec<String>,
    /// An expression that reports.
    pub(super) expression: String,
    /// What it needs at the end of the program's text.
    pub(super) added: String,
}

/// The reports of a script, whose code is given with filler for its texts; none in other languages. What the script
/// itself replaces is left out.
pub(super) fn reports(script: Script, code: &str, text: &str, token: &str) -> Option<Reports> {
    let known = match script {
        Script::Python => OF_PYTHON,
        Script::Javascript => OF_JAVASCRIPT,
        Script::Shell | Script::C | Script::Cpp => return None,
    };
    if says_replaced(code) {
        return None;
    }
    let kept = known
        .iter()
        .enumerate()
        .filter(|(_, (_, parts))| !parts.iter().any(|part| is_assigned(code, part)));
    let kept: Vec<(String, String)> = kept
        .map(|(at, (body, _))| (format!("{token}_{:02}", at + 1), body.replace('«', MARK)))
        .collect();
    let names: Vec<String> = kept.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return None;
    }
    let (expression, added) = match script {
        Script::Python => {
            let parts = kept.iter().map(|(name, body)| {
                format!(
                    "def body():\n        {body}\n\
                     try:\n    body()\n\
                     except RuntimeError:\n    print('FAIL: {name}', file=sys.stderr, flush=True)\n\
                     except Exception:\n    pass\n"
                )
            });
            let code = format!("import sys\n{}", parts.collect::<String>());
            (
                format!("exec(bytes.fromhex('{}').decode(), {{}})", in_hexadecimal(&code)),
                String::new(),
            )
        }
        Script::Javascript | Script::Shell | Script::C | Script::Cpp => {
            (format!("{token}_report()"), of_javascript(&kept, text, token))
        }
    };
    Some(Reports { names, expression, added })
}

fn of_javascript(kept: &[(String, String)], text: &str, token: &str) -> String {
    let import = match is_module("", text) {
        true => format!("import * as {token}_module from 'node:module';\n"),
        false => String::new(),
    };
    let parts = kept.iter().map(|(name, body)| {
        format!(
            "  try {{\n    (() => {{\n  {body}\n    }})();\n  }} catch (error) {{\n    \
             if (error.message === '{MARK}') process.stderr.write('FAIL: {name}\\n');\n  }}\n"
        )
    });
    let parts: String = parts.collect();
    format!(
        "\n{import}function {token}_report() {{\n  \
         const load = typeof require === 'function' ? require\n    \
         : typeof {token}_module === 'object' ? {token}_module.createRequire(`${{process.cwd()}}/a.js`) : null;\n  \
         if (!load) return;\n{parts}}}\n"
    )
}

/// An expression of C that holds while the functions by which a program compares, and the words by which it decides, are as
/// they were; none where it uses none of them.
pub(super) fn intact_in_c(code: &str) -> Option<String> {
    let used = OF_C.iter().filter(|(name, _, _)| words(code, name).next().is_some());
    let one = |(name, kind, arguments): &(&str, &str, &str)| {
        // By a call too, as a macro with arguments stands for nothing else.
        format!(
            "__extension__ ({{ {kind} = {name}; it({arguments}) != 0 && {name}({arguments}) != 0; }})"
        )
    };
    let has_keywords = KEYWORDS_OF_C.iter().any(|word| words(code, word).next().is_some());
    let keywords = has_keywords.then(|| KEYWORDS_INTACT.to_owned());
    let parts: Vec<String> = used.map(one).chain(keywords).collect();
    (!parts.is_empty()).then(|| parts.join(" && "))
}

/// Whether code sets a part of a module or an object.
fn is_assigned(code: &str, name: &str) -> bool {
    words(code, name).any(|at| {
        let rest = code.get(at + name.len()..).unwrap_or_default();
        let is_part = |letter: char| letter.is_alphanumeric() || "_.[]'\"$".contains(letter);
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let behind = rest.get(length..).unwrap_or_default().trim_start();
        let sets =
            behind.starts_with('=') && !behind.starts_with("==") && !behind.starts_with("=>");
        length > 1 && rest.starts_with(['.', '[']) && sets
    })
}

/// A text by its bytes.
pub(super) fn in_hexadecimal(text: &str) -> String {
    let digits = |byte: u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16));
    text.bytes().flat_map(digits).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_replaces_itself_is_not_reported() {
        let of = |script, code: &str| {
            reports(script, code, code, "zx").map(|it| it.names).unwrap_or_default()
        };
        for (code, expected) in [
            (
                "import time\nstart = time.time()\n",
                &["zx_01", "zx_02", "zx_03", "zx_04", "zx_05", "zx_06"][..],
            ),
            ("time.time = lambda: 3\n", &["zx_01", "zx_02", "zx_04", "zx_05", "zx_06"]),
            ("assert time.time == x\n", &["zx_01", "zx_02", "zx_03", "zx_04", "zx_05", "zx_06"]),
            ("random.random = x\n", &["zx_01", "zx_03", "zx_05", "zx_06"]),
            ("subprocess.run = x\n", &["zx_01", "zx_02", "zx_03", "zx_04", "zx_06"]),
            ("from unittest.mock import patch\npatch(x).start()\n", &[]),
        ] {
            assert_eq!(of(Script::Python, code), expected, "{code}");
        }
        for (code, expected) in [
            ("Math.random();\n", &["zx_01", "zx_02", "zx_03", "zx_04"][..]),
            ("Date.now = () => 0;\n", &["zx_02", "zx_03", "zx_04"]),
            ("globalThis.x = 1;\n", &["zx_01", "zx_03"]),
            ("http.get = a;\n", &["zx_01", "zx_02", "zx_03"]),
            ("console.log = a;\n", &["zx_01", "zx_02", "zx_03", "zx_04"]),
            ("fs.readFileSync = a;\n", &["zx_01", "zx_02", "zx_04"]),
            ("Math.max(a, (b) => 1);\n", &["zx_01", "zx_02", "zx_03", "zx_04"]),
        ] {
            assert_eq!(of(Script::Javascript, code), expected, "{code}");
        }
        assert!(of(Script::Shell, "a\n").is_empty());
    }

    #[test]
    fn a_program_in_c_asks_the_functions_that_it_compares_with() {
        assert_eq!(intact_in_c("return a == b;"), None);
        let found = intact_in_c("assert(strcmp(a, b) == 0 && !memcmp(x, y, 2));").unwrap();
        assert!(
            found.contains("= strcmp; it(\"a\", \"b\") != 0 && strcmp(\"a\", \"b\") != 0;")
                && found.contains(" && ")
                && found.contains("= memcmp;")
        );
        assert!(!found.contains("strncmp") && !found.contains("if (1)"));
        for word in ["if (a) b;", "while (a) b;", "for (;;) b;"] {
            let found = intact_in_c(word).unwrap();
            let asks = ["if (1) it_1 = 1;", "while (it_2 < 1)", "for (; it_3 < 1; it_3++)"];
            assert!(asks.iter().all(|ask| found.contains(ask)), "{word}: {found}");
        }
        assert_eq!(in_hexadecimal("az\n"), "617a0a");
    }
}
