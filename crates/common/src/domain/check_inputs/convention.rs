//! The conventions of the ecosystems: which names are tests, and which configure a runner.

use super::InputKind;

/// Folders that hold nothing but tests and what belongs to them.
const TEST_FOLDERS: &[&str] = &[
    "test",
    "tests",
    "spec",
    "specs",
    "__tests__",
    "__test__",
    "__snapshots__",
    "__mocks__",
    "__fixtures__",
    "testdata",
    "test-data",
    "test_data",
    "e2e",
    "androidtest",
    "cypress",
    "integration-tests",
    "integration_tests",
    "integrationtest",
    "unit-tests",
    "unit_tests",
    "functional-tests",
    "functional_tests",
    "acceptance-tests",
    "acceptance_tests",
    "goldens",
];

/// Folders of continuous integration, of hooks, and of what starts a build tool.
const CONFIGURATION_FOLDERS: &[&str] = &[
    ".github",
    ".gitea",
    ".forgejo",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".husky",
    ".mvn",
    ".woodpecker",
];

/// Files that configure a runner, a linter or continuous integration, in lower case.
const CONFIGURATION: &[&str] = &[
    "makefile",
    "gnumakefile",
    "justfile",
    ".justfile",
    "taskfile.yml",
    "taskfile.yaml",
    "rakefile",
    "noxfile.py",
    "tox.ini",
    "pytest.ini",
    ".pytest.ini",
    "conftest.py",
    ".coveragerc",
    "mypy.ini",
    ".mypy.ini",
    ".flake8",
    ".pylintrc",
    "pylintrc",
    "ruff.toml",
    ".ruff.toml",
    "pyrightconfig.json",
    ".eslintignore",
    "biome.json",
    "biome.jsonc",
    "cypress.json",
    ".nycrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "bunfig.toml",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    ".rubocop.yml",
    ".golangci.yml",
    ".golangci.yaml",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    "deny.toml",
    "nextest.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "gradlew",
    "mvnw",
    "gradle-wrapper.properties",
    "gradle-wrapper.jar",
    ".gitlab-ci.yml",
    "jenkinsfile",
    ".travis.yml",
    "azure-pipelines.yml",
    ".drone.yml",
    "bitbucket-pipelines.yml",
    "appveyor.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "checkstyle.xml",
    "run_tests",
    "run-tests",
    "runtests",
];

/// What the names of configuration files begin with, before an extension or another part.
const CONFIGURATION_STEMS: &[&str] = &[
    "jest.config.",
    "jest.setup.",
    "jest-setup.",
    "vitest.config.",
    "vitest.workspace.",
    "vitest.setup.",
    "vitest-setup.",
    "karma.conf.",
    "playwright.config.",
    "cypress.config.",
    "wdio.conf.",
    "nightwatch.conf.",
    "ava.config.",
    ".mocharc.",
    ".nycrc.",
    ".eslintrc",
    "eslint.config.",
    "setuptests.",
    "test-setup.",
    "setup-tests.",
    "run_tests.",
    "run-tests.",
    "runtests.",
];

/// Extensions of files that are programs in some language, by the group whose tests run together.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("python", &["py", "pyi"]),
    ("javascript", &["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"]),
    ("go", &["go"]),
    ("rust", &["rs"]),
    ("jvm", &["java", "kt", "kts", "scala", "groovy", "clj"]),
    ("ruby", &["rb"]),
    ("php", &["php", "phpt"]),
    ("dotnet", &["cs", "fs", "vb"]),
    ("swift", &["swift"]),
    ("c", &["c", "cc", "cpp", "cxx", "h", "hpp", "m", "mm"]),
    ("beam", &["ex", "exs", "erl"]),
    ("dart", &["dart"]),
    ("shell", &["sh", "bash", "zsh", "bats", "ps1"]),
    ("lua", &["lua"]),
    ("perl", &["t", "pl", "pm"]),
    ("haskell", &["hs"]),
    ("zig", &["zig"]),
    ("julia", &["jl"]),
    ("r", &["r"]),
];

