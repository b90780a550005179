//! The packages that a file of a workspace selects, and with them their tests: a run may add some, and take away
//! those that it removed and that had no tests.

use super::keys_back::{KeysBack, Paths, beside};
use super::xml::{elements, text_of};
use std::collections::BTreeSet;

/// Reads the packages of a text, as paths beside it.
type Read = fn(&str) -> BTreeSet<String>;

/// Names of files that do nothing else.
const FILES: &[(&str, Read)] = &[
    ("go.work", go_work),
    ("pnpm-workspace.yaml", yaml_list),
    ("settings.gradle", gradle),
    ("settings.gradle.kts", gradle),
];

/// Whether a file only selects packages.
pub(super) fn is_selection(path: &str) -> bool {
    reader(path).is_some()
}

fn reader(path: &str) -> Option<Read> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = FILES.iter().find(|(known, _)| *known == name).map(|(_, read)| *read);
    let is_solution = name.ends_with(".sln") || name.ends_with(".slnx");
    known.or(is_solution.then_some(solution as Read))
}

/// The file of the start, where that of now selects less.
pub(super) fn merged_selection(
    path: &str,
    start: &str,
    now: &str,
    paths: &dyn Paths,
) -> Option<KeysBack> {
    compared(path, &reader(path)?, (start, now), paths)
}

/// The same for the modules of a `pom.xml`.
pub(super) fn merged_modules(
    path: &str,
    start: &str,
    now: &str,
    paths: &dyn Paths,
) -> Option<KeysBack> {
    compared(path, &(modules as Read), (start, now), paths)
}

fn compared(
    path: &str,
    read: &Read,
    (start, now): (&str, &str),
    paths: &dyn Paths,
) -> Option<KeysBack> {
    let own = read(now);
    let mut missing = read(start).into_iter().filter(|item| !own.contains(item));
    let selects_less = missing.any(|item| !paths.is_dropped(&beside(path, &item)));
    // A pattern with this mark takes packages away.
    let before = read(start);
    let mut excluded = own.iter().filter(|item| item.starts_with('!') && !before.contains(*item));
    (selects_less || excluded.next().is_some()).then_some(KeysBack::Original)
}

fn go_work(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_block = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        match line.strip_prefix("use").filter(|_| !in_block) {
            Some(rest) if rest.trim_start().starts_with('(') => in_block = true,
            Some(rest) if rest.starts_with([' ', '\t']) => drop(found.insert(folder(rest))),
            Some(_) | None if line == ")" => in_block = false,
            Some(_) | None if in_block && !line.is_empty() => drop(found.insert(folder(line))),
            Some(_) | None => {}
        }
    }
    found
}

fn yaml_list(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_inside = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if !line.starts_with([' ', '\t', '-']) && !line.trim().is_empty() {
            is_inside = line.starts_with("packages:");
        }
        let item = line.trim().strip_prefix('-').filter(|_| is_inside);
        found.extend(item.map(folder));
    }
    found
}

/// The projects that `include` names, in the form of their folders.
fn gradle(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        is_inside |= line.starts_with("include");
        if is_inside {
            let quoted = line.split(['"', '\'']).skip(1).step_by(2);
            found.extend(quoted.map(|name| name.trim_start_matches(':').replace(':', "/")));
        }
        is_inside &= line.ends_with([',', '(']);
    }
    found
}

/// The folders of the projects.
fn solution(text: &str) -> BTreeSet<String> {
    let is_project = |text: &&str| text.ends_with("proj");
    let lines = text.lines().filter(|line| line.contains("Project"));
    let named = lines.flat_map(|line| line.split('"')).filter(is_project);
    named
        .map(|path| path.replace('\\', "/"))
        .map(|path| path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned())
        .collect()
}

fn modules(text: &str) -> BTreeSet<String> {
    let found = elements(text).unwrap_or_default();
    let modules = found.iter().filter(|it| it.name() == "module" && it.parent() == "modules");
    modules.map(|element| folder(text_of(text, element))).collect()
}

fn folder(text: &str) -> String {
    let text = text.split(" #").next().unwrap_or_default();
    let text = text.trim().trim_matches(['"', '\'', '`']);
    text.trim_start_matches("./").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::keys_back::Known;
    use super::*;

    fn known(dropped: &'static [&'static str]) -> Known {
        Known { dropped, ..Known::NOTHING }
    }

    #[test]
    fn a_selection_may_grow_and_loses_only_what_a_run_removed() {
        for (path, start, less, more) in [
            (
                "go.work",
                "go 1.22\nuse (\n\t./a\n\t./b // c\n)\n",
                "go 1.22\n\nuse ./a\n",
                "use ./a\nuse b\nuse ./c\n",
            ),
            (
                "pnpm-workspace.yaml",
                "packages:\n  - 'a'\n  - b\n",
                "packages:\n- a\ncatalog:\n  - b\n",
                "packages: \n - a\n - \"b\" # x\n - c\n",
            ),
            (
                "pnpm-workspace.yaml",
                "packages:\n  - '*'\n  - b\n",
                "packages:\n- '*'\n- '!b'\n- b\n",
                "packages:\n- '*'\n- b\n- c\n",
            ),
            (
                "settings.gradle",
                "rootProject.name = 'x'\ninclude 'a', 'b'\n",
                "include 'a'\n// include 'b'\n",
                "include(\n \":a\",\n \":b\")\ninclude 'c'\n",
            ),
            (
                "x.sln",
                "Project(\"{F}\") = \"a\", \"a\\a.csproj\", \"{1}\"\nEndProject\nProject(\"{F}\") = \"b\", \"b\\b.csproj\", \"{2}\"\n",
                "Project(\"{F}\") = \"a\", \"a\\a.csproj\", \"{1}\"\n",
                "<Project Path=\"b/b.csproj\" />\n<Project Path=\"a/a.csproj\" />\n",
            ),
        ] {
            assert!(is_selection(path));
            assert_eq!(
                merged_selection(path, start, less, &known(&[])),
                Some(KeysBack::Original),
                "{path}"
            );
            assert_eq!(merged_selection(path, start, more, &known(&[])), None, "{path}");
            let is_same = merged_selection(path, start, less, &known(&["b"])).is_none();
            assert!(is_same || less.contains('!'), "{path}");
        }
        let pom = "<project><modules><module>a</module><module>b</module></modules></project>";
        let less = pom.replace("<module>b</module>", "");
        assert_eq!(merged_modules("pom.xml", pom, &less, &known(&[])), Some(KeysBack::Original));
        assert_eq!(merged_modules("pom.xml", pom, &less, &known(&["b"])), None);
    }
}
