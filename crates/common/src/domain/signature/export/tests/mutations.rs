//! Changed bytes, cut files and other orders of lines are named by this verifier and by the one in Python.

use super::mutate::{kind_at, mutate};
use super::{other, *};

/// What holds: one plan, two, a task, two without checks, answers in both forms of a row, and the form of the file before.
fn good() -> impl Iterator<Item = (&'static str, String)> {
    let names = ["one-plan", "replanned", "task", "untested"].into_iter();
    let shape = names
        .zip(StoryShape::SIGNED)
        .map(|(name, shape)| (name, story::story_of(RUN, shape).file()));
    shape.chain(answers::good())
}

/// No part of a file is without protection.
#[test]
fn a_change_in_any_class_of_characters_of_any_line_is_named() {
    // The keys remember which signatures hold, as in one check of many rows.
    let keys = trusted();
    for (name, file) in good() {
        let count = mutate(&file, |text, place| {
            let report = check_export(text, Some(&keys));
            let is_broken = matches!(report.status, SignatureStatus::Broken(_));
            assert!(is_broken, "{name} at {place}: {}: {report:#?}", around(text, place));
        });
        assert!(count > 400, "{name}: {count}");
    }
}

/// Without keys no change makes a file signed, and one of its form, of a receipt or of a link of the history is broken.
#[test]
fn a_change_of_an_unsigned_file_leaves_it_unsigned_or_broken() {
    let file = story_of(RUN, StoryShape::UNSIGNED).file();
    let receipt = file.find("{\"arguments_digest\"").or_else(|| file.find("\"seq\":1")).unwrap();
    let receipt = receipt..receipt + file[receipt..].find('\n').unwrap();
    let (mut broken, keys) = (0, trusted());
    let count = mutate(&file, |text, place| {
        let report = check_export(text, Some(&keys));
        assert_ne!(report.status, SignatureStatus::Signed, "at {place}: {}", around(text, place));
        let is_broken = matches!(report.status, SignatureStatus::Broken(_));
        broken += u32::from(is_broken);
        assert!(is_broken || !receipt.contains(&place), "{}", around(text, place));
    });
    assert!(count > 400 && broken * 2 > count, "{broken} of {count}");
}

#[test]
fn a_line_that_stands_twice_or_in_another_place_is_named() {
    let keys = trusted();
    for (name, file) in good() {
        let count = reordered(&file, |text, what| {
            let report = check_export(text, Some(&keys));
            let is_broken = matches!(report.status, SignatureStatus::Broken(_));
            assert!(is_broken, "{name}: {what}: {report:#?}");
        });
        assert!(count > 60, "{name}: {count}");
    }
}

#[test]
fn an_anchor_stands_directly_behind_its_verdict() {
    let mut story = story_of(RUN, StoryShape::SIGNED[1]);
    let proof = RangeProof { leaf_count: 1, first: 0, nodes: Vec::new() };
    story.verdicts[0].1.anchor = Some(VerdictAnchor { proof, token: SAMPLE.to_vec() });
    let file = story.file();
    let words = "it does not stand behind a verdict";
    assert!(!found(&file).contains(words), "{}", found(&file));
    let mut lines: Vec<&str> = file.lines().collect();
    let anchor = lines.iter().position(|line| line.starts_with("{\"anchor\"")).unwrap();
    let end = lines.iter().rposition(|line| line.starts_with("{\"commit\"")).unwrap();
    for place in anchor..end {
        lines.swap(place, place + 1);
        let text = lines.join("\n") + "\n";
        assert!(found(&text).contains(words), "at {place}: {}", found(&text));
    }
}

/// Shows a file with each of its lines twice, before the line before it, before the state and at the end. Returns how many.
fn reordered(file: &str, mut seen: impl FnMut(&str, &str)) -> usize {
    let lines: Vec<&str> = file.lines().collect();
    let (last, mut count) = (lines.len() - 1, 0);
    let mut show = |order: &[&str], what: String| {
        if order != lines {
            seen(&(order.join("\n") + "\n"), &what);
            count += 1;
        }
    };
    for (place, line) in lines.iter().enumerate() {
        let mut twice = lines.clone();
        twice.insert(place, line);
        show(&twice, format!("line {place} twice"));
        for to in [place.saturating_sub(1), last - 1, last] {
            let mut moved = lines.clone();
            let line = moved.remove(place);
            moved.insert(to, line);
            show(&moved, format!("line {place} at {to}"));
        }
    }
    count
}

fn around(text: &str, place: usize) -> String {
    text[text.floor_char_boundary(place.saturating_sub(30))..].chars().take(60).collect()
}

#[test]
fn verifiers_that_others_wrote_agree_on_good_and_changed_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        std::fs::write(folder.path().join("files").join(name), text).unwrap()
    };
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, trusted().to_text()).unwrap();
    let unsigned = story_of(RUN, StoryShape::UNSIGNED).file();
    write("bad-unsigned", unsigned.as_bytes());
    for (name, file) in untested::good() {
        write(&format!("good-{name}"), file.as_bytes());
    }
    for (name, _, file) in answers::bad() {
        write(&format!("bad-{name}"), file.as_bytes());
    }
    for (name, file) in untested::bad() {
        write(&format!("bad-{name}"), file.as_bytes());
    }
    for (name, file) in good() {
        write(&format!("good-{name}"), file.as_bytes());
        let mut number = 0;
        let count = mutate(&file, |text, place| {
            number += 1;
            let kind = kind_at(&file, place);
            write(&format!("bad-{name}-{number}-of-{kind}"), text.as_bytes());
        });
        assert!(count > 400, "{name}: {count}");
        reordered(&file, |text, what| {
            write(&format!("bad-{name}-{}", what.replace(' ', "-")), text.as_bytes());
        });
        // Cut inside a character.
        let place = file.find('写').unwrap() + 1;
        write(&format!("bad-{name}-no-text"), &file.as_bytes()[..place]);
        for count in [1, 3, 9, file.lines().count() - 1] {
            let cut: String = file.lines().take(count).map(|line| format!("{line}\n")).collect();
            write(&format!("bad-{name}-cut-{count}"), cut.as_bytes());
        }
        for (number, line) in file.lines().enumerate().skip(2) {
            let without = file.replacen(&format!("{line}\n"), "", 1);
            write(&format!("bad-{name}-without-{number}"), without.as_bytes());
        }
    }
    for (name, file) in other::files() {
        write(&format!("bad-{name}"), file.as_bytes());
    }
    for (number, keys) in other::keys().iter().enumerate() {
        write(&format!("keys-bad-{number}"), keys.as_bytes());
    }
    for (name, token) in other::tokens() {
        write(&format!("token-{name}"), &token);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/attestations.sh");
    let ran = std::process::Command::new(script)
        .arg(folder.path().join("files"))
        .arg(&keys)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    match ran.status.code() {
        Some(0) => println!("{said}"),
        Some(77) => eprintln!("{said}"),
        code => panic!("{code:?}: {said}"),
    }
}
