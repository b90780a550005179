//! The sections of a `pyproject.toml` and of a `setup.cfg` that decide how tests and linters run.

use super::keys_back::{KeysBack, Paths};
use super::origins::python_origins;
use super::toml_text::document;
use toml::{Table, Value};

/// Tables below `tool`; one whose name goes on behind a `-` or `_` belongs to it.
const TOOLS: &[&str] = &[
    "autoflake",
    "bandit",
    "basedpyright",
    "black",
    "codespell",
    "coverage",
    "deptry",
    "docformatter",
    "flake8",
    "importlinter",
    "interrogate",
    "isort",
    "mypy",
    "nox",
    "poe",
    "pycodestyle",
    "pydocstyle",
    "pylint",
    "pyrefly",
    "pyright",
    "pytest",
    "pytype",
    "refurb",
    "ruff",
    "taskipy",
    "tox",
    "ty",
    "unimport",
    "vulture",
    "yapf",
];
/// Tables inside those of tools that do more.
const INSIDE: &[[&str; 2]] = &[["hatch", "envs"], ["pdm", "scripts"]];
/// Sections of a `setup.cfg`, which may stand below `tool:` as well. What `DEFAULT` says holds in all others.
const SECTIONS: &[&str] = &[
    "DEFAULT",
    "bandit",
    "codespell",
    "coverage",
    "flake8",
    "importlinter",
    "interrogate",
    "isort",
    "mypy",
    "pycodestyle",
    "pydocstyle",
    "pylint",
    "pytest",
    "tox",
    "vulture",
    "yapf",
];
/// The tools that run tests: what an added manifest says of them stays with a project's first tests.
const RUNNERS: &[&str] = &["pytest", "nox", "tox", "poe", "taskipy"];

/// Which tools count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tools {
    /// All.
    All,
    /// Those that run no tests.
    Linters,
}

impl Tools {
    fn has(self, known: &[&str], name: &str) -> bool {
        let is = |known: &&str| {
            let rest = name.strip_prefix(*known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '-', '_', ' ']))
        };
        known.iter().any(is) && (self == Self::All || !RUNNERS.iter().any(is))
    }
}

/// A `pyproject.toml` of now with these tables of the start; none where they are the same.
pub(super) fn merged_pyproject(
    start: &Table,
    now: &Table,
    (tools, paths): (Tools, &dyn Paths),
) -> Option<KeysBack> {
    let mut merged = now.clone();
    let empty = Table::new();
    let old = start.get("tool").and_then(Value::as_table).unwrap_or(&empty);
    let mut own = match merged.get("tool") {
        Some(Value::Table(own)) => own.clone(),
        Some(_) | None => Table::new(),
    };
    own.retain(|name, _| !tools.has(TOOLS, name));
    let kept = old.iter().filter(|(name, _)| tools.has(TOOLS, name));
    own.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    for [tool, name] in INSIDE.iter().filter(|_| tools == Tools::All) {
        let kept = old.get(*tool).and_then(|tool| tool.get(name)).cloned();
        let Some(kept) = kept else {
            if let Some(inside) = own.get_mut(*tool).and_then(Value::as_table_mut) {
                inside.remove(*name);
            }
            continue;
        };
        let inside = own.entry(*tool).or_insert_with(|| Value::Table(Table::new()));
        if let Some(inside) = inside.as_table_mut() {
            inside.insert((*name).to_owned(), kept);
        }
    }
    if !own.is_empty() || merged.contains_key("tool") {
        merged.insert("tool".to_owned(), Value::Table(own));
    }
    python_origins(&mut merged, start, paths);
    (merged != *now).then(|| KeysBack::Merged(document(&merged)))
}

/// A section of a `setup.cfg`: its name, and its lines with the header. The first has no name.
struct Section<'t> {
    name: &'t str,
    lines: Vec<&'t str>,
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section { name: "", lines: Vec::new() }];
    for line in text.lines() {
        let header = line.trim_start().strip_prefix('[').and_then(|line| line.split_once(']'));
        if let Some((name, _)) = header {
            sections.push(Section { name: name.trim(), lines: Vec::new() });
        }
        if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    sections
}

