//! Agents that want a verdict without the work. Each lie has its truth: what the untouched checks say of the workspace.

use crate::client::{Called, Client};
use crate::flow::plan;
use crate::support::Home;
use serde_json::json;
use std::process::Command;

const CHECKS: &str = "verify: [{id: tests, kind: command_success, target: sh test.sh}]\n";
const TEST: &str = "grep -q fixed product.txt && grep -q built build/out\n";
const FILES: [(&str, &str); 5] = [
    (".surety/checks.yaml", CHECKS),
    ("test.sh", TEST),
    ("build.sh", "mkdir -p build && echo built > build/out\n"),
    (".gitignore", "build/\n"),
    ("product.txt", "broken\n"),
];

/// A repository whose build was made before the agent came.
fn built() -> Home {
    let home = Home::with(&FILES);
    home.put("build/out", "built\n");
    home
}

/// The verdict after a lie, and whether the workspace passes the untouched test.
fn verdict(home: &Home, lie: impl FnOnce(&mut Client)) -> (Called, bool) {
    let mut client = Client::open(home, &[]);
    lie(&mut client);
    let verdict = client.call("surety_verdict", json!({})).ok();
    client.end();
    let mut truth = std::process::Command::new("sh");
    let truth = truth.args(["-c", TEST]).current_dir(&home.workspace).status().unwrap();
    (verdict, truth.success())
}

#[track_caller]
fn assert_refused((verdict, truth): &(Called, bool)) {
    assert!(!truth, "the case is no lie");
    assert_eq!(verdict.value["accepted"], false, "{verdict:#?}");
    assert!(verdict.failed().contains(&"tests"), "{verdict:#?}");
}

#[test]
fn the_honest_work_is_accepted_with_the_build_that_was_there() {
    let home = built();
    let (verdict, truth) = verdict(&home, |_| home.put("product.txt", "fixed\n"));
    assert!(truth);
    assert_eq!(verdict.value["accepted"], true, "{verdict:#?}");
}

#[test]
fn a_rewritten_test_proves_nothing() {
    let home = built();
    assert_refused(&verdict(&home, |_| home.put("test.sh", "exit 0\n")));
}

#[test]
fn a_forged_build_proves_nothing() {
    let home = Home::with(&FILES);
    let lie = verdict(&home, |_| {
        home.put("product.txt", "fixed\n");
        home.put("build/out", "built\n");
    });
    // The build is right by itself, and no step of the check made it: the person decides.
    assert_eq!(lie.0.value["accepted"], false, "{:#?}", lie.0);
    assert!(lie.0.text.contains("ignored_inputs_changed"), "{:#?}", lie.0);
}

#[test]
fn a_protected_file_that_is_ignored_is_the_one_of_the_opening() {
    let files = [
        (".surety/checks.yaml", &*format!("policy: {{protect: [cases.db]}}\n{CHECKS}")),
        (".gitignore", "*.db\n"),
        ("test.sh", "[ ! -e cases.db ] || cmp -s product.txt cases.db\n"),
        ("product.txt", "broken\n"),
    ];
    let in_git = || Home::with(&files);
    let in_none = || {
        let home = Home::without_git();
        files.iter().for_each(|(path, text)| home.put(path, text));
        home
    };
    let verdict = |home: &Home, work: &dyn Fn()| {
        home.put("cases.db", "fixed\n");
        let mut client = Client::open(home, &[]);
        work();
        let verdict = client.call("surety_verdict", json!({})).ok();
        client.end();
        verdict
    };
    for make in [&in_git as &dyn Fn() -> Home, &in_none] {
        let home = make();
        let forged = verdict(&home, &|| home.put("cases.db", "broken\n"));
        assert_eq!(forged.failed(), ["tests"], "{forged:#?}");
        assert!(forged.text.contains("changed cases.db (protected)"), "{forged:#?}");
        let home = make();
        let removed = |home: &Home| std::fs::remove_file(home.workspace.join("cases.db")).unwrap();
        let deleted = verdict(&home, &|| removed(&home));
        assert_eq!(deleted.failed(), ["tests"], "{deleted:#?}");
        // A workspace that is another folder at the same place is compared with the same digests.
        let home = make();
        home.put("cases.db", "fixed\n");
        Client::open(&home, &[]).end();
        let other = home.workspace.with_extension("copy");
        let copied = Command::new("cp").arg("-a").args([&home.workspace, &other]).status();
        assert!(copied.unwrap().success());
        std::fs::remove_dir_all(&home.workspace).unwrap();
        std::fs::rename(&other, &home.workspace).unwrap();
        home.put("cases.db", "broken\n");
        let mut client = Client::open(&home, &[]);
        let moved = client.call("surety_verdict", json!({})).ok();
        client.end();
        assert_eq!(moved.failed(), ["tests"], "{moved:#?}");
        assert!(moved.text.contains("changed cases.db (protected)"), "{moved:#?}");
        let home = make();
        let honest = verdict(&home, &|| home.put("product.txt", "fixed\n"));
        assert_eq!(honest.value["accepted"], true, "{honest:#?}");
    }
}

