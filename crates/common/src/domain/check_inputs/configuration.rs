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

/// Each stem, with its group in front.
static GROUPS_BY_STEM: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let stems = |(group, stems): &(&'static str, &'static str)| {
        let group = *group;
        stems.split_ascii_whitespace().map(move |stem| (group, stem))
    };
    STEMS.iter().flat_map(stems).collect()
});

/// Folders of continuous integration, of hooks, and of what starts a build tool.
const FOLDERS: &[&str] = &[
    ".github",
    ".gitea",
    ".forgejo",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".githooks",
    ".husky",
    ".mvn",
    ".woodpecker",
    ".config/nextest",
];

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
         .sqlfluff .spectral.yml .spectral.yaml .editorconfig build.xml mise.toml .mise.toml dodo.py \
         makefile.toml taskfile.dist.yml taskfile.dist.yaml earthfile sconstruct wscript pants.toml .bazelrc \
         bb.edn thorfile .env.test .env.testing .tool-versions .ignore .rgignore .fdignore",
    ),
    (
        "python",
        "noxfile.py tox.ini pytest.ini .pytest.ini pytest.toml .pytest.toml conftest.py .coveragerc \
         mypy.ini .mypy.ini .flake8 .pylintrc pylintrc .pylintrc.toml pylintrc.toml ruff.toml .ruff.toml \
         pyrightconfig.json .isort.cfg .style.yapf .pycodestyle .pydocstyle .pydocstyle.ini .bandit \
         bandit.yaml bandit.yml .pyre_configuration .importlinter .vulture.toml unittest.cfg nose2.cfg \
         behave.ini .behaverc ty.toml pyrefly.toml .pytype.cfg .docformatter .codespellrc pip.conf uv.toml \
         .python-version",
    ),
    (
        "javascript",
        ".eslintignore biome.json biome.jsonc cypress.json .nycrc .npmrc .yarnrc .yarnrc.yml \
         .pnpmfile.cjs bunfig.toml tslint.json .jshintrc .jshintignore .prettierignore .stylelintignore \
         jasmine.json .taprc .taprc.yml .testcaferc.json .testcaferc.js .oxlintrc.json dprint.json \
         .c8rc.json .c8rc .size-limit.json knip.json .htmlhintrc .lintstagedrc gulpfile.js gulpfile.mjs \
         gulpfile.cjs gulpfile.ts gruntfile.js gruntfile.cjs gruntfile.ts turbo.json nx.json lerna.json \
         moon.yml .jscpd.json .remarkrc .nvmrc .node-version",
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
        "rakefile rakefile.rb .rspec .rubocop.yml .rubocop_todo.yml .simplecov .reek.yml .standard.yml guardfile \
         .ruby-version",
    ),
    (
        "go",
        ".golangci.yml .golangci.yaml .golangci.toml .golangci.json staticcheck.conf revive.toml .go-version",
    ),
    (
        "jvm",
        "gradlew mvnw gradle-wrapper.properties gradle-wrapper.jar checkstyle.xml detekt.yml \
         .scalafmt.conf .scalafix.conf pmd.xml pmd-ruleset.xml spotbugs-exclude.xml testng.xml \
         junit-platform.properties lombok.config .java-version .sdkmanrc",
    ),
    (
        "c",
        ".clang-tidy .clang-format ctestconfig.cmake ctestcustom.cmake .cppcheck cpplint.cfg .valgrindrc",
    ),
    (
        "dotnet",
        ".runsettings xunit.runner.json stylecop.json nuget.config .globalconfig directory.build.rsp msbuild.rsp \
         global.json",
    ),
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
         protractor.conf. cucumber.",
    ),
];

/// Of all these, what a runner of tests reads: added ones belong to the first tests of a project. Without the
/// others a program does what it does by itself.
const OF_TESTS: &str = "pytest.ini .pytest.ini pytest.toml .pytest.toml conftest.py unittest.cfg nose2.cfg behave.ini \
     .behaverc cypress.json jasmine.json .taprc .taprc.yml .testcaferc.json .testcaferc.js bunfig.toml nextest.toml \
     phpunit.xml phpunit.xml.dist phpunit.dist.xml behat.yml codeception.yml .rspec testng.xml \
     junit-platform.properties ctestconfig.cmake .runsettings xunit.runner.json dart_test.yaml .busted .proverc .hspec";