/// A `setup.cfg` of now with these sections of the start; none where they are the same.
pub(super) fn merged_setup(start: &str, now: &str, tools: Tools) -> Option<KeysBack> {
    let (start, now) = (sections(start), sections(now));
    let is_of_tools = |section: &&Section<'_>| {
        let name = section.name.strip_prefix("tool:").unwrap_or(section.name).trim();
        tools.has(SECTIONS, name)
    };
    let lines = |sections: &[Section<'_>]| {
        let lines = sections.iter().filter(is_of_tools).flat_map(|section| &section.lines);
        lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    if lines(&start) == lines(&now) {
        return None;
    }
    let own = now.iter().filter(|section| !is_of_tools(section));
    let kept = own.chain(start.iter().filter(is_of_tools)).flat_map(|section| &section.lines);
    let merged: String = kept.map(|line| format!("{line}\n")).collect();
    Some(KeysBack::Merged(merged))
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::*;

    fn back(start: &str, now: &str) -> Option<Table> {
        let read = |text: &str| text.parse::<Table>().unwrap();
        match merged_pyproject(&read(start), &read(now), (Tools::All, &Known::NOTHING))? {
            KeysBack::Merged(text) => Some(read(&text)),
            KeysBack::Original | KeysBack::Lost => panic!("merged"),
        }
    }

    #[test]
    fn a_table_of_a_tool_is_that_of_the_start_however_it_is_written() {
        let start =
            "[project]\nname = \"a\"\n[tool.mypy]\nstrict = true\n[tool.hatch.envs.a]\nx = 1\n";
        let expected = |version: &str| {
            let text = format!("{start}[project.urls]\nv = \"{version}\"\n");
            text.parse::<Table>().unwrap()
        };
        let rest = "[project]\nname = \"a\"\nurls = { v = \"2\" }\n";
        for now in [
            format!("tool = {{ mypy = {{ ignore_errors = true }}, isort = {{}} }}\n{rest}"),
            format!("tool.mypy.strict = false\n{rest}"),
            format!("{rest}[\"tool\".\"mypy\"]\nstrict = false\n"),
            format!("{rest}[tool]\nmypy.strict = false\n"),
            format!(
                "{rest}[tool.mypy]\nstrict = true\n[[tool.mypy.overrides]]\nmodule = 'a'\n[tool.ruff-x]\n"
            ),
            rest.to_owned(),
        ] {
            assert_eq!(back(start, &now), Some(expected("2")), "{now}");
        }
        assert_eq!(
            back(start, &format!("{start}[project.urls]\nv = \"2\"\n[tool.poetry]\nx = 1\n")),
            None
        );
        let none = "[project]\nname = \"a\"\n".parse::<Table>().unwrap();
        let added =
            "[tool.pytest.ini_options]\naddopts = ''\n[tool.black]\n".parse::<Table>().unwrap();
        let found = merged_pyproject(&none, &added, (Tools::Linters, &Known::NOTHING));
        let expected = "\n[tool]\n\n[tool.pytest]\n\n[tool.pytest.ini_options]\naddopts = \"\"\n";
        assert_eq!(found, Some(KeysBack::Merged(expected.to_owned())));
    }

    #[test]
    fn sections_of_one_package_and_the_defaults_of_all_belong_to_the_tools() {
        let start = "[metadata]\nname = a\n[mypy]\nstrict = True\n";
        for weaker in [
            "[mypy-a.*]\nignore_errors = True\n",
            "[DEFAULT]\nignore_errors = True\n",
            "[tool:isort]\nskip = a\n",
            "[pycodestyle]\nmax-line-length = 999\n",
            "[ mypy-b ] ; x\nignore_errors = True\n",
        ] {
            let now = format!("[metadata]\nname = b\n{weaker}[mypy]\nstrict = True\n");
            let expected = start.replace("= a", "= b");
            assert_eq!(merged_setup(start, &now, Tools::All), Some(KeysBack::Merged(expected)));
        }
        assert_eq!(merged_setup(start, &start.replace("= a", "= b"), Tools::All), None);
    }
}
