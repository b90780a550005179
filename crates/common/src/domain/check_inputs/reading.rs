//! Lines that start no test: what they read is data under test, and no part of the check.

use super::InputKind;
use super::ignored::is_obeyed;
use super::interpreter::reads_syntax_only;
use super::visits::join;
use crate::domain::shell_line::{
    Folders, Given, Segment, base_name, given_to_shell, segments, substitutions, unwrapped,
};

/// Programs that read files and change nothing. Those that compare two files are not among them: one of the two is
/// what the other one has to be.
const READERS: &[&str] = &[
    ":", "[", "[[", "ag", "awk", "basename", "cat", "cut", "dirname", "du", "echo", "egrep",
    "exit", "false", "fgrep", "file", "find", "gawk", "grep", "head", "jq", "ls", "nl", "printf",
    "readlink", "realpath", "rg", "sed", "set", "shopt", "sort", "stat", "tac", "tail", "test",
    "tr", "tree", "true", "uniq", "wc", "yq",
];
/// Readers that read the folder they are started in, where they are given no file.
const OF_FOLDERS: &[&str] = &["ag", "du", "find", "ls", "rg", "tree"];
/// Readers whose first operand is no file.
const WITH_PATTERN: &[&str] =
    &["ag", "awk", "egrep", "fgrep", "gawk", "grep", "jq", "rg", "sed", "yq"];
/// Readers that take what several files say together.
const OF_SEVERAL: &[&str] = &["awk", "gawk", "jq", "sort", "yq"];
/// Subcommands of git that look at the repository and the files.
const OF_GIT: &[&str] = &[
    "blame",
    "cat-file",
    "check-attr",
    "check-ignore",
    "describe",
    "diff",
    "diff-index",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
];
/// Modules of Python that read the files they are given and start nothing in them.
const MODULES: &[&str] = &["json.tool", "py_compile", "tabnanny", "tokenize"];
/// Formatters and linters of style. Type checkers are not among them: sources of tests are what types have to fit.
const LINTERS: &[&str] = &[
    "bandit",
    "black",
    "clang-format",
    "codespell",
    "cppcheck",
    "editorconfig-checker",
    "eslint",
    "flake8",
    "gofmt",
    "goimports",
    "golangci-lint",
    "hadolint",
    "isort",
    "ktlint",
    "luacheck",
    "markdownlint",
    "markdownlint-cli2",
    "php-cs-fixer",
    "phpcs",
    "prettier",
    "pycodestyle",
    "pydocstyle",
    "pylint",
    "rubocop",
    "ruff",
    "rustfmt",
    "shellcheck",
    "shfmt",
    "standard",
    "stylelint",
    "stylua",
    "tflint",
    "typos",
    "vale",
    "yamllint",
    "yapf",
];
/// The same as subcommands of a program.
const LINT_COMMANDS: &[(&str, &[&str])] = &[
    ("biome", &["ci", "check", "format", "lint"]),
    ("buf", &["format", "lint"]),
    ("cargo", &["clippy", "fmt"]),
    ("dart", &["analyze", "format"]),
    ("deno", &["fmt", "lint"]),
    ("terraform", &["fmt"]),
    ("zig", &["fmt"]),
];
/// Programs that start a program of a package.
const PACKAGE_STARTERS: &[&str] = &["bunx", "npx", "pnpx"];

/// Whether a part of a chain only reads one of these files, and another one may start tests. The files of both are check
/// inputs then.
pub fn reads_and_runs(line: &str, changed: &[(&str, InputKind)]) -> bool {
    let mut parts = line.split("&&");
    let reads = |reading: Reading| changed.iter().any(|(path, kind)| reading.is_data(path, *kind));
    line.contains("&&")
        && Reading::of(line).is_none()
        && parts.any(|part| Reading::of(part.trim()).is_some_and(reads))
}

/// What a line that starts no test reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The files and folders that its readers are given; an empty one is the whole workspace.
    operands: Vec<String>,
    has_git: bool,
    has_linter: bool,
    /// A search leaves out what ignore files name.
    obeys_ignored: bool,
}

