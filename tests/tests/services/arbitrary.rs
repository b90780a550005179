//! Every reader over random bytes, briefly; `make fuzz` runs the same for longer.

use proptest::prelude::*;
use surety_e2e::arbitrary;
use surety_e2e::conformance::{rows, text_of};

/// Pieces that the readers have rules about, to be put together in any order.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "```json\n",
    "```",
    "<think>",
    "</think>",
    "\u{feff}",
    "\"action\":",
    "\"continue\"",
    "\"tool_call\":",
    "\"name\":",
    "\"arguments\":",
    "\"title\":\"T\"",
    "\"steps\":[",
    "\"id\":\"a\"",
    "\"description\":\"x\"",
    "\"verify\":",
    "\"kind\":\"file_exists\"",
    "\"step_index\":0",
    "\"source\":\"probe\"",
    "\"facts\":[",
    "\"add_steps\":[",
    "STEP_DONE",
    "\n",
    " ",
    "&&",
    "|",
    ">",
    "2>&1",
    "$X",
    "'",
    "A=1",
    "cargo",
    "..",
    "/",
    "./",
    "**",
    "*.rs",
    "{a,b}",
    "好",
    "\u{0}",
    "1e999",
    "null",
];

fn texts() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..40);
    prop_oneof![
        pieces.prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn ask_all(data: &[u8]) {
    arbitrary::reader(data);
    arbitrary::plan(data);
    arbitrary::patch(data);
    arbitrary::decision(data);
    arbitrary::receipts(data);
    arbitrary::commands(data);
    arbitrary::globs(data);
    arbitrary::paths(data);
}

proptest! {
    #[test]
    fn no_bytes_break_a_reader(data in texts()) {
        ask_all(&data);
    }
}

#[test]
fn no_row_cut_in_two_breaks_a_reader() {
    for file in ["decision.jsonl", "plan.jsonl", "control.jsonl"] {
        for row in rows(file).unwrap() {
            let raw = text_of(&row.value, "raw").as_bytes();
            let short = raw.get(..raw.len().min(2_000)).unwrap_or_default();
            for end in (0..=short.len()).step_by(7) {
                ask_all(short.get(..end).unwrap_or_default());
            }
        }
    }
}
