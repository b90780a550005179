use super::*;
use crate::verdict::{Evaluation, evaluate_within};
use std::collections::BTreeMap;
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::{Author, read_checks};
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::json::parse;
use surety_common::domain::receipt::{EvidenceReceipt, read_receipt};

/// Enough for any machine: the tests check the outcome, not the speed.
const PLENTY: Allowance =
    Allowance { processor: Duration::from_secs(60), patience: Duration::from_secs(600) };

/// The outcome of an expression without a shortage.
fn tried(expression: &str, facts: &FactList) -> Result<(), Failure> {
    evaluate(expression, facts, PLENTY).unwrap()
}

fn facts(receipts: &[&str]) -> FactList {
    let read = |text: &&str| read_receipt(&parse(text).unwrap().value).unwrap();
    FactList::new(&receipts.iter().map(read).collect::<Vec<EvidenceReceipt>>())
}

fn some_facts() -> FactList {
    facts(&[
        r#"{"step_index": 0, "step_id": "s1", "source": "tool_observation", "name": "run_command",
            "success": true, "facts": [
            {"fact": "command", "argv": ["cargo", "test"], "exit_code": 0},
            {"fact": "output", "key": "coverage", "value": "91"}]}"#,
        r#"{"step_index": 1, "step_id": "s2", "source": "write_receipt", "name": "write_file",
            "success": false, "facts": [
            {"fact": "file_written", "path": "文档/a.md", "after_digest": "d1"}]}"#,
    ])
}

fn many_facts(count: usize) -> FactList {
    let fact = r#"{"fact": "output", "key": "k", "value": "v"}"#;
    let all = vec![fact; count].join(",");
    let receipt =
        format!(r#"{{"step_index": 0, "source": "probe", "success": true, "facts": [{all}]}}"#);
    facts(&[&receipt])
}

fn outcome(expression: &str) -> Result<(), Failure> {
    tried(expression, &some_facts())
}

#[test]
fn an_expression_sees_the_facts_and_their_receipts() {
    for expression in [
        "facts.size() == 3",
        "facts.exists(f, f.fact == 'command' && f.argv[0] == 'cargo' && f.exit_code == 0)",
        "facts.exists(f, f.fact == 'output' && f.key == 'coverage' && int(f.value) >= 90)",
        "facts.exists_one(f, has(f.path) && f.path.startsWith('文档/') && !has(f.before_digest))",
        "facts.filter(f, f.success).all(f, f.step_id == 's1' && f.source == 'tool_observation')",
        "facts.filter(f, !f.success).map(f, f.name) == ['write_file']",
        "'s2' in facts.map(f, f.step_id)",
        "size(facts.filter(f, f.fact == 'output')) + 1 == 2",
        "true",
    ] {
        assert_eq!(outcome(expression), Ok(()), "{expression}");
    }
}

#[test]
fn an_expression_that_does_not_hold_says_why() {
    for (expression, failure) in [
        ("facts.exists(f, f.name == 'deploy')", Failure::False),
        ("false", Failure::False),
        ("facts", Failure::NotBool),
        ("facts.size()", Failure::NotBool),
        ("'true'", Failure::NotBool),
        ("", Failure::Invalid),
        ("facts.exists(f", Failure::Invalid),
        ("receipts.size() > 0", Failure::Invalid),
        ("facts[7].name == 'a'", Failure::Invalid),
        ("facts.all(f, f.exit_code == 0)", Failure::Invalid),
        ("1 / 0 == 1", Failure::Invalid),
        ("9223372036854775807 + 1 > 0", Failure::Invalid),
        ("'a'.matches('(a{1000}){1000}')", Failure::Invalid),
        ("timestamp('2026-01-01T00:00:00Z') > timestamp('x')", Failure::Invalid),
        ("shell('rm')", Failure::Invalid),
    ] {
        assert_eq!(outcome(expression), Err(failure), "{expression}");
    }
}

#[test]
fn an_expression_that_could_cost_too_much_is_not_evaluated() {
    let ones = vec!["1"; 50].join(",");
    let nested = |depth: usize| {
        let open: String = (0..depth).map(|n| format!("[{ones}].map(x{n}, ")).collect();
        format!("{open}1{} == []", ")".repeat(depth))
    };
    let doubled = format!("['ab']{} == []", ".map(s, s + s)".repeat(60));
    let listed = format!("[facts]{} == []", ".map(s, [s, s])".repeat(60));
    for expression in [nested(9), doubled, listed] {
        let facts = some_facts();
        assert_eq!(tried(&expression, &facts), Err(Failure::Timeout));
    }
    let squared = "facts.all(a, facts.all(b, a.key == b.key))";
    assert_eq!(tried(squared, &many_facts(100)), Ok(()));
    let refused = tried(squared, &many_facts(10_000));
    assert_eq!(refused, Err(Failure::Timeout));
    let copied = "facts.map(f, facts).size() == 0";
    let refused = tried(copied, &many_facts(10_000));
    assert_eq!(refused, Err(Failure::Timeout));
}

#[test]
fn one_loop_over_many_facts_is_within_the_limits() {
    let facts = many_facts(20_000);
    for expression in [
        "facts.all(f, f.fact == 'output' && f.value == 'v' && f.success)",
        "facts.filter(f, f.key == 'k').size() == 20000",
    ] {
        assert_eq!(tried(expression, &facts), Ok(()), "{expression}");
    }
}

#[test]
fn no_text_crashes_the_process() {
    let deep = |open: &str, close: &str| {
        let times = (MAX_LENGTH - 4) / (open.len() + close.len());
        format!("{}true{}", open.repeat(times), close.repeat(times))
    };
    for expression in [
        deep("(", ")"),
        deep("[", "]"),
        deep("!", ""),
        deep("{1:", "}"),
        deep("", "||a"),
        deep("", " ? a : b"),
        deep("", ".a"),
        deep("", "[0]"),
        deep("", "+1"),
        deep("", "-1"),
        deep("", "&&true"),
        deep("", " in [a]"),
        deep("", ".map(x,x)"),
        deep("a.map(x,", ")"),
        "x".repeat(MAX_LENGTH + 1),
        "\u{0}\u{feff}变".to_owned(),
    ] {
        let facts = some_facts();
        // Any outcome is accepted: a stack overflow would end this test's process.
        let outcome = tried(&expression, &facts);
        assert_ne!(outcome, Err(Failure::NotBool), "{expression:.40}");
    }
}

#[test]
fn many_concurrent_expressions_are_all_evaluated() {
    let facts = many_facts(100);
    let expression = "facts.all(f, f.fact == 'output' && f.value == 'v')";
    let allowance = Allowance { patience: PLENTY.patience, ..Allowance::default() };
    let begin = std::sync::Barrier::new(200);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..200)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    evaluate(expression, &facts, allowance)
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(outcomes, vec![Ok(Ok(())); 200]);
}

