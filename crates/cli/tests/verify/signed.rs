//! The user's signature of a verdict file, and the keys that a reader trusts.

use crate::support::{Ended, Home};
use chrono::{TimeDelta, Utc};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surety_common::domain::json::parse_stored;
use surety_common::domain::signature::{Service, TrustedKey, TrustedKeys, sign_document};
use surety_common::keys::read_secret_key;

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
        let ended = still(&home, &file, &data);
        ended.is(2, "was changed since it was signed");
        assert!(!format!("{ended:?}").contains("keys pin"), "{what}: {ended:#?}");
    }
    std::fs::write(&file, &text).unwrap();
    still(&home, &file, &data).is(0, "is still");
}

/// What no version reads is covered by the signature as everything else is.
#[test]
fn a_member_that_is_added_or_taken_out_is_named() {
    let home = accepted();
    let (file, data) = (home.verdict_file(), home.home.join(".local/share/surety"));
    let good = home.verdict();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut verdict = good.clone();
        change(&mut verdict);
        assert_ne!(verdict, good);
        std::fs::write(&file, verdict.to_string()).unwrap();
        still(&home, &file, &data)
    };
    let probed = good["results"].as_array().unwrap().iter().position(|it| it["probe"].is_object());
    let probe = format!("/results/{}/probe", probed.unwrap());
    for place in ["", "/plan", "/workspace", "/start", "/receipts", "/results/0", &probe] {
        let added = changed(&|verdict| verdict.pointer_mut(place).unwrap()["zz"] = json!(1));
        added.is(2, "was changed since it was signed");
    }
    for name in ["approvals", "command", "results", "workspace"] {
        let without = changed(&|verdict| drop(verdict.as_object_mut().unwrap().remove(name)));
        without.is(2, "was changed since it was signed");
    }
    // Another order and other blanks are the same canonical text.
    std::fs::write(&file, good.to_string()).unwrap();
    still(&home, &file, &data).is(0, "is still");
    let twice = good.to_string().replacen('{', "{\"accepted\":false,", 1);
    std::fs::write(&file, twice).unwrap();
    still(&home, &file, &data).is(1, "one of its members stands twice");
    // A reader without keys.
    let reader = home.home.join("reader");
    let mut verdict = good.clone();
    verdict.as_object_mut().unwrap().remove("signature");
    for (change, words) in [
        (json!({"zz": 1}), "the member `zz` is unknown (line 1, column "),
        (json!({"accepted": "yes"}), "a value is of another type than its member (line 1, "),
        (json!({"signature": 1}), "its `signature` is no text"),
    ] {
        let mut verdict = verdict.clone();
        verdict.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        std::fs::write(&file, verdict.to_string()).unwrap();
        still(&home, &file, &reader).is(1, "error[value_invalid]").is(1, words);
    }
    verdict.as_object_mut().unwrap().remove("receipts");
    std::fs::write(&file, verdict.to_string()).unwrap();
    still(&home, &file, &reader).is(1, "the member `receipts` is missing");
}

/// A command of an hour is not run for a verdict that is lost behind it.
#[test]
fn a_key_or_a_file_of_trusted_keys_that_cannot_be_used_is_named_before_the_command_runs() {
    let home = accepted();
    let keys = home.home.join(".local/share/surety/keys");
    let (key, trusted) = (keys.join("user.pem"), keys.join("trusted-keys.json"));
    let verify = || home.verify(&["--unconfined", "--", "touch", "ran"]);
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let exposed = verify();
    exposed.is(1, "chmod 600").is(1, "surety keys rotate user");
    assert!(!exposed.stderr.contains("--planner-key-file"), "{exposed:#?}");
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let good = std::fs::read(&trusted).unwrap();
    std::fs::write(&trusted, "{").unwrap();
    verify().is(1, "is no file of trusted keys");
    std::fs::write(&trusted, good).unwrap();
    std::fs::remove_file(&key).unwrap();
    mkfifo(&key, Mode::S_IRWXU).unwrap();
    let pipe = verify();
    pipe.is(1, "the user's key file").is(1, "it is no regular file").is(1, "Move the file away");
    assert!(!pipe.stderr.contains("--planner-key-file"), "{pipe:#?}");
    home.verify(&["--unconfined", "--", "true"]).is(1, "it is no regular file");
    assert!(!home.exists("ran"));
    std::fs::remove_file(&key).unwrap();
    verify().is(0, "accepted");
    assert!(home.exists("ran"));
}

