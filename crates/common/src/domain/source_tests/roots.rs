//! Roots of crates that a package builds and tests, by its `Cargo.toml`.

use toml::{Table, Value};

/// The manifests of Cargo beside the sources.
pub trait Manifests {
    /// Whether the run has a file at this path.
    fn has_manifest(&self, path: &str) -> bool;

    /// The texts of a manifest at the start and now; none where one of them is not known.
    fn texts(&self, path: &str) -> Option<[String; 2]>;
}

/// The root of a crate whose tests run with those of its package.
pub(super) struct Root {
    /// The folder with the sources of the package, with a slash at its end.
    pub(super) sources: String,
    /// Whether examples in its documentation run, too.
    pub(super) has_doctests: bool,
}

/// Whether a line has an option that tests some targets of a package alone, such as `--bin` or `--lib`.
pub fn selects_targets(line: &str) -> bool {
    const OPTIONS: &[&str] = &[
        "--bench",
        "--benches",
        "--bin",
        "--bins",
        "--doc",
        "--example",
        "--examples",
        "--lib",
        "--test",
    ];
    let words = line.split(|letter: char| letter.is_whitespace() || "'\"`;&|()=".contains(letter));
    words.into_iter().any(|word| OPTIONS.contains(&word))
}

/// The root of a crate that a source is; none where it is none, or its tests do not run.
pub(super) fn root_of(path: &str, manifests: &dyn Manifests) -> Option<Root> {
    let mut folder = path;
    let place = loop {
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        if manifests.has_manifest(&format!("{inside}Cargo.toml")) {
            break inside;
        }
        if folder.is_empty() {
            return None;
        }
    };
    let inside = path.strip_prefix(&place)?;
    let [start, now] = manifests.texts(&format!("{place}Cargo.toml"))?;
    let (start, now) = (start.parse::<Table>().ok()?, now.parse::<Table>().ok()?);
    let is_lib = is_tested_library(inside, &start, &now);
    let is_root = is_lib || is_tested_program(inside, &start, &now);
    is_root.then(|| Root {
        sources: format!("{place}src/"),
        has_doctests: is_lib && [&start, &now].iter().all(|it| is_on(table(it, "lib"), "doctest")),
    })
}

fn is_tested_library(inside: &str, start: &Table, now: &Table) -> bool {
    let path = table(now, "lib").and_then(|lib| text(lib, "path")).unwrap_or("src/lib.rs");
    is_same_path(path, inside)
        && now.contains_key("package")
        && [start, now].iter().all(|manifest| {
            is_on(table(manifest, "package"), "autolib")
                && table(manifest, "lib").is_none_or(is_tested)
        })
}

/// A program is a target that the manifest lists, or is found by its place.
fn is_tested_program(inside: &str, start: &Table, now: &Table) -> bool {
    let Some(package) = table(now, "package") else { return false };
    let main = || text(package, "name").filter(|_| inside == "src/main.rs");
    let name = inside.strip_prefix("src/bin/").and_then(|rest| {
        let name = rest.strip_suffix("/main.rs").or_else(|| rest.strip_suffix(".rs"))?;
        (!name.contains('/')).then_some(name)
    });
    let name = name.or_else(main);
    let is_at = |bin: &Table| text(bin, "path").is_some_and(|path| is_same_path(path, inside));
    let is_it = |bin: &&Table| is_at(bin) || name.is_some() && text(bin, "name") == name;
    let listed: Vec<&Table> = programs(now).filter(is_it).collect();
    let is_tested_at_start = programs(start).filter(is_it).all(is_tested);
    // A target of this name with another path stands in its place.
    let is_here = |bin: &&Table| is_tested(bin) && (is_at(bin) || !bin.contains_key("path"));
    let is_found = || {
        let finds = |manifest: &&Table| is_on(table(manifest, "package"), "autobins");
        // In the edition of 2015 none is found by its place where any is listed.
        let is_new = text(package, "edition").is_some_and(|edition| edition != "2015");
        name.is_some()
            && [start, now].iter().all(finds)
            && (is_new || programs(now).next().is_none())
    };
    is_tested_at_start && listed.iter().all(is_here) && (!listed.is_empty() || is_found())
}

/// Whether Cargo tests a target, in every build and by the harness of Rust.
fn is_tested(target: &Table) -> bool {
    is_on(Some(target), "test")
        && is_on(Some(target), "harness")
        && !target.contains_key("required-features")
}

fn is_on(table: Option<&Table>, key: &str) -> bool {
    let value = table.and_then(|table| table.get(key));
    value.is_none_or(|value| value.as_bool() == Some(true))
}

fn is_same_path(path: &str, inside: &str) -> bool {
    path.trim_start_matches("./") == inside
}

