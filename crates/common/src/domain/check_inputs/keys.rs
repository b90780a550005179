//! The keys of a package manager's manifest that decide how tests run. A run may change the other keys, such
//! as dependencies, so such a manifest is no check input as a whole: it is merged key by key.

use super::keys_back::{KeysBack, put};
use super::parts::{merged_go, merged_gradle, merged_net, merged_pom};
use super::tsconfig::{is_tsconfig, merged_tsconfig};
use crate::domain::json::{self, Value};

/// Keys of a `package.json`, beside its scripts.
const NODE_KEYS: &[&str] =
    &["ava", "c8", "eslintConfig", "jest", "mocha", "nyc", "standard", "tap", "vitest", "xo"];
/// Sections of a `Cargo.toml`, and of a `pyproject.toml` or a `setup.cfg`; a section below one belongs to it.
const CARGO_SECTIONS: &[&str] = &["test", "profile.test", "lints", "workspace.lints"];
const PYTHON_SECTIONS: &[&str] = &[
    "tool.pytest",
    "tool.coverage",
    "tool.tox",
    "tool.nox",
    "tool.ruff",
    "tool.mypy",
    "tool.pyright",
    "tool.pylint",
    "tool.flake8",
    "tool.black",
    "tool.hatch.envs",
    "tool.poe",
    "tool.pdm.scripts",
    "tool.taskipy",
    "tool:pytest",
    "coverage",
    "flake8",
    "mypy",
    "pylint",
    "pytest",
    "tox",
];
/// Keys by which tests are switched off, and the sections of a `Cargo.toml` that may have them.
const CARGO_TARGETS: &[&str] = &["package", "lib", "bin", "bench", "example"];
const CARGO_SWITCHES: &[&str] =
    &["test", "doctest", "harness", "autotests", "bench", "autobenches", "autoexamples"];

/// Which form a manifest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Node,
    Composer,
    Deno,
    Cargo,
    Python,
    TypeScript,
    Maven,
    Gradle,
    Go,
    Net,
}

fn form_of(path: &str) -> Option<Form> {
    match path.rsplit('/').next().unwrap_or(path) {
        "package.json" => Some(Form::Node),
        "composer.json" => Some(Form::Composer),
        "deno.json" => Some(Form::Deno),
        "Cargo.toml" => Some(Form::Cargo),
        "pyproject.toml" | "setup.cfg" => Some(Form::Python),
        "pom.xml" => Some(Form::Maven),
        "build.gradle" | "build.gradle.kts" => Some(Form::Gradle),
        "go.mod" => Some(Form::Go),
        "Directory.Build.props" | "Directory.Build.targets" => Some(Form::Net),
        name if is_tsconfig(name) => Some(Form::TypeScript),
        name => {
            let projects = [".csproj", ".fsproj", ".vbproj"];
            projects.iter().any(|end| name.ends_with(end)).then_some(Form::Net)
        }
    }
}

/// Whether a file is merged key by key.
pub fn is_merged(path: &str) -> bool {
    form_of(path).is_some()
}

/// The manifest of now with the test keys of the start; none where these are the same, or where one of the two
/// does not read.
pub fn merged(path: &str, start: &str, now: &str) -> Option<KeysBack> {
    let text = match form_of(path)? {
        Form::Node => merged_json(start, now, "scripts", NODE_KEYS),
        Form::Composer => merged_json(start, now, "scripts", &[]),
        Form::Deno => merged_json(start, now, "tasks", &["lint", "test"]),
        Form::Cargo => merged_sections(start, now, CARGO_SECTIONS, CARGO_SWITCHES),
        Form::Python => merged_sections(start, now, PYTHON_SECTIONS, &[]),
        Form::TypeScript => return merged_tsconfig(start, now),
        Form::Maven => return merged_pom(start, now),
        Form::Gradle => return merged_gradle(start, now),
        Form::Go => return merged_go(start, now),
        Form::Net => return merged_net(start, now),
    };
    text.map(KeysBack::Merged)
}

fn merged_json(start: &str, now: &str, scripts: &str, keys: &[&str]) -> Option<String> {
    let (start, mut now) = (json::parse(start).ok()?.value, json::parse(now).ok()?.value);
    let before = now.clone();
    let Value::Object(members) = &mut now else { return None };
    for key in keys {
        put(members, key, start.get(key).cloned());
    }
    let kept = start.get(scripts).and_then(Value::as_object).unwrap_or_default();
    let mut merged: Vec<(String, Value)> = kept.to_vec();
    let added = members.iter().find(|(key, _)| key == scripts).and_then(|(_, it)| it.as_object());
    for (name, script) in added.unwrap_or_default() {
        let is_kept = |name: &str| kept.iter().any(|(known, _)| known == name);
        // Such a script runs before or after another one.
        let hooks = ["pre", "post"].iter().any(|hook| name.strip_prefix(hook).is_some_and(is_kept));
        if !is_kept(name) && !hooks {
            merged.push((name.clone(), script.clone()));
        }
    }
    let merged = (!merged.is_empty()).then_some(Value::Object(merged));
    put(members, scripts, merged);
    let canonical = |value: &Value| value.to_canonical();
    (canonical(&now) != canonical(&before)).then(|| now.to_compact())
}

