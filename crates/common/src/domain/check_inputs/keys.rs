//! The keys of a package manager's manifest that decide how tests run. A run may change the other keys, such
//! as dependencies, so such a manifest is no check input as a whole: it is merged key by key.

use super::cargo_keys::{added_cargo, merged_cargo};
use super::ecosystem::is_requirements;
use super::json_text::plain;
use super::keys_back::{KeysBack, Now, Paths, beside, put, with_all};
use super::language::name_of;
use super::node_origins::{composer_origins, merged_lock, name_maps, package_origins, read};
use super::node_values::values_of_checks;
use super::origins::{
    local_statements, merged_gem_lock, merged_gems, merged_pipfile, merged_requirements,
    renamed_module, renamed_project, yaml_overrides,
};
use super::parts::{merged_go, merged_gradle, merged_net, merged_pom};
use super::python_keys::{Tools, merged_pyproject, merged_setup};
use super::selection::{is_selection, merged_modules, merged_selection};
use super::statements::{has_statements, merged_statements};
use super::tsconfig::{is_tsconfig, merged_tsconfig};
use crate::domain::json::{self, Value};
use toml::Table;

/// Keys of a `package.json`, beside its scripts: of runners, and of linters.
const NODE_RUNNERS: &[&str] = &["ava", "jest", "mocha", "nx", "tap", "vitest", "wireit"];
const NODE_LINTERS: &[&str] = &[
    "c8",
    "commitlint",
    "eslintConfig",
    "eslintIgnore",
    "nyc",
    "prettier",
    "remarkConfig",
    "size-limit",
    "standard",
    "stylelint",
    "xo",
];

/// Which form a manifest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Node,
    Composer,
    Deno,
    Cargo,
    Pyproject,
    Setup,
    TypeScript,
    Maven,
    Gradle,
    Go,
    Net,
    Selection,
    Statements,
    /// The lock file of npm or Composer.
    Lock,
    Requirements,
    Pipfile,
    Gems,
    GemLock,
}

