//! Verdicts over a growing number of receipts; the throughput is receipts per second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::collections::BTreeMap;
use std::hint::black_box;
use surety_acceptgate::verdict::{Evaluation, evaluate};
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::{AcceptCheck, CheckKind, Match, Owner};
use surety_common::domain::json::parse_stored;
use surety_common::domain::receipt::{
    Command, EvidenceReceipt, EvidenceSource, Fact, read_stored, verify_chain,
};

fn check(kind: &str, target: &str) -> AcceptCheck {
    AcceptCheck {
        id: String::new(),
        kind: CheckKind::from_text(kind),
        target: target.to_owned(),
        r#match: Match::Prefix,
        required: true,
        params: BTreeMap::new(),
        owner: Owner::Plan,
        overlay: surety_common::domain::check::Overlay::default(),
    }
}

/// A write, an observation and a command in turn, as a run records them.
fn receipt(seq: u64) -> EvidenceReceipt {
    let fact = match seq % 3 {
        0 => Fact::FileWritten {
            path: format!("src/part_{}.rs", seq % 50),
            before_digest: Some(format!("{seq:064x}")),
            after_digest: Some(format!("{:064x}", seq + 1)),
        },
        1 => Fact::FileObserved { path: format!("src/part_{}.rs", seq % 50), exists: true },
        _ => Fact::Command {
            command: Command::Line("cargo test --all".to_owned()),
            exit_code: 0,
            conditions: None,
        },
    };
    EvidenceReceipt {
        step_index: 0,
        step_id: "s".to_owned(),
        plan_revision: 1,
        seq,
        call_id: format!("call-{seq}"),
        probe_of: None,
        source: EvidenceSource::ToolObservation,
        name: "tool".to_owned(),
        arguments_digest: String::new(),
        success: true,
        summary: String::new(),
        facts: vec![fact],
        output_digest: String::new(),
        sandbox: String::new(),
        started_at: None,
        finished_at: None,
        prev_digest: String::new(),
        digest: String::new(),
    }
}

fn verdicts(c: &mut Criterion) {
    let checks = [
        check("output_only", ""),
        check("workspace_change", ""),
        check("command_success", "cargo test"),
        check("file_exists", "src/part_7.rs"),
    ];
    let mut group = c.benchmark_group("evaluate");
    group.sample_size(20);
    for count in [10, 1_000, 100_000] {
        let receipts: Vec<EvidenceReceipt> = (1..=count).map(receipt).collect();
        group.throughput(Throughput::Elements(count));
        group.bench_with_input(BenchmarkId::from_parameter(count), &receipts, |b, receipts| {
            b.iter(|| {
                evaluate(&Evaluation {
                    workspace_root: "/srv/p",
                    checks: &checks,
                    receipts: black_box(receipts),
                    final_text: "done",
                    todos: &[],
                    plan_made_at: None,
                    answers: &BTreeMap::new(),
                    project_tests: None,
                    round: None,
                    require_independent: false,
                    cautions: CautionRules::default(),
                    authored_text: None,
                })
            });
        });
    }
    group.finish();
}

/// Decodes stored receipts and checks their chain, which precedes every verdict.
fn chains(c: &mut Criterion) {
    let mut group = c.benchmark_group("read and verify");
    group.sample_size(20);
    for count in [10, 1_000, 100_000] {
        let mut prev_digest = String::new();
        let stored: Vec<String> = (1..=count)
            .map(|seq| {
                let mut receipt = receipt(seq);
                receipt.seal(std::mem::take(&mut prev_digest));
                prev_digest.clone_from(&receipt.digest);
                receipt.to_text()
            })
            .collect();
        group.throughput(Throughput::Elements(count));
        group.bench_with_input(BenchmarkId::from_parameter(count), &stored, |b, stored| {
            b.iter(|| {
                let receipts: Vec<EvidenceReceipt> = black_box(stored)
                    .iter()
                    .filter_map(|text| read_stored(&parse_stored(text).ok()?.value).ok())
                    .collect();
                verify_chain(&receipts)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, verdicts, chains);
criterion_main!(benches);
