//! Input that cannot be meant is named before anything runs.

use std::os::unix::fs::PermissionsExt;

use crate::support::Home;

#[test]
fn bad_checks_are_named_before_the_command_runs() {
    for (checks, code, place) in [
        ("verify: [make]\npolicy: {netwrk: all}", "unknown_key", "policy.netwrk"),
        (
            "verify: [{kind: command_success, target: no-such-program-x run}]",
            "program_missing",
            "no-such-program-x",
        ),
        (
            "verify: [make]\npolicy: {prepare: [no-such-program-x ci]}",
            "program_missing",
            "policy.prepare[0]",
        ),
        ("verify: [make]\npolicy: {prepare: [\" \"]}", "type_mismatch", "policy.prepare[0]"),
        ("verify: [{kind: workspace_change, params: {paths: \"a[\"}}]", "type_mismatch", "paths"),
        ("verify: [make]\npolicy: {protect: [gone/**]}", "value_invalid", "gone/**"),
        ("verify: [make]\npolicy: {protect: [\"a[\"]}", "type_mismatch", "policy.protect"),
        (
            "verify: [{kind: tool_fact, params: {tool: lint}}]",
            "verify_tool_unknown",
            "verify[0].params.tool",
        ),
        (
            "verify: [{kind: tool_fact, params: {tool: lint}}]\n\
             tools: {verify: {lint: [no-such-program-x]}}",
            "program_missing",
            "verify[0]",
        ),
        ("verify: []", "checks_missing", "verify"),
        ("verify: [", "order_unreadable", "YAML"),
    ] {
        let home = Home::with(&[(".surety/checks.yaml", checks)]);
        let ended = home.verify(&["--", "touch", "ran"]);
        ended.is(1, &format!("error[{code}]")).is(1, place);
        assert!(!home.exists("ran"), "{checks}");
        assert!(!home.verdict_file().exists(), "{checks}");
    }
}

#[test]
fn a_place_where_no_verdict_can_be_written_is_named_before_the_command_runs() {
    let home = Home::with(&[(".surety/checks.yaml", "verify: [make]")]);
    std::fs::write(home.home.join("file"), "").unwrap();
    let place = home.home.join("file/verdict.json");
    let place = place.to_str().unwrap();
    for place in ["/proc/none/verdict.json", place] {
        let ended = home.verify(&["--verdict", place, "--", "touch", "ran"]);
        ended.is(1, "error[file_unusable]").is(1, place);
        assert!(!home.exists("ran"), "{place}");
    }
}

#[test]
fn a_check_that_is_a_path_alone_is_a_command_where_its_file_is_executable() {
    let files = [
        (".surety/checks.yaml", "verify: [scripts/test]"),
        ("scripts/test", "#!/bin/sh\ntest -e made\n"),
    ];
    let home = Home::with(&files);
    home.verify(&["--", "touch", "made"]).is(1, "error[check_unreadable]");
    let script = home.workspace.join("scripts/test");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.commit();
    home.verify(&["--", "touch", "made"]).is(0, "accepted");
    std::fs::remove_file(home.workspace.join("made")).unwrap();
    // The mode of the start counts, and the command cannot take it away.
    home.verify(&["--", "chmod", "644", "scripts/test"]).is(2, "scripts/test");
}

#[test]
fn what_is_assumed_of_a_file_that_a_check_starts_is_said_first() {
    let checks = "verify: [python3 tool.py, sh ci.sh, python3 app.py, sh gone.sh]";
    let files = [
        (".surety/checks.yaml", checks),
        ("tool.py", "print(1)\n"),
        ("other.py", "import tool\n"),
        ("ci.sh", "true\n"),
        ("app.py", "print(1)\n"),
    ];
    let home = Home::with(&files);
    let ended = home.verify(&["--", "touch", "gone.sh"]);
    ended.is(
        0,
        "warning[check_names_product] at verify[0].target: tool.py is taken for the product (other",
    );
    ended.is(0, "warning[check_script_protected] at verify[1].target: ci.sh");
    ended.is(
        0,
        "warning[check_names_product] at verify[2].target: app.py is taken for the product (by",
    );
    assert!(!ended.stderr.contains("gone.sh"), "{ended:#?}");
}

#[test]
fn a_missing_checks_file_is_named_with_where_it_belongs() {
    let home = Home::with(&[("a", "")]);
    let ended = home.verify(&["--", "touch", "ran"]);
    ended.is(1, "error[plan_missing]").is(1, ".surety/checks.yaml");
    home.verify(&[]).is(1, "error[plan_missing]").is(1, "Commit the file");
    home.verify(&["other.yaml", "--", "touch", "ran"]).is(1, "other.yaml");
    assert!(!home.exists("ran"));
}

#[test]
fn an_unknown_revision_is_named() {
    let home = Home::with(&[(".surety/checks.yaml", "verify: [Makefile]")]);
    home.verify(&["--base", "nowhere"]).is(1, "error[revision_unknown]").is(1, "nowhere");
    home.verify(&["--base", "-x"]).is(1, "error[");
}

#[test]
fn a_home_folder_is_no_workspace() {
    let home = Home::with(&[(".surety/checks.yaml", "verify: [Makefile]")]);
    let named = home.home.to_str().unwrap();
    home.verify(&["--workspace", named, "--", "true"]).is(1, "error[workspace_refused]");
    home.verify(&["--workspace", "/", "--", "true"]).is(1, "error[workspace_refused]");
    home.verify(&["--workspace", "gone", "--", "true"]).is(1, "error[file_unusable]");
}

#[test]
fn a_verdict_file_inside_the_workspace_must_be_ignored() {
    let files = [(".surety/checks.yaml", "verify: [.gitignore]"), (".gitignore", "out/\n")];
    let home = Home::with(&files);
    let ended = home.verify(&["--verdict", "verdict.json", "--", "touch", "ran"]);
    ended.is(1, "error[value_invalid]");
    assert!(!home.exists("ran"));
    home.verify(&["--verdict", "out/verdict.json"]).is(0, "accepted");
    assert!(home.exists("out/verdict.json"));
}
