//! The dependencies that manifests and lock files name, so that an added one is told from any other change.

use super::json_text::plain;
use super::xml::elements;
use crate::domain::json::{self, Value};
use std::collections::BTreeSet;

/// Words in the keys of a manifest below which dependencies stand.
const KEYS: &[&str] = &[
    "dependen",
    "imports",
    "libraries",
    "overrides",
    "package",
    "plugins",
    "require",
    "resolutions",
    "specifiers",
    "versions",
];
/// Elements of build files that name a dependency.
const ELEMENTS: &[&str] = &[
    "dependency",
    "plugin",
    "extension",
    "parent",
    "PackageReference",
    "PackageVersion",
    "package",
];
/// What a line has to hold to name one, by the name of the file. Every line of the other files may.
const WORDS: &[(&str, &[&str])] = &[
    ("Gemfile", &["gem "]),
    ("gems.rb", &["gem "]),
    ("Podfile", &["pod "]),
    ("Package.swift", &["package("]),
    ("mix.exs", &["{:"]),
    ("rebar.config", &["{"]),
    ("cpanfile", &["requires"]),
    ("build.gradle", &["'", "\""]),
    ("build.gradle.kts", &["\""]),
    ("setup.py", &["'", "\""]),
    ("setup.cfg", &["=", ">", "<", "~"]),
    ("go.mod", &[" v"]),
    ("environment.yml", &["- "]),
    ("environment.yaml", &["- "]),
];

/// What a manifest or a lock file says of dependencies that it did not name at the start, or not so; without a text of
/// the start all are new.
pub fn added_dependencies(path: &str, start: Option<&str>, now: &str) -> Vec<String> {
    let before = start.map(|start| named(path, start)).unwrap_or_default();
    named(path, now).difference(&before).cloned().collect()
}

fn named(path: &str, text: &str) -> BTreeSet<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = BTreeSet::new();
    if name.ends_with(".json") || name.ends_with(".jsonc") || name == "composer.lock" {
        if let Ok(parsed) = json::parse(&plain(text)) {
            leaves(&mut found, String::new(), &parsed.value, false, 0);
        }
        return found;
    }
    if name.ends_with(".xml")
        || name.ends_with("proj")
        || name.ends_with(".props")
        || name == "packages.config"
    {
        let elements = elements(text).unwrap_or_default();
        let own = elements.iter().filter(|element| ELEMENTS.contains(&element.name()));
        found.extend(own.filter_map(|element| text.get(element.span.clone())).map(words));
        return found;
    }
    if let Ok(table) = text.parse::<toml::Table>() {
        toml_leaves(&mut found, String::new(), &toml::Value::Table(table), name.ends_with("lock"));
        return found;
    }
    let needed = WORDS.iter().find(|(known, _)| *known == name).map(|(_, needed)| *needed);
    let is_comment =
        |line: &str| ["#", "//", ";", "--", "*"].iter().any(|mark| line.starts_with(mark));
    let lines = text.lines().map(words).filter(|line| !is_comment(line));
    let lines = lines.filter(|line| line.contains(char::is_alphanumeric));
    found.extend(
        lines.filter(|line| {
            needed.is_none_or(|needed| needed.iter().any(|word| line.contains(word)))
        }),
    );
    found
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether dependencies stand below a key.
fn is_key(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    KEYS.iter().any(|word| lower.contains(word)) && lower != "packagemanager"
}

fn leaves(found: &mut BTreeSet<String>, path: String, value: &Value, inside: bool, depth: usize) {
    const MAX_DEPTH: usize = 40;
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let inside = inside || is_key(key);
                leaves(found, format!("{path}/{key}"), value, inside, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items {
                leaves(found, path.clone(), item, inside, depth + 1);
            }
        }
        value if inside => drop(found.insert(format!("{path}={}", value.to_compact()))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn toml_leaves(found: &mut BTreeSet<String>, path: String, value: &toml::Value, inside: bool) {
    match value {
        toml::Value::Table(table) => {
            let name = table.get("name").and_then(toml::Value::as_str).unwrap_or_default();
            for (key, value) in table {
                // A table of that name describes the project itself.
                let inside = inside || is_key(key) && key != "package";
                toml_leaves(found, format!("{path}/{name}/{key}"), value, inside);
            }
        }
        toml::Value::Array(items) => {
            items.iter().for_each(|item| toml_leaves(found, path.clone(), item, inside));
        }
        value if inside => drop(found.insert(format!("{path}={value:?}"))),
        toml::Value::String(_)
        | toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adds_dependency(path: &str, start: Option<&str>, now: &str) -> bool {
        !added_dependencies(path, start, now).is_empty()
    }

    #[test]
    fn a_dependency_is_added_where_a_name_or_a_version_is_new() {
        let lock = r#"{"name":"x","lockfileVersion":3,"packages":{"":{"name":"x"},"node_modules/a":{"version":"1"}}}"#;
        let cargo = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\n";
        let pom = "<project><name>x</name><dependencies><dependency><artifactId>a</artifactId></dependency></dependencies></project>";
        for (path, start, same, added) in [
            (
                "package.json",
                r#"{"name":"x","dependencies":{"a":"1"}}"#,
                r#"{"name":"y","x":1,"dependencies":{}}"#,
                r#"{"dependencies":{"a":"2"}}"#,
            ),
            (
                "package-lock.json",
                lock,
                &*lock.replace("\"lockfileVersion\":3", "\"lockfileVersion\":2 "),
                &*lock.replace("\"version\":\"1\"", "\"version\":\"2\""),
            ),
            (
                "Cargo.toml",
                cargo,
                &*cargo.replace("\"x\"", "\"y\""),
                &*format!("{cargo}b = \"1\"\n"),
            ),
            (
                "pyproject.toml",
                "[project]\ndependencies = [\"a\"]\n",
                "# x\n[project]\nversion = \"2\"\ndependencies = []\n",
                "[project]\ndependencies = [\"a\", \"b\"]\n",
            ),
            (
                "uv.lock",
                "version = 1\n[[package]]\nname = \"a\"\nversion = \"1\"\n",
                "\nversion = 1\n",
                "version = 1\n[[package]]\nname = \"a\"\nversion = \"2\"\n",
            ),
            ("requirements.txt", "a==1\n", "# more\na==1\n\n", "a==1\nb\n"),
            ("Gemfile", "gem 'a'\n", "# gem 'b'\nputs 1\n", "gem 'a'\ngem 'b'\n"),
            (
                "go.mod",
                "module x\nrequire a v1.0.0\n",
                "module y\ngo 1.23\n",
                "module x\nrequire a v1.0.1\n",
            ),
            ("pom.xml", pom, &*pom.replace(">x<", ">y<"), &*pom.replace(">a<", ">b<")),
            (
                "a.csproj",
                "<Project><PackageReference Include=\"a\" /></Project>",
                "<Project><X/><PackageReference  Include=\"a\" /></Project>",
                "<Project><PackageReference Include=\"b\" /></Project>",
            ),
        ] {
            assert!(!adds_dependency(path, Some(start), same), "{path}");
            assert!(adds_dependency(path, Some(start), added), "{path}");
            assert!(adds_dependency(path, None, start), "{path}");
        }
        assert!(!adds_dependency("package.json", None, r#"{"name":"x"}"#));
    }
}