#[test]
fn a_verdict_whose_key_is_gone_by_then_is_written_without_a_signature() {
    let home = accepted();
    let keys = home.home.join(".local/share/surety/keys");
    for spoil in ["chmod 644 user.pem", "chmod 600 user.pem; printf '{' > trusted-keys.json"] {
        let line = format!("cd {}; {spoil}", keys.display());
        let ended = home.verify(&["--unconfined", "--", "sh", "-c", &line]);
        ended.is(0, "accepted").is(0, "surety: the verdict is not signed: ");
        assert_eq!(home.verdict().get("signature"), None, "{spoil}");
        std::fs::set_permissions(keys.join("user.pem"), Permissions::from_mode(0o600)).unwrap();
    }
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

#[test]
fn verify_and_keys_use_the_file_of_trusted_keys_that_is_set() {
    let home = Home::with(&[(".surety/checks.yaml", CHECKS), ("product.txt", "fixed\n")]);
    let (data, set) = (home.home.join(".local/share/surety"), home.home.join("set.json"));
    let with = |mut surety: std::process::Command, set: &Path| {
        surety.env("SURETY_TRUSTED_KEYS_FILE", set).env("SURETY_DATA_DIR", &data);
        Ended::of(&surety.env_remove("DATABASE_URL").output().unwrap())
    };
    with(home.surety(&[]), &set).is(0, "accepted");
    with(home.command(&["keys", "list"]), &set).is(0, " user ");
    let file = home.verdict_file();
    let still = |set: &Path| with(home.surety(&["--still", file.to_str().unwrap()]), set);
    still(&set).is(0, "signed by ");
    // A reader with a file of its own, which the author's key is pinned in.
    let (reader, handed) = (home.home.join("reader.json"), home.home.join("keys.json"));
    std::fs::write(&reader, TrustedKeys::default().to_text()).unwrap();
    still(&reader).is(1, "which is not trusted");
    let exported = with(home.command(&["keys", "export"]), &set);
    std::fs::write(&handed, &exported.stdout).unwrap();
    with(home.command(&["keys", "pin", handed.to_str().unwrap()]), &reader).is(0, "trusted  ");
    still(&reader).is(0, "signed by ");
    let mut verdict = home.verdict();
    verdict.as_object_mut().unwrap().remove("signature");
    std::fs::write(&file, verdict.to_string()).unwrap();
    still(&reader).is(2, "unsigned, and a key of a user is trusted here");
    // The file of an operator, which the user cannot write.
    let nowhere = home.home.join("product.txt/keys.json");
    std::fs::write(home.home.join("product.txt"), "").unwrap();
    let ended = with(home.surety(&[]), &nowhere);
    ended.is(0, "accepted");
    assert!(ended.stderr.contains("of the verdict is not trusted"), "{ended:#?}");
}

/// Makes the author's verdict an hour old, and returns the author's keys as a file for others.
fn signed_an_hour_ago(home: &Home, data: &Path) -> String {
    let an_hour_ago = Utc::now() - TimeDelta::hours(1);
    let key = read_secret_key(&data.join("keys/user.pem")).unwrap();
    let mut verdict = home.verdict();
    verdict.as_object_mut().unwrap().remove("signature");
    let document = parse_stored(&verdict.to_string()).unwrap().value;
    verdict["signature"] = sign_document(&key, an_hour_ago, &document).into();
    std::fs::write(home.verdict_file(), verdict.to_string()).unwrap();
    let valid_from = an_hour_ago - TimeDelta::hours(1);
    let key = key.public();
    let own = TrustedKey { service: Service::User, key, valid_from, valid_until: None };
    std::fs::write(data.join("keys/trusted-keys.json"), TrustedKeys::new(vec![own]).to_text())
        .unwrap();
    keys(home, data, &["export"]).is(0, "\"service\":\"user\"").stdout.clone()
}

#[test]
fn a_pinned_file_keeps_the_times_of_its_keys_and_their_ends() {
    let home = accepted();
    let (file, data) = (home.verdict_file(), home.home.join(".local/share/surety"));
    let exported = signed_an_hour_ago(&home, &data);
    still(&home, &file, &data).is(0, "is still");
    let handed = home.home.join("keys.json");
    let pin = |reader: &str, text: &str, further: &[&str]| {
        std::fs::write(&handed, text).unwrap();
        let reader = home.home.join(reader);
        let pin = [&["pin", handed.to_str().unwrap()], further].concat();
        let pinned = keys(&home, &reader, &pin);
        pinned.is(0, "trusted  ");
        (pinned, still(&home, &file, &reader))
    };
    let (_, checked) = pin("reader", &exported, &[]);
    checked.is(0, "is still").is(0, "signed by ");

    let two_hours_ago = (Utc::now() - TimeDelta::minutes(90)).to_rfc3339();
    let ended = exported.replace("null", &format!("\"{two_hours_ago}\""));
    let (pinned, checked) = pin("second", &ended, &[]);
    pinned.is(0, " until ");
    checked.is(1, "was not valid");
    // The end that the first reader learns of counts, and an older file does not take it back.
    pin("reader", &ended, &[]).1.is(1, "was not valid");
    pin("reader", &exported, &[]).1.is(1, "was not valid");
    let (_, checked) = pin("third", &exported, &["--from", &Utc::now().to_rfc3339()]);
    checked.is(1, "was not valid");
    keys(&home, &data, &["pin", handed.to_str().unwrap(), "--service", "gate"])
        .is(1, "has no key for the gate");
}

#[test]
fn a_verdict_whose_signature_was_taken_out_is_not_accepted_where_keys_are_trusted() {
    let home = accepted();
    let (file, data) = (home.verdict_file(), home.home.join(".local/share/surety"));
    let key_id = home.verdict()["signature"].as_str().unwrap().to_owned();
    let key_id =
        serde_json::from_str::<serde_json::Value>(&key_id).unwrap()["signatures"][0]["keyid"]
            .clone();
    let key_id = key_id.as_str().unwrap();
    still(&home, &file, &data).is(0, &format!("signed by {key_id}"));
    let mut verdict = home.verdict();
    verdict.as_object_mut().unwrap().remove("signature");
    std::fs::write(&file, verdict.to_string()).unwrap();
    still(&home, &file, &data).is(2, "unsigned, and a key of a user is trusted here");
    // A reader without keys learns that nothing proves who wrote it.
    still(&home, &file, &home.home.join("other")).is(0, "  unsigned");
    let mut surety = home.surety(&["--still", file.to_str().unwrap(), "--json"]);
    let said = Ended::of(&surety.env("SURETY_DATA_DIR", &data).output().unwrap());
    said.is(2, "\"still\":false").is(2, "\"signed_by\":null");
}
