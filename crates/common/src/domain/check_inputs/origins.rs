//! Where manifests of Python, Ruby, Go, Maven and Gradle take the packages from that tests are written with.

use super::dependency_lists::{gem_of, gem_options, requirement_of};
use super::keys_back::{KeysBack, Paths};
use super::packages::{Origin, is_library};
use super::xml::{elements, text_of};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Options of pip by which packages come from elsewhere.
const INDEX_OPTIONS: &[&str] =
    &["-f", "-i", "--extra-index-url", "--find-links", "--index-url", "--no-index"];
/// Keys by which a package of a `pyproject.toml` or a `Pipfile` comes from elsewhere.
const KEYS: &[&str] = &["develop", "editable", "file", "git", "index", "path", "url", "workspace"];
/// The deepest table that is read.
const MAX_DEPTH: usize = 8;

/// A `requirements.txt` with the lines about packages of tests of the start.
pub(super) fn merged_requirements(start: &str, now: &str, paths: &dyn Paths) -> Option<KeysBack> {
    let old: Vec<&str> = start.lines().map(str::trim).collect();
    let mut lines = Vec::new();
    for line in now.lines() {
        let own = line.trim();
        let is_option = INDEX_OPTIONS.iter().any(|option| {
            own.strip_prefix(option).is_some_and(|it| it.is_empty() || it.starts_with([' ', '=']))
        });
        let is_known = old.contains(&own);
        if is_option && !is_known && !own.contains("://") || own.contains("file:") && is_option {
            if is_known {
                lines.push(line);
            }
            continue;
        }
        match redirected(own).filter(|name| !is_known && is_of_tests(name, paths)) {
            Some(name) => {
                let before = old.iter().find(|it| same_package(requirement_of(it), &name));
                lines.extend(before.copied());
            }
            None => lines.push(line),
        }
    }
    let merged: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    (merged.lines().ne(now.lines())).then_some(KeysBack::Merged(merged))
}

/// The package that a requirement takes from elsewhere than an index: by its name, or by its folder.
fn redirected(requirement: &str) -> Option<String> {
    let text = requirement.split(" #").next().unwrap_or(requirement).trim();
    let text = text.strip_prefix("-e").or_else(|| text.strip_prefix("--editable")).unwrap_or(text);
    let text = text.trim_start_matches([' ', '=']);
    if let Some((_, name)) = text.split_once("#egg=") {
        return Some(requirement_of(name).to_owned());
    }
    let is_path = text.starts_with(['.', '/']) || text.starts_with("file:") || text.contains("://");
    if let Some((name, _)) = text.split_once('@').filter(|_| !text.starts_with(['.', '/'])) {
        let name = requirement_of(name);
        return (!name.is_empty() && !name.contains("://")).then(|| name.to_owned());
    }
    let is_folder = text.contains('/') || is_path;
    let last = text.trim_end_matches('/').rsplit('/').next().unwrap_or(text);
    is_folder.then(|| requirement_of(last.split('-').next().unwrap_or(last)).to_owned())
}

fn is_of_tests(name: &str, paths: &dyn Paths) -> bool {
    paths.origin_of("python", name) == Some(Origin::Registry)
}

fn same_package(a: &str, b: &str) -> bool {
    let normal = |name: &str| name.to_ascii_lowercase().replace(['_', '.'], "-");
    !a.is_empty() && normal(a) == normal(b)
}

/// Gives packages of tests in a `pyproject.toml` or a `Pipfile` the origin that they had at the start.
pub(super) fn python_origins(merged: &mut Table, start: &Table, paths: &dyn Paths) {
    fn name_of(table: &Table) -> Option<&str> {
        table.get("project")?.get("name")?.as_str()
    }
    let own = name_of(merged).map(str::to_owned);
    if let Some(own) =
        own.filter(|own| is_of_tests(own, paths) && name_of(start) != Some(own.as_str()))
    {
        let before = name_of(start).map(str::to_owned);
        if let Some(Value::Table(project)) = merged.get_mut("project") {
            let other = before.unwrap_or_else(|| format!("not-{own}"));
            project.insert("name".to_owned(), Value::String(other));
        }
    }
    python_table(merged, Some(start), (paths, 0));
}

