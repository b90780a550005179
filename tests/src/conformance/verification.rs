//! Rows about the verification: what the runner observes, and what the verdict makes of it.

use super::gate::receipt_of;
use super::movement::{Played, not_accepted};
use super::runtime::{compare_stated, text};
use super::{compare, text_of};
use std::collections::BTreeMap;
use surety_acceptgate::verdict::{Evaluation, evaluate};
use surety_common::domain::caution::CautionRules;
use surety_common::domain::json::Value;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::receipt::{CheckProbe, Command, EvidenceReceipt, EvidenceSource, Fact};
use surety_common::domain::run::Policy;
use surety_common::domain::verification::{
    Observation, PROJECT_TESTS, PROJECT_TESTS_CHECK, ProjectTests, probes,
};

/// Checks one row about the project's own tests.
///
/// # Errors
/// What came back and what the row expects.
pub(super) fn check(given: &Value, expect: &Value) -> Result<(), String> {
    let wrote = given.get("did_write").and_then(Value::as_bool) == Some(true);
    let wanted = probes(&[], &Policy::default(), wrote);
    let own_tests = wanted.iter().any(|probe| probe.observation == Observation::ProjectTests);
    compare_stated(expect, "project_test_command_run", &Value::Bool(own_tests))?;
    let is_skipped = own_tests && is_unknown(given);
    let result = expect.get("result").and_then(Value::as_str);
    if result.is_some_and(|result| result.contains("skipped") != is_skipped) {
        return Err(format!("result: expected {result:?}, skipped is {is_skipped}"));
    }
    let mut run = Played::verifying(Limits::default())?;
    compare_stated(expect, "state", &text(run.execution.state.as_str()))?;
    let tests = own_tests.then(|| ProjectTests::of(&[tests_recorded(given)], 1));
    let skipped = is_unknown(given);
    if tests.is_some_and(|tests| (tests == ProjectTests::Skipped) != skipped) {
        return Err(format!("the tests are recorded as {tests:?}"));
    }
    let verdict = evaluate(&Evaluation {
        project_tests: tests,
        round: None,
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
        workspace_root: "/",
        checks: &[],
        receipts: &[],
        final_text: "done",
        todos: &[],
        plan_made_at: None,
        answers: &BTreeMap::new(),
    });
    if verdict.map_err(|error| error.to_string())?.accepted {
        run.change(|draft, graph, _| draft.accept(graph))?;
        run.expect_state(RunState::Done)?;
    } else {
        run.change(|draft, graph, limits| draft.refuse(graph, limits, not_accepted()))?;
        run.expect_state(RunState::Recovering)?;
    }
    let then = expect.get("then").and_then(Value::as_str);
    let state = run.execution.state;
    if then.is_some_and(|then| !then.contains(state.as_str())) {
        return Err(format!("then: expected {then:?}, found {}", state.as_str()));
    }
    // Only tests that ran refuse a verdict.
    let ran = own_tests && !skipped;
    let accepted = !ran || given.get("verifier_ok").and_then(Value::as_bool) != Some(false);
    let is_done = run.execution.state == RunState::Done;
    compare("accepted", &Value::Bool(accepted), &Value::Bool(is_done))?;
    compare_stated(expect, "accepted", &Value::Bool(is_done))?;
    compare_stated(expect, "gate_still_decides", &Value::Bool(true))
}

/// Whether a row says that no file of the project names its tests.
fn is_unknown(given: &Value) -> bool {
    matches!(text_of(given, "project"), "unknown" | "none")
}

/// What the runner records of the project's own tests as a row gives them.
fn tests_recorded(given: &Value) -> EvidenceReceipt {
    let success = given.get("verifier_ok").and_then(Value::as_bool) != Some(false);
    let ran = Fact::Command {
        command: Command::Line("the project's own tests".to_owned()),
        exit_code: i32::from(!success),
        conditions: None,
    };
    let unknown = is_unknown(given);
    let fact = if unknown { ProjectTests::skipped() } else { ran };
    EvidenceReceipt {
        probe_of: Some(CheckProbe {
            check_id: PROJECT_TESTS_CHECK.to_owned(),
            round: 1,
            ..CheckProbe::default()
        }),
        source: EvidenceSource::Probe,
        name: PROJECT_TESTS.to_owned(),
        success: success && !unknown,
        ..receipt_of(fact, "", 1)
    }
}