/// The languages of configuration files whose extension does not say.
const CONFIGURED: &[(&[&str], &str)] = &[
    (
        &[
            "tox.ini",
            "pytest.ini",
            ".pytest.ini",
            ".coveragerc",
            "mypy.ini",
            ".mypy.ini",
            ".flake8",
            ".pylintrc",
            "pylintrc",
            "ruff.toml",
            ".ruff.toml",
            "pyrightconfig.json",
        ],
        "python",
    ),
    (
        &[
            ".nycrc",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".mocharc.json",
            ".mocharc.yml",
            ".mocharc.yaml",
            ".eslintrc",
            ".eslintrc.json",
            ".eslintrc.yml",
            ".eslintignore",
            "cypress.json",
            "bunfig.toml",
            "jest.config.json",
        ],
        "javascript",
    ),
    (&["clippy.toml", ".clippy.toml", "rustfmt.toml", ".rustfmt.toml", "nextest.toml"], "rust"),
    (&["phpunit.xml", "phpunit.xml.dist"], "php"),
    (&[".rspec", ".rubocop.yml", "rakefile"], "ruby"),
    (&[".golangci.yml", ".golangci.yaml"], "go"),
];

/// Programs, and the recipes that they read without being given a name.
const RECIPES: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["makefile", "gnumakefile"]),
    (&["just"], &["justfile", ".justfile"]),
    (&["task"], &["taskfile.yml", "taskfile.yaml"]),
    (&["rake"], &["rakefile"]),
    (&["tox"], &["tox.ini"]),
    (&["nox"], &["noxfile.py"]),
];

/// Extensions that only tests and snapshots have.
const TEST_EXTENSIONS: &[&str] = &["bats", "golden", "phpt", "snap"];

/// Modules of Python's standard library and of its runners, without names that programs use for
/// themselves.
const PYTHON_MODULES: &[&str] = &[
    "__future__",
    "_pytest",
    "abc",
    "argparse",
    "ast",
    "asyncio",
    "atexit",
    "base64",
    "bisect",
    "builtins",
    "codecs",
    "collections",
    "contextlib",
    "copy",
    "copyreg",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "doctest",
    "encodings",
    "enum",
    "errno",
    "faulthandler",
    "fnmatch",
    "fractions",
    "functools",
    "gc",
    "genericpath",
    "gettext",
    "glob",
    "hashlib",
    "heapq",
    "hypothesis",
    "importlib",
    "iniconfig",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "marshal",
    "math",
    "nose",
    "nose2",
    "ntpath",
    "numpy",
    "opcode",
    "operator",
    "optparse",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "pkgutil",
    "pluggy",
    "posixpath",
    "pprint",
    "pytest",
    "random",
    "re",
    "reprlib",
    "runpy",
    "shlex",
    "shutil",
    "signal",
    "site",
    "sitecustomize",
    "socket",
    "sre_compile",
    "sre_parse",
    "stat",
    "string",
    "struct",
    "subprocess",
    "sys",
    "sysconfig",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "types",
    "typing",
    "unittest",
    "usercustomize",
    "warnings",
    "weakref",
    "zipimport",
    "zlib",
];

/// Programs that checks start by their bare names.
const PROGRAMS: &[&str] = &[
    "bash", "bun", "cargo", "cat", "cmake", "ctest", "deno", "diff", "dotnet", "env", "git", "go",
    "gradle", "grep", "jest", "just", "make", "mocha", "mvn", "ninja", "node", "npm", "npx", "nox",
    "phpunit", "pnpm", "pytest", "python", "python3", "rake", "rspec", "ruby", "rustc", "sh",
    "test", "tox", "tsc", "uv", "vitest", "yarn",
];

/// The language whose tests a file runs with; none for data and texts.
pub fn language_of(path: &str) -> Option<&'static str> {
    let extension = extension(name_of(path))?.to_ascii_lowercase();
    let of = |known: &&(&'static str, &[&str])| known.1.contains(&extension.as_str());
    LANGUAGES.iter().find(of).map(|(language, _)| *language)
}

/// The language whose tests a configuration belongs to; none where its name does not say.
pub(super) fn language_of_configuration(path: &str) -> Option<&'static str> {
    let lower = name_of(path).to_ascii_lowercase();
    let of = |(names, language): &(&[&str], &'static str)| {
        names.contains(&lower.as_str()).then_some(*language)
    };
    language_of(path).or_else(|| CONFIGURED.iter().find_map(of)).or_else(|| {
        let folder = path.rsplit_once('/').map_or("", |(folders, _)| name_of(folders));
        (folder == ".cargo").then_some("rust")
    })
}