/// Whether a text that the shell puts in is the same whatever the workspace holds: `$(printf '\r')`.
fn is_constant(line: &str) -> bool {
    let all = segments(line);
    !all.is_empty()
        && all.iter().all(|Segment { words, input, .. }| {
            matches!(words.first().map(String::as_str), Some("printf" | "echo"))
                && input.is_none()
                && !words.iter().any(|word| word.contains(['$', '`', '*', '?']))
        })
}

impl Reading {
    /// What a line reads; none where it may start anything else.
    pub(super) fn of(line: &str) -> Option<Self> {
        let mut found = Self::default();
        let mut folders = Folders::new(String::new());
        let all = segments(line);
        // Two texts that the shell puts in: one of them is what the other one has to be.
        if all.iter().flat_map(|it| &it.words).filter(|word| word.ends_with('$')).count() > 1 {
            return None;
        }
        for segment in &all {
            let goes = |folder: &String, to: Option<&str>| {
                to.map_or_else(String::new, |to| join("", folder, to))
            };
            if folders.take(segment, goes) {
                continue;
            }
            let Segment { words, input, .. } = segment;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let own = unwrapped(&words).iter().copied().chain(input.as_deref());
            let own: Vec<&str> = own.filter(|word| *word != "!").collect();
            let given =
                own.split_first().and_then(|(name, rest)| given_to_shell(base_name(name), rest));
            if let Some(Given::Text(text)) = given {
                found.take(folders.now(), Self::of(text)?);
                continue;
            }
            let own: Vec<String> = own.into_iter().map(str::to_owned).collect();
            found.add(folders.now(), &own)?;
        }
        (!all.is_empty()).then_some(found)
    }

    fn add(&mut self, folder: &str, words: &[String]) -> Option<()> {
        let (program, arguments) = words.split_first()?;
        let name = match program.rsplit_once('/') {
            Some(("/bin" | "/usr/bin", name)) => name,
            Some(_) => return None,
            None => program.as_str(),
        };
        let first = arguments.iter().find(|word| !word.starts_with('-')).map(String::as_str);
        // The words from the first one on that is no option.
        let rest = || {
            let options = arguments.iter().take_while(|word| word.starts_with('-')).count();
            arguments.get(options..).unwrap_or_default()
        };
        if PACKAGE_STARTERS.contains(&name) {
            return self.add(folder, rest());
        }
        if name.starts_with("python") && arguments.first().is_some_and(|word| word == "-m") {
            let module = arguments.get(1..)?;
            let (module_name, given) = module.split_first()?;
            if MODULES.contains(&module_name.as_str()) {
                self.add_operands(folder, given);
                return Some(());
            }
            let is_linter = LINTERS.contains(&module_name.as_str());
            return if is_linter { self.add(folder, module) } else { None };
        }
        let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // Perl and Ruby start blocks of the file all the same.
        if !matches!(name, "perl" | "ruby") && reads_syntax_only(name, &given) {
            self.add_operands(folder, arguments);
            return Some(());
        }
        let lints = LINT_COMMANDS.iter().find(|(known, _)| *known == name);
        if LINTERS.contains(&name)
            || lints.is_some_and(|(_, commands)| first.is_some_and(|it| commands.contains(&it)))
        {
            self.has_linter = true;
            return Some(());
        }
        match name {
            "git" => {
                self.has_git = true;
                let command = subcommand(arguments)?;
                let compares = |word: &String| word == "--no-index";
                // A file of patterns says what has to be found, and a pager is any program.
                let starts = |word: &String| {
                    let is_short = !word.starts_with("--") && word.starts_with('-');
                    is_short && word.contains(['f', 'O'])
                        || word.starts_with("--open-files-in-pager")
                        || word == "--textconv"
                };
                // A pattern from a file is what has to be found.
                let is_put_in = |word: &String| word.contains(['$', '`']);
                let is_refused = |word: &String| match command {
                    "grep" => compares(word) || starts(word) || is_put_in(word),
                    "cat-file" => compares(word) || starts(word),
                    _ => compares(word),
                };
                let is_one = OF_GIT.contains(&command) && !arguments.iter().any(is_refused);
                is_one.then_some(())
            }
            "xargs" => self.add(folder, rest()),
            "fi" => Some(()),
            _ if READERS.contains(&name) => self.add_reader(folder, name, arguments),
            // The rest of a condition, behind a `!` or a text that the shell puts in.
            _ if name.starts_with('-') => self.add_reader(folder, "test", words),
            _ => None,
        }
    }

