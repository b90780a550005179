//! The keys of a `Cargo.toml` that decide which tests run, and how: targets and their switches, profiles, lints,
//! the members of a workspace.

use super::cargo_origins::origins;
use super::convention_of;
use super::keys_back::{KeysBack, Paths, beside, with_all};
use super::toml_text::document;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Keys by which tests are switched off.
const SWITCHES: &[&str] = &["test", "doctest", "harness", "bench", "required-features"];
/// The same for the package.
const PACKAGE_SWITCHES: &[&str] =
    &["autotests", "autobenches", "autoexamples", "autobins", "autolib"];
/// Lists of targets, and the folders and names that a target without a path lies at.
const TARGETS: &[(&str, &str)] =
    &[("bin", "src/bin"), ("bench", "benches"), ("example", "examples"), ("test", "tests")];
/// Keys of profiles that decide what a test sees; that of tests is as at the start as a whole.
const PROFILE_KEYS: &[&str] = &["overflow-checks", "debug-assertions"];

/// The manifest of now with these keys of the start; none where they are the same.
pub(super) fn merged_cargo(
    path: &str,
    start: &Table,
    now: &Table,
    paths: &dyn Paths,
) -> Option<KeysBack> {
    let mut merged = now.clone();
    let package = |table: &Table| {
        let package = table.get("package")?.as_table()?;
        Some(package.get("name")?.as_str()?.to_owned())
    };
    let names = [package(start), package(now)];
    switches(&mut merged, start, "package", PACKAGE_SWITCHES);
    switches(&mut merged, start, "lib", SWITCHES);
    for (kind, folder) in TARGETS {
        let target = Targets { manifest: path, kind, folder, names: &names, paths };
        let list = target.merged(&tables(start, kind), &tables(now, kind));
        let list = (!list.is_empty()).then(|| list.into_iter().map(Value::Table).collect());
        put(&mut merged, kind, list.map(Value::Array));
    }
    put(&mut merged, "lints", start.get("lints").cloned());
    profiles(&mut merged, start);
    default_features(&mut merged, start);
    workspace(&mut merged, start, path, paths);
    origins(&mut merged, start, path, paths);
    (merged != *now).then(|| KeysBack::Merged(document(&merged)))
}

/// An added manifest without what it says about packages that were there at the start.
pub(super) fn added_cargo(path: &str, now: &Table, paths: &dyn Paths) -> Option<KeysBack> {
    let mut merged = now.clone();
    profiles(&mut merged, &Table::new());
    origins(&mut merged, &Table::new(), path, paths);
    (merged != *now).then(|| KeysBack::Merged(document(&merged)))
}

fn put(table: &mut Table, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(table.insert(key.to_owned(), value)),
        None => drop(table.remove(key)),
    }
}

/// Gives the keys of a table the values of the start.
fn switches(merged: &mut Table, start: &Table, name: &str, keys: &[&str]) {
    let empty = Table::new();
    let old = start.get(name).and_then(Value::as_table).unwrap_or(&empty);
    let Some(own) = merged.get_mut(name).and_then(Value::as_table_mut) else {
        // Without the table, only what stood there at the start can be missing.
        let kept: Table =
            old.clone().into_iter().filter(|(key, _)| keys.contains(&&**key)).collect();
        if !kept.is_empty() {
            merged.insert(name.to_owned(), Value::Table(kept));
        }
        return;
    };
    keys.iter().for_each(|key| put(own, key, old.get(*key).cloned()));
}

fn tables<'t>(table: &'t Table, key: &str) -> Vec<&'t Table> {
    let list = table.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_table).collect()
}

/// The targets of one kind.
struct Targets<'a> {
    manifest: &'a str,
    kind: &'a str,
    folder: &'a str,
    /// Of the package, at the start and now.
    names: &'a [Option<String>; 2],
    paths: &'a dyn Paths,
}

impl Targets<'_> {
    /// The targets of now, each with the switches that it had at the start. A test that the run declared for a
    /// check input goes with that.
    fn merged(&self, start: &[&Table], now: &[&Table]) -> Vec<Table> {
        let mut list: Vec<Table> = Vec::new();
        let is_test = self.kind == "test";
        if is_test {
            list.extend(start.iter().copied().cloned());
        }
        for target in now {
            let old = start.iter().find(|old| self.is_same(old, target));
            let places = self.places(target);
            let own = if let Some(old) = old {
                if is_test {
                    continue;
                }
                with_switches(target, Some(old))
            } else if is_test && places.iter().any(|place| convention_of(place).is_some()) {
                continue;
            } else if places.iter().any(|place| self.paths.was_there(place)) {
                // It was found by its place, without a switch.
                with_switches(target, None)
            } else {
                (*target).clone()
            };
            list.push(own);
        }
        list
    }

    fn is_same(&self, old: &Table, now: &Table) -> bool {
        let name = |target: &Table| target.get("name").and_then(Value::as_str).map(str::to_owned);
        name(old).is_some() && name(old) == name(now)
            || !self.places(old).is_disjoint(&self.places(now))
    }

    /// Where the source of a target may lie, from the workspace's root.
    fn places(&self, target: &Table) -> BTreeSet<String> {
        let text = |key: &str| target.get(key).and_then(Value::as_str);
        if let Some(path) = text("path") {
            return BTreeSet::from([beside(self.manifest, path)]);
        }
        let Some(name) = text("name") else { return BTreeSet::new() };
        let folder = self.folder;
        let mut places = vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
        if self.kind == "bin" && self.names.iter().flatten().any(|known| known == name) {
            places.push("src/main.rs".to_owned());
        }
        places.iter().map(|place| beside(self.manifest, place)).collect()
    }
}

