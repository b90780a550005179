//! A contract for tests.

use super::Contract;

/// A contract that was just opened.
pub(super) fn contract() -> Contract {
    serde_json::from_str(
        r#"{"form":"surety contract 1","workspace":"/w","opened_at":"t","opened_by":"p","base":"HEAD",
        "commit":"c","checks":null,"proposal":null,"verdict":null}"#,
    )
    .unwrap()
}
