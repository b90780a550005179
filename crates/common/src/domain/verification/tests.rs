use super::*;
use crate::domain::check::{AcceptCheck, Author, FileType, Owner, read_checks};
use crate::domain::json;
use crate::domain::receipt::{CheckProbe, EvidenceReceipt, Inputs, read_receipt};
use crate::domain::run::{Policy, VerifyCommands};
use crate::domain::verify_tool::VerifyTool;

#[test]
fn the_checks_and_the_policy_say_what_is_looked_at() {
    let command = || Observation::Command("make test".to_owned());
    let named = |path: &str| Observation::File { path: path.to_owned(), file_type: FileType::File };
    let file = || named("a");
    let optional = r#"[{"kind":"command_success","target":"make","required":false}]"#;
    for (checks, policy, wrote, expected) in [
        (
            r#"["make test","./a","make test"]"#,
            VerifyCommands::Runner,
            true,
            vec![command(), named("./a")],
        ),
        (r#"["make test","a.txt"]"#, VerifyCommands::ReceiptsOnly, true, vec![named("a.txt")]),
        ("[]", VerifyCommands::Runner, true, vec![Observation::ProjectTests]),
        ("[]", VerifyCommands::Runner, false, vec![]),
        (optional, VerifyCommands::Runner, true, vec![Observation::ProjectTests]),
        (optional, VerifyCommands::Runner, false, vec![]),
        (optional, VerifyCommands::ReceiptsOnly, true, vec![]),
        (
            r#"[{"kind":"file_exists","target":"a"}]"#,
            VerifyCommands::Runner,
            true,
            vec![Observation::ProjectTests, file()],
        ),
        (
            r#"["make test",{"kind":"workspace_change"},
                {"kind":"workspace_change","params":{"paths":"src/**, {a,b}.txt"}}]"#,
            VerifyCommands::Runner,
            true,
            vec![
                Observation::Change(vec![]),
                Observation::Change(vec!["src/**".to_owned(), "{a,b}.txt".to_owned()]),
                command(),
            ],
        ),
        (r#"[{"kind":"workspace_change"}]"#, VerifyCommands::ReceiptsOnly, true, vec![]),
    ] {
        let list = json::parse(checks).unwrap().value;
        let (list, _) = read_checks(&list, "verify", Author::Model).unwrap();
        let policy = Policy { verify_commands: policy, ..Policy::default() };
        let found = probes(&list, &policy, wrote);
        let found: Vec<_> = found.into_iter().map(|probe| probe.observation).collect();
        assert_eq!(found, expected, "{checks}");
    }
}

#[test]
fn each_check_has_a_probe_of_its_own_and_less_trusted_commands_run_first() {
    let checks = r#"[
        {"kind":"command_success","target":"make test","owner":"user"},
        {"kind":"command_success","target":"make test","owner":"operator"},
        {"id":"a","kind":"command_success","target":"make test","owner":"plan"}]"#;
    let list = json::parse(checks).unwrap().value;
    let (list, _) = read_checks(&list, "verify", Author::Operator).unwrap();
    let policy = Policy {
        prepare: vec!["npm ci".to_owned()],
        always_prepare: vec!["make tools".to_owned()],
        ..Policy::default()
    };
    let found = probes(&list, &policy, true);
    let found: Vec<_> = found.iter().map(|probe| (probe.check_id.as_str(), probe.owner)).collect();
    assert_eq!(
        found,
        [
            ("a", Owner::Plan),
            ("system.prepare[0]", Owner::Operator),
            ("system.prepare[1]", Owner::User),
            ("command_success[1]", Owner::Operator),
            ("command_success[0]", Owner::User),
        ]
    );
    let lines: Vec<_> = policy.prepare_lines().map(|(_, line)| line).collect();
    assert_eq!(lines, ["make tools", "npm ci"]);
    let own = |check: &AcceptCheck| check.owner == Owner::Plan;
    let of_plan: Vec<_> = list.iter().filter(|check| own(check)).cloned().collect();
    assert_eq!(probes(&of_plan, &policy, true).len(), 1, "nothing needs the view");
}

