//! The user's signature of a verdict file, and the keys that a reader trusts.

use crate::support::{Ended, Home};
use std::path::Path;

const CHECKS: &str = "verify: [{kind: command_success, target: grep -q fixed product.txt}]\n";

/// A repository with an accepted verdict, signed with a key that was made for it.
fn accepted() -> Home {
    let home = Home::with(&[(".surety/checks.yaml", CHECKS), ("product.txt", "fixed\n")]);
    home.verify(&[]).is(0, "accepted");
    home
}

fn still(home: &Home, file: &Path, data: &Path) -> Ended {
    let mut surety = home.surety(&["--still", file.to_str().unwrap()]);
    Ended::of(&surety.env("SURETY_DATA_DIR", data).output().unwrap())
}

fn keys(home: &Home, data: &Path, arguments: &[&str]) -> Ended {
    let mut surety = home.command(&[&["keys"], arguments].concat());
    surety.env_remove("DATABASE_URL").env("SURETY_DATA_DIR", data);
    Ended::of(&surety.output().unwrap())
}

#[test]
fn a_verdict_file_is_signed_and_each_change_of_it_is_named_without_a_service() {
    let home = accepted();
    let (file, data) = (home.verdict_file(), home.home.join(".local/share/surety"));
    let verdict = home.verdict();
    assert!(verdict["signature"].as_str().unwrap().starts_with("{\"payload\":"), "{verdict:#}");
    still(&home, &file, &data).is(0, "is still");

    let text = std::fs::read_to_string(&file).unwrap();
    for (what, from, to) in [
        ("the result", "\"accepted\": true", "\"accepted\": false"),
        ("a check", "\"passed\": true", "\"passed\": false"),
        ("the signature", "\\\"sig\\\":\\\"", "\\\"sig\\\":\\\"A"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{what}: {text}");
        std::fs::write(&file, changed).unwrap();
        still(&home, &file, &data).is(1, "the verdict's signature does not hold");
    }
    std::fs::write(&file, &text).unwrap();
    still(&home, &file, &data).is(0, "is still");
}

#[test]
fn a_reader_trusts_the_key_of_a_verdict_once_it_is_pinned() {
    let home = accepted();
    let (file, data) = (home.verdict_file(), home.home.join(".local/share/surety"));
    let reader = home.home.join("reader");
    // The reader has a key of its own and does not know that of the author.
    std::fs::create_dir(&reader).unwrap();
    let own = Home::with(&[(".surety/checks.yaml", CHECKS), ("product.txt", "fixed\n")]);
    let mut verify = own.surety(&[]);
    Ended::of(&verify.env("SURETY_DATA_DIR", &reader).output().unwrap()).is(0, "accepted");
    still(&home, &file, &reader).is(1, "which is not trusted");

    let exported = keys(&home, &data, &["export"]);
    exported.is(0, "\"service\":\"user\"");
    let handed = home.home.join("keys.json");
    std::fs::write(&handed, &exported.stdout).unwrap();
    let pinned = keys(&home, &reader, &["pin", handed.to_str().unwrap()]);
    pinned.is(0, "trusted  ").is(0, "  user");
    still(&home, &file, &reader).is(0, "is still");
    let listed = keys(&home, &reader, &["list"]);
    let users = listed.stdout.lines().filter(|line| line.contains(" user ")).count();
    assert_eq!(users, 2, "the reader's own key and the pinned one: {listed:#?}");
    keys(&home, &reader, &["pin", "ab"]).is(1, "no key \"ab\" is registered");
}
