//! Reads plans from text and validates them; the unit is plans per second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use surety_common::domain::check::Author;
use surety_planner::plan::parse_plan;

/// A chain of steps, each with a check and a scripted call.
fn plan_of(steps: u32) -> String {
    let step = |n: u32| {
        let needed = if n == 0 { String::new() } else { format!("\"s{}\"", n - 1) };
        format!(
            r#"{{"id":"s{n}","description":"write part {n}","dependencies":[{needed}],"tools_expected":["write_file"],"verify":["cargo test part_{n}"],"script":[{{"name":"write_file","arguments":{{"path":"src/{n}.rs","content":"x"}}}}]}}"#
        )
    };
    let steps: Vec<String> = (0..steps).map(step).collect();
    format!(r#"{{"title":"T","goal":"g","steps":[{}],"verify":["cargo test"]}}"#, steps.join(","))
}

fn plans(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse_plan");
    group.throughput(Throughput::Elements(1));
    for steps in [12, 200] {
        let text = plan_of(steps);
        group.bench_with_input(BenchmarkId::from_parameter(steps), &text, |b, text| {
            b.iter(|| parse_plan(black_box(text), Author::Model, steps));
        });
    }
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
