//! What a run does to the repository, and to what links lead to.

use super::*;
use crate::tool::ErrorCode;

const COMMIT: &str =
    "git -c user.name=Test -c user.email=test@localhost commit -q --allow-empty -m";

/// A repository with one commit, a tag and an alias that fails.
fn repository(line: &str) -> Case {
    let case = Case::new(&[("a.txt", "one\n")]);
    case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
    case.run("git tag v1 && git branch other && git config alias.passes '!false'");
    case.begin(line)
}

#[tokio::test]
async fn commits_and_new_branches_are_no_change_of_the_repository() {
    let line = "git log --format=%s --grep=second --grep=first | grep -q second";
    let case = repository(line);
    case.run("git config user.name Example && git checkout -q -b topic main");
    case.run(&format!("git checkout -q main && {COMMIT} second && git tag v2"));
    assert_eq!(case.check(line).await, (String::new(), vec![]));
}

#[tokio::test]
async fn references_configuration_and_hooks_are_those_of_the_start() {
    for (line, step, reason) in [
        ("git passes", "git config alias.passes '!true'", "changed .git/config (git)"),
        (
            "git describe --tags --exact-match HEAD",
            "COMMIT second && git tag -f v1",
            "changed .git/refs/tags/v1 (git)",
        ),
        (
            "! git rev-parse --verify -q other",
            "git branch -D other && git pack-refs --all",
            "removed .git/refs/heads/other (git)",
        ),
        (
            "[ \"$(git log -1 --format=%s v1)\" = other ]",
            "git checkout -q --orphan x && COMMIT other && git replace -f v1 x && git checkout -q main",
            "added .git/refs/replace/",
        ),
        (
            "git hook run --ignore-missing pre-push && test -x .git/hooks/pre-push",
            "printf '#!/bin/sh\\n' > .git/hooks/pre-push && chmod +x .git/hooks/pre-push",
            "added .git/hooks/pre-push (git)",
        ),
    ] {
        let case = repository(line);
        case.run(&step.replace("COMMIT", COMMIT));
        let (found, cautions) = case.check(line).await;
        assert!(found.starts_with(&format!("check_inputs_changed: {reason}")), "{line}: {found}");
        assert_eq!(cautions, ["check_inputs_changed"], "{line}");
    }
}

#[tokio::test]
async fn a_branch_that_is_rewritten_is_a_change_of_the_repository() {
    let line = "true";
    let case = repository(line);
    case.run(&format!("{COMMIT} other --amend"));
    assert_eq!(case.check(line).await, (String::new(), vec!["check_inputs_differ"]));
}

#[tokio::test]
async fn a_file_that_is_another_one_while_checks_run_is_found_out() {
    let case = Case::new(&[("a.txt", "one\n")]).begin("true");
    let probe = command("true", Owner::User);
    let age = || fs::metadata(case.root.join("a.txt")).unwrap().modified().unwrap().elapsed();
    // Until a later write has another time, whatever steps the clock of the file system takes.
    while age().unwrap_or_default() < Duration::from_millis(40) {
        tokio::task::yield_now().await;
    }
    let round = case.round(std::slice::from_ref(&probe)).await;
    assert_eq!(round.end().await.unwrap().unwrap().moved, Vec::<String>::new());
    case.put("a.txt", "two\n");
    case.put("a.txt", "one\n");
    assert_eq!(round.end().await.unwrap().unwrap().moved, ["a.txt"]);
}