fn form_of(path: &str) -> Option<Form> {
    match path.rsplit('/').next().unwrap_or(path) {
        "package.json" => Some(Form::Node),
        "composer.json" => Some(Form::Composer),
        "deno.json" | "deno.jsonc" => Some(Form::Deno),
        "Cargo.toml" => Some(Form::Cargo),
        "pyproject.toml" => Some(Form::Pyproject),
        "setup.cfg" => Some(Form::Setup),
        "pom.xml" => Some(Form::Maven),
        "build.gradle" | "build.gradle.kts" => Some(Form::Gradle),
        "go.mod" => Some(Form::Go),
        "package-lock.json" | "npm-shrinkwrap.json" | "composer.lock" => Some(Form::Lock),
        "Pipfile" => Some(Form::Pipfile),
        "Gemfile" | "gems.rb" => Some(Form::Gems),
        "Gemfile.lock" | "gems.locked" => Some(Form::GemLock),
        "Directory.Build.props" | "Directory.Build.targets" => Some(Form::Net),
        name if is_tsconfig(name) => Some(Form::TypeScript),
        name if is_selection(name) => Some(Form::Selection),
        name if has_statements(name) => Some(Form::Statements),
        _ if is_requirements(path) => Some(Form::Requirements),
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

/// Whether a file only repeats what a manifest says, at length.
pub(super) fn is_lock(path: &str) -> bool {
    matches!(form_of(path), Some(Form::Lock | Form::GemLock))
}

/// What a view has of a manifest that a run changed; none where its test keys are those of the start.
pub fn merged(path: &str, start: &str, now: Now<'_>, paths: &dyn Paths) -> Option<KeysBack> {
    let form = form_of(path)?;
    let start = without_mark(start);
    match now {
        Now::Text(now) => merged_text(form, path, (start, without_mark(now)), paths),
        Now::Unreadable => Some(KeysBack::Original),
        Now::Gone => match merged_text(form, path, (start, form.empty()), paths)? {
            KeysBack::Merged(_) | KeysBack::Original => Some(KeysBack::Original),
            KeysBack::Lost => None,
        },
    }
}

/// What a view has of a manifest that was not there at the start. Its keys about tests stay where the start has
/// no tests in their language, and never those about linters.
pub fn merged_added(
    path: &str,
    now: &str,
    (has_tests, shadows): (bool, bool),
    paths: &dyn Paths,
) -> Option<KeysBack> {
    let now = without_mark(now);
    let tools = if has_tests { Tools::All } else { Tools::Linters };
    match form_of(path)? {
        Form::Node => {
            let runners = NODE_RUNNERS.iter().filter(|_| has_tests);
            let scripts = shadows.then_some(&"scripts");
            let keys: Vec<&str> =
                NODE_LINTERS.iter().chain(runners).chain(scripts).copied().collect();
            without_members(now, &keys, paths)
        }
        Form::Deno => {
            without_members(now, if has_tests { &["lint", "test"] } else { &["lint"] }, paths)
        }
        Form::Cargo => added_cargo(path, &now.parse().ok()?, paths),
        Form::Pyproject => merged_pyproject(&Table::new(), &now.parse().ok()?, (tools, paths)),
        Form::Setup => merged_setup("", now, tools),
        Form::Net if path.contains("Directory.Build.") => merged_net("<Project></Project>", now),
        Form::Go => renamed_module(now),
        Form::Maven => renamed_project(now),
        Form::Selection if path.ends_with("go.work") => merged_go("", now),
        Form::Composer
        | Form::TypeScript
        | Form::Gradle
        | Form::Net
        | Form::Selection
        | Form::Statements
        | Form::Lock
        | Form::Requirements
        | Form::Pipfile
        | Form::Gems
        | Form::GemLock => None,
    }
}

impl Form {
    /// A manifest of this form that says nothing.
    const fn empty(self) -> &'static str {
        match self {
            Self::Node | Self::Composer | Self::Deno | Self::TypeScript | Self::Lock => "{}",
            Self::Net => "<Project></Project>",
            Self::Cargo
            | Self::Pyproject
            | Self::Setup
            | Self::Maven
            | Self::Gradle
            | Self::Go
            | Self::Selection
            | Self::Statements
            | Self::Requirements
            | Self::Pipfile
            | Self::Gems
            | Self::GemLock => "",
        }
    }
}

/// Programs that read a manifest skip a mark of the byte order.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn merged_text(
    form: Form,
    path: &str,
    (start, now): (&str, &str),
    paths: &dyn Paths,
) -> Option<KeysBack> {
    let keys: Vec<&str> = NODE_RUNNERS.iter().chain(NODE_LINTERS).copied().collect();
    match form {
        Form::Node => {
            let more = |start: &Value, now: &mut Value| {
                merge_workspaces(path, start, now, paths);
                package_origins(start, now, paths);
                values_of_checks(start, now);
            };
            merged_json((start, now), "scripts", &keys, &more)
        }
        Form::Composer => {
            let more = |start: &Value, now: &mut Value| composer_origins(start, now, paths);
            merged_json((start, now), "scripts", &[], &more)
        }
        Form::Deno => {
            let more = |start: &Value, now: &mut Value| deno_imports(start, now, paths);
            merged_json((&plain(start), &plain(now)), "tasks", &["lint", "test"], &more)
        }
        Form::Cargo => both(start, now, |start, now| merged_cargo(path, start, now, paths)),
        Form::Pyproject => {
            both(start, now, |start, now| merged_pyproject(start, now, (Tools::All, paths)))
        }
        Form::Setup => merged_setup(start, now, Tools::All),
        Form::TypeScript => merged_tsconfig(start, now, paths),
        Form::Maven => merged_modules(path, start, now, paths).or_else(|| merged_pom(start, now)),
        Form::Gradle => more_local(start, now).or_else(|| merged_gradle(start, now)),
        Form::Go => merged_go(start, now),
        Form::Net => merged_net(start, now),
        Form::Selection => {
            let own = yaml_overrides(now, paths);
            let before = yaml_overrides(start, paths);
            let overrides = own.iter().any(|it| !before.contains(it));
            let replaced = || path.ends_with("go.work").then(|| merged_go(start, now)).flatten();
            let found = merged_selection(path, start, now, paths).or_else(replaced);
            let is_settings = name_of(path).starts_with("settings.gradle");
            let local = || is_settings.then(|| more_local(start, now)).flatten();
            found.or_else(local).or(overrides.then_some(KeysBack::Original))
        }
        Form::Statements => merged_statements(name_of(path), start, now),
        Form::Lock => merged_lock(start, now, paths),
        Form::Requirements => merged_requirements(start, now, paths),
        Form::Pipfile => both(start, now, |start, now| merged_pipfile(start, now, paths)),
        Form::Gems => merged_gems(start, now, paths),
        Form::GemLock => merged_gem_lock(start, now, paths),
    }
}