const STEMS_OF_TESTS: &str = "jest vitest karma playwright cypress wdio nightwatch ava. .mocharc setuptests test-setup \
     setup-tests web-test-runner protractor cucumber.";

/// Extensions that only configuration of runners has.
const EXTENSIONS: &[&str] = &[".just", ".make", ".mk", ".ruleset", ".runsettings"];

/// Programs, and the recipes that they read without being given a name. They do nothing without one.
const RECIPES: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["makefile", "gnumakefile"]),
    (&["just"], &["justfile", ".justfile"]),
    (&["task"], &["taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"]),
    (&["rake"], &["rakefile", "rakefile.rb"]),
    (&["tox"], &["tox.ini"]),
    (&["nox"], &["noxfile.py"]),
    (&["ant"], &["build.xml"]),
    (&["mise"], &["mise.toml", ".mise.toml"]),
    (&["doit"], &["dodo.py"]),
    (&["invoke", "inv"], &["tasks.py"]),
    (&["gulp"], &["gulpfile.js", "gulpfile.mjs", "gulpfile.cjs", "gulpfile.ts"]),
    (&["grunt"], &["gruntfile.js", "gruntfile.cjs", "gruntfile.ts"]),
    (&["turbo"], &["turbo.json"]),
    (&["nx"], &["nx.json"]),
    (&["scons"], &["sconstruct"]),
    (&["waf"], &["wscript"]),
    (&["earthly"], &["earthfile"]),
    (&["bb"], &["bb.edn"]),
    (&["thor"], &["thorfile"]),
    (&["pre-commit"], &[".pre-commit-config.yaml"]),
    (
        &["eslint"],
        &[
            "eslint.config.js",
            "eslint.config.mjs",
            "eslint.config.cjs",
            ".eslintrc",
            ".eslintrc.json",
        ],
    ),
];

/// The recipes that a program reads, and that are products' names too: they are check inputs of its lines alone.
pub(super) fn recipes_of_program(program: &str) -> &'static [&'static str] {
    match program {
        "invoke" | "inv" => &["tasks.py"],
        _ => &[],
    }
}

/// Whether a runner of tests reads a configuration.
pub(super) fn runs_tests(path: &str) -> bool {
    let lower = name_of(path).to_ascii_lowercase();
    OF_TESTS.split_ascii_whitespace().any(|name| name == lower)
        || STEMS_OF_TESTS.split_ascii_whitespace().any(|stem| lower.starts_with(stem))
        || lower.ends_with(".runsettings")
}

/// Whether a path is configuration by its folder.
pub(super) fn is_of_folder(path: &str) -> bool {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    in_known_folder(folders)
}

fn in_known_folder(folders: &str) -> bool {
    FOLDERS.contains(&folders) || folders.split('/').any(|folder| FOLDERS.contains(&folder))
}

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
    group_of(lower).is_some()
        || EXTENSIONS.iter().any(|end| lower.ends_with(end))
        || is_included(lower)
        || in_known_folder(folders)
        || path == ".cargo/config"
        || path.ends_with("/.cargo/config")
        || path.ends_with(".cargo/config.toml")
        || path == ".bundle/config"
        || path.ends_with("/.bundle/config")
}

/// Whether recipes of make include such a file. Those of Automake list the sources of products.
fn is_included(lower: &str) -> bool {
    let rest = lower.strip_prefix("makefile.");
    rest.is_some_and(|rest| !rest.ends_with("am") && !rest.ends_with("in"))
}

/// The group of a name in lower case.
fn group_of(lower: &str) -> Option<&'static str> {
    let begun = |(_, stem): &&(&str, &str)| lower.starts_with(stem);
    let by_stem = || GROUPS_BY_STEM.iter().find(begun).map(|(group, _)| *group);
    GROUPS.get(lower).copied().or_else(by_stem)
}