#[tokio::test]
async fn references_in_tables_are_those_of_the_start() {
    let made = |line: &str| {
        let case = Case::new(&[("a.txt", "one\n")]);
        case.run(&format!(
            "git init -q -b main --ref-format=reftable && git add -A && {COMMIT} first"
        ));
        case.run("git tag v1 && git branch other");
        case.begin(line)
    };
    let line = "git log --format=%s --grep=second | grep -q second";
    let case = made(line);
    case.run(&format!("git checkout -q -b topic && git checkout -q main && {COMMIT} second"));
    assert_eq!(case.check(line).await, (String::new(), vec![]), "a commit is no change");
    for (line, step, reason) in [
        (
            "git describe --tags --exact-match HEAD",
            "COMMIT second && git tag -f v1",
            "changed .git/reftable/refs/tags/v1 (git)",
        ),
        (
            "! git rev-parse --verify -q other",
            "git branch -D other",
            "removed .git/reftable/refs/heads/other (git)",
        ),
        (
            "[ \"$(git log -1 --format=%s v1)\" = other ]",
            "git checkout -q --orphan x && COMMIT other && git replace -f v1 x && git checkout -q main",
            "added .git/reftable/refs/replace/",
        ),
    ] {
        let case = made(line);
        case.run(&step.replace("COMMIT", COMMIT));
        let (found, cautions) = case.check(line).await;
        assert!(
            found.starts_with("check_inputs_changed:") && found.contains(reason),
            "{line}: {found}"
        );
        assert_eq!(cautions, ["check_inputs_changed"], "{line}");
    }
}

#[tokio::test]
async fn a_repository_inside_the_workspace_is_compared_as_well() {
    let made = |line: &str| {
        let case = Case::new(&[("a.txt", "one\n"), ("vendor/lib/b.txt", "two\n")]);
        case.run(&format!("git init -q -b main && git add a.txt && {COMMIT} first"));
        case.run(&format!("cd vendor/lib && git init -q -b main && git add -A && {COMMIT} inner"));
        case.run("git -C vendor/lib tag v1 && git -C vendor/lib config alias.passes '!false'");
        case.begin(line)
    };
    for (line, step, reason) in [
        (
            "git -C vendor/lib passes",
            "git -C vendor/lib config alias.passes '!true'",
            "changed vendor/lib/.git/config (git)",
        ),
        (
            "git -C vendor/lib describe --tags --exact-match HEAD",
            "cd vendor/lib && COMMIT second && git tag -f v1",
            "changed vendor/lib/.git/refs/tags/v1 (git)",
        ),
    ] {
        let case = made(line);
        case.run(&step.replace("COMMIT", COMMIT));
        let (found, cautions) = case.check(line).await;
        assert_eq!(found, format!("check_inputs_changed: {reason}"), "{line}");
        assert_eq!(cautions, ["check_inputs_changed"], "{line}");
    }
    let line = "git -C vendor/lib log --format=%s | grep -q second";
    let case = made(line);
    case.run(&format!("cd vendor/lib && {COMMIT} second"));
    assert_eq!(case.check(line).await, (String::new(), vec![]), "a commit is no change");
}

#[tokio::test]
async fn the_index_of_a_view_agrees_with_its_check_inputs() {
    // As a script, so that git's commands are no reading line.
    let lists = "test -z \"$(git ls-files -d)\" && test -z \"$(git ls-files -o tests)\" && sh -c :";
    let differs = "git diff --exit-code && sh -c :";
    let clean = "test -z \"$(git status --porcelain)\" && git diff --exit-code HEAD && git log -1 --format=%s && sh -c :";
    for line in [lists, differs, clean] {
        for step in [
            "echo b > tests/test_b.py && git add -A && COMMIT more",
            "echo c > tests/test_a.py && git commit -q -a -m changed",
            "git rm -q tests/test_a.py && COMMIT less",
            "git mv tests/test_a.py tests/test_c.py && COMMIT moved",
            "echo c > tests/test_a.py",
        ] {
            let case = Case::new(&[("a.txt", "one\n"), ("tests/test_a.py", "a = 1\n")]);
            case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
            case.run("git config user.name Test && git config user.email test@localhost");
            let case = case.begin(line);
            case.run(&step.replace("COMMIT", COMMIT));
            let (found, _) = case.check(line).await;
            let is_left_so = line != lists && step.starts_with("echo c") && !step.contains("git");
            assert_eq!(found.is_empty(), !is_left_so, "{line}: {step}: {found}");
        }
    }
}

#[tokio::test]
async fn a_branch_that_the_policy_names_may_be_rewritten() {
    for (glob, expected) in [(".git/refs/heads/main", vec![]), ("**", vec!["check_inputs_differ"])]
    {
        let mut case = Case::new(&[("a.txt", "one\n")]);
        case.rules = InputRules::new(&[], &[glob.to_owned()]).unwrap();
        case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
        let case = case.begin("true");
        case.run(&format!("{COMMIT} other --amend"));
        assert_eq!(case.check("true").await, (String::new(), expected), "{glob}");
    }
}

