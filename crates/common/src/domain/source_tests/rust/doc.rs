//! The code in doc comments that `cargo test` runs.

/// Words behind a fence with which its code is still a test.
const OF_RUST: &[&str] = &[
    "rust",
    "should_panic",
    "no_run",
    "ignore",
    "compile_fail",
    "edition2015",
    "edition2018",
    "edition2021",
    "edition2024",
    "test_harness",
    "standalone_crate",
];

/// The tests in the texts of doc comments, each as written without its indentation. The texts are string
/// literals as Rust spells them.
pub(super) fn tests<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let lines = texts.flat_map(|literal| {
        let text = literal.trim_start_matches('r').trim_matches('#');
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        text.split("\\n").map(|line| {
            let line = line.trim();
            line.strip_prefix('*').map_or(line, str::trim_start)
        })
    });
    tests_of_lines(lines)
}

/// The tests in the lines of a document.
pub(super) fn tests_of_lines<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(String, bool)> = None;
    for line in lines.map(str::trim) {
        let fence = line.strip_prefix("```").or_else(|| line.strip_prefix("~~~"));
        match (fence, open.as_mut()) {
            (Some(words), None) => open = Some((format!("{words}\n"), is_rust(words))),
            (Some(_), Some(_)) => {
                found.extend(open.take().filter(|(_, counts)| *counts).map(|(code, _)| code));
            }
            (None, Some((code, _))) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, None) => {}
        }
    }
    found.extend(open.filter(|(_, counts)| *counts).map(|(code, _)| code));
    found
}

fn is_rust(words: &str) -> bool {
    let words = words.trim_matches(['`', '~', '{', '}', ' ', '.']);
    words
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .all(|word| OF_RUST.contains(&word) || word.starts_with("ignore-"))
}
