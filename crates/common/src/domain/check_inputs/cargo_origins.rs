//! Where a `Cargo.toml` takes the packages from that tests are written with.

use super::dependency_lists::{cargo_tables, table_at};
use super::keys_back::Paths;
use super::named_path::named_path;
use super::packages::Origin;
use toml::{Table, Value};

/// Keys by which a dependency is another package than the registry's of its name.
const KEYS: &[&str] =
    &["path", "git", "branch", "tag", "rev", "registry", "registry-index", "package"];

/// Gives packages of tests the origin that they had at the start, and takes out what the run put in their place.
pub(super) fn origins(merged: &mut Table, start: &Table, path: &str, paths: &dyn Paths) {
    for place in cargo_tables(merged) {
        let Some(table) = table_at_mut(merged, &place) else { continue };
        let is_one = |name: &&String| paths.origin_of("rust", name).is_some();
        let names: Vec<String> = table.keys().filter(is_one).cloned().collect();
        for name in names {
            let Some(now) = table.get(&name) else { continue };
            let old = old_entry(start, &place, &name);
            let is_same = origin(old.unwrap_or(&Value::Boolean(true))) == origin(now);
            // A package of the workspace that was moved has no other place.
            let is_moved = || old.is_some_and(|old| is_gone(old, path, paths));
            if is_same || is_moved() {
                continue;
            }
            match old {
                Some(old) => drop(table.insert(name, old.clone())),
                None if paths.origin_of("rust", &name) == Some(Origin::Registry) => {
                    let from_registry = without_origin(now);
                    table.insert(name, from_registry);
                }
                None => {}
            }
        }
    }
    let Some(Value::Table(registries)) = merged.get_mut("patch") else {
        replaced(merged, start, "replace", path, paths);
        return;
    };
    let old = start.get("patch").and_then(Value::as_table);
    for (registry, patches) in registries.iter_mut() {
        let old = old.and_then(|old| old.get(registry)?.as_table());
        if let Some(patches) = patches.as_table_mut() {
            replacements(patches, old, path, paths);
        }
    }
    registries.retain(|_, patches| patches.as_table().is_none_or(|it| !it.is_empty()));
    if registries.is_empty() {
        merged.remove("patch");
    }
    replaced(merged, start, "replace", path, paths);
}

fn replaced(merged: &mut Table, start: &Table, key: &str, path: &str, paths: &dyn Paths) {
    let old = start.get(key).and_then(Value::as_table);
    if let Some(Value::Table(own)) = merged.get_mut(key) {
        replacements(own, old, path, paths);
        if own.is_empty() {
            merged.remove(key);
        }
    }
}

/// A table whose entries stand for a package that is named by its key or inside.
fn replacements(own: &mut Table, old: Option<&Table>, path: &str, paths: &dyn Paths) {
    let names: Vec<String> = own.keys().cloned().collect();
    for key in names {
        let Some(now) = own.get(&key) else { continue };
        let package = now.get("package").and_then(Value::as_str);
        let name = package.unwrap_or_else(|| key.split(':').next().unwrap_or(&key));
        let before = old.and_then(|old| old.get(&key));
        let is_one = paths.origin_of("rust", name).is_some();
        let is_moved = || before.is_some_and(|before| is_gone(before, path, paths));
        if !is_one || before == Some(now) || is_moved() {
            continue;
        }
        match before.cloned() {
            Some(before) => drop(own.insert(key, before)),
            None => drop(own.remove(&key)),
        }
    }
}

/// The entry of the start: in the same table, else in another one.
fn old_entry<'s>(start: &'s Table, place: &[String], name: &str) -> Option<&'s Value> {
    let same = table_at(start, place).and_then(|table| table.get(name));
    let others = || {
        let tables = cargo_tables(start);
        tables.iter().find_map(|place| table_at(start, place)?.get(name))
    };
    same.or_else(others)
}

fn origin(entry: &Value) -> Vec<(&'static str, Option<String>)> {
    let text = |key: &str| {
        let text = entry.get(key)?.as_str()?;
        Some(text.trim_start_matches("./").trim_end_matches('/').to_owned())
    };
    KEYS.iter().map(|key| (*key, text(key))).collect()
}

fn is_gone(entry: &Value, manifest: &str, paths: &dyn Paths) -> bool {
    let folder = entry.get("path").and_then(Value::as_str);
    let place = folder.and_then(|folder| named_path(manifest, &format!("{folder}/Cargo.toml")));
    place.is_some_and(|place| !paths.is_there(&place))
}

fn without_origin(entry: &Value) -> Value {
    let mut own = entry.as_table().cloned().unwrap_or_default();
    KEYS.iter().for_each(|key| drop(own.remove(*key)));
    own.entry("version").or_insert_with(|| Value::String("*".to_owned()));
    Value::Table(own)
}

fn table_at_mut<'t>(manifest: &'t mut Table, path: &[String]) -> Option<&'t mut Table> {
    path.iter().try_fold(manifest, |table, name| table.get_mut(name)?.as_table_mut())
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::*;

    const KNOWN: Known = Known {
        gone: &["gone/Cargo.toml"],
        registry: &["checks"],
        elsewhere: &["support", "moved"],
        ..Known::NOTHING
    };

    #[test]
    fn a_package_of_tests_comes_from_where_the_start_took_it() {
        let start = "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nchecks = \"1\"\nsupport = { path = \"support\" }\n\
                     moved = { path = \"gone\" }\n";
        let read = |text: &str| text.parse::<Table>().unwrap();
        let after = |now: &str| {
            let mut merged = read(now);
            origins(&mut merged, &read(start), "Cargo.toml", &KNOWN);
            merged
        };
        for (now, expected) in [
            (start.replace("checks = \"1\"", "checks = { path = \"fake\" }"), start.to_owned()),
            (start.replace("\"support\"", "\"fake\""), start.to_owned()),
            (
                format!("{start}[patch.crates-io]\nchecks = {{ path = \"fake\" }}\n"),
                start.to_owned(),
            ),
            (
                format!(
                    "{start}[patch.crates-io]\nx = {{ path = \"fake\", package = \"checks\" }}\n"
                ),
                start.to_owned(),
            ),
            (
                format!("{start}[replace]\n\"checks:1.0.0\" = {{ path = \"fake\" }}\n"),
                start.to_owned(),
            ),
            (
                format!("{start}[target.'cfg(unix)'.dependencies]\nchecks = {{ git = \"x\" }}\n"),
                format!("{start}[target.'cfg(unix)'.dependencies]\nchecks = \"1\"\n"),
            ),
        ] {
            assert_eq!(after(&now), read(&expected), "{now}");
        }
        for honest in [
            start.replace("\"gone\"", "\"new-place\""),
            start.replace("checks = \"1\"", "checks = { version = \"2\", features = [\"x\"] }"),
            start.replace("\"support\"", "\"./support/\""),
            start.replace("checks = \"1\"\n", ""),
            format!("{start}[patch.crates-io]\nserde = {{ path = \"vendored\" }}\n"),
            format!("{start}other = {{ path = \"other\" }}\n"),
        ] {
            assert_eq!(after(&honest), read(&honest), "{honest}");
        }
        let mut root = read("[workspace.dependencies]\nchecks = { path = \"fake\" }\n");
        origins(&mut root, &Table::new(), "Cargo.toml", &KNOWN);
        assert_eq!(root, read("[workspace.dependencies]\nchecks = { version = \"*\" }\n"));
    }
}
