//! Files that configure a runner, a linter, a coverage tool, git or continuous integration.

use super::language::{language_of, name_of};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The group of each name.
static GROUPS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let names = |(group, names): &(&'static str, &'static str)| {
        let group = *group;
        names.split_ascii_whitespace().map(move |name| (name, group))
    };
    NAMES.iter().flat_map(names).collect()
});

/// Folders of continuous integration, of hooks, and of what starts a build tool.
const FOLDERS: &str = ".github .gitea .forgejo .gitlab .circleci .buildkite .githooks .husky .mvn .woodpecker .config/nextest";

/// Names in lower case, with the language whose tests they belong to; `-` where there is none.
const NAMES: &[(&str, &str)] = &[
    (
        "-",
        "makefile gnumakefile justfile .justfile taskfile.yml taskfile.yaml .gitlab-ci.yml jenkinsfile \
         .travis.yml azure-pipelines.yml .drone.yml bitbucket-pipelines.yml appveyor.yml \
         .appveyor.yml .pre-commit-config.yaml lefthook.yml .lefthook.yml lefthook.yaml .gitattributes \
         .gitconfig .lfsconfig run_tests run-tests runtests codecov.yml .codecov.yml .coveralls.yml \
         .codeclimate.yml sonar-project.properties .semgrepignore .semgrep.yml .yamllint .yamllint.yml \
         .yamllint.yaml .hadolint.yaml .hadolint.yml .markdownlint.json .markdownlint.yaml \
         .markdownlint.yml .markdownlintignore .markdownlint-cli2.jsonc .vale.ini .secretlintrc.json .gitleaks.toml \
         .gitleaksignore .checkov.yml \
         .sqlfluff .spectral.yml .spectral.yaml",
    ),
    (
        "python",
        "noxfile.py tox.ini pytest.ini .pytest.ini pytest.toml .pytest.toml conftest.py .coveragerc \
         mypy.ini .mypy.ini .flake8 .pylintrc pylintrc .pylintrc.toml pylintrc.toml ruff.toml .ruff.toml \
         pyrightconfig.json .isort.cfg .style.yapf .pycodestyle .pydocstyle .pydocstyle.ini .bandit \
         bandit.yaml bandit.yml .pyre_configuration .importlinter .vulture.toml unittest.cfg nose2.cfg",
    ),
    (
        "javascript",
        ".eslintignore biome.json biome.jsonc cypress.json .nycrc .npmrc .yarnrc .yarnrc.yml \
         .pnpmfile.cjs bunfig.toml tslint.json .jshintrc .jshintignore .prettierignore .stylelintignore \
         jasmine.json .taprc .taprc.yml .testcaferc.json .testcaferc.js .oxlintrc.json dprint.json \
         .c8rc.json .c8rc .size-limit.json knip.json .htmlhintrc .lintstagedrc",
    ),
    (
        "rust",
        "clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml deny.toml nextest.toml rust-toolchain \
         rust-toolchain.toml tarpaulin.toml .tarpaulin.toml typos.toml _typos.toml .typos.toml",
    ),
    (
        "php",
        "phpunit.xml phpunit.xml.dist phpunit.dist.xml phpstan.neon phpstan.neon.dist \
         phpstan-baseline.neon psalm.xml psalm.xml.dist phpcs.xml phpcs.xml.dist .phpcs.xml \
         .php-cs-fixer.php .php-cs-fixer.dist.php phpmd.xml behat.yml codeception.yml infection.json",
    ),
    (
        "ruby",
        "rakefile .rspec .rubocop.yml .rubocop_todo.yml .simplecov .reek.yml .standard.yml guardfile",
    ),
    (
        "go",
        ".golangci.yml .golangci.yaml .golangci.toml .golangci.json staticcheck.conf revive.toml",
    ),
    (
        "jvm",
        "gradlew mvnw gradle-wrapper.properties gradle-wrapper.jar checkstyle.xml detekt.yml \
         .scalafmt.conf .scalafix.conf pmd.xml pmd-ruleset.xml spotbugs-exclude.xml testng.xml \
         junit-platform.properties lombok.config",
    ),
    ("c", ".clang-tidy .clang-format ctestconfig.cmake .cppcheck cpplint.cfg .valgrindrc"),
    ("dotnet", ".runsettings xunit.runner.json stylecop.json .globalconfig"),
    ("swift", ".swiftlint.yml .swiftformat"),
    ("beam", ".credo.exs .formatter.exs .dialyzer_ignore.exs"),
    ("dart", "analysis_options.yaml dart_test.yaml"),
    ("shell", ".shellcheckrc"),
    ("lua", ".luacheckrc .busted"),
    ("perl", ".perlcriticrc .proverc"),
    ("haskell", ".hlint.yaml .hspec"),
];