/// Lines that test what git records.
const RECORDED: [&str; 5] = [
    "d=$(mktemp -d) && git clone -q . \"$d\" && cd \"$d\" && sh tests/run.sh",
    "d=$(mktemp -d) && git archive HEAD | tar -x -C \"$d\" && cd \"$d\" && sh tests/run.sh",
    "d=$(mktemp -d) && git worktree add -q \"$d/w\" HEAD && cd \"$d/w\" && sh tests/run.sh",
    "git -c user.name=a -c user.email=a@localhost stash -q; sh tests/run.sh",
    "git checkout -q HEAD -- tests && sh tests/run.sh",
];

fn with_tests(line: &str) -> Case {
    let tests = [("app.txt", "wrong\n"), ("tests/run.sh", "grep -q right app.txt\n")];
    let case = Case::new(&tests);
    case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
    case.run("git config user.name Test && git config user.email test@localhost");
    case.begin(line)
}

#[tokio::test]
async fn what_git_records_has_the_check_inputs_of_the_start() {
    for line in RECORDED {
        for (step, is_shown) in [
            ("echo : > tests/run.sh && git commit -qam second", true),
            (
                "echo : > tests/run.sh && git commit -qam second && git checkout -q HEAD~ -- tests",
                false,
            ),
            (
                "echo : > tests/run.sh && git commit -qam second && git checkout -q HEAD~ -- tests && chmod +x tests/run.sh",
                false,
            ),
            ("git checkout -q -b topic && echo : > tests/run.sh && git commit -qam second", true),
            ("echo : > tests/run.sh && git commit -qam second && git checkout -q --detach", true),
        ] {
            let case = with_tests(line);
            case.run(step);
            let (found, cautions) = case.check(line).await;
            let reason =
                if is_shown { "tests/run.sh (test)" } else { ".git/refs/heads/main (git)" };
            assert_eq!(found, format!("check_inputs_changed: changed {reason}"), "{line}: {step}");
            assert_eq!(cautions, ["check_inputs_changed"], "{line}: {step}");
        }
        for step in [
            "echo right > app.txt && git commit -qam second",
            "echo right > app.txt && echo false > tests/more.sh && git add -A && git commit -qm second",
            "echo right > app.txt && git checkout -q -b topic && git commit -qam second",
        ] {
            let case = with_tests(line);
            case.run(step);
            assert_eq!(case.check(line).await.0, "", "{line}: {step}");
        }
    }
}

#[tokio::test]
async fn an_index_has_the_check_inputs_of_the_start() {
    let line =
        "d=$(mktemp -d) && git checkout-index -a --prefix=\"$d/\" && cd \"$d\" && sh tests/run.sh";
    for (step, reason) in [
        ("echo : > tests/run.sh && git add -A", "changed tests/run.sh (test)"),
        (
            "cp tests/run.sh kept && echo : > tests/run.sh && git add tests && mv kept tests/run.sh",
            "changed .git/index (git)",
        ),
    ] {
        let case = with_tests(line);
        case.run(step);
        let (found, cautions) = case.check(line).await;
        assert_eq!(found, format!("check_inputs_changed: {reason}"), "{step}");
        assert_eq!(cautions, ["check_inputs_changed"], "{step}");
    }
}

#[tokio::test]
async fn an_index_says_of_a_file_what_it_is() {
    let generated = "cp source.py made.py && git diff --exit-code";
    let stale = "git update-index --cacheinfo 100644,$(git hash-object -w source.py),made.py";
    let untracked = "git rm -q --cached made.py";
    let set_back = "git rm -q --cached made.py && touch -t 202001010000 .git/index";
    for (line, step, is_refused) in [
        (generated, stale, true),
        ("! git grep -q TODO", untracked, true),
        ("git ls-files '*.py' | xargs cat | grep -c TODO | grep -qx 0", untracked, true),
        ("! git grep -q TODO", set_back, true),
        ("! git ls-files --error-unmatch made.py", untracked, false),
        ("! git grep -q other", untracked, false),
        (generated, "cp source.py made.py && git add made.py", false),
    ] {
        let case = Case::new(&[("source.py", "new\n"), ("made.py", "TODO\n")]);
        case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
        let case = case.begin(line);
        case.run(step);
        let (found, _) = case.check(line).await;
        let reason = "check_inputs_changed: changed .git/index (git)";
        assert_eq!(found, if is_refused { reason } else { "" }, "{line}: {step}");
    }
}