fn with_switches(target: &Table, old: Option<&&Table>) -> Table {
    let mut own = target.clone();
    for key in SWITCHES {
        put(&mut own, key, old.and_then(|old| old.get(*key)).cloned());
    }
    own
}

/// The profile of tests is that of the start; the others have its keys that tests see.
fn profiles(merged: &mut Table, start: &Table) {
    let empty = Table::new();
    let old = start.get("profile").and_then(Value::as_table).unwrap_or(&empty);
    let mut own = match merged.get("profile") {
        Some(Value::Table(own)) => own.clone(),
        Some(_) | None => Table::new(),
    };
    let names: BTreeSet<String> = own.keys().chain(old.keys()).cloned().collect();
    for name in names {
        if name == "test" {
            put(&mut own, &name, old.get(&name).cloned());
            continue;
        }
        let before = old.get(&name).and_then(Value::as_table);
        let is_new = before.is_none() && !["dev", "release", "bench"].contains(&&*name);
        if !is_new {
            let now = own.get(&name).and_then(Value::as_table).unwrap_or(&empty);
            let profile = with_profile_keys(now, before.unwrap_or(&empty));
            let is_needed = !profile.is_empty() || own.contains_key(&name);
            put(&mut own, &name, is_needed.then_some(Value::Table(profile)));
        }
    }
    let is_needed = !own.is_empty() || merged.contains_key("profile");
    put(merged, "profile", is_needed.then_some(Value::Table(own)));
}

/// The keys that tests see may stand in a profile, and in tables inside it for some packages.
fn with_profile_keys(now: &Table, start: &Table) -> Table {
    let mut own = now.clone();
    for key in PROFILE_KEYS {
        put(&mut own, key, start.get(*key).cloned());
    }
    let names: BTreeSet<&String> = now.keys().chain(start.keys()).collect();
    let empty = Table::new();
    for name in names {
        let inside = |table: &Table| table.get(name).and_then(Value::as_table).cloned();
        let (before, after) = (inside(start), inside(now));
        if before.is_none() && after.is_none() || own.get(name).is_some_and(|it| !it.is_table()) {
            continue;
        }
        let merged =
            with_profile_keys(after.as_ref().unwrap_or(&empty), before.as_ref().unwrap_or(&empty));
        let is_needed = after.is_some() || !merged.is_empty();
        put(&mut own, name, is_needed.then_some(Value::Table(merged)));
    }
    own
}

/// Features that tests were built with at the start, where they are still there.
fn default_features(merged: &mut Table, start: &Table) {
    let list = |table: &Table| -> Vec<Value> {
        let features = table.get("features").and_then(Value::as_table);
        features.and_then(|it| it.get("default")?.as_array().cloned()).unwrap_or_default()
    };
    let (old, now) = (list(start), list(merged));
    let Some(features) = merged.get_mut("features").and_then(Value::as_table_mut) else { return };
    let is_gone = |value: &Value| value.as_str().is_none_or(|name| !features.contains_key(name));
    let all = with_all(&old, &now, is_gone);
    if all != now && all.len() > now.len() {
        features.insert("default".to_owned(), Value::Array(all));
    }
}

fn workspace(merged: &mut Table, start: &Table, path: &str, paths: &dyn Paths) {
    let empty = Table::new();
    let old = start.get("workspace").and_then(Value::as_table).unwrap_or(&empty);
    let Some(own) = merged.get_mut("workspace").and_then(Value::as_table_mut) else { return };
    // Members may inherit what the run added, which then says nothing.
    let nothing = || own.contains_key("lints").then(|| Value::Table(Table::new()));
    let lints = old.get("lints").cloned().or_else(nothing);
    put(own, "lints", lints);
    let list = |table: &Table, key: &str| {
        table.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let place = |value: &Value| value.as_str().map(|folder| beside(path, folder));
    let is_dropped = |value: &Value| place(value).is_none_or(|it| paths.is_dropped(&it));
    let set = |own: &mut Table, key: &str, all: Vec<Value>| {
        let is_same = own.get(key).is_some_and(|known| known.as_array() == Some(&all));
        if !is_same {
            put(own, key, (!all.is_empty()).then_some(Value::Array(all)));
        }
    };
    let now = list(own, "members");
    // A list in another order selects the same.
    let members = with_all(&list(old, "members"), &now, is_dropped);
    if members.len() != now.len() {
        set(own, "members", members);
    }
    let was_there = |value: &Value| place(value).is_some_and(|it| paths.was_there(&it));
    let before = list(old, "exclude");
    let mut exclude = list(own, "exclude");
    exclude.retain(|value| before.contains(value) || !was_there(value));
    set(own, "exclude", exclude);
    let before = list(old, "default-members");
    let now = list(own, "default-members");
    let selected = match before.as_slice() {
        [] if old.is_empty() && !start.contains_key("package") => now,
        [] => Vec::new(),
        before => with_all(before, &now, is_dropped),
    };
    set(own, "default-members", selected);
}
