//! Reads decisions from text; the units are bytes and decisions per second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_executor::decision::parse_decision;

fn decisions(c: &mut Criterion) {
    let plain = r#"{"action":"continue","speak":"Reading the file first.","reason":"The goal names it.","tool_call":{"name":"read_file","arguments":{"path":"src/lib.rs","from":1,"to":200}}}"#;
    let wrapped =
        format!("<think>{}</think>\nHere it is:\n```json\n{plain}\n```\n", "so ".repeat(400));
    let mut group = c.benchmark_group("parse_decision");
    group.throughput(Throughput::Elements(1));
    group.bench_function("plain", |b| b.iter(|| parse_decision(black_box(plain))));
    group
        .bench_function("thinking and a fence", |b| b.iter(|| parse_decision(black_box(&wrapped))));
    group.finish();
}

/// The longest texts that are read, which take quadratic time in a naive reader. None may take more
/// than 50 ms.
fn adversaries(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse_decision of 1 MiB");
    group.sample_size(10).throughput(Throughput::Bytes(MAX_TEXT_BYTES as u64));
    for (name, unit) in [
        ("opening braces", "{"),
        ("closing braces", "}"),
        ("quotes", "\""),
        ("braces and quotes", "{\""),
        ("keys that never close", "{\"a\":"),
        ("refused decisions", "{\"action\":0}"),
        ("thinking and fences", "<think>```json\n{\"a\":1}```"),
    ] {
        let text = unit.repeat(MAX_TEXT_BYTES / unit.len());
        group.bench_function(name, |b| b.iter(|| parse_decision(black_box(&text))));
    }
    group.finish();
}

criterion_group!(benches, decisions, adversaries);
criterion_main!(benches);
