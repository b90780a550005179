//! Which checks may have an overlay, and which files it may have.

use super::overlay::{MAX_OVERLAY_BYTES, MAX_OVERLAY_FILES, OverlayFiles};
use super::{AcceptCheck, CheckKind, Owner};
use crate::domain::fields::join;
use crate::domain::problem::{Code, Problem};

/// The longest path of a file, in bytes.
const MAX_PATH: usize = 500;

/// Validates the overlay of a check.
pub(super) fn validate_overlay(check: &AcceptCheck, path: &str) -> Result<(), Problem> {
    if check.overlay.is_none() {
        return Ok(());
    }
    let field = join(path, "overlay");
    let refused = |message: &str| Err(Problem::at(Code::OverlayNotAllowed, &field, message));
    if check.owner == Owner::Plan {
        return refused("only a check of a user or an operator has an overlay; leave it out");
    }
    if check.kind != CheckKind::CommandSuccess || !check.required {
        return refused("only a required command_success check is run with an overlay");
    }
    let Some(files) = check.overlay.files() else { return Ok(()) };
    let bytes: usize = files.values().map(Vec::len).sum();
    if files.len() > MAX_OVERLAY_FILES || bytes > MAX_OVERLAY_BYTES {
        let message = format!(
            "has {} files with {bytes} bytes; at most {MAX_OVERLAY_FILES} files with \
             {MAX_OVERLAY_BYTES} bytes are kept",
            files.len()
        );
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    for name in files.keys() {
        if let Some(why) = unfit(name, files) {
            let message = format!("{name:?} {why}; name a file by its path in the workspace");
            return Err(Problem::at(Code::OverlayPathInvalid, field, message));
        }
    }
    Ok(())
}

/// Why a path is none of a file inside the view.
fn unfit(path: &str, files: &OverlayFiles) -> Option<&'static str> {
    if path.starts_with('/') {
        return Some("is absolute");
    }
    if path.len() > MAX_PATH || path.contains('\0') {
        return Some("is too long or has the character U+0000");
    }
    let mut above = String::new();
    for part in path.split('/') {
        match part {
            "" | "." => return Some("has an empty part"),
            ".." => return Some("leads out of the workspace"),
            ".git" => return Some("is inside git's own folder"),
            _ => {}
        }
        if !above.is_empty() && files.contains_key(&above) {
            return Some("is below another file of the overlay");
        }
        above = if above.is_empty() { part.to_owned() } else { format!("{above}/{part}") };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::check::{decode_overlay, encode_overlay};
    use crate::domain::json::parse;
    use crate::domain::json::{Value, sha256_hex};
    use std::sync::Arc;

    fn read(check: &str, author: Author) -> Result<AcceptCheck, Problem> {
        let value = parse(check).unwrap().value;
        read_checks(&value, "verify", author).map(|(mut checks, _)| checks.remove(0))
    }

    #[test]
    fn an_overlay_is_read_and_only_its_digest_is_written() {
        let text = r#"{"kind":"command_success","target":"make","overlay":{"t/a.py":"x","b":{"hex":"00fF"}}}"#;
        let check = read(text, Author::Submitter).unwrap();
        let files = Arc::clone(check.overlay.files().unwrap());
        assert_eq!(files.get("t/a.py").map(Vec::as_slice), Some(&b"x"[..]));
        assert_eq!(files.get("b"), Some(&vec![0, 255]));
        let body = encode_overlay(&files);
        assert_eq!(sha256_hex(&body), check.overlay.digest());
        assert_eq!(decode_overlay(&body).as_ref(), Some(&*files));
        assert_eq!(decode_overlay(body.get(..body.len() - 1).unwrap()), None);
        let written = check.to_json().to_compact();
        assert!(written.contains(check.overlay.digest()) && !written.contains("a.py"), "{written}");
        let stored = read(&written, Author::Service).unwrap();
        assert_eq!(stored.overlay, check.overlay);
        assert!(stored.overlay.files().is_none());
    }

    #[test]
    fn an_overlay_outside_the_view_or_of_another_owner_is_refused() {
        let path = |path: &str| {
            let path = Value::String(path.to_owned()).to_compact();
            format!(r#"{{"kind":"command_success","target":"make","overlay":{{{path}:"x"}}}}"#)
        };
        let user = Author::Submitter;
        for (check, author, code) in [
            (path("a/b"), user, None),
            (path("/etc/passwd"), user, Some(Code::OverlayPathInvalid)),
            (path("../a"), user, Some(Code::OverlayPathInvalid)),
            (path("a/../../b"), user, Some(Code::OverlayPathInvalid)),
            (path("a//b"), user, Some(Code::OverlayPathInvalid)),
            (path(".git/hooks/pre-commit"), user, Some(Code::OverlayPathInvalid)),
            (path(""), user, Some(Code::OverlayPathInvalid)),
            (path(&"a".repeat(501)), user, Some(Code::OverlayPathInvalid)),
            (path("a"), Author::Model, Some(Code::OverlayNotAllowed)),
            (
                r#"{"kind":"command_success","target":"a","owner":"plan","overlay":{"a":""}}"#
                    .to_owned(),
                user,
                Some(Code::OverlayNotAllowed),
            ),
            (
                r#"{"kind":"command_success","target":"a","required":false,"overlay":{"a":""}}"#
                    .to_owned(),
                user,
                Some(Code::OverlayNotAllowed),
            ),
            (
                r#"{"kind":"file_exists","target":"a","overlay":{"a":""}}"#.to_owned(),
                user,
                Some(Code::OverlayNotAllowed),
            ),
            (
                r#"{"kind":"command_success","target":"a","overlay":{"a":"","a/b":""}}"#.to_owned(),
                user,
                Some(Code::OverlayPathInvalid),
            ),
            (
                r#"{"kind":"command_success","target":"a","overlay":{"a":1}}"#.to_owned(),
                user,
                Some(Code::TypeMismatch),
            ),
            (
                r#"{"kind":"command_success","target":"a","overlay":{"a":{"hex":"0"}}}"#.to_owned(),
                user,
                Some(Code::TypeMismatch),
            ),
            (
                format!(
                    r#"{{"kind":"command_success","target":"a","overlay":{{"a":"{}"}}}}"#,
                    "x".repeat(MAX_OVERLAY_BYTES + 1)
                ),
                user,
                Some(Code::TooLarge),
            ),
        ] {
            let found = read(&check, author).err().map(|problem| problem.code);
            assert_eq!(found, code, "{}", check.get(..check.len().min(100)).unwrap());
        }
    }
}
