//! First inputs, taken from the conformance rows, because a fuzzer finds most near them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use surety_common::domain::json::{Value, parse_within};

/// Levels of a row: a message of the deepest kind may stand in it several times over.
const ROW_DEPTH: usize = 1024;

/// Globs and paths that they are tried on.
const GLOBS: &[&str] = &[
    "src/**\nsrc/a/b.rs",
    "./README.md\nREADME.md",
    "docs/\ndocs/a.md",
    "*.{md,txt}\na.txt",
    "größe/[a-z]?.rs\ngröße/ab.rs",
    "a/*/b\na/x/b",
    "[!a]\\*\nb*",
];

/// Heads, and what follows them over and over.
const LENGTHS: &[&str] = &[
    "\n{",
    "\n{\"",
    "\n{\"a\":",
    "{ \"x\n\\\"",
    "{\"title\":\"T\",\"steps\":[\n{\"id\":1},",
    "<think>\n<",
    "```json\n```\n",
    "STEP_DONE\n\nREPLAN",
    "{\"action\":\n\"\\u0041",
    "a=1 \n&& 'x' > y ",
    "/srv\n/../a",
    "{\"task_completion\":\n{\"action\":\"done\"}",
];

/// Where first inputs are to be written; without it none are.
const FOLDER: &str = "SURETY_FUZZ_SEEDS";

/// Writes the first inputs of a target, each into its own file, when the environment names a
/// folder.
///
/// # Panics
/// When the rows cannot be read or the inputs cannot be written: a run without them would find
/// nothing.
pub fn write(target: &str) {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).unwrap();
    let seeds = of(target);
    assert!(!seeds.is_empty(), "no seeds for {target}");
    for (place, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("{place:04}")), seed).unwrap();
    }
}

fn of(target: &str) -> Vec<String> {
    let owned = |seeds: &[&str]| seeds.iter().map(|seed| (*seed).to_owned()).collect();
    match target {
        "reader" => {
            [fields("decision", "raw"), fields("control", "raw"), fields("plan", "raw")].concat()
        }
        "decision" => [fields("decision", "raw"), fields("control", "raw")].concat(),
        "plan" => fields("plan", "raw"),
        "patch" => fields("patch", "patch"),
        "receipts" => {
            [fields("receipt", "receipt"), fields("checks", "verify"), recorded()].concat()
        }
        "commands" => commands(),
        "paths" => paths(),
        "globs" => owned(GLOBS),
        "length" => owned(LENGTHS),
        other => panic!("no such target: {other}"),
    }
}

fn rows(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance");
    let text = fs::read_to_string(folder.join(format!("{file}.jsonl"))).unwrap();
    text.lines().map(|line| parse_within(line, ROW_DEPTH).unwrap().value).collect()
}

/// One field of every row: texts as they are, other values as JSON.
fn fields(file: &str, key: &str) -> Vec<String> {
    let written = |value: &Value| value.as_str().map_or_else(|| value.to_compact(), str::to_owned);
    rows(file).iter().filter_map(|row| row.get(key)).map(written).collect()
}

fn items<'v>(row: &'v Value, key: &str) -> &'v [Value] {
    row.get(key).and_then(Value::as_array).unwrap_or_default()
}

/// Receipts with the facts of the gate's rows.
fn recorded() -> Vec<String> {
    let receipt = |row: &Value| {
        let facts = row.get("receipts").map(Value::to_compact).unwrap_or_default();
        format!(r#"{{"step_index":0,"source":"probe","success":true,"facts":{facts}}}"#)
    };
    rows("gate").iter().map(receipt).collect()
}

/// The commands of the gate's rows, each above the target of a check of the same row.
fn commands() -> Vec<String> {
    pairs(|row| {
        let asked = || texts(items(row, "checks"), "target");
        texts(items(row, "receipts"), "command_line")
            .flat_map(|ran| asked().map(move |one| (ran, one)))
            .collect()
    })
}

/// Roots of workspaces, each above a path that a check or a fact names.
fn paths() -> Vec<String> {
    pairs(|row| {
        let root = row.get("workspace_root").and_then(Value::as_str).unwrap_or_default();
        let named =
            texts(items(row, "receipts"), "path").chain(texts(items(row, "checks"), "target"));
        named.map(|path| (root, path)).collect()
    })
}

/// What is made of each of the gate's rows, two lines each, every pair once.
fn pairs(of_row: impl Fn(&Value) -> Vec<(&str, &str)>) -> Vec<String> {
    let rows = rows("gate");
    let pairs: BTreeSet<(&str, &str)> = rows.iter().flat_map(of_row).collect();
    pairs.into_iter().map(|(first, second)| format!("{first}\n{second}")).collect()
}

fn texts<'v>(
    values: impl IntoIterator<Item = &'v Value>,
    key: &str,
) -> impl Iterator<Item = &'v str> {
    values.into_iter().filter_map(move |value| value.get(key)).filter_map(Value::as_str)
}
