//! Members and values that no version writes: both verifiers refuse them, and name them.

use super::*;
use crate::domain::timestamp::{Token, TsaCertificate};
use serde_json::{Value as Json, json};

const RSA: &[u8] = include_bytes!("../../../timestamp/samples/rsa.tsr");
/// The last bytes of the names of RSA's signature algorithms, behind `1.2.840.113549.1.1`.
const RSA_NAMES: [u8; 4] = [0x01, 0x0b, 0x0c, 0x0d];

/// The file with another first line that begins like this.
fn with(file: &str, begins: &str, change: impl Fn(&mut Json)) -> String {
    let line = file.lines().find(|line| line.starts_with(begins)).unwrap();
    let mut value: Json = serde_json::from_str(line).unwrap();
    change(&mut value);
    let changed = parse_stored(&value.to_string()).unwrap().value.to_canonical();
    file.replacen(line, &changed, 1)
}

/// A plan that was not signed, before the first row of one leaf, whose proof begins before its tree.
fn before_its_tree(file: &str) -> String {
    let mut story = story(RUN);
    let only = SignedColumns::default();
    let row = Commit { signature: None, ..story.commits[3].clone() };
    let leaves = RowLeaves::of(RUN, &[], only, &row.line);
    let signature = RowSignature::sign(&key(Service::Gate), at(5), vec![leaves]).swap_remove(0);
    story.commits[3].signature = signature;
    let alone = story.file();
    assert_eq!(check_export(&alone, Some(&trusted())).status, SignatureStatus::Signed);
    let proof = alone.lines().rfind(|line| line.starts_with("{\"proof\"")).unwrap();
    let plan = file.lines().find(|line| line.starts_with("{\"plan\"")).unwrap();
    let added = plan.replace("\"revision\":1", "\"revision\":2");
    let stored = added.strip_prefix("{\"plan\":").and_then(|it| it.strip_suffix('}')).unwrap();
    let moved = proof.replace("\"first\":0", "\"first\":-1");
    assert_ne!(moved, proof);
    let changed = alone.replace(proof, &format!("{moved}\n{added}"));
    with(&changed, "{\"stored\"", |it| {
        let plans = it["stored"]["plans"].as_array_mut().unwrap();
        plans.push(serde_json::from_str(stored).unwrap());
    })
}

/// Files with members and values that are not written so.
pub(super) fn files() -> Vec<(&'static str, String)> {
    let file = story(RUN).file();
    let proof = "{\"proof\"";
    let stored = "{\"stored\"";
    vec![
        ("member-beside-proof", with(&file, proof, |it| it["zz"] = json!("anything"))),
        ("member-before-proof", with(&file, proof, |it| it["aa"] = json!(null))),
        ("member-in-proof", with(&file, proof, |it| it["proof"]["zz"] = json!(null))),
        ("member-beside-stored", with(&file, stored, |it| it["zz"] = json!(null))),
        ("null-in-stored", with(&file, stored, |it| it["stored"]["zz"] = json!(null))),
        ("null-in-run", with(&file, stored, |it| it["stored"]["run"]["zz"] = json!(null))),
        ("null-in-plan", with(&file, stored, |it| it["stored"]["plans"][0]["zz"] = json!(null))),
        (
            "revision-is-a-word",
            with(&file, stored, |it| it["stored"]["plans"][0]["revision"] = json!(true)),
        ),
        ("empty-line-in-a-row", with(&file, "{\"run\"", |it| *it = json!({}))),
        ("proof-before-its-tree", before_its_tree(&file)),
    ]
}

/// Files of keys that do not read.
pub(super) fn keys() -> Vec<String> {
    let good = trusted().to_text();
    let with = |name: &str, value: Json| {
        let mut keys: Json = serde_json::from_str(&good).unwrap();
        keys["keys"][0][name] = value;
        keys.to_string()
    };
    let whole = with("valid_until", json!(null));
    assert_eq!(TrustedKeys::read(&whole).unwrap().keys(), trusted().keys());
    let public = trusted().keys()[0].key.to_text();
    let mut bad = vec![
        good.replace("keys 1", "keys 2"),
        good.replace("\"form\"", "\"from\""),
        format!("\u{feff}{good}"),
        with("service", json!("Planner")),
        with("service", json!([])),
        with("key_id", json!("00")),
        with("public_key", json!(format!("\n{public}"))),
        with("public_key", json!(public.trim_end_matches('='))),
        with("public_key", json!("")),
    ];
    for time in ["", "2026-11-29", "20261129T100000Z", "2026-11-29T10:00:00", "2026-11-29T10:00Z"] {
        bad.extend([with("valid_from", json!(time)), with("valid_until", json!(time))]);
    }
    bad.extend([json!(false), json!(0), json!([])].map(|none| with("valid_until", none)));
    bad
}

/// Time stamps of the sample certificate: as it was made, and with another name of the signature algorithm.
pub(super) fn tokens() -> Vec<(String, Vec<u8>)> {
    let good = read_response(RSA, &[7; 32], [1, 2, 3, 4, 5, 6, 7, 8]).unwrap().der().to_vec();
    let arc = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
    let last = good.windows(arc.len()).rposition(|part| part == arc).unwrap() + arc.len();
    let mut tokens = vec![("good-rsa".to_owned(), good.clone())];
    for name in [0, 2, 4, 5, 0x0a, 0x0c, 0x0d, 0x0e] {
        let mut other = good.clone();
        assert!(RSA_NAMES.contains(&other[last]), "{:?}", other[last]);
        other[last] = name;
        tokens.push((format!("bad-rsa-{name}"), other));
    }
    tokens
}

#[test]
fn members_and_values_that_no_version_writes_are_named() {
    for (name, file) in files() {
        let status = check_export(&file, Some(&trusted())).status;
        assert!(matches!(status, SignatureStatus::Broken(_)), "{name}: {status:?}");
    }
    for keys in keys() {
        TrustedKeys::read(&keys).expect_err(&keys);
    }
    let pem = include_str!("../../../timestamp/samples/rsa.pem");
    let certificate = TsaCertificate::from_pem(pem).unwrap();
    for (name, token) in tokens() {
        let holds = Token::read(&token).is_ok_and(|token| token.check(&certificate).is_ok());
        assert_eq!(holds, name.starts_with("good"), "{name}");
    }
}
