//! The packages that tests are written with or run by: which they are, and where the start took them from.
//!
//! A run may add a dependency and raise a version. It may not put a package of its own in the place of one that
//! the tests of the start assert with.

use super::dependency_lists::{
    Dependency, of_cargo, of_gemfile, of_json, of_python, of_requirements, python_name,
};
use super::ecosystem::{ecosystem_of, is_requirements};
use super::language::name_of;
use super::words::is_helpers;
use std::collections::{BTreeMap, BTreeSet};

/// Libraries and runners of tests, by the ecosystem; one that ends with `/` stands for all below it.
const LIBRARIES: &[(&str, &str)] = &[
    (
        "node",
        "@ava/ @jest/ @playwright/ @testing-library/ @vitest/ ava c8 chai chai-as-promised cypress enzyme \
         expect expect.js fast-check istanbul jasmine jasmine-core jest jest-circus jest-mock karma mocha \
         node-tap nyc playwright power-assert proxyquire qunit should sinon sinon-chai supertest tap tape \
         testdouble unexpected uvu vitest zora",
    ),
    (
        "python",
        "assertpy behave coverage freezegun hypothesis nose nose2 parameterized pluggy \
         pyhamcrest hamcrest pytest pytest-asyncio pytest-bdd pytest-cov pytest-django pytest-mock pytest-xdist \
         robotframework sure syrupy testfixtures testtools unittest2",
    ),
    (
        "rust",
        "assert2 assert_cmd assert_fs assert_matches assert_float_eq arbtest cool_asserts expect-test \
         googletest insta insta-cmd libtest-mimic mockall mockito pretty_assertions proptest quickcheck \
         quickcheck_macros rstest rusty-fork serial_test similar-asserts snapbox speculoos \
         test-case test-log test-strategy tokio-test trybuild trycmd wiremock",
    ),
    (
        "php",
        "behat/ brianium/paratest codeception/ hamcrest/ mockery/ pestphp/ phpspec/ phpunit/ sebastian/ \
         symfony/phpunit-bridge webmozart/assert",
    ),
    (
        "ruby",
        "capybara cucumber minitest minitest-reporters mocha power_assert rr rspec rspec-core \
         rspec-expectations rspec-mocks rspec-rails rspec-support shoulda shoulda-matchers simplecov test-unit",
    ),
    (
        "go",
        "github.com/frankban/quicktest/ github.com/golang/mock/ github.com/google/go-cmp/ github.com/matryer/is/ \
         github.com/onsi/ginkgo/ github.com/onsi/gomega/ github.com/smartystreets/goconvey/ \
         github.com/stretchr/testify/ go.uber.org/mock/ gopkg.in/check.v1/ gotest.tools/",
    ),
];

/// Where the start took a package from that tests are written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A registry.
    Registry,
    /// A folder or a repository.
    Elsewhere,
}

/// The packages of the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Packages {
    /// What manifests name for tests alone, and for products.
    tests: BTreeSet<String>,
    products: BTreeSet<String>,
    /// Those that do not come from a registry, and the folder of each in the workspace.
    elsewhere: BTreeMap<String, String>,
}

impl Packages {
    /// Whether a manifest may name packages for tests.
    pub(super) fn reads(path: &str) -> bool {
        let name = name_of(path);
        let known = ["Cargo.toml", "package.json", "pyproject.toml", "Pipfile", "composer.json"];
        known.contains(&name) || name == "Gemfile" || name == "gems.rb" || is_requirements(path)
    }