#[tokio::test]
async fn what_was_not_committed_at_the_start_may_be_committed() {
    let line = "test -z \"$(git status --porcelain)\" && sh tests/run.sh";
    let case = Case::new(&[("app.txt", "right\n"), ("tests/run.sh", "false\n")]);
    case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
    case.put("tests/run.sh", "grep -q right app.txt\n");
    let case = case.begin(line);
    case.run(&format!("git add -A && {COMMIT} second"));
    assert_eq!(case.check(line).await, (String::new(), vec![]));
}

#[tokio::test]
async fn another_repository_in_the_place_of_the_first_is_a_change() {
    let line = "git tag --list v1 | grep -q v1";
    for step in [
        "cp -r .git kept && mv .git moved && echo 'gitdir: kept' > .git && git tag v1",
        "cp -r .git kept && mv .git moved && ln -s kept .git && git tag v1",
        "cp -r .git kept && git -C kept tag v1 && echo ../kept > .git/commondir",
    ] {
        let case = Case::new(&[("a.txt", "one\n")]);
        case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
        let case = case.begin(line);
        case.run(step);
        let (start, _) = case.before.clone().unwrap();
        let probe = command(line, Owner::User);
        let error = case.unopened(Some(start)).open(&[probe]).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::WorkspaceMoved, "{step}");
        assert!(error.message.contains(".git leads to another repository"), "{error:?}");
    }
    // Where the policy lets it, a view has none.
    let mut case = Case::new(&[("a.txt", "one\n")]);
    case.rules = InputRules::new(&[], &[".git".to_owned()]).unwrap();
    case.run(&format!("git init -q -b main && git add -A && {COMMIT} first"));
    let case = case.begin(line);
    case.run("mv .git kept && echo 'gitdir: kept' > .git && git tag v1");
    assert_eq!(case.check(line).await.0, "");
}

#[tokio::test]
async fn the_file_of_a_linked_work_tree_is_put_back() {
    let line = "git tag --list v1 | grep -q v1";
    for step in [
        "git clone -q . kept && rm .git && echo 'gitdir: kept/.git' > .git && git tag v1",
        "git clone -q . kept && rm .git && mv kept/.git .git && git tag v1",
    ] {
        let outside = tempfile::tempdir().unwrap();
        let case = Case::new(&[("a.txt", "one\n")]);
        let kept = outside.path().join("kept.git");
        case.run(&format!(
            "git init -q -b main --separate-git-dir {} && git add -A && {COMMIT} first",
            kept.display()
        ));
        let case = case.begin(line);
        case.run(step);
        let (found, cautions) = case.check(line).await;
        assert_eq!(found, "check_inputs_changed: changed .git (git)", "{step}");
        assert_eq!(cautions, ["check_inputs_changed"], "{step}");
        let (found, _) = case.check("git log --format=%s | grep -q first").await;
        assert_eq!(found, "", "{step}");
    }
}

#[tokio::test]
async fn a_mark_of_the_index_counts_only_where_it_was_there_at_the_start() {
    let line = "echo two > made.txt && git diff --exit-code -- made.txt";
    for (setup, step, holds) in [
        ("true", "git update-index --assume-unchanged made.txt", false),
        ("true", "git update-index --skip-worktree made.txt", false),
        (
            "true",
            "git update-index --split-index && git update-index --assume-unchanged made.txt",
            false,
        ),
        ("git update-index --assume-unchanged made.txt", "true", true),
    ] {
        let case = Case::new(&[("made.txt", "one\n")]);
        case.run(&format!("git init -q -b main && git add -A && {COMMIT} first && {setup}"));
        let case = case.begin(line);
        case.run(step);
        let (found, _) = case.check(line).await;
        assert_eq!(found.is_empty(), holds, "{setup}; {step}: {found}");
    }
}