    fn add_reader(&mut self, folder: &str, name: &str, arguments: &[String]) -> Option<()> {
        let is_option = |word: &&String| word.len() > 1 && word.starts_with('-');
        let short = |letter: char| {
            let mut options = arguments.iter().filter(is_option);
            options.any(|word| !word.starts_with("--") && word.contains(letter))
        };
        let asks = |wanted: &[&str]| {
            let mut options = arguments.iter().filter(is_option);
            options.any(|word| wanted.iter().any(|it| word.split('=').next() == Some(it)))
        };
        let is_grep = matches!(name, "ag" | "egrep" | "fgrep" | "grep" | "rg");
        let runs = match name {
            "find" => {
                let started = arguments.iter().position(|word| word == "-exec");
                let started = started.and_then(|at| arguments.get(at + 1..));
                let reads = |started: &[String]| {
                    let is_end = |word: &String| matches!(word.as_str(), ";" | "\\;" | "+");
                    let end = started.iter().position(is_end).unwrap_or(started.len());
                    let (words, rest) = started.split_at(end);
                    let is_last = !rest.iter().any(|word| word == "-exec");
                    is_last && Self::default().add(folder, words).is_some()
                };
                asks(&["-execdir", "-ok", "-okdir", "-delete", "-newer"])
                    || started.is_some_and(|started| !reads(started))
            }
            "sed" => short('i') || asks(&["--in-place"]) || short('f'),
            "awk" | "gawk" => {
                let starts = |word: &String| ["system(", "|"].iter().any(|it| word.contains(it));
                short('f') || arguments.iter().any(starts)
            }
            // A file of patterns says what has to be found.
            _ if is_grep => short('f') || asks(&["--file"]),
            "jq" => short('f') || asks(&["--from-file", "--slurpfile", "--argfile"]),
            _ => false,
        };
        if runs {
            return None;
        }
        let nested = arguments.iter().flat_map(|word| substitutions(word));
        let nested: Vec<&str> = nested.filter(|line| !is_constant(line)).collect();
        // With two texts one of them is what the other one has to be.
        match (nested.as_slice(), name) {
            ([], _) => {}
            ([line], "test" | "[" | "[[") => {
                self.take(folder, Self::of(line)?);
                return Some(());
            }
            _ => return None,
        }
        let operands: Vec<&String> = arguments.iter().filter(|word| !is_option(word)).collect();
        let patterns = usize::from(WITH_PATTERN.contains(&name) && !short('e'));
        // These can compare their files with one another.
        if OF_SEVERAL.contains(&name) && operands.len() > patterns + 1 {
            return None;
        }
        self.obeys_ignored |= matches!(name, "ag" | "rg");
        let is_deep = OF_FOLDERS.contains(&name) || is_grep && (short('r') || short('R'));
        if is_deep && operands.len() <= patterns {
            self.operands.push(folder.to_owned());
        }
        self.operands.extend(operands.iter().filter_map(|word| place(folder, word)));
        Some(())
    }

    /// Adds the files among the arguments of a program.
    fn add_operands(&mut self, folder: &str, arguments: &[String]) {
        let operands = arguments.iter().filter(|word| !word.starts_with('-'));
        self.operands.extend(operands.filter_map(|word| place(folder, word)));
    }

    /// With what a line inside this one reads, which starts in a folder.
    fn take(&mut self, folder: &str, inner: Self) {
        self.has_git |= inner.has_git;
        self.has_linter |= inner.has_linter;
        self.obeys_ignored |= inner.obeys_ignored;
        let joined = inner.operands.iter().map(|path| match (folder, path.as_str()) {
            ("", path) => path.to_owned(),
            (folder, "") => folder.to_owned(),
            (folder, path) => format!("{folder}/{path}"),
        });
        self.operands.extend(joined);
    }