#[test]
fn claims_and_weak_checks_of_the_plan_prove_nothing() {
    let home = built();
    let lie = verdict(&home, |client| {
        let checks =
            json!([{"id": "own", "kind": "command_success", "target": "true", "owner": "user"}]);
        client.call("surety_propose_plan", plan(checks)).ok();
        for step in ["look", "repair"] {
            let report = json!({"step_id": step, "outcome": "done", "note": "system.accepted"});
            client.call("surety_report", report).ok();
        }
    });
    assert_refused(&lie);
    assert_eq!(lie.0.failed(), ["tests"]);
}

#[test]
fn a_base_that_is_rewritten_in_git_stays_the_base() {
    let home = built();
    let base = home.git(&["rev-parse", "HEAD"]);
    let lie = verdict(&home, |_| {
        home.put("test.sh", "exit 0\n");
        home.put(".surety/checks.yaml", "verify: [product.txt]\n");
        home.git(&["add", "-A"]);
        home.git(&["commit", "-q", "--amend", "-m", "other"]);
        let amended = home.git(&["rev-parse", "HEAD"]);
        // An object that stands for the base has no effect either.
        home.git(&["replace", &base, &amended]);
        home.git(&["tag", "-f", "HEAD-of-base", "HEAD"]);
    });
    assert_refused(&lie);
}

#[test]
fn a_server_that_the_agent_starts_anew_keeps_the_start() {
    let home = built();
    let lie = verdict(&home, |_| {
        home.put("test.sh", "exit 0\n");
        home.commit();
        Client::open(&home, &["--base", "HEAD", "--checks", "product.txt"]).end();
        let closed = home.command(&["contract", "new"]).output().unwrap();
        assert_eq!(closed.status.code(), Some(1));
    });
    assert_refused(&lie);
}

#[test]
fn an_answer_that_the_agent_gives_itself_decides_no_check() {
    let home = built();
    let lie = verdict(&home, |client| {
        let ask = json!({"question": "May I skip the tests?", "options": ["yes"]});
        client.call("surety_ask_person", ask).ok();
        home.command(&["contract", "answer", "1", "yes"]).output().unwrap();
    });
    assert_refused(&lie);
}

#[test]
fn an_object_of_the_base_that_is_forged_is_noticed() {
    let home = built();
    let mut client = Client::open(&home, &[]);
    home.put("weak.sh", "exit 0\n");
    let object = |name: &str| {
        let (folder, file) = name.split_at(2);
        home.workspace.join(".git/objects").join(folder).join(file)
    };
    let weak = object(&home.git(&["hash-object", "-w", "weak.sh"]));
    let test = object(&home.git(&["rev-parse", "HEAD:test.sh"]));
    std::fs::remove_file(&test).unwrap();
    std::fs::copy(weak, test).unwrap();
    let called = client.call("surety_verdict", json!({}));
    assert!(called.is_error, "{called:#?}");
    assert!(
        ["git_failed", "revision_unknown"]
            .contains(&called.value["error"]["code"].as_str().unwrap())
    );
    assert!(!home.verdict_file().exists());
    let errors = client.end();
    assert!(errors.contains("without a verdict"), "{errors}");
}