#[test]
fn a_tool_fact_has_a_probe_of_the_owner_of_its_command() {
    let checks = r#"[
        {"kind":"tool_fact","params":{"tool":"LINT"},"owner":"plan"},
        {"kind":"tool_fact","target":"src","params":{"tool":"types"},"owner":"user"},
        {"id":"any","kind":"tool_fact","params":{"tool":"lint","source":"any"}},
        {"id":"optional","kind":"tool_fact","required":false,"params":{"tool":"lint"}},
        {"id":"none","kind":"tool_fact","params":{"tool":"format"}}]"#;
    let list = json::parse(checks).unwrap().value;
    let (list, _) = read_checks(&list, "verify", Author::Service).unwrap();
    let tool = |name: &str, argv: &[&str]| VerifyTool {
        name: name.to_owned(),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        timeout_s: Some(60),
    };
    let policy = Policy {
        verify_tools: vec![tool("types", &["tsc", "{scope}"])],
        always_verify_tools: vec![tool("lint", &["make", "lint"])],
        ..Policy::default()
    };
    let found = probes(&list, &policy, false);
    let line = |probe: &Probe| {
        let Observation::Verification(it) = &probe.observation else { panic!("{probe:?}") };
        it.line.clone()
    };
    let found: Vec<_> = found.iter().map(|probe| (probe.owner, line(probe))).collect();
    let expected = [(Owner::Operator, "make lint"), (Owner::User, "tsc src")];
    assert_eq!(found, expected.map(|(owner, line)| (owner, line.to_owned())));
    let probed: Vec<_> = list.iter().map(is_commanded).collect();
    assert_eq!(probed, [true, true, false, false, true], "without its command it fails");
    let by_receipts = Policy { verify_commands: VerifyCommands::ReceiptsOnly, ..policy };
    assert!(probes(&list, &by_receipts, false).is_empty());
}

fn receipt(source: &str, round: u32, success: bool, facts: &str) -> EvidenceReceipt {
    let text = format!(
        r#"{{"step_index":1,"check_id":"system.project_tests","round":{round},
            "source":"{source}","success":{success},
            "name":"project_tests","facts":[{facts}]}}"#
    );
    read_receipt(&json::parse(&text).unwrap().value).unwrap()
}

#[test]
fn the_last_record_of_the_runner_in_the_round_says_what_the_tests_came_to() {
    use ProjectTests::{Failed, NotRun, Passed, Skipped};
    let ran = r#"{"fact":"command","argv":["cargo","test"],"exit_code":0}"#;
    let failed = r#"{"fact":"command","argv":["cargo","test"],"exit_code":1}"#;
    let skipped = r#"{"fact":"output","key":"project_tests","value":"skipped"}"#;
    let (good, bad) = (receipt("probe", 2, true, ran), receipt("probe", 2, false, failed));
    for (receipts, expected) in [
        (vec![], NotRun),
        (vec![good.clone()], Passed),
        (vec![bad.clone()], Failed),
        (vec![good.clone(), bad.clone()], Failed),
        (vec![bad, good.clone()], Passed),
        (vec![receipt("probe", 2, false, skipped)], Skipped),
        (vec![good, receipt("probe", 2, false, "")], NotRun),
        (vec![receipt("probe", 1, true, ran)], NotRun),
        (vec![receipt("tool_observation", 2, true, ran)], NotRun),
        (vec![receipt("tool_observation", 2, true, skipped)], NotRun),
    ] {
        assert_eq!(ProjectTests::of(&receipts, 2), expected, "{receipts:?}");
    }
}

#[test]
fn the_weakest_level_of_a_round_has_all_that_any_of_its_commands_lacked() {
    let text = r#"{"step_index": 0, "source": "probe", "success": true}"#;
    let empty = read_receipt(&json::parse(text).unwrap().value).unwrap();
    let at = |round, level: &str| EvidenceReceipt {
        sandbox: level.to_owned(),
        probe_of: Some(CheckProbe { check_id: "c".to_owned(), round, inputs: Inputs::Original }),
        ..empty.clone()
    };
    for (levels, expected) in [
        (vec![], ""),
        (vec![""], ""),
        (vec!["full", "", "full"], "full"),
        (vec!["full", "partial(seccomp)"], "partial(seccomp)"),
        (
            vec!["partial(seccomp, landlock)", "partial(memory_limit, seccomp)"],
            "partial(landlock, memory_limit, seccomp)",
        ),
        (vec!["partial(seccomp)", "none", "full"], "none"),
    ] {
        let mut receipts: Vec<_> = levels.iter().map(|level| at(2, level)).collect();
        receipts.push(at(1, "none"));
        assert_eq!(weakest_sandbox(&receipts, 2), expected, "{levels:?}");
    }
}
