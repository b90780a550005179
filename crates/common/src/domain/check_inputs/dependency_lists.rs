//! The dependencies that manifests name, each with what it is for and where it comes from.

use super::json_text::plain;
use super::language::name_of;
use super::named_path::named_path;
use crate::domain::json;
use toml::Table;

/// One dependency that a manifest names.
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) for_tests: bool,
    /// The folder, or another place, that it comes from; none for a registry.
    pub(super) elsewhere: Option<String>,
}

/// Whether a package of a `package.json` comes from elsewhere than a registry under its own name.
pub(super) fn is_redirected(version: &str) -> bool {
    version.contains(':') && !version.starts_with("catalog:") || version.contains('/')
}

/// The tables of a `Cargo.toml` with dependencies, by the path to each.
pub(super) fn cargo_tables(manifest: &Table) -> Vec<Vec<String>> {
    const NAMES: &[&str] =
        &["dependencies", "dev-dependencies", "dev_dependencies", "build-dependencies"];
    let inside = |table: &Table, above: &[&str]| {
        let own = NAMES.iter().filter(|name| table.get(**name).is_some_and(toml::Value::is_table));
        let path = |name: &&str| above.iter().chain([name]).map(|it| (*it).to_owned()).collect();
        own.map(path).collect::<Vec<Vec<String>>>()
    };
    let table = |name: &str| manifest.get(name).and_then(toml::Value::as_table);
    let mut found = inside(manifest, &[]);
    found.extend(table("workspace").into_iter().flat_map(|it| inside(it, &["workspace"])));
    for (target, value) in table("target").into_iter().flatten() {
        found.extend(value.as_table().into_iter().flat_map(|it| inside(it, &["target", target])));
    }
    found
}

pub(super) fn table_at<'t>(manifest: &'t Table, path: &[String]) -> Option<&'t Table> {
    path.iter().try_fold(manifest, |table, name| table.get(name)?.as_table())
}

/// A folder that a manifest names, from the workspace's root; its own words for one outside.
fn place_of(manifest: &str, folder: &str) -> String {
    named_path(manifest, folder).unwrap_or_else(|| folder.to_owned())
}

pub(super) fn of_cargo(path: &str, manifest: &Table) -> Vec<Dependency> {
    let mut found = Vec::new();
    for place in cargo_tables(manifest) {
        if place.first().is_some_and(|first| first == "workspace") {
            continue;
        }
        let for_tests = place.last().is_some_and(|name| name.starts_with("dev"));
        for (name, entry) in table_at(manifest, &place).into_iter().flatten() {
            let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
            let folder = text("path").map(|folder| place_of(path, folder));
            let elsewhere = folder.or_else(|| text("git").map(str::to_owned));
            found.push(Dependency { name: name.clone(), for_tests, elsewhere });
        }
    }
    found
}

pub(super) fn of_json(path: &str, text: &str, tests: &[&str]) -> Vec<Dependency> {
    const PRODUCTS: &[&str] =
        &["dependencies", "optionalDependencies", "peerDependencies", "require"];
    let Ok(value) = json::parse(&plain(text)).map(|parsed| parsed.value) else { return Vec::new() };
    let mut found = Vec::new();
    for (keys, for_tests) in [(tests, true), (PRODUCTS, false)] {
        let members = keys.iter().filter_map(|key| value.get(key)?.as_object()).flatten();
        found.extend(members.map(|(name, version)| {
            let version = version.as_str().unwrap_or_default();
            let folder =
                ["file:", "link:", "portal:"].iter().find_map(|it| version.strip_prefix(it));
            let folder = folder.map(|folder| place_of(path, folder));
            let other = || is_redirected(version).then(|| version.to_owned());
            Dependency { name: name.clone(), for_tests, elsewhere: folder.or_else(other) }
        }));
    }
    found
}

pub(super) fn of_gemfile(text: &str) -> Vec<Dependency> {
    let mut in_tests = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let names_tests = || [":test", ":development"].iter().any(|group| line.contains(group));
        if line.starts_with("group ") {
            in_tests = names_tests();
        }
        if line == "end" {
            in_tests = false;
        }
        let Some(name) = gem_of(line) else { continue };
        let for_tests = in_tests || line.contains("group") && names_tests();
        let elsewhere = gem_options(line).first().map(|option| (*option).to_owned());
        found.push(Dependency { name: name.to_owned(), for_tests, elsewhere });
    }
    found
}