#[test]
fn without_a_slot_the_result_is_a_shortage() {
    let far = || Instant::now() + PLENTY.patience;
    let all: Vec<Slot> = (0..MAX_RUNNING).map(|_| PLACES.take(far()).unwrap()).collect();
    let impatient = Allowance { patience: Duration::ZERO, ..PLENTY };
    assert_eq!(evaluate("true", &some_facts(), impatient), Err(Shortage));
    drop(all);
    assert_eq!(tried("true", &some_facts()), Ok(()));
}

#[test]
fn an_expression_that_uses_too_much_processor_time_fails() {
    let runaway = Allowance { processor: Duration::from_millis(1), ..PLENTY };
    let walked = "facts.all(f, f.fact == 'output' && f.value == 'v' && f.success)";
    assert_eq!(evaluate(walked, &many_facts(20_000), runaway), Ok(Err(Failure::Timeout)));
}

#[test]
fn a_thread_without_a_processor_is_awaited_and_then_is_a_shortage() {
    let (sender, receiver) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let starved = thread::spawn(move || {
        sender.send(Progress::Begun(ProcessorClock::of_this_thread())).unwrap();
        ended.recv().unwrap();
        sender.send(Progress::Ended(Ok(()), Some(Duration::ZERO))).unwrap();
    });
    let processor = Duration::from_secs(60);
    assert_eq!(receive(&receiver, processor, Instant::now()), Err(Shortage));
    end.send(()).unwrap();
    assert_eq!(receive(&receiver, processor, Instant::now() + PLENTY.patience), Ok(Ok(())));
    starved.join().unwrap();
}

#[test]
fn a_verdict_without_a_slot_is_a_shortage_and_may_be_retried() {
    let value = parse(r#"[{"kind": "expression", "target": "true", "required": false}]"#);
    let checks = read_checks(&value.unwrap().value, "checks", Author::Service).unwrap().0;
    let input = Evaluation {
        workspace_root: "/srv/p",
        checks: &checks,
        receipts: &[],
        final_text: "done",
        todos: &[],
        plan_made_at: None,
        answers: &BTreeMap::new(),
        project_tests: None,
        round: None,
        require_independent: false,
        cautions: CautionRules::default(),
        authored_text: None,
    };
    let far = Instant::now() + PLENTY.patience;
    let all: Vec<Slot> = (0..MAX_RUNNING).map(|_| PLACES.take(far).unwrap()).collect();
    let impatient = Allowance { patience: Duration::ZERO, ..PLENTY };
    let fault = Fault::from(evaluate_within(&input, impatient).unwrap_err());
    assert_eq!(fault.reason, Reason::Service(FaultCode::Overloaded));
    assert!(fault.retry_after_ms.is_some());
    drop(all);
    assert!(evaluate_within(&input, PLENTY).unwrap().accepted);
}
