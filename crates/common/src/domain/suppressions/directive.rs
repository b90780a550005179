//! What linters, type checkers, formatters and coverage tools read in comments.

/// A directive, and whether it leaves out all that follows, or the whole file. In lower case; a space stands for any
/// layout, none too.
const DIRECTIVES: &[(&str, bool)] = &[
    // Python
    ("flake8: noqa", true),
    ("ruff: noqa", true),
    ("ruff: disable", true),
    ("ruff: file-ignore", true),
    ("ruff: ignore", false),
    ("noqa", false),
    ("nosec", false),
    ("type: ignore", false),
    ("ty: ignore", false),
    ("pragma: no cover", false),
    ("pragma: no branch", false),
    ("pragma no cover", false),
    ("pragma no branch", false),
    ("pylint: skip-file", true),
    ("pylint: disable-next", false),
    ("pylint: disable", false),
    ("mypy:", true),
    ("pyright: ignore", false),
    ("pyright:", true),
    ("pyre-ignore", false),
    ("pyre-fixme", false),
    ("isort: skip", false),
    ("isort: off", true),
    ("fmt: skip", false),
    ("fmt: off", true),
    ("yapf: disable", true),
    // JavaScript and TypeScript
    ("eslint-disable-next-line", false),
    ("eslint-disable-line", false),
    ("eslint-disable", true),
    ("eslint ", true),
    ("tslint:disable-next-line", false),
    ("tslint:disable", true),
    ("jshint ignore", true),
    ("oxlint-disable-next-line", false),
    ("oxlint-disable-line", false),
    ("oxlint-disable", true),
    ("biome-ignore-all", true),
    ("biome-ignore", false),
    ("deno-lint-ignore-file", true),
    ("deno-lint-ignore", false),
    ("deno-coverage-ignore", false),
    ("@ts-ignore", false),
    ("@ts-expect-error", false),
    ("@ts-nocheck", true),
    ("$flowfixme", false),
    ("prettier-ignore", false),
    ("istanbul ignore file", true),
    ("istanbul ignore", false),
    ("c8 ignore start", true),
    ("c8 ignore", false),
    ("v8 ignore", false),
    ("node:coverage disable", true),
    ("node:coverage ignore", false),
    ("stylelint-disable-next-line", false),
    ("stylelint-disable-line", false),
    ("stylelint-disable", true),
    // Go
    ("nolint", false),
    ("lint:file-ignore", true),
    ("lint:ignore", false),
    ("revive:disable", true),
    // Java, Kotlin, Scala
    ("nosonar", false),
    ("nopmd", false),
    ("noinspection", false),
    ("checkstyle:off", true),
    ("checkstyle:suppress", false),
    ("csoff", true),
    ("spotless:off", true),
    ("@formatter:off", true),
    ("ktlint-disable", false),
    ("scalastyle:off", true),
    ("scalafix:off", true),
    // Ruby, PHP, Lua, Haskell, Elixir, Swift
    ("rubocop:disable", false),
    ("rubocop:todo", false),
    ("standard:disable", false),
    (":nocov:", true),
    ("steep:ignore", false),
    ("phpcs:ignorefile", true),
    ("phpcs:disable", true),
    ("phpcs:ignore", false),
    ("@codingstandardsignore", true),
    ("@codecoverageignore", false),
    ("@phpstan-ignore", false),
    ("@psalm-suppress", false),
    ("@phan-suppress", false),
    ("@phan-file-suppress", true),
    ("luacheck: ignore", false),
    ("hlint: ignore", true),
    ("credo:disable", false),
    ("swiftlint:disable", false),
    // C and C++
    ("lcov_excl_start", true),
    ("lcov_excl", false),
    ("gcovr_excl", false),
    ("gcov_excl", false),
    ("cppcheck-suppress", false),
    ("clang-format off", true),
    ("flawfinder: ignore", false),
    ("coverity[", false),
    // Shell, Docker, YAML, Markdown, SQL
    ("shellcheck disable", false),
    ("hadolint ignore", false),
    ("yamllint disable", false),
    ("markdownlint-disable", false),
    ("sqlfluff:", false),
    ("noqa:", false),
    // Linters of a project's own
    ("lint: ignore", false),
    ("lint: disable", false),
    ("lint: skip", false),
    ("lint: off", false),
    ("lint-ignore", false),
    ("lint-disable", false),
    ("lint-skip", false),
    ("lint-off", false),
    ("skip-lint", false),
    ("ignore-lint", false),
    ("disable-lint", false),
    ("check: ignore", false),
    ("check: disable", false),
    ("check: skip", false),
    ("check: off", false),
    ("skip-check", false),
    ("nocheck", false),
    ("coverage: ignore", false),
    ("coverage: off", false),
    ("coverage: skip", false),
    ("no-coverage", false),
    ("nocover", false),
];

/// A directive in a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Directive {
    /// Where in the comment it begins.
    pub(super) start: usize,
    /// Whether it leaves out all that follows, or the whole file.
    pub(super) is_of_file: bool,
}

/// The first directive in a comment.
pub(super) fn directive_in(comment: &str) -> Option<Directive> {
    let lower = comment.to_ascii_lowercase();
    let find = |&(words, is_of_file): &(&str, bool)| {
        Some(Directive { start: position(&lower, words)?, is_of_file })
    };
    // At the same place the first of the table counts, which says more.
    DIRECTIVES.iter().filter_map(find).min_by_key(|directive| directive.start)
}

fn position(text: &str, words: &str) -> Option<usize> {
    let first = words.chars().next()?;
    let mut starts = text.match_indices(first).map(|(at, _)| at);
    starts.find(|at| {
        let (before, rest) = text.split_at(*at);
        let begins = !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        begins && matches(rest, words)
    })
}

fn matches(text: &str, words: &str) -> bool {
    let mut rest = text;
    words.chars().all(|letter| {
        if letter == ' ' {
            rest = rest.trim_start();
            return true;
        }
        rest.strip_prefix(letter).map(|after| rest = after).is_some()
    })
}