/// The gem that a line names.
pub(super) fn gem_of(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("gem")?.trim_start_matches([' ', '(']);
    rest.strip_prefix(['"', '\''])?.split(['"', '\'']).next()
}

/// The options by which a gem comes from elsewhere.
pub(super) fn gem_options(line: &str) -> Vec<&str> {
    let words = line.split(',').skip(1).map(str::trim);
    let is_one = |word: &&str| {
        let key = word.trim_start_matches(':');
        ["path", "git", "github", "gist", "bitbucket", "source"].iter().any(|known| {
            key.strip_prefix(known).is_some_and(|rest| rest.trim_start().starts_with([':', '=']))
        })
    };
    words.filter(is_one).collect()
}

/// Words in the names of files and groups whose packages are for tests.
fn names_tests(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["test", "dev", "lint", "check", "ci"].iter().any(|word| {
        lower.split(|letter: char| !letter.is_alphanumeric()).any(|part| part.starts_with(word))
    })
}

/// The name of a requirement.
pub(super) fn requirement_of(text: &str) -> &str {
    let text = text.trim();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.find(|letter| !is_name(letter)).map_or(text, |end| text.get(..end).unwrap_or_default())
}

pub(super) fn of_requirements(path: &str, text: &str) -> Vec<Dependency> {
    let for_tests = names_tests(name_of(path).trim_start_matches("requirements"));
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '-', '.', '/']));
    let named = lines.map(|line| (requirement_of(line), line.contains('@')));
    let named = named.filter(|(name, _)| !name.is_empty());
    named
        .map(|(name, is_url)| {
            let elsewhere = is_url.then(|| "url".to_owned());
            Dependency { name: name.to_owned(), for_tests, elsewhere }
        })
        .collect()
}

pub(super) fn of_python(manifest: &Table) -> Vec<Dependency> {
    let mut found = Vec::new();
    python_dependencies(&mut found, &toml::Value::Table(manifest.clone()), &mut Vec::new());
    let sources = ["tool", "uv", "sources"].map(str::to_owned);
    for (name, source) in table_at(manifest, &sources).into_iter().flatten() {
        let folder = source.get("path").and_then(toml::Value::as_str).unwrap_or_default();
        for dependency in found.iter_mut().filter(|it| python_name(&it.name) == python_name(name)) {
            dependency.elsewhere = Some(place_of("pyproject.toml", folder));
        }
    }
    found
}

/// Lists of requirements, and tables of packages by their names, below a key that says so.
fn python_dependencies<'t>(
    found: &mut Vec<Dependency>,
    value: &'t toml::Value,
    above: &mut Vec<&'t str>,
) {
    const KEYS: &[&str] = &["dependen", "packages", "requires"];
    const MAX_DEPTH: usize = 8;
    let Some(table) = value.as_table().filter(|_| above.len() < MAX_DEPTH) else { return };
    for (name, value) in table {
        above.push(name);
        let is_one = above.iter().any(|part| KEYS.iter().any(|key| part.contains(key)));
        let for_tests = above.iter().any(|part| names_tests(part));
        let of_packages = above
            .iter()
            .rev()
            .nth(1)
            .is_some_and(|part| part.contains("dependencies") || part.ends_with("packages"));
        if let Some(list) = value.as_array().filter(|_| is_one) {
            found.extend(list.iter().filter_map(toml::Value::as_str).map(|text| Dependency {
                name: requirement_of(text).to_owned(),
                for_tests,
                elsewhere: text.contains('@').then(|| "url".to_owned()),
            }));
        } else if of_packages && (value.is_str() || value.is_table()) {
            let path = ["path", "git", "url"].iter().find_map(|key| value.get(key)?.as_str());
            let elsewhere = path.map(|path| place_of("pyproject.toml", path));
            found.push(Dependency { name: name.clone(), for_tests, elsewhere });
        } else {
            python_dependencies(found, value, above);
        }
        above.pop();
    }
}

/// The name of a package of Python, in one form.
pub(super) fn python_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}
