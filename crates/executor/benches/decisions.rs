//! Decisions read from text, in bytes and in number a second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use surety_executor::decision::parse_decision;

fn decisions(c: &mut Criterion) {
    let plain = r#"{"action":"continue","speak":"Reading the file first.","reason":"The goal names it.","tool_call":{"name":"read_file","arguments":{"path":"src/lib.rs","from":1,"to":200}}}"#;
    let wrapped =
        format!("<think>{}</think>\nHere it is:\n```json\n{plain}\n```\n", "so ".repeat(400));
    let braces = "{\"".repeat(8 * 1024);
    let mut group = c.benchmark_group("parse_decision");
    group.throughput(Throughput::Elements(1));
    group.bench_function("plain", |b| b.iter(|| parse_decision(black_box(plain))));
    group
        .bench_function("thinking and a fence", |b| b.iter(|| parse_decision(black_box(&wrapped))));
    group.bench_function("16 KiB that never close", |b| {
        b.iter(|| parse_decision(black_box(&braces)))
    });
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