    /// Adds what a manifest of the start names.
    pub(super) fn add(&mut self, path: &str, text: &str) {
        let Some(ecosystem) = ecosystem_of(path).filter(|_| Self::reads(path)) else { return };
        let found = match ecosystem {
            "rust" => text.parse().map(|table| of_cargo(path, &table)).unwrap_or_default(),
            "node" => of_json(path, text, &["devDependencies"]),
            "php" => of_json(path, text, &["require-dev"]),
            "ruby" => of_gemfile(text),
            _ if path.ends_with(".txt") => of_requirements(path, text),
            _ => text.parse().map(|table| of_python(&table)).unwrap_or_default(),
        };
        for Dependency { name, for_tests, elsewhere } in found {
            let key = key(ecosystem, &name);
            if let Some(place) = elsewhere {
                self.elsewhere.insert(key.clone(), place);
            }
            if for_tests {
                self.tests.insert(key)
            } else {
                self.products.insert(key)
            };
        }
    }

    /// Where the start took a package from; none for one that tests are not written with.
    pub(super) fn origin_of(&self, ecosystem: &str, name: &str) -> Option<Origin> {
        let key = key(ecosystem, name);
        let is_one = is_library(ecosystem, name)
            || self.tests.contains(&key) && !self.products.contains(&key);
        let elsewhere = self.elsewhere.contains_key(&key);
        is_one.then_some(if elsewhere { Origin::Elsewhere } else { Origin::Registry })
    }

    /// Whether a path lies in a package that tests are written with: a copy that a package manager made, or one of
    /// the workspace that only tests use and whose name says that it helps them.
    pub(super) fn holds(&self, path: &str) -> bool {
        let is_copy = vendored(path).iter().any(|(eco, name)| self.origin_of(eco, name).is_some());
        is_copy
            || self.elsewhere.iter().any(|(key, folder)| {
                let is_inside =
                    path.strip_prefix(folder.as_str()).is_some_and(|it| it.starts_with('/'));
                is_inside
                    && is_helpers(folder)
                    && self.tests.contains(key)
                    && !self.products.contains(key)
            })
    }

    /// Whether a module of Python takes the place of a package that tests import.
    pub(super) fn is_module(&self, module: &str) -> bool {
        let name = module.replace('_', "-");
        self.origin_of("python", &name) == Some(Origin::Registry)
            || self.origin_of("python", &format!("py{name}")) == Some(Origin::Registry)
    }

    /// The parts of the stored form.
    pub(super) fn encode(&self) -> impl Iterator<Item = (&'static str, String)> {
        let sets = [("T", &self.tests), ("P", &self.products)];
        let names = sets
            .into_iter()
            .flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.clone())));
        let places = self.elsewhere.iter().map(|(key, place)| ("E", format!("{key}\u{1}{place}")));
        names.chain(places)
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "T" => drop(self.tests.insert(name.to_owned())),
            "P" => drop(self.products.insert(name.to_owned())),
            "E" => {
                let (key, place) = name.split_once('\u{1}').unwrap_or((name, ""));
                self.elsewhere.insert(key.to_owned(), place.to_owned());
            }
            _ => return false,
        }
        true
    }
}

/// Whether tests of an ecosystem are written with or run by a package, whatever a manifest says.
pub(super) fn is_library(ecosystem: &str, name: &str) -> bool {
    let name = normal(ecosystem, name);
    let of = |known: &str| match known.strip_suffix('/') {
        Some(above) => {
            name.strip_prefix(above).is_some_and(|it| it.is_empty() || it.starts_with('/'))
        }
        None => known == name,
    };
    let own = LIBRARIES.iter().filter(|(known, _)| *known == ecosystem);
    own.flat_map(|(_, names)| names.split_ascii_whitespace()).any(of)
}

/// The folder of the package of tests that a changed file belongs to, where its package manager names each package that
/// it installs anew, and none of these names is that of the package.
pub fn replaced_package(
    path: &str,
    named: &[String],
    is_of_tests: impl Fn(&str, &str) -> bool,
) -> Option<String> {
    let found = vendored(path).into_iter().filter(|(ecosystem, _)| *ecosystem == "node");
    let (_, name) = found.into_iter().find(|(ecosystem, name)| is_of_tests(ecosystem, name))?;
    let folder = format!("node_modules/{name}");
    let end = path.rfind(&folder)? + folder.len();
    (!names_package(named, &name)).then(|| path.get(..end).map(str::to_owned)).flatten()
}

