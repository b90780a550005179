//! Each check is decided by its own probe of the round, and by nothing else.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{self, plan, step, write};

/// Ends a run of one step that writes a note, under these checks and without repairs.
async fn end_with(deployment: &Deployment, workspace: &Path, verify: Value) -> Result<v1::Run> {
    let mut plan = plan(&[step("writes", &[], &[write("note.txt", "fixed\n")])]);
    plan["verify"] = verify;
    let mut request = script::request(&plan, &workspace.display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

/// The reason of each result that is no todo's; empty for one that passed.
fn reasons(run: &v1::Run) -> Result<BTreeMap<&str, &str>> {
    let verdict = run.verdict.as_ref().context("a verdict")?;
    let checks = verdict.results.iter().filter(|result| !result.name.starts_with("system.todo"));
    Ok(checks
        .map(|result| {
            assert_eq!(result.passed, result.reason.is_empty(), "{result:?}");
            (result.name.as_str(), result.reason.as_str())
        })
        .collect())
}

#[tokio::test]
async fn a_command_of_the_plan_cannot_stand_for_one_of_the_user() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    std::fs::write(workspace.path().join("test.sh"), "test \"$DRY$1\" != \"\"\n")?;
    let run = end_with(
        &deployment,
        workspace.path(),
        json!([
            {"id": "tests", "kind": "command_success", "target": "sh test.sh"},
            {"id": "part", "kind": "command_success", "target": "sh test.sh quick"},
            {"id": "dry", "kind": "command_success", "target": "DRY=1 sh test.sh", "owner": "plan"},
            {"id": "chain", "kind": "command_success", "target": "true && sh test.sh quick && true",
                "owner": "plan"},
        ]),
    )
    .await?;
    let expected = [("chain", ""), ("dry", ""), ("part", ""), ("tests", "no_successful_command")];
    assert_eq!(reasons(&run)?, BTreeMap::from(expected), "{run:#?}");
    let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
    let listed = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
    let probes = listed.iter().filter(|receipt| receipt.round > 0);
    let mut probed: Vec<_> = probes.map(|probe| (probe.check_id.as_str(), probe.round)).collect();
    let order: Vec<_> = probed.iter().map(|(check, _)| *check).collect();
    let expected = ["dry", "chain", "tests", "part", "system.workspace"];
    assert_eq!(order, expected, "the plan's commands run first");
    probed.dedup_by_key(|(_, round)| *round);
    assert_eq!(probed.len(), 1, "one round: {probed:?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_users_check_may_use_a_shell_and_a_plans_may_not() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    std::fs::create_dir(workspace.path().join("sub"))?;
    std::fs::write(workspace.path().join("sub/a.txt"), "a\n")?;
    let of = |id: &str, owner: &str, target: &str| json!({"id": id, "kind": "command_success", "target": target, "owner": owner});
    let run = end_with(
        &deployment,
        workspace.path(),
        json!([
            of("cd", "user", "cd sub && test -f a.txt"),
            of("not", "user", "! grep -q TODO note.txt"),
            of("pipe", "user", "cat note.txt | grep -q fixed"),
            of("glob", "user", "cat sub/*.txt > /dev/null"),
            of("quiet", "plan", "cat note.txt > /dev/null 2>&1"),
            of("shell", "plan", "cat note.txt | grep -q fixed"),
            of("gone", "user", "./no-such-program --check"),
        ]),
    )
    .await?;
    let reasons = reasons(&run)?;
    for passed in ["cd", "not", "pipe", "glob", "quiet"] {
        assert_eq!(reasons.get(passed), Some(&""), "{reasons:#?}");
    }
    for (refused, code) in [("shell", "shell_not_allowed"), ("gone", "program_not_found")] {
        let reason = reasons.get(refused).copied().unwrap_or_default();
        let expected = format!("command_not_started: {code}: ");
        assert!(reason.starts_with(&expected), "{reason:?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_program_that_is_nowhere_refuses_the_run_before_anything_runs() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let of = |target: &str, required: bool| json!({"id": "lint", "kind": "command_success", "target": target, "owner": "user", "required": required});
    let refused =
        end_with(&deployment, workspace.path(), json!([of("no-such-linter --all", true)])).await?;
    let terminal = refused.terminal.clone().context("an end")?;
    let message = &terminal.user_message;
    assert!(message.starts_with("program_missing: check lint names the program"), "{message}");
    assert_eq!(terminal.stop_reason(), v1::StopReason::Aborted);
    assert!(!workspace.path().join("note.txt").exists(), "no step began");
    for checks in [
        json!([of("no-such-linter --all", false)]),
        json!([of("no-such-linter --all || true", true)]),
        json!([of("sh -c true && ./made/by/a/step || true", true)]),
    ] {
        let run = end_with(&deployment, workspace.path(), checks).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn what_a_user_asks_for_is_not_answered_by_the_runners_words() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let answer = || json!([{"kind": "output_only"}]);
    let silent = end_with(&deployment, workspace.path(), answer()).await?;
    assert_eq!(reasons(&silent)?, BTreeMap::from([("output_only", "output_empty")]));
    for (done_when, state) in
        [("\u{200b}", v1::RunState::Failed), ("The note says it.", v1::RunState::Done)]
    {
        let mut plan = plan(&[step("writes", &[], &[write("note.txt", "fixed\n")])]);
        plan["verify"] = answer();
        plan["steps"][0]["done_when"] = json!(done_when);
        let mut request = script::request(&plan, &workspace.path().display().to_string());
        request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
        let run = deployment.create_run(request).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), state, "{done_when:?}: {run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_verdict_says_whose_checks_it_rests_on() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let of = |owner: &str, target: &str| json!([{"id": "c", "kind": "command_success", "target": target, "owner": owner}]);
    for (owner, target, strength, cautions) in [
        ("user", "test -f note.txt", v1::VerdictStrength::Independent, 0),
        ("plan", "test -f note.txt", v1::VerdictStrength::SelfChecked, 0),
        ("user", "true", v1::VerdictStrength::SelfChecked, 1),
    ] {
        let run = end_with(&deployment, workspace.path(), of(owner, target)).await?;
        let verdict = run.verdict.context("a verdict")?;
        assert!(verdict.accepted, "{verdict:?}");
        assert_eq!((verdict.strength(), verdict.round), (strength, 1), "{owner} {target}");
        let codes: Vec<_> = verdict.cautions.iter().map(|caution| &caution.code).collect();
        assert_eq!(codes, vec!["thin_check"; cautions], "{owner} {target}");
    }
    let mut plan = plan(&[step("writes", &[], &[write("note.txt", "fixed\n")])]);
    plan["verify"] = of("plan", "test -f note.txt");
    let mut request = script::request(&plan, &workspace.path().display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    request.policy = Some(v1::Policy { require_independent: true, ..Default::default() });
    let run = deployment.create_run(request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    assert_eq!(reasons(&run)?.get("system.independent"), Some(&"self_checked"));
    deployment.finish().await
}

/// Ends a run that writes one file, under one check of the user.
async fn end_writing(
    deployment: &Deployment,
    workspace: &Path,
    written: (&str, &str),
    target: &str,
) -> Result<v1::Run> {
    let (path, content) = written;
    let mut plan = plan(&[step("writes", &[], &[write(path, content)])]);
    plan["verify"] = json!([{"id": "c", "kind": "command_success", "target": target}]);
    let mut request = script::request(&plan, &workspace.display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    // The canary has tests of its own.
    let canary = v1::CanaryPolicy::Never.into();
    request.policy = Some(v1::Policy { canary, ..request.policy.unwrap_or_default() });
    let run = deployment.create_run(request).await?;
    deployment.wait_for_end(&run.id).await
}

/// The codes of a verdict's cautions, in order.
/// Without the one that says that the canary is switched off here.
fn cautions(run: &v1::Run) -> Vec<&str> {
    let verdict = run.verdict.as_ref();
    let cautions = verdict.into_iter().flat_map(|verdict| &verdict.cautions);
    let codes = cautions.map(|caution| caution.code.as_str());
    codes.filter(|code| *code != "canary_not_run").collect()
}

/// The tests that the receipts of a run count.
async fn counted(deployment: &Deployment, run: &v1::Run) -> Result<Vec<v1::fact::Tests>> {
    let request = v1::ListReceiptsRequest { run_id: run.id.clone(), ..Default::default() };
    let listed = deployment.runs()?.list_receipts(request).await?.into_inner().receipts;
    let facts = listed.into_iter().flat_map(|receipt| receipt.facts);
    let tests = facts.filter_map(|fact| {
        let Some(v1::fact::Fact::Tests(tests)) = fact.fact else { return None };
        Some(tests)
    });
    Ok(tests.collect())
}

#[tokio::test]
async fn a_runner_that_ran_no_test_proves_nothing() -> Result<()> {
    let deployment = Deployment::start().await?;
    let (good, exits) = ("def answer():\n    return 42\n", "import os\nos._exit(0)\n");
    let test = "import unittest\nfrom app import answer\n\n\nclass Answer(unittest.TestCase):\n    \
                def test_answer(self):\n        self.assertEqual(answer(), 42)\n\n    \
                @unittest.skip('slow')\n    def test_slow(self):\n        pass\n";
    for (app, target, ran) in [
        (good, "python3 -m unittest", Some(1)),
        (good, "python3 -m unittest -k answer", Some(1)),
        (good, "cd . && python3 -m unittest -q 2>&1 | tail -n 3", Some(1)),
        (good, "python3 -m unittest -k nothing", None),
        (good, "python3 -m unittest -k slow", None),
        (exits, "python3 -m unittest", None),
        (exits, "make test", None),
        (good, "make test", Some(1)),
    ] {
        let workspace = tempfile::tempdir()?;
        std::fs::write(workspace.path().join("test_app.py"), test)?;
        std::fs::write(workspace.path().join("Makefile"), "test:\n\t@python3 -m unittest\n")?;
        let run = end_writing(&deployment, workspace.path(), ("app.py", app), target).await?;
        let counted = counted(&deployment, &run).await?;
        let [tests] = &*counted else { anyhow::bail!("{target}: {counted:?}") };
        assert_eq!((tests.runner.as_str(), tests.ran), ("unittest", ran.unwrap_or_default()));
        if ran.is_some() {
            assert_eq!(run.state(), v1::RunState::Done, "{target}: {run:#?}");
            // The end of a pipe holds whatever comes through it.
            let expected: &[&str] = if target.contains('|') { &["thin_check"] } else { &[] };
            assert_eq!(cautions(&run), expected, "{target}");
        } else {
            assert_eq!(run.state(), v1::RunState::Failed, "{app} {target}: {run:#?}");
            let reason = reasons(&run)?.get("c").copied().unwrap_or_default();
            assert!(reason.starts_with("no_tests_seen: `unittest` ended with 0"), "{reason}");
            assert_eq!(cautions(&run), ["no_tests_seen"], "{target}");
        }
    }
    deployment.finish().await
}

#[tokio::test]
async fn announced_tests_that_did_not_run_are_missing() -> Result<()> {
    let deployment = Deployment::start().await?;
    let library = |body: &str| {
        format!(
            "pub fn answer() -> u8 {{ {body} }}\n#[cfg(test)]\nmod tests {{\n    #[test]\n    \
             fn answers() {{ assert_eq!(super::answer(), 42) }}\n}}\n"
        )
    };
    for (body, target, code) in [
        ("42", "cargo test", None),
        ("42", "cargo test --lib answers", None),
        ("42", "cargo test --lib nothing", Some("no_tests_seen")),
        ("std::process::exit(0)", "cargo test --lib", Some("no_tests_seen")),
    ] {
        let workspace = tempfile::tempdir()?;
        let manifest = "[package]\nname = \"it\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        std::fs::write(workspace.path().join("Cargo.toml"), manifest)?;
        std::fs::create_dir(workspace.path().join("src"))?;
        std::fs::write(workspace.path().join("src/lib.rs"), library("0"))?;
        let text = library(body);
        let run = end_writing(&deployment, workspace.path(), ("src/lib.rs", &text), target).await?;
        let reason = reasons(&run)?.get("c").copied().unwrap_or_default();
        assert_eq!(reason.split_once(':').map(|(code, _)| code), code, "{body} {target}: {run:#?}");
        let counted = counted(&deployment, &run).await?;
        let missing = u64::from(body != "42");
        assert_eq!(counted.iter().map(|tests| tests.missing).sum::<u64>(), missing, "{target}");
        assert_eq!(cautions(&run).contains(&"tests_missing"), missing > 0, "{run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn tests_inside_source_files_are_those_of_the_start() -> Result<()> {
    let deployment = Deployment::start().await?;
    let test = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::add(1, 2), 3); }\n}\n";
    let (broken, good) = (
        "pub fn add(a: u8, b: u8) -> u8 { a.abs_diff(b) }\n",
        "pub fn add(a: u8, b: u8) -> u8 { a + b }\n",
    );
    let more = test
        .replace("}\n}", "}\n    #[test]\n    fn more() { assert_eq!(super::add(0, 0), 0); }\n}");
    let twice = format!("#[cfg(test)]\n{good}#[cfg(not(test))]\n{broken}");
    for (product, tests, code, noted) in [
        (good, test.to_owned(), None, vec![]),
        (good, more, None, vec![]),
        (
            broken,
            test.replace("2), 3", "2), 1"),
            Some("check_inputs_changed"),
            vec!["check_inputs_changed"],
        ),
        // As left, no test is there to be run.
        (
            broken,
            String::new(),
            Some("check_inputs_changed"),
            vec!["check_inputs_changed", "no_tests_seen"],
        ),
        (&twice, test.to_owned(), None, vec!["check_inputs_differ"]),
    ] {
        let workspace = tempfile::tempdir()?;
        let manifest = "[package]\nname = \"it\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        std::fs::write(workspace.path().join("Cargo.toml"), manifest)?;
        std::fs::create_dir(workspace.path().join("src"))?;
        let library = workspace.path().join("src/lib.rs");
        std::fs::write(&library, format!("{broken}{test}"))?;
        let written = format!("{product}{tests}");
        let written = ("src/lib.rs", written.as_str());
        let run = end_writing(&deployment, workspace.path(), written, "cargo test --lib").await?;
        let reason = reasons(&run)?.get("c").copied().unwrap_or_default();
        assert_eq!(reason.split_once(':').map(|(code, _)| code), code, "{run:#?}");
        let mut found = cautions(&run);
        found.sort_unstable();
        assert_eq!(found, noted, "{run:#?}");
        assert_eq!(std::fs::read_to_string(&library)?, written.1, "a view changes no workspace");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_check_bounds_the_tests_of_its_command() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let test = "import unittest\n\n\nclass One(unittest.TestCase):\n    def test_one(self):\n        pass\n";
    std::fs::write(workspace.path().join("test_one.py"), test)?;
    let of = |id: &str, target: &str, least: u8| json!({"id": id, "kind": "command_success", "target": target, "params": {"min_tests": least}});
    let run = end_with(
        &deployment,
        workspace.path(),
        json!([
            of("kept", "python3 -m unittest", 1),
            of("few", "python3 -m unittest -q", 2),
            of("unknown", "test -f note.txt", 1),
        ]),
    )
    .await?;
    let reasons = reasons(&run)?;
    assert_eq!(reasons.get("kept"), Some(&""));
    assert_eq!(reasons.get("few"), Some(&"too_few_tests: 1 ran, min_tests is 2"));
    assert!(reasons["unknown"].starts_with("tests_not_counted: "), "{reasons:?}");
    deployment.finish().await
}

#[tokio::test]
async fn what_was_observed_before_a_pause_does_not_count_after_it() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let path = |name: &str| workspace.path().join(name);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let wait = format!(
        "import socket\ntry:\n    socket.create_connection(('127.0.0.1', {})).recv(1)\nexcept OSError:\n    \
         pass\n",
        listener.local_addr()?.port()
    );
    std::fs::write(path("wait.py"), wait)?;
    std::fs::write(path("test.sh"), "python3 wait.py; grep -q good code\n")?;
    std::fs::write(path("code"), "good\n")?;
    let mut plan = plan(&[step("writes", &[], &[write("note.txt", "fixed\n")])]);
    plan["verify"] = json!([{"id": "c", "kind": "command_success", "target": "sh test.sh"}]);
    let mut request = script::request(&plan, &workspace.path().display().to_string());
    request.policy =
        Some(v1::Policy { network: v1::NetworkPolicy::All.into(), ..Default::default() });
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    let run = deployment.create_run(request).await?;
    let (held, _) = tokio::time::timeout(Duration::from_secs(60), listener.accept()).await??;
    let pause = v1::PauseRunRequest { run_id: run.id.clone(), ..Default::default() };
    deployment.runs()?.pause_run(pause).await?;
    drop((held, listener));
    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    deployment.wait_for(&run.id, "paused", blocked).await?;
    std::fs::write(path("code"), "broken\n")?;
    let resume = v1::ResumeRunRequest { run_id: run.id.clone(), ..Default::default() };
    deployment.runs()?.resume_run(resume).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(reasons(&run)?, BTreeMap::from([("c", "no_successful_command")]), "{run:#?}");
    assert_eq!(run.verdict.context("a verdict")?.round, 2);
    deployment.finish().await
}