/// The build of the start, where that of now takes packages of tests from the workspace.
fn more_local(start: &str, now: &str) -> Option<KeysBack> {
    let before = local_statements(start);
    let is_new = local_statements(now).iter().any(|it| !before.contains(it));
    is_new.then_some(KeysBack::Original)
}

fn deno_imports(start: &Value, now: &mut Value, paths: &dyn Paths) {
    let Value::Object(members) = now else { return };
    let own = members.iter_mut().find(|(key, _)| key == "imports");
    if let Some((_, Value::Object(own))) = own {
        name_maps(start.get("imports"), own, paths);
    }
}

fn both(
    start: &str,
    now: &str,
    merge: impl FnOnce(&Table, &Table) -> Option<KeysBack>,
) -> Option<KeysBack> {
    match (start.parse::<Table>(), now.parse::<Table>()) {
        (Ok(start), Ok(now)) => merge(&start, &now),
        (Ok(_), Err(_)) => Some(KeysBack::Original),
        (Err(_), _) => Some(KeysBack::Lost),
    }
}

fn without_members(now: &str, keys: &[&str], paths: &dyn Paths) -> Option<KeysBack> {
    let mut value = read(now)?;
    let before = value.to_canonical();
    let Value::Object(members) = &mut value else { return None };
    members.retain(|(key, _)| !keys.contains(&key.as_str()));
    let nothing = Value::Object(Vec::new());
    package_origins(&nothing, &mut value, paths);
    deno_imports(&nothing, &mut value, paths);
    (value.to_canonical() != before).then(|| KeysBack::Merged(value.to_compact()))
}

fn merged_json(
    (start, now): (&str, &str),
    scripts: &str,
    keys: &[&str],
    more: &dyn Fn(&Value, &mut Value),
) -> Option<KeysBack> {
    let Ok(start) = json::parse(start).map(|parsed| parsed.value) else {
        return Some(KeysBack::Lost);
    };
    let Ok(mut now) = json::parse(now).map(|parsed| parsed.value) else {
        return Some(KeysBack::Original);
    };
    let before = now.clone();
    let Value::Object(members) = &mut now else { return Some(KeysBack::Original) };
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
    more(&start, &mut now);
    let canonical = |value: &Value| value.to_canonical();
    (canonical(&now) != canonical(&before)).then(|| KeysBack::Merged(now.to_compact()))
}