/// The programs that read a recipe, and the names that a recipe of theirs may have.
pub(super) fn recipe_of(path: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    let lower = name_of(path).to_ascii_lowercase();
    RECIPES.iter().find(|(_, names)| names.contains(&lower.as_str())).copied()
}

/// Why a path is a check input by convention.
pub fn convention_of(path: &str) -> Option<InputKind> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let lower = name.to_ascii_lowercase();
    if is_configuration(folders, path, &lower) {
        return Some(InputKind::Configuration);
    }
    if is_test(folders, name, &lower) {
        return Some(InputKind::Test);
    }
    shadows(folders, &lower).then_some(InputKind::Shadow)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension)
}

fn is_configuration(folders: &str, path: &str, lower: &str) -> bool {
    CONFIGURATION.contains(&lower)
        || CONFIGURATION_STEMS.iter().any(|stem| lower.starts_with(stem))
        || lower.ends_with(".mk")
        || folders.split('/').any(|folder| CONFIGURATION_FOLDERS.contains(&folder))
        || path == ".cargo/config"
        || path.ends_with("/.cargo/config")
        || path.ends_with(".cargo/config.toml")
}

fn is_test(folders: &str, name: &str, lower: &str) -> bool {
    folders.split('/').any(is_test_folder)
        || extension(lower).is_some_and(|extension| TEST_EXTENSIONS.contains(&extension))
        || is_test_name(name, lower)
}

/// A folder by its exact name, and by an ending where the name says what is tested, as in
/// `App.Tests` and `AppTests`.
fn is_test_folder(folder: &str) -> bool {
    let lower = folder.to_ascii_lowercase();
    let ended = [".test", ".tests", "-tests", "_tests", ".unittests", ".integrationtests"];
    TEST_FOLDERS.contains(&lower.as_str())
        || ended.iter().any(|end| lower.len() > end.len() && lower.ends_with(end))
        || camel_ends(folder, "Tests")
}

fn is_test_name(name: &str, lower: &str) -> bool {
    let Some(language) = language_of(name) else { return false };
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let lower_stem = lower.rsplit_once('.').map_or(lower, |(stem, _)| stem);
    let is_whole = matches!(lower_stem, "test" | "tests" | "spec" | "spec_helper" | "test_helper");
    let begins = lower_stem.starts_with("test_") || lower_stem.starts_with("test-");
    let ends = ["_test", "_tests", "-test", "-tests", ".test", ".tests", "_spec", "-spec", ".spec"]
        .iter()
        .chain(&["_unittest", ".cy", "_suite"])
        .any(|end| lower_stem.len() > end.len() && lower_stem.ends_with(end));
    let is_camel = matches!(language, "jvm" | "php" | "dotnet" | "swift" | "haskell")
        && (["Test", "Tests", "TestCase", "Spec", "IT"].iter().any(|end| camel_ends(stem, end))
            || stem.strip_prefix("Test").is_some_and(|rest| rest.starts_with(char::is_uppercase)));
    is_whole || begins || ends || is_camel || language == "perl" && lower.ends_with(".t")
}

/// Whether a word ends with another that begins a part of it: `FooTest` and not `Contest`.
fn camel_ends(word: &str, end: &str) -> bool {
    word.strip_suffix(end).is_some_and(|rest| {
        rest.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
    })
}

/// Python finds modules in the folder that it is started in before its own. Elsewhere such a name may be a
/// part of a package.
fn shadows(folders: &str, lower: &str) -> bool {
    let module = [".py", ".pyc", ".so"].iter().find_map(|end| lower.strip_suffix(end));
    let is_module =
        |module: &str| PYTHON_MODULES.contains(&module.split('.').next().unwrap_or(module));
    if module.is_some_and(|module| {
        matches!(module, "sitecustomize" | "usercustomize")
            || folders.is_empty() && is_module(module)
    }) {
        return true;
    }
    let first = folders.split('/').next().unwrap_or_default();
    let in_package = !first.is_empty() && is_module(first) && lower.ends_with(".py");
    let is_metadata =
        |folder: &str| [".dist-info", ".egg-info"].iter().any(|end| folder.ends_with(end));
    in_package
        || folders.split('/').any(is_metadata)
        || lower.ends_with(".pth")
        || matches!(folders, "" | "bin") && PROGRAMS.contains(&lower)
}