fn python_table(own: &mut Table, start: Option<&Table>, (paths, depth): (&dyn Paths, usize)) {
    if depth > MAX_DEPTH {
        return;
    }
    let mut gone = Vec::new();
    for (name, value) in own.iter_mut() {
        let old = start.and_then(|start| start.get(name));
        match value {
            Value::Array(list) => requirements(list, old, paths),
            Value::Table(table) if KEYS.iter().any(|key| table.contains_key(*key)) => {
                let differs = old.and_then(Value::as_table) != Some(table);
                if differs && is_of_tests(name, paths) {
                    match old {
                        Some(old) => value.clone_from(old),
                        None => gone.push(name.clone()),
                    }
                }
            }
            Value::Table(table) => {
                python_table(table, old.and_then(Value::as_table), (paths, depth + 1));
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => {}
        }
    }
    gone.iter().for_each(|name| drop(own.remove(name)));
}

fn requirements(list: &mut Vec<Value>, old: Option<&Value>, paths: &dyn Paths) {
    let old = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    list.retain_mut(|value| {
        let name = text(value).filter(|it| it.contains('@') || it.starts_with("-e"));
        let name = name.as_deref().and_then(redirected);
        let Some(name) = name.filter(|it| is_of_tests(it, paths) && !old.contains(value)) else {
            return true;
        };
        let before = old
            .iter()
            .find(|old| old.as_str().is_some_and(|old| same_package(requirement_of(old), &name)));
        before.is_some_and(|before| {
            value.clone_from(before);
            true
        })
    });
}

/// A `Pipfile` with the origins of the start.
pub(super) fn merged_pipfile(start: &Table, now: &Table, paths: &dyn Paths) -> Option<KeysBack> {
    let mut merged = now.clone();
    python_origins(&mut merged, start, paths);
    (merged != *now).then(|| KeysBack::Merged(super::toml_text::document(&merged)))
}

/// A `Gemfile` with the lines about gems of tests of the start. Where a block leads one elsewhere, it is the file of the
/// start.
pub(super) fn merged_gems(start: &str, now: &str, paths: &dyn Paths) -> Option<KeysBack> {
    let is_one = |name: &str| paths.origin_of("ruby", name).is_some();
    let blocks = |text: &str| -> BTreeSet<String> {
        let mut inside = false;
        let mut found = BTreeSet::new();
        for line in text.lines().map(str::trim) {
            let opens = ["path", "git", "source", "github"].iter().any(|it| line.starts_with(it));
            inside = (inside || opens && line.ends_with("do")) && line != "end";
            let gem = gem_of(line).filter(|name| inside && is_one(name));
            found.extend(gem.map(str::to_owned));
        }
        found
    };
    if !blocks(now).is_subset(&blocks(start)) {
        return Some(KeysBack::Original);
    }
    let line_of = |name: &str| start.lines().find(|line| gem_of(line) == Some(name));
    let mut merged = String::new();
    for line in now.lines() {
        let before = gem_of(line).filter(|name| is_one(name)).and_then(line_of);
        let moved = before.filter(|before| {
            !gem_options(line).is_empty() && gem_options(before) != gem_options(line)
        });
        merged.push_str(moved.unwrap_or(line));
        merged.push('\n');
    }
    (merged.lines().ne(now.lines())).then_some(KeysBack::Merged(merged))
}

/// The lock file of Bundler of the start, where a gem of tests comes from elsewhere now.
pub(super) fn merged_gem_lock(start: &str, now: &str, paths: &dyn Paths) -> Option<KeysBack> {
    let elsewhere = |text: &str| -> BTreeSet<String> {
        let mut inside = false;
        let mut found = BTreeSet::new();
        for line in text.lines() {
            if !line.starts_with(' ') && !line.is_empty() {
                inside = matches!(line.trim(), "PATH" | "GIT");
            }
            // A gem has four spaces in front, what it needs has six.
            let gem = line.strip_prefix("    ").filter(|it| inside && !it.starts_with(' '));
            found.extend(gem.and_then(|gem| gem.split(' ').next()).map(str::to_owned));
        }
        found.retain(|name| paths.origin_of("ruby", name).is_some());
        found
    };
    (!elsewhere(now).is_subset(&elsewhere(start))).then_some(KeysBack::Original)
}

/// An added `go.mod` that takes the name of a library of tests, under another name: a workspace would prefer it.
pub(super) fn renamed_module(now: &str) -> Option<KeysBack> {
    let is_one = |line: &str| {
        let name = line.trim().strip_prefix("module").map(str::trim);
        name.is_some_and(|name| is_library("go", name.trim_matches('"')))
    };
    now.lines().any(is_one).then(|| {
        let renamed = "module replaced.invalid/module";
        let own = now.lines().map(|line| if is_one(line) { renamed } else { line });
        KeysBack::Merged(own.map(|line| format!("{line}\n")).collect())
    })
}

/// An added `pom.xml` that takes the group of a library of tests, under another name: the build would prefer it.
pub(super) fn renamed_project(now: &str) -> Option<KeysBack> {
    let found = elements(now)?;
    let group = found.iter().find(|it| it.path.len() == 2 && it.name() == "groupId")?;
    is_library_of_java(text_of(now, group)).then(|| {
        let (before, after) = (now.get(..group.content.start), now.get(group.content.end..));
        let text = format!("{}replaced.invalid{}", before.unwrap_or(""), after.unwrap_or(""));
        KeysBack::Merged(text)
    })
}

/// Whether a group or a package of Java belongs to libraries of tests.
pub(super) fn is_library_of_java(name: &str) -> bool {
    const GROUPS: &[&str] = &[
        "com.google.truth",
        "io.kotest",
        "junit",
        "org.assertj",
        "org.hamcrest",
        "org.junit",
        "org.mockito",
        "org.spockframework",
        "org.testng",
    ];
    GROUPS.iter().any(|group| {
        name.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The statements of a Gradle build by which packages of tests come from the workspace.
pub(super) fn local_statements(text: &str) -> Vec<String> {
    const SOURCES: &[&str] = &["flatDir", "mavenLocal()", "dependencySubstitution", "substitute("];
    const PLACES: &[&str] = &["files(", "fileTree(", "file:", "projectDir", "rootDir"];
    let is_one = |line: &&str| {
        let of_tests = ["testImplementation", "testRuntimeOnly", "testCompileOnly", "testApi"]
            .iter()
            .any(|word| line.starts_with(word));
        let is_place = PLACES.iter().any(|word| line.contains(word));
        SOURCES.iter().any(|word| line.contains(word))
            || is_place && (of_tests || line.starts_with("maven") || line.starts_with("url"))
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter(is_one).map(|line| line.split_whitespace().collect()).collect()
}

/// The overrides of a `pnpm-workspace.yaml` that lead a package of tests elsewhere.
pub(super) fn yaml_overrides(text: &str, paths: &dyn Paths) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if !line.starts_with([' ', '\t']) && !line.trim().is_empty() {
            inside = line.starts_with("overrides:");
            continue;
        }
        let Some((name, version)) = line.trim().rsplit_once(": ").filter(|_| inside) else {
            continue;
        };
        let quotes = ['"', '\''];
        let (name, version) = (name.trim_matches(quotes), version.trim().trim_matches(quotes));
        let last = name.rsplit('>').next().unwrap_or(name);
        let is_elsewhere = version.contains(':') || version.contains('/');
        if is_elsewhere && paths.origin_of("node", last).is_some() {
            found.push(format!("{name}: {version}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::*;

    const KNOWN: Known = Known { registry: &["pytest", "rspec", "vitest"], ..Known::NOTHING };

    fn text_of(found: Option<KeysBack>) -> String {
        match found {
            Some(KeysBack::Merged(text)) => text,
            Some(KeysBack::Original) => "original".to_owned(),
            Some(KeysBack::Lost) => "lost".to_owned(),
            None => "same".to_owned(),
        }
    }

    #[test]
    fn requirements_of_tests_come_from_where_the_start_took_them() {
        let start = "pytest==8\nflask\n";
        for (now, expected) in [
            ("-e ./pytest\nflask\n", "pytest==8\nflask\n"),
            ("pytest @ file:./x\nflask\n", "pytest==8\nflask\n"),
            ("./vendor/pytest/\nflask\n", "pytest==8\nflask\n"),
            ("-e file:///x#egg=pytest\nflask\n", "pytest==8\nflask\n"),
            ("--find-links ./wheels\npytest==8\nflask\n", "pytest==8\nflask\n"),
            ("pytest==9\nflask\nrequests\n", "same"),
            ("pytest==8\nflask\n-e .\n", "same"),
            ("pytest==8\n-e ./flask\n", "same"),
            ("--extra-index-url https://x/y\npytest==8\nflask\n", "same"),
        ] {
            assert_eq!(text_of(merged_requirements(start, now, &KNOWN)), expected, "{now}");
        }
        let read = |text: &str| text.parse::<Table>().unwrap();
        let start = read(
            "[project]\nname = \"a\"\ndependencies = [\"flask\"]\n[dependency-groups]\ndev = [\"pytest>=8\"]\n",
        );
        for (now, is_same) in [
            (
                "[project]\nname = \"a\"\ndependencies = [\"flask\"]\n[dependency-groups]\ndev = [\"pytest @ file:x\"]\n",
                true,
            ),
            (
                "[project]\nname = \"pytest\"\ndependencies = [\"flask\"]\n[dependency-groups]\ndev = [\"pytest>=8\"]\n",
                true,
            ),
            (
                "[project]\nname = \"a\"\ndependencies = [\"flask @ file:x\"]\n[dependency-groups]\ndev = [\"pytest>=9\"]\n",
                false,
            ),
        ] {
            let mut merged = read(now);
            python_origins(&mut merged, &start, &KNOWN);
            assert_eq!(merged == start, is_same, "{now}");
            assert_eq!(merged == read(now), !is_same, "{now}");
        }
        let mut merged =
            read("[tool.uv.sources]\npytest = { path = \"x\" }\nflask = { path = \"y\" }\n");
        python_origins(&mut merged, &Table::new(), &KNOWN);
        assert_eq!(merged, read("[tool.uv.sources]\nflask = { path = \"y\" }\n"));
    }

    #[test]
    fn gems_modules_and_projects_of_tests_are_not_replaced() {
        let start = "gem 'rspec', '~> 3'\ngem 'rails'\n";
        for (now, expected) in [
            ("gem 'rspec', path: './fake'\ngem 'rails'\n", start),
            ("gem \"rspec\", :git => 'x'\ngem 'rails'\n", start),
            ("path './fake' do\n  gem 'rspec'\nend\n", "original"),
            ("gem 'rspec', '~> 4'\ngem 'rails', path: 'x'\n", "same"),
        ] {
            assert_eq!(text_of(merged_gems(start, now, &KNOWN)), expected, "{now}");
        }
        let lock = "GEM\n  specs:\n    rspec (3.0)\n";
        let home = "PATH\n  remote: fake\n  specs:\n    rspec (3.0)\n      other\nGEM\n";
        assert_eq!(text_of(merged_gem_lock(lock, home, &KNOWN)), "original");
        assert_eq!(text_of(merged_gem_lock(lock, &home.replace("rspec", "own"), &KNOWN)), "same");
        let module = "module github.com/stretchr/testify\n\ngo 1.22\n";
        assert!(text_of(renamed_module(module)).starts_with("module replaced.invalid"));
        assert_eq!(renamed_module("module example.com/a\n"), None);
        let pom =
            "<project><groupId>org.junit.jupiter</groupId><artifactId>x</artifactId></project>";
        assert!(text_of(renamed_project(pom)).contains("<groupId>replaced.invalid</groupId>"));
        assert_eq!(renamed_project(&pom.replace("org.junit.jupiter", "com.example")), None);
        let gradle = "repositories {\n  flatDir { dirs 'fake' }\n  mavenCentral()\n}\n\
                      dependencies {\n  testImplementation files('x.jar')\n  implementation files('y.jar')\n}\n";
        assert_eq!(local_statements(gradle).len(), 2);
        let yaml = "packages:\n  - a\noverrides:\n  vitest: link:./fake\n  p: link:./p\n";
        assert_eq!(yaml_overrides(yaml, &KNOWN), ["vitest: link:./fake"]);
    }
}