/// The packages whose scripts run with those of the root: all of the start, and those that are new.
fn merge_workspaces(path: &str, start: &Value, now: &mut Value, paths: &dyn Paths) {
    const KEY: &str = "workspaces";
    let list = |value: &Value| -> Vec<Value> {
        let found = value.get(KEY);
        let inside = found.and_then(|it| it.get("packages")).or(found);
        inside.and_then(Value::as_array).unwrap_or_default().to_vec()
    };
    let (old, own) = (list(start), list(now));
    if old.is_empty() {
        return;
    }
    let is_dropped =
        |value: &Value| value.as_str().is_none_or(|folder| paths.is_dropped(&beside(path, folder)));
    let mut all = with_all(&old, &own, is_dropped);
    // One with this mark takes packages away.
    all.retain(|it| old.contains(it) || it.as_str().is_none_or(|it| !it.starts_with('!')));
    if all.len() == own.len() && own.iter().all(|it| all.contains(it)) {
        return;
    }
    let Value::Object(members) = now else { return };
    let own = members.iter_mut().find(|(key, _)| key == KEY).map(|(_, value)| value);
    match own {
        Some(Value::Object(inside)) => put(inside, "packages", Some(Value::Array(all))),
        Some(_) | None => put(members, KEY, Some(Value::Array(all))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::super::toml_text::document;
    use super::*;

    const NOTHING: Known = Known::NOTHING;

    /// What was there at the start, and what a run dropped.
    const fn known(was_there: &'static [&'static str], dropped: &'static [&'static str]) -> Known {
        Known { was_there, dropped, ..Known::NOTHING }
    }

    fn back(path: &str, start: &str, now: &str) -> Option<KeysBack> {
        merged(path, start, Now::Text(now), &NOTHING)
    }

    fn text_of(found: Option<KeysBack>) -> Option<String> {
        match found? {
            KeysBack::Merged(text) => Some(text),
            KeysBack::Original => Some("original".to_owned()),
            KeysBack::Lost => Some("lost".to_owned()),
        }
    }

    /// The merged manifest of Cargo, in one form.
    fn cargo(start: &str, now: &str, known: &Known) -> Option<Table> {
        let text = text_of(merged("a/Cargo.toml", start, Now::Text(now), known))?;
        Some(text.parse().unwrap())
    }

    #[test]
    fn the_test_keys_of_a_package_are_those_of_the_start() {
        let start = r#"{"name":"a","scripts":{"test":"jest","build":"tsc"},"jest":{"x":1}}"#;
        let now = r#"{"name":"a","scripts":{"test":"true","pretest":"exit 0","lint":"eslint"},
            "dependencies":{"b":"1"}}"#;
        let expected = r#"{"name":"a","scripts":{"test":"jest","build":"tsc","lint":"eslint"},"dependencies":{"b":"1"},"jest":{"x":1}}"#;
        let marked = format!("\u{feff}{now}");
        for now in [now, &marked] {
            assert_eq!(text_of(back("web/package.json", start, now)).as_deref(), Some(expected));
        }
        let honest = r#"{"name":"b","scripts":{"test":"jest","build":"tsc"},"jest":{"x":1}}"#;
        assert_eq!(back("package.json", start, honest), None);
        assert_eq!(back("package.json", start, "no json"), Some(KeysBack::Original));
        assert_eq!(back("package.json", "no json", now), Some(KeysBack::Lost));
        for (now, expected) in [(Now::Unreadable, true), (Now::Gone, true)] {
            let found = merged("package.json", start, now, &NOTHING);
            assert_eq!(found == Some(KeysBack::Original), expected);
        }
        assert_eq!(merged("package.json", r#"{"name":"a"}"#, Now::Gone, &NOTHING), None);
        assert_eq!(back("other.json", start, now), None);
        let start = r#"{"workspaces":["a","b","c"]}"#;
        let now = r#"{"workspaces":["a","d","!a"]}"#;
        let found = merged("package.json", start, Now::Text(now), &known(&[], &["c"]));
        assert_eq!(text_of(found).as_deref(), Some(r#"{"workspaces":["a","b","d"]}"#));
    }

    #[test]
    fn an_added_manifest_has_no_keys_about_what_the_start_tests() {
        let node = r#"{"name":"a","scripts":{"test":"jest"},"jest":{},"eslintConfig":{}}"#;
        for (has_tests, shadows, expected) in [
            (false, false, r#"{"name":"a","scripts":{"test":"jest"},"jest":{}}"#),
            (true, false, r#"{"name":"a","scripts":{"test":"jest"}}"#),
            (true, true, r#"{"name":"a"}"#),
        ] {
            let found = text_of(merged_added("package.json", node, (has_tests, shadows), &NOTHING));
            assert_eq!(found.as_deref(), Some(expected));
        }
        let cargo =
            "[profile.test]\noverflow-checks = false\n[[bench]]\nname = \"b\"\nharness = false\n";
        let found = text_of(merged_added("Cargo.toml", cargo, (true, false), &NOTHING)).unwrap();
        assert!(found.contains("harness") && !found.contains("overflow"), "{found}");
        assert_eq!(
            merged_added("setup.cfg", "[metadata]\nname = a\n", (true, false), &NOTHING),
            None
        );
    }

    #[test]
    fn the_test_sections_of_a_manifest_are_those_of_the_start() {
        let read = |text: &str| text.parse::<Table>().unwrap();
        let start = "[package]\nname = \"a\"\n\n[[test]]\nname = \"it\"\n";
        let now = "[package]\nname = \"a\"\nautotests = false\n\n[dependencies]\nb = \"1\"\n\n\
                   [[test]]\nname = \"it\"\nharness = false\n\n[profile.test]\noverflow-checks = false\n";
        let expected = format!("{start}[dependencies]\nb = \"1\"\n[profile]\n");
        assert_eq!(cargo(start, now, &NOTHING), Some(read(&expected)));
        let honest = format!("{start}[dependencies]\nb = \"1\"\n");
        assert_eq!(cargo(start, &honest, &NOTHING), None);
        // However it is written.
        let plain = "[package]\nname = \"a\"\n";
        for now in [
            "package.name = \"a\"\npackage.\"autotests\" = false\n",
            "lib = { \"test\" = false }\n[package]\nname = \"a\"\n",
            "[package]\nname = \"a\"\n[profile]\ntest = { opt-level = 3 }\n",
            "[package]\nname = \"a\"\n[profile.dev]\noverflow-checks = false\n",
            "[package]\nname = \"a\"\n[profile.dev.package.a]\noverflow-checks = false\n",
            "[package]\nname = \"a\"\n[lints.rust]\nunused = \"allow\"\n",
            "[package]\nname = \"a\"\n[[bin]]\nname = \"a\"\ntest = false\n",
            "[package]\nname = \"a\"\n[[test]]\nname = \"x\"\nharness = false\n",
        ] {
            let known = known(&["a/src/main.rs"], &[]);
            let found = cargo(plain, now, &known).unwrap_or_else(|| panic!("{now}"));
            let text = document(&found);
            for word in ["autotests", "test", "false", "opt-level", "allow"] {
                assert!(!text.contains(word), "{now}: {text}");
            }
        }
        let dev = format!("{plain}[profile.dev]\nopt-level = 1\n");
        assert_eq!(cargo(plain, &dev, &NOTHING), None);
        let start = "[project]\nname = \"a\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n";
        let now = "[project]\nname = \"a\"\ndependencies = [\n  \"b\",\n]\n\
                   [tool.pytest.ini_options]\naddopts = \"--ignore=tests\"\n";
        let expected = "[project]\nname = \"a\"\ndependencies = [\n  \"b\",\n]\n\
                        [tool.pytest.ini_options]\naddopts = \"-q\"\n";
        let found = text_of(back("pyproject.toml", start, now)).unwrap();
        assert_eq!(read(&found), read(expected));
        assert_eq!(back("pyproject.toml", start, "[tool"), Some(KeysBack::Original));
    }

    #[test]
    fn targets_keep_their_own_switches_in_any_order() {
        let target =
            |kind: &str, name: &str, more: &str| format!("[[{kind}]]\nname = \"{name}\"\n{more}");
        let off = "test = false\n";
        let start = target("bin", "a", off)
            + &target("bin", "b", "")
            + &target("bench", "c", "harness = false\n");
        let turned = target("bin", "b", "")
            + &target("bench", "c", "harness = false\n")
            + &target("bin", "a", off);
        assert_eq!(cargo(&start, &turned, &NOTHING), None);
        // A new target has the keys that it needs.
        let added =
            target("bench", "d", "harness = false\n") + &target("example", "e", off) + &start;
        assert_eq!(cargo(&start, &added, &NOTHING), None);
        let moved = target("bin", "a", "")
            + &target("bin", "b", off)
            + &target("bench", "c", "harness = false\n");
        let expected: Table = start.parse().unwrap();
        assert_eq!(cargo(&start, &moved, &NOTHING), Some(expected));
        let by_path = "[[bin]]\nname = \"old\"\npath = \"x.rs\"\n";
        let renamed = "[[bin]]\nname = \"new\"\npath = \"x.rs\"\ntest = false\n";
        let found = document(&cargo(by_path, renamed, &NOTHING).unwrap());
        assert!(found.contains("new") && !found.contains("false"), "{found}");
    }

    #[test]
    fn no_member_of_a_workspace_leaves_the_selection() {
        let read = |text: &str| text.parse::<Table>().unwrap();
        let start = "[workspace]\nmembers = [\"a\", \"b\", \"gone\"]\nexclude = [\"x\"]\n";
        let now = "[workspace]\nmembers = [\"a\", \"new\"]\nexclude = [\"b\", \"fuzz\"]\ndefault-members = [\"a\"]\n";
        let known = known(&["a/b"], &["a/gone"]);
        let expected = "[workspace]\nmembers = [\"a\", \"b\", \"new\"]\nexclude = [\"fuzz\"]\n";
        assert_eq!(cargo(start, now, &known), Some(read(expected)));
        let more = start.replace("\"gone\"", "\"gone\", \"c\"");
        assert_eq!(cargo(start, &more, &known), None);
        let lints = format!("{start}[workspace.lints.rust]\nunused = \"allow\"\n");
        let expected = read(&format!("{start}[workspace.lints]\n"));
        assert_eq!(cargo(start, &lints, &known), Some(expected));
        let features = "[features]\ndefault = [\"x\"]\nx = []\n";
        let fewer = features.replace("[\"x\"]", "[]");
        assert_eq!(cargo(features, &fewer, &NOTHING), Some(read(features)));
    }
}