fn programs(manifest: &Table) -> impl Iterator<Item = &Table> {
    let list = manifest.get("bin").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_table)
}

fn table<'t>(table: &'t Table, key: &str) -> Option<&'t Table> {
    table.get(key).and_then(Value::as_table)
}

fn text<'t>(table: &'t Table, key: &str) -> Option<&'t str> {
    table.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One<'t>(&'t str, &'t str);

    impl Manifests for One<'_> {
        fn has_manifest(&self, path: &str) -> bool {
            path == "a/Cargo.toml"
        }

        fn texts(&self, _: &str) -> Option<[String; 2]> {
            Some([self.0, self.1].map(str::to_owned))
        }
    }

    const PACKAGE: &str = "[package]\nname = \"adds\"\nedition = \"2021\"\n";

    fn is_root(path: &str, now: &str) -> bool {
        root_of(path, &One(PACKAGE, now)).is_some()
    }

    #[test]
    fn roots_are_found_by_their_places_and_by_their_paths() {
        for path in ["a/src/lib.rs", "a/src/main.rs", "a/src/bin/x.rs", "a/src/bin/x/main.rs"] {
            assert!(is_root(path, PACKAGE), "{path}");
        }
        for (path, target) in [
            ("a/lib/adds.rs", "[lib]\npath = \"lib/adds.rs\"\n"),
            ("a/src/lib.rs", "[lib]\npath = \"./src/lib.rs\"\nname = \"sums\"\n"),
            ("a/src/run.rs", "[[bin]]\nname = \"run\"\npath = \"src/run.rs\"\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"x\"\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"y\"\ntest = false\n"),
            ("a/src/main.rs", "[lib]\ntest = false\n"),
        ] {
            assert!(is_root(path, &format!("{PACKAGE}{target}")), "{path} {target}");
        }
        let root = |lib: &str| {
            let now = format!("{PACKAGE}[lib]\n{lib}\n");
            root_of("a/src/lib.rs", &One(PACKAGE, &now)).unwrap()
        };
        assert!(root("").has_doctests && root("").sources == "a/src/");
        assert!(!root("doctest = false").has_doctests);
        let program = root_of("a/src/main.rs", &One(PACKAGE, PACKAGE)).unwrap();
        assert!(!program.has_doctests, "Cargo runs no examples of a program");
    }

    #[test]
    fn what_is_not_built_or_not_tested_is_no_root() {
        for path in [
            "src/lib.rs",
            "a/src/other.rs",
            "a/src/bin/x/y.rs",
            "a/src/bin/x/y/main.rs",
            "a/lib.rs",
            "a/src/x/main.rs",
        ] {
            assert!(!is_root(path, PACKAGE), "{path}");
        }
        for (path, more) in [
            ("a/src/lib.rs", "autolib = false\n"),
            ("a/src/lib.rs", "[lib]\ntest = false\n"),
            ("a/src/lib.rs", "[lib]\nharness = false\n"),
            ("a/src/lib.rs", "[lib]\npath = \"other.rs\"\n"),
            ("a/src/bin/x.rs", "autobins = false\n"),
            ("a/src/main.rs", "autobins = false\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"x\"\ntest = false\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"y\"\npath = \"src/bin/x.rs\"\ntest = false\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"x\"\nharness = false\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"x\"\nrequired-features = [\"y\"]\n"),
            ("a/src/bin/x.rs", "[[bin]]\nname = \"x\"\npath = \"src/y.rs\"\n"),
            ("a/src/main.rs", "[[bin]]\nname = \"adds\"\npath = \"src/y.rs\"\n"),
            ("a/src/run.rs", "[[bin]]\nname = \"run\"\npath = \"src/run.rs\"\ntest = false\n"),
        ] {
            let other = format!("{PACKAGE}{more}");
            assert!(!is_root(path, &other), "{path} {more}");
            if !more.contains("path") {
                let is_one = root_of(path, &One(&other, PACKAGE)).is_some();
                assert!(!is_one, "the view has the switches of the start: {path} {more}");
            }
        }
        let old = "[package]\nname = \"adds\"\n[[bin]]\nname = \"y\"\n";
        assert!(!is_root("a/src/bin/x.rs", old));
        assert!(!is_root("a/src/lib.rs", "[workspace]\nmembers = [\"b\"]\n"));
        assert!(!is_root("a/src/lib.rs", "no manifest"));
    }

    #[test]
    fn a_line_may_select_targets() {
        for line in ["cargo test --bin x", "cargo test --bin=x", "sh -c 'cargo test --lib'"] {
            assert!(selects_targets(line), "{line}");
        }
        for line in ["cargo test", "cargo test -p adds --all-targets", "cargo nextest run"] {
            assert!(!selects_targets(line), "{line}");
        }
    }
}