/// A section of a manifest: its name, and its lines with the header. The first has no name.
struct Section<'t> {
    name: String,
    lines: Vec<&'t str>,
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section { name: String::new(), lines: Vec::new() }];
    for line in text.lines() {
        if let Some(name) = header(line) {
            sections.push(Section { name, lines: Vec::new() });
        }
        if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    sections
}

/// The name in a header, as in `[a.b]` and `[[a]]`. A line of an array is none.
fn header(line: &str) -> Option<String> {
    let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
    let name = line.strip_prefix('[')?.strip_suffix(']')?;
    let name =
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name).trim();
    let is_name = |letter: char| letter.is_alphanumeric() || "_-.:\"' ".contains(letter);
    let is_one = name.starts_with(char::is_alphabetic) && name.chars().all(is_name);
    is_one.then(|| name.replace(['"', '\'', ' '], ""))
}

fn merged_sections(start: &str, now: &str, names: &[&str], switches: &[&str]) -> Option<String> {
    let (start, now) = (sections(start), sections(now));
    let is_of_tests = |section: &&Section<'_>| {
        names.iter().any(|name| {
            let rest = section.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '-', '_']))
        })
    };
    let lines = |sections: &[Section<'_>]| {
        let lines = sections.iter().filter(is_of_tests).flat_map(|section| &section.lines);
        lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let switched = |section: &Section<'_>| {
        let lines = section.lines.iter().filter(|line| is_switch(section, line, switches));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let of_start = |name: &str| start.iter().find(|section| section.name == name);
    let same_switches = now.iter().filter(|section| !is_of_tests(section)).all(|section| {
        of_start(&section.name).map(switched).unwrap_or_default() == switched(section)
    });
    if lines(&start) == lines(&now) && same_switches {
        return None;
    }
    let mut merged: Vec<String> = Vec::new();
    for section in now.iter().filter(|section| !is_of_tests(section)) {
        let own = section.lines.iter().filter(|line| !is_switch(section, line, switches));
        merged.extend(own.map(|line| (*line).to_owned()));
        merged.extend(of_start(&section.name).map(switched).unwrap_or_default());
    }
    let kept = start.iter().filter(is_of_tests).flat_map(|section| &section.lines);
    merged.extend(kept.map(|line| (*line).to_owned()));
    merged.push(String::new());
    Some(merged.join("\n"))
}

fn is_switch(section: &Section<'_>, line: &str, switches: &[&str]) -> bool {
    let key = line.split_once('=').map(|(key, _)| key.trim());
    CARGO_TARGETS.contains(&section.name.as_str()) && key.is_some_and(|key| switches.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str, start: &str, now: &str) -> Option<String> {
        match merged(path, start, now)? {
            KeysBack::Merged(text) => Some(text),
            KeysBack::Lost => None,
        }
    }

    #[test]
    fn the_test_keys_of_a_package_are_those_of_the_start() {
        let start = r#"{"name":"a","scripts":{"test":"jest","build":"tsc"},"jest":{"x":1}}"#;
        let now = r#"{"name":"a","scripts":{"test":"true","pretest":"exit 0","lint":"eslint"},
            "dependencies":{"b":"1"}}"#;
        assert_eq!(
            text_of("web/package.json", start, now).as_deref(),
            Some(
                r#"{"name":"a","scripts":{"test":"jest","build":"tsc","lint":"eslint"},"dependencies":{"b":"1"},"jest":{"x":1}}"#
            )
        );
        let honest = r#"{"name":"b","scripts":{"test":"jest","build":"tsc"},"jest":{"x":1}}"#;
        assert_eq!(merged("package.json", start, honest), None);
        assert_eq!(merged("package.json", start, "no json"), None);
        assert_eq!(merged("other.json", start, now), None);
    }

    #[test]
    fn the_test_sections_of_a_manifest_are_those_of_the_start() {
        let start = "[package]\nname = \"a\"\n\n[[test]]\nname = \"it\"\n";
        let now = "[package]\nname = \"a\"\nautotests = false\n\n[dependencies]\nb = \"1\"\n\n\
                   [[test]]\nname = \"it\"\nharness = false\n\n[profile.test]\noverflow-checks = false\n";
        assert_eq!(
            text_of("Cargo.toml", start, now).as_deref(),
            Some(
                "[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\n\n[[test]]\nname = \"it\"\n"
            )
        );
        let honest =
            "[package]\nname = \"a\"\n[dependencies]\nb = \"1\"\n[[test]]\nname = \"it\"\n";
        assert_eq!(merged("Cargo.toml", start, honest), None);
        let start = "[project]\nname = \"a\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n";
        let now = "[project]\nname = \"a\"\ndependencies = [\n  \"b\",\n]\n\
                   [tool.pytest.ini_options]\naddopts = \"--ignore=tests\"\n";
        let expected = "[project]\nname = \"a\"\ndependencies = [\n  \"b\",\n]\n\
                        [tool.pytest.ini_options]\naddopts = \"-q\"\n";
        assert_eq!(text_of("pyproject.toml", start, now).as_deref(), Some(expected));
    }
}