/// What the names of configuration files begin with, before an extension or another part.
const STEMS: &[(&str, &str)] = &[
    ("-", "run_tests. run-tests. runtests. commitlint.config."),
    (
        "javascript",
        "jest.config. jest.setup. jest-setup. jest.preset. vitest.config. vitest.workspace. vitest.setup. \
         vitest-setup. karma.conf. playwright.config. cypress.config. wdio.conf. nightwatch.conf. \
         ava.config. .mocharc. .nycrc. .eslintrc eslint.config. setuptests. test-setup. setup-tests. \
         .prettierrc prettier.config. .stylelintrc stylelint.config. .lintstagedrc. \
         lint-staged.config. .dependency-cruiser. stryker.conf. stryker.config. web-test-runner.config. \
         protractor.conf.",
    ),
];

/// Extensions that only configuration of runners has.
const EXTENSIONS: &[&str] = &[".mk", ".runsettings", ".ruleset"];

/// Programs, and the recipes that they read without being given a name.
const RECIPES: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["makefile", "gnumakefile"]),
    (&["just"], &["justfile", ".justfile"]),
    (&["task"], &["taskfile.yml", "taskfile.yaml"]),
    (&["rake"], &["rakefile"]),
    (&["tox"], &["tox.ini"]),
    (&["nox"], &["noxfile.py"]),
];

/// The language whose tests a configuration belongs to; none where its name does not say.
pub(super) fn language_of_configuration(path: &str) -> Option<&'static str> {
    let lower = name_of(path).to_ascii_lowercase();
    let folder = path.rsplit_once('/').map_or("", |(folders, _)| name_of(folders));
    language_of(path)
        .or_else(|| group_of(&lower).filter(|group| *group != "-"))
        .or_else(|| (folder == ".cargo").then_some("rust"))
}

/// The programs that read a recipe, and the names that a recipe of theirs may have.
pub(super) fn recipe_of(path: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    let lower = name_of(path).to_ascii_lowercase();
    RECIPES.iter().find(|(_, names)| names.contains(&lower.as_str())).copied()
}

/// Whether a path is configuration by its name or by its folder.
pub(super) fn is_configuration(folders: &str, path: &str, lower: &str) -> bool {
    let in_folder =
        |known: &str| folders.split('/').any(|folder| folder == known) || folders == known;
    group_of(lower).is_some()
        || EXTENSIONS.iter().any(|end| lower.ends_with(end))
        || FOLDERS.split(' ').any(in_folder)
        || path == ".cargo/config"
        || path.ends_with("/.cargo/config")
        || path.ends_with(".cargo/config.toml")
}

/// The group of a name in lower case.
fn group_of(lower: &str) -> Option<&'static str> {
    let begun = |(_, stems): &&(&str, &str)| {
        stems.split_ascii_whitespace().any(|stem| lower.starts_with(stem))
    };
    let by_stem = || STEMS.iter().find(begun).map(|(group, _)| *group);
    GROUPS.get(lower).copied().or_else(by_stem)
}