/// Whether a manifest names the package anew that an installed file belongs to.
pub fn is_named_anew(path: &str, named: &[String]) -> bool {
    vendored(path).iter().any(|(_, name)| names_package(named, name))
}

fn names_package(named: &[String], name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || "-_.@".contains(letter);
    let names = |text: &String| {
        text.match_indices(name).any(|(at, _)| {
            let before = text.get(..at).and_then(|it| it.chars().next_back());
            let after = text.get(at + name.len()..).and_then(|it| it.chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
    };
    named.iter().any(names)
}

/// The package managers, and the names of the package in each, that may have made a path.
pub fn vendored(path: &str) -> Vec<(&'static str, String)> {
    const FOLDERS: &[&str] = &["node_modules/", "site-packages/", "gems/", "vendor/"];
    if !FOLDERS.iter().any(|folder| path.contains(folder)) {
        return Vec::new();
    }
    let parts: Vec<&str> = path.split('/').collect();
    let below = |folder: &str| {
        let at = parts.iter().rposition(|part| *part == folder)?;
        parts.get(at + 1..).filter(|rest| !rest.is_empty())
    };
    let mut found = Vec::new();
    if let Some([first, rest @ ..]) = below("node_modules") {
        let scoped = rest.first().filter(|_| first.starts_with('@'));
        let name = scoped.map_or((*first).to_owned(), |name| format!("{first}/{name}"));
        found.push(("node", name));
    }
    if let Some([first, ..]) = below("site-packages") {
        let first = first.split_once('.').map_or(*first, |(stem, _)| stem);
        let name = first.split_once('-').map_or(first, |(name, _)| name);
        found.push(("python", name.to_owned()));
    }
    if let Some([first, ..]) = below("gems") {
        found.push(("ruby", without_version(first).to_owned()));
    }
    if let Some([first, rest @ ..]) = below("vendor")
        && !rest.is_empty()
    {
        found.push(("rust", without_version(first).to_owned()));
        found.push(("php", format!("{first}/{}", rest.first().unwrap_or(&""))));
        found.push(("go", format!("{first}/{}", rest.join("/"))));
    }
    found
}

/// A name without the version behind it.
fn without_version(name: &str) -> &str {
    let is_version = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    name.rsplit_once('-').filter(|(_, rest)| is_version(rest)).map_or(name, |(name, _)| name)
}

fn normal(ecosystem: &str, name: &str) -> String {
    match ecosystem {
        "python" => python_name(name),
        "php" => name.to_ascii_lowercase(),
        _ => name.to_owned(),
    }
}

fn key(ecosystem: &str, name: &str) -> String {
    format!("{ecosystem}/{}", normal(ecosystem, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Packages {
        let mut packages = Packages::default();
        files.iter().for_each(|(path, text)| packages.add(path, text));
        let mut again = Packages::default();
        for (kind, name) in packages.encode() {
            assert!(again.decode(kind, &name));
        }
        assert_eq!(again, packages);
        packages
    }

    /// The manifests of a project in several languages.
    fn project() -> Packages {
        of(&[
            (
                "Cargo.toml",
                "[dependencies]\nboth = \"1\"\n[dev-dependencies]\nboth = \"1\"\nsame = \"1\"\n\
                 check-support = { path = \"check-support\" }\n[target.'cfg(unix)'.dev-dependencies]\nunix-only = \"1\"\n",
            ),
            (
                "web/package.json",
                "{\"dependencies\":{\"a\":\"1\"},\"devDependencies\":{\"a\":\"1\",\"b\":\"1\",\"c\":\"file:c\"}}",
            ),
            ("requirements-dev.txt", "-r requirements.txt\nMy_Checks==1 # x\nurl @ file:///x\n"),
            ("requirements.txt", "flask>=1\n"),
            (
                "pyproject.toml",
                "[project]\ndependencies = [\"web\"]\n[dependency-groups]\ndev = [\"own-checks>=1\"]\n\
                 [tool.poetry.group.test.dependencies]\nfar = { path = \"../far\" }\n",
            ),
            ("composer.json", "{\"require\":{\"a/b\":\"1\"},\"require-dev\":{\"C/d\":\"1\"}}"),
            (
                "Gemfile",
                "gem 'rails'\ngroup :test do\n  gem 'own', path: './own'\nend\ngem 'late'\n",
            ),
        ])
    }

    #[test]
    fn what_a_manifest_names_for_tests_alone_is_a_package_of_tests() {
        let packages = project();
        use Origin::{Elsewhere, Registry};
        for (ecosystem, name, expected) in [
            ("rust", "both", None),
            ("rust", "same", Some(Registry)),
            ("rust", "unix-only", Some(Registry)),
            ("rust", "check-support", Some(Elsewhere)),
            ("rust", "pretty_assertions", Some(Registry)),
            ("rust", "serde", None),
            ("node", "a", None),
            ("node", "b", Some(Registry)),
            ("node", "c", Some(Elsewhere)),
            ("node", "@jest/expect", Some(Registry)),
            ("python", "my-checks", Some(Registry)),
            ("python", "url", Some(Elsewhere)),
            ("python", "flask", None),
            ("python", "web", None),
            ("python", "own_checks", Some(Registry)),
            ("python", "far", Some(Elsewhere)),
            ("python", "PyTest", Some(Registry)),
            ("php", "a/b", None),
            ("php", "c/d", Some(Registry)),
            ("php", "phpunit/phpunit", Some(Registry)),
            ("ruby", "rails", None),
            ("ruby", "late", None),
            ("ruby", "own", Some(Elsewhere)),
            ("go", "github.com/stretchr/testify/assert", Some(Registry)),
            ("go", "github.com/stretchr/testifyx", None),
        ] {
            assert_eq!(packages.origin_of(ecosystem, name), expected, "{ecosystem} {name}");
        }
    }

    #[test]
    fn copies_and_helpers_of_the_workspace_belong_to_packages_of_tests() {
        let packages = project();
        for (path, expected) in [
            ("node_modules/b/index.js", true),
            ("web/node_modules/@jest/expect/x.js", true),
            ("node_modules/a/index.js", false),
            ("vendor/same-1.2.0/src/lib.rs", true),
            ("vendor/both/src/lib.rs", false),
            ("vendor/github.com/stretchr/testify/assert/a.go", true),
            ("vendor/phpunit/phpunit/src/a.php", true),
            ("vendor/bundle/ruby/3.2.0/gems/rspec-core-3.12.0/lib/a.rb", true),
            ("lib/site-packages/pytest/__init__.py", true),
            ("check-support/src/lib.rs", true),
            ("check-supports/src/lib.rs", false),
            ("src/b.js", false),
        ] {
            assert_eq!(packages.holds(path), expected, "{path}");
        }
        let is_of_tests = |eco: &str, name: &str| packages.origin_of(eco, name).is_some();
        for (path, named, expected) in [
            ("web/node_modules/b/index.js", "/dependencies/left=\"1\"", Some("web/node_modules/b")),
            ("node_modules/@jest/x/a.js", "/packages/x=1", Some("node_modules/@jest/x")),
            ("node_modules/b/index.js", "/packages/node_modules/b/version=2", None),
            ("node_modules/a/index.js", "", None),
            (".venv/lib/site-packages/pytest/a.py", "", None),
        ] {
            let found = replaced_package(path, &[named.to_owned()], is_of_tests);
            assert_eq!(found.as_deref(), expected, "{path}");
        }
        assert!(packages.is_module("own_checks") && packages.is_module("hamcrest"));
        assert!(!packages.is_module("flask") && !packages.is_module("far"));
    }
}
