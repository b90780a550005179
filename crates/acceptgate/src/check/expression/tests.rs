use super::*;
use surety_common::domain::json::parse;
use surety_common::domain::receipt::{EvidenceReceipt, read_receipt};

/// Long enough for any machine: what is tested is the outcome, not the speed.
const PATIENCE: Duration = Duration::from_secs(60);

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
    evaluate(expression, &some_facts(), PATIENCE)
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
fn what_could_cost_too_much_is_not_begun() {
    let ones = vec!["1"; 50].join(",");
    let nested = |depth: usize| {
        let open: String = (0..depth).map(|n| format!("[{ones}].map(x{n}, ")).collect();
        format!("{open}1{} == []", ")".repeat(depth))
    };
    let doubled = format!("['ab']{} == []", ".map(s, s + s)".repeat(60));
    let listed = format!("[facts]{} == []", ".map(s, [s, s])".repeat(60));
    for expression in [nested(9), doubled, listed] {
        let facts = some_facts();
        assert_eq!(evaluate(&expression, &facts, PATIENCE), Err(Failure::Timeout));
    }
    let squared = "facts.all(a, facts.all(b, a.key == b.key))";
    assert_eq!(evaluate(squared, &many_facts(100), PATIENCE), Ok(()));
    let refused = evaluate(squared, &many_facts(10_000), PATIENCE);
    assert_eq!(refused, Err(Failure::Timeout));
    let copied = "facts.map(f, facts).size() == 0";
    let refused = evaluate(copied, &many_facts(10_000), PATIENCE);
    assert_eq!(refused, Err(Failure::Timeout));
}

#[test]
fn one_walk_over_many_facts_is_no_problem() {
    let facts = many_facts(20_000);
    for expression in [
        "facts.all(f, f.fact == 'output' && f.value == 'v' && f.success)",
        "facts.filter(f, f.key == 'k').size() == 20000",
    ] {
        assert_eq!(evaluate(expression, &facts, PATIENCE), Ok(()), "{expression}");
    }
}

#[test]
fn no_text_brings_the_process_down() {
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
        // Whatever the outcome is, it is one: an overflowing stack would end this test's process.
        let outcome = evaluate(&expression, &facts, PATIENCE);
        assert_ne!(outcome, Err(Failure::NotBool), "{expression:.40}");
    }
}
