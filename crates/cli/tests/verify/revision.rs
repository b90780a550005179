//! A work tree against a revision of its repository.

use crate::support::{Ended, Home};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// One check, which holds in the work tree, and one that asks whether the work tree is another.
const CHANGED: &str = "verify: [{id: changed, kind: workspace_change}]\n";
const PASSES: &str = "verify: [a.txt]\n";

#[track_caller]
fn changed_paths(home: &Home) -> Vec<String> {
    let verdict = home.verdict();
    let paths = verdict["changed"]["paths"].as_array().unwrap().iter();
    paths.map(|path| path.as_str().unwrap().to_owned()).collect()
}

#[test]
fn uncommitted_work_is_compared_with_the_last_commit() {
    let home = Home::with(&[(".surety/checks.yaml", CHANGED), ("a.txt", "a\n"), ("b.txt", "b\n")]);
    home.verify(&[]).is(2, "no_workspace_change");
    assert_eq!(changed_paths(&home), Vec::<String>::new());
    home.put("a.txt", "another\n");
    home.put("new/c.txt", "c\n");
    fs::remove_file(home.workspace.join("b.txt")).unwrap();
    home.verify(&[]).is(0, "accepted");
    assert_eq!(changed_paths(&home), ["a.txt", "b.txt", "new/c.txt"]);
    let verdict = home.verdict();
    assert_eq!(verdict["start"]["revision"], "HEAD");
    assert_eq!(verdict["start"]["commit"], home.git(&["rev-parse", "HEAD"]));
    assert_eq!(verdict["command"], serde_json::Value::Null);
}

#[test]
fn a_named_revision_is_the_start_and_has_the_checks() {
    let home = Home::with(&[(".surety/checks.yaml", CHANGED), ("a.txt", "a\n")]);
    let first = home.git(&["rev-parse", "HEAD"]);
    home.git(&["tag", "-a", "v1", "-m", "v1"]);
    home.put("a.txt", "another\n");
    // What the work tree says of the checks does not count.
    home.put(".surety/checks.yaml", "verify: [missing.txt]\n");
    home.commit();
    home.verify(&["--base", "v1"]).is(0, "accepted");
    assert_eq!(home.verdict()["start"]["commit"], first);
    home.verify(&["--base", &first[..9]]).is(0, "accepted");
    home.verify(&[]).is(2, "missing.txt");
    let outside = home.home.join("own.yaml");
    fs::write(&outside, PASSES).unwrap();
    home.verify(&[outside.to_str().unwrap(), "--base", "v1"]).is(0, "accepted");
}

#[test]
fn line_ends_that_git_changes_are_no_change_and_others_are() {
    let files = [
        (".gitattributes", "*.txt text\n*.auto text=auto\n*.raw -text\n"),
        (".surety/checks.yaml", CHANGED),
        ("a.txt", "one\ntwo\n"),
        ("b.auto", "one\ntwo\n"),
        ("c.raw", "one\ntwo\n"),
    ];
    let home = Home::with(&files);
    home.put("a.txt", "one\r\ntwo\r\n");
    home.put("b.auto", "one\r\ntwo\n");
    home.verify(&[]).is(2, "no_workspace_change");
    home.put("c.raw", "one\r\ntwo\n");
    home.verify(&[]).is(0, "accepted");
    assert_eq!(changed_paths(&home), ["c.raw"]);
    home.put("c.raw", "one\ntwo\n");
    home.put("a.txt", "one\r\nthree\r\n");
    home.verify(&[]).is(0, "accepted");
    assert_eq!(changed_paths(&home), ["a.txt"]);
}

#[test]
fn a_checkout_with_crlf_by_configuration_is_no_change() {
    let home = Home::with(&[(".surety/checks.yaml", CHANGED), ("a.txt", "one\ntwo\n")]);
    home.git(&["config", "core.autocrlf", "true"]);
    fs::remove_file(home.workspace.join("a.txt")).unwrap();
    home.git(&["checkout", "--", "a.txt"]);
    assert_eq!(fs::read(home.workspace.join("a.txt")).unwrap(), b"one\r\ntwo\r\n");
    home.verify(&[]).is(2, "no_workspace_change");
}