    /// Whether a path is data under test.
    pub(super) fn is_data(&self, path: &str, kind: InputKind) -> bool {
        let is_below = |operand: &String| {
            let rest = path.strip_prefix(operand.as_str());
            operand.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match kind {
            // What the policy protects, and the repository, are nowhere as the run left them.
            InputKind::Git | InputKind::Protected => false,
            InputKind::Test if self.has_linter => true,
            // What the search passes over, unless it is given the file itself.
            InputKind::Configuration if self.obeys_ignored && is_obeyed(path) => {
                self.operands.iter().any(|operand| operand == path)
            }
            InputKind::Test | InputKind::Configuration | InputKind::Shadow | InputKind::Script => {
                self.has_git || self.operands.iter().any(is_below)
            }
        }
    }

    /// Whether it reads files as they are: no linter, whose comments in them count.
    pub(super) const fn is_plain(&self) -> bool {
        !self.has_linter
    }
}

/// The file or the folder that a word names; the folder in front of what a shell expands. None outside of the
/// workspace.
fn place(folder: &str, word: &str) -> Option<String> {
    if word.starts_with(['/', '~', '$']) {
        return None;
    }
    let fixed = match word.find(['*', '?', '[', '{', '$']) {
        Some(at) => word.get(..at)?.rsplit_once('/').map_or(".", |(above, _)| above),
        None => word,
    };
    let whole = join("", folder, fixed);
    let is_root = folder.is_empty() && matches!(fixed, "." | "./");
    (is_root || !whole.is_empty()).then_some(whole)
}

fn subcommand(arguments: &[String]) -> Option<&str> {
    for argument in arguments {
        match argument.as_str() {
            // A value of the configuration can start a program.
            "-c" | "--config-env" | "-C" | "--exec-path" => return None,
            option if option.starts_with('-') => {}
            command => return Some(command),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_readers_are_data_under_test() {
        for (line, path, is_data) in [
            ("grep -q 3.12 .github/workflows/ci.yml", ".github/workflows/ci.yml", true),
            ("grep -q 3.12 .github/workflows/ci.yml", "tests/a.py", false),
            ("! test -e makefile", "makefile", true),
            ("test ! -d tests/legacy", "tests/legacy/a.py", true),
            ("grep -rq 'def test_empty' tests", "tests/a.py", true),
            ("grep -rq TODO .", "tests/a.py", true),
            ("grep -rq TODO", "tests/a.py", true),
            ("rg -q TODO", "tests/a.py", true),
            ("ls", "tests/a.py", true),
            ("cd docs && grep -q x tests/a.md", "docs/tests/a.md", true),
            ("(cd docs && grep -q x a.md) && grep -q y tests/b.md", "tests/b.md", true),
            ("test \"$(grep -c def tests/a.py)\" -ge 3", "tests/a.py", true),
            ("[ \"$(cat tests/VERSION)\" = 2 ]", "tests/VERSION", true),
            ("[ $(grep -c def tests/a.py) -ge 3 ]", "tests/a.py", true),
            ("wc -l < tests/a.py | grep -q 4", "tests/a.py", true),
            ("awk 'length > 100 { exit 1 }' tests/*.py", "tests/a.py", true),
            ("find tests -name '*.pyc' | grep -q .", "tests/a.pyc", true),
            ("git ls-files tests | xargs grep -L x", "tests/a.py", true),
            ("! grep -q \"$(printf '\\r')\" tests/d.txt", "tests/d.txt", true),
            ("sh -c 'grep -q x tests/a.py'", "tests/a.py", true),
            ("cd docs && bash -c 'grep -q x a.md'", "docs/a.md", true),
            ("! git grep -n debugger", "tests/a.py", true),
            ("if grep -rq X tests; then exit 1; fi", "tests/a.py", true),
            ("if grep -rq X tests; then false; fi", "tests/a.py", true),
            ("grep -rq X tests && exit 1 || exit 0", "tests/a.py", true),
            ("find tests -name '*.py' -exec grep -l X {} + | wc -l", "tests/a.py", true),
            ("find tests -exec grep -q X {} \\;", "tests/a.py", true),
            ("sh -n tests/a.sh", "tests/a.sh", true),
            ("node --check test/a.js", "test/a.js", true),
            ("python3 -m json.tool tests/a.json", "tests/a.json", true),
            ("python3 -m py_compile tests/a.py", "tests/a.py", true),
        ] {
            let reading = Reading::of(line);
            let seen = reading.is_some_and(|it| it.is_data(path, InputKind::Test));
            assert_eq!(seen, is_data, "{line}");
        }
    }

    #[test]
    fn what_a_search_obeys_is_no_data_of_it() {
        for (line, path, is_data) in [
            ("! rg -q TODO", ".gitignore", false),
            ("! rg -q TODO src", "src/.ignore", false),
            ("rg -q build .gitignore", ".gitignore", true),
            ("! grep -rq TODO .", ".gitignore", true),
            ("git check-ignore -q a.py", ".gitignore", true),
            ("ruff check .", ".gitignore", false),
        ] {
            let reading = Reading::of(line).unwrap();
            assert_eq!(reading.is_data(path, InputKind::Configuration), is_data, "{line}");
        }
    }

    #[test]
    fn a_line_that_may_start_something_else_reads_no_data() {
        for line in [
            "",
            "python3 -m unittest",
            "grep -q x a && python3 -m unittest",
            "diff out tests/expected",
            "cmp out tests/expected",
            "test \"$(./prog)\" = \"$(cat tests/expected)\"",
            "test \"$(cat out)\" = \"$(cat tests/expected)\"",
            "test \"$(sh tests/a.sh)\" = ok",
            "test \"`sh tests/a.sh`\" = ok",
            "test $(cat out) -eq $(cat tests/expected)",
            "test $(sh tests/a.sh) -eq 2",
            "grep -qFf tests/expected out",
            "git diff --no-index --quiet tests/expected out",
            "test -z \"$(sort out tests/expected | uniq -u)\"",
            "awk 'NR == FNR { a[$0]; next } !($0 in a) { exit 1 }' tests/expected out",
            "awk '{ print | \"sh\" }' tests/a.sh",
            "grep -q \"$(cat tests/expected)\" out",
            "grep -q \"$(printf \"$(cat tests/expected)\")\" out",
            "sh -c 'cmp out tests/expected'",
            "sh tests/a.sh",
            "find tests -name '*.sh' -exec sh {} ;",
            "ls tests/*.sh | xargs -n1 sh",
            "sed -i s/a/b/ tests/a.py",
            "./grep -q x tests/a.py",
            "git -c core.fsmonitor=x status",
            "git bisect run sh tests/a.sh",
            "git grep -f tests/expected -- out",
            "git grep -O./x y",
            "git grep -q \"$(cat tests/expected)\" -- out",
            "git grep -q $(cat tests/expected) -- out",
            "while read w; do grep -q \"$w\" out || exit 1; done < tests/expected",
            "for w in $(cat tests/expected); do grep -q $w out || exit 1; done",
            "A=$(cat out); [ $A = $(cat tests/expected) ]",
            "find tests -exec grep -q X {} \\; -exec sh {} \\;",
            "perl -c tests/a.t",
            "python3 -m unittest tests/a.py",
            "cargo test",
            "mypy .",
            "make lint",
        ] {
            assert_eq!(Reading::of(line), None, "{line}");
        }
    }

    #[test]
    fn linters_read_tests_and_git_reads_all_but_the_repository() {
        let of = |line: &str| Reading::of(line).unwrap();
        for line in [
            "cargo fmt --check",
            "cargo clippy --all-targets -- -D warnings",
            "ruff check .",
            "python3 -m black --check .",
            "npx eslint .",
            "timeout 60 npx --yes prettier --check .",
        ] {
            assert!(of(line).is_data("tests/a.rs", InputKind::Test), "{line}");
            assert!(!of(line).is_data("rustfmt.toml", InputKind::Configuration), "{line}");
            assert!(!of(line).is_plain(), "{line}");
        }
        for line in [
            "git diff --quiet HEAD",
            "test -z \"$(git status --porcelain)\"",
            "git ls-files | wc -l",
        ] {
            for kind in [InputKind::Test, InputKind::Configuration, InputKind::Script] {
                assert!(of(line).is_data("Makefile", kind), "{line}");
            }
            for kind in [InputKind::Git, InputKind::Protected] {
                assert!(!of(line).is_data(".git/config", kind), "{line}");
            }
            assert!(of(line).is_plain(), "{line}");
        }
    }
}