#[test]
fn links_modes_and_names_are_compared_as_git_keeps_them() {
    let home =
        Home::with(&[(".surety/checks.yaml", CHANGED), ("a.txt", "a\n"), ("d ä/ü.txt", "u\n")]);
    symlink("a.txt", home.workspace.join("link")).unwrap();
    symlink("/etc/hostname", home.workspace.join("outside")).unwrap();
    home.commit();
    fs::set_permissions(home.workspace.join("a.txt"), PermissionsExt::from_mode(0o600)).unwrap();
    home.verify(&[]).is(2, "no_workspace_change");
    fs::set_permissions(home.workspace.join("a.txt"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::remove_file(home.workspace.join("link")).unwrap();
    symlink("other", home.workspace.join("link")).unwrap();
    home.verify(&[]).is(0, "accepted");
    assert_eq!(changed_paths(&home), ["a.txt", "link"]);
}

#[test]
fn a_checks_file_that_leads_out_of_the_revision_is_refused() {
    let home = Home::with(&[("a.txt", "a\n")]);
    fs::create_dir(home.workspace.join(".surety")).unwrap();
    fs::write(home.home.join("own.yaml"), PASSES).unwrap();
    symlink("../../own.yaml", home.workspace.join(".surety/checks.yaml")).unwrap();
    home.commit();
    home.verify(&[]).is(1, "error[plan_missing]");
}

#[test]
fn ignored_files_are_no_change_and_enter_as_they_are() {
    let files = [(".gitignore", "build/\n"), (".surety/checks.yaml", CHANGED)];
    let home = Home::with(&files);
    home.put("build/out", "made\n");
    home.verify(&[]).is(2, "ignored_inputs_as_left");
    assert_eq!(changed_paths(&home), Vec::<String>::new());
    // The rules are those of the revision.
    home.put(".gitignore", "*\n");
    home.put("hidden.txt", "x\n");
    home.verify(&[]).is(0, "accepted");
    assert_eq!(changed_paths(&home), [".gitignore", "hidden.txt"]);
}

#[test]
fn a_recipe_that_only_the_own_list_of_the_repository_ignores_is_an_added_one() {
    let files = [
        (".surety/checks.yaml", "verify: [make test]\n"),
        ("Makefile", "test:\n\tgrep -q fixed a.txt\n"),
        ("a.txt", "a\n"),
    ];
    let home = Home::with(&files);
    // Other files in that list stay ignored.
    fs::write(home.workspace.join(".git/info/exclude"), "GNUmakefile\nnotes\n").unwrap();
    home.put("notes/a.txt", "own\n");
    home.put("GNUmakefile", "test:\n\techo ok\n");
    home.verify(&[]).is(2, "check_inputs_changed");
    assert_eq!(changed_paths(&home), ["GNUmakefile"]);
    home.put("a.txt", "fixed\n");
    home.verify(&[]).is(0, "accepted");
    assert_eq!(changed_paths(&home), ["GNUmakefile", "a.txt"]);
}

#[test]
fn a_protected_file_that_is_ignored_is_the_one_before_the_command() {
    let checks = "policy: {protect: [cases.db]}\nverify: [sh test.sh]\n";
    let test = "[ ! -e cases.db ] || grep -q broken cases.db\n";
    let home =
        Home::with(&[(".gitignore", "*.db\n"), (".surety/checks.yaml", checks), ("test.sh", test)]);
    for lie in ["echo broken > cases.db", "rm cases.db"] {
        home.put("cases.db", "fixed\n");
        home.verify(&["--", "sh", "-c", lie]).is(2, "cases.db (protected)");
    }
}

#[test]
fn nothing_of_the_repository_is_executed_to_read_it() {
    let files = [
        (".gitattributes", "*.txt filter=evil\n"),
        (".surety/checks.yaml", CHANGED),
        ("a.txt", "a\n"),
    ];
    let home = Home::with(&files);
    let mark = home.home.join("mark");
    let touch = format!("touch {}; cat", mark.display());
    for key in ["filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "core.sshCommand"] {
        home.git(&["config", key, &touch]);
    }
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        let path = home.workspace.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    fs::remove_file(&mark).ok();
    home.verify(&[]).is(2, "no_workspace_change");
    assert!(!mark.exists(), "a filter or a hook ran");
}

#[test]
fn a_replaced_commit_is_not_believed() {
    let home = Home::with(&[(".surety/checks.yaml", CHANGED), ("a.txt", "a\n")]);
    let honest = home.git(&["rev-parse", "HEAD"]);
    home.put("a.txt", "another\n");
    home.commit();
    let forged = home.git(&["rev-parse", "HEAD"]);
    home.git(&["reset", "-q", "--hard", &honest]);
    home.git(&["replace", &honest, &forged]);
    home.put("a.txt", "another\n");
    home.verify(&["--base", &honest]).is(0, "accepted");
    assert_eq!(changed_paths(&home), ["a.txt"]);
}

/// Puts another content under the name of an object.
fn forge(home: &Home, object: &str, kind: &str, content: &str) {
    let other = home.home.join("forged");
    fs::write(&other, content).unwrap();
    let named =
        home.git(&["hash-object", "-w", "-t", kind, "--literally", other.to_str().unwrap()]);
    let place = |name: &str| {
        let (folder, file) = name.split_at(2);
        home.workspace.join(".git/objects").join(folder).join(file)
    };
    fs::remove_file(place(object)).unwrap();
    fs::copy(place(&named), place(object)).unwrap();
}

#[test]
fn an_object_that_is_not_what_its_name_says_gives_no_verdict() {
    const STRICT: &str = "verify: [{kind: command_success, target: \"sh test.sh\"}]\n";
    const WEAK: &str = "verify: [{kind: file_exists, target: test.sh}]\n";
    let files = [(".surety/checks.yaml", STRICT), ("test.sh", "exit 1\n")];
    let checks = Home::with(&files);
    forge(&checks, &checks.git(&["rev-parse", "HEAD:.surety/checks.yaml"]), "blob", WEAK);
    let test = Home::with(&files);
    forge(&test, &test.git(&["rev-parse", "HEAD:test.sh"]), "blob", "exit 0\n");
    let commit = Home::with(&files);
    let honest = commit.git(&["rev-parse", "HEAD"]);
    commit.put(".surety/checks.yaml", WEAK);
    commit.commit();
    let text = format!("{}\n", commit.git(&["cat-file", "-p", "HEAD"]));
    forge(&commit, &honest, "commit", &text);
    let tree = Home::with(&files);
    let folder = tree.git(&["rev-parse", "HEAD:.surety"]);
    tree.put("weak/checks.yaml", WEAK);
    tree.commit();
    let weak = tree.git(&["rev-parse", "HEAD:weak"]);
    let place = |name: &str| tree.workspace.join(".git/objects").join(&name[..2]).join(&name[2..]);
    fs::remove_file(place(&folder)).unwrap();
    fs::copy(place(&weak), place(&folder)).unwrap();
    // The commit below the newest one names another parent: git reads that without a comparison.
    let below = Home::with(&files);
    let strict = below.git(&["rev-parse", "HEAD"]);
    below.put(".surety/checks.yaml", WEAK);
    below.commit();
    let weak = below.git(&["rev-parse", "HEAD"]);
    let child = |parent: &str, message: &str| {
        below.git(&["commit-tree", "-p", parent, "-m", message, &format!("{weak}^{{tree}}")])
    };
    let honest_parent = child(&strict, "middle");
    let newest = child(&honest_parent, "newest");
    below.git(&["reset", "-q", "--hard", &newest]);
    let text = format!("{}\n", below.git(&["cat-file", "-p", &child(&weak, "middle")]));
    forge(&below, &honest_parent, "commit", &text);
    for (home, base, code) in [
        (&checks, "HEAD", "error[git_failed]"),
        (&test, "HEAD", "error[git_failed]"),
        (&commit, honest.as_str(), "error[git_failed]"),
        (&tree, "HEAD~1", "error[git_failed]"),
        (&below, "HEAD~2", "error[git_failed]"),
    ] {
        home.verify(&["--base", base]).is(1, code);
        assert!(!home.verdict_file().exists());
    }
    checks.verify(&[]).is(1, "not what their names are digests of");
}

#[test]
fn packed_objects_and_a_shallow_clone_are_read() {
    let home = Home::with(&[(".surety/checks.yaml", CHANGED), ("a.txt", "a\n")]);
    home.put("a.txt", "b\n");
    home.commit();
    home.git(&["gc", "-q"]);
    home.verify(&[]).is(2, "no_workspace_change");
    let clone = home.home.join("clone");
    let source = format!("file://{}", home.workspace.display());
    home.git(&["clone", "-q", "--depth", "1", &source, clone.to_str().unwrap()]);
    let verified = home.surety(&["--workspace", clone.to_str().unwrap()]).output().unwrap();
    Ended::of(&verified).is(2, "no_workspace_change");
}

#[test]
fn a_large_file_is_compared_by_its_pointer() {
    let home = Home::with(&[(".surety/checks.yaml", CHANGED)]);
    let digest = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 10\n");
    home.put("big.bin", &pointer);
    home.commit();
    home.put("big.bin", "0123456789");
    home.verify(&[]).is(2, "no_workspace_change");
    home.put("big.bin", "012345678X");
    home.verify(&[]).is(0, "accepted");
}

#[test]
fn a_folder_of_a_repository_a_linked_work_tree_and_a_submodule_are_read() {
    let home =
        Home::with(&[("sub/.surety/checks.yaml", CHANGED), ("sub/a.txt", "a\n"), ("b", "b\n")]);
    let inside = home.workspace.join("sub");
    let verify = |folder: &std::path::Path| {
        Ended::of(&home.surety(&["--workspace", folder.to_str().unwrap()]).output().unwrap())
    };
    verify(&inside).is(2, "no_workspace_change");
    home.put("b", "another\n");
    verify(&inside).is(2, "no_workspace_change");
    home.put("sub/a.txt", "another\n");
    verify(&inside).is(0, "accepted");

    let linked = home.home.join("linked");
    home.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let inside = linked.join("sub");
    verify(&inside).is(2, "no_workspace_change");
    fs::write(inside.join("a.txt"), "linked\n").unwrap();
    verify(&inside).is(0, "accepted");

    let outer = home.home.join("outer");
    fs::create_dir_all(outer.join(".surety")).unwrap();
    fs::write(outer.join(".surety/checks.yaml"), CHANGED).unwrap();
    home.git_in(&outer, &["init", "-q", "-b", "main"]);
    let inner = home.workspace.to_str().unwrap();
    home.git_in(&outer, &["submodule", "--quiet", "add", inner, "vendor"]);
    home.git_in(&outer, &["add", "-A"]);
    home.git_in(&outer, &["commit", "-q", "-m", "outer"]);
    verify(&outer).is(2, "no_workspace_change");
    fs::write(outer.join("vendor/b"), "changed\n").unwrap();
    verify(&outer).is(0, "accepted");
}

#[test]
fn a_workspace_that_is_named_by_a_link_is_the_same() {
    let home = Home::with(&[(".surety/checks.yaml", PASSES), ("a.txt", "a\n")]);
    let link = home.home.join("link");
    symlink(&home.workspace, &link).unwrap();
    home.verify(&["--workspace", link.to_str().unwrap()]).is(0, "accepted");
}
