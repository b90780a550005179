//! The bearer token's file.

use std::fs;
use std::path::Path;

use super::error::ConfigError;
use super::secret::Secret;

/// Reads the token in `path`: its only line, trimmed.
///
/// # Errors
/// The file cannot be read, holds no token or more than one line, or every user may read it. A
/// group may read it: that is how Kubernetes mounts a secret for a user that is not root.
pub fn read_token_file(path: &Path) -> Result<Secret, ConfigError> {
    let unreadable = |source| ConfigError::TokenUnreadable { path: path.to_owned(), source };
    if let Some(mode) = open_to_all(&fs::metadata(path).map_err(unreadable)?) {
        return Err(ConfigError::TokenExposed { path: path.to_owned(), mode });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(ConfigError::TokenEmpty { path: path.to_owned() });
    }
    if token.contains(['\n', '\r']) {
        return Err(ConfigError::TokenManyLines { path: path.to_owned() });
    }
    Ok(Secret::new(token))
}

/// The permission bits of a file that every user of the machine can access.
#[cfg(unix)]
pub(super) fn open_to_all(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o007 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(super) fn open_to_all(_metadata: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Secret, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        read_token_file(&path)
    }

    #[test]
    fn a_token_is_read_without_the_blanks_around_it() {
        assert_eq!(read("  s3cret \n", 0o600).expect("a token").expose(), "s3cret");
        assert_eq!(read("s3cret", 0o640).expect("a token").expose(), "s3cret");
    }

    #[test]
    fn a_token_that_is_missing_ambiguous_or_open_to_all_is_refused_with_what_to_do() {
        let cases = [
            (" \n", 0o600, "is empty"),
            ("a\nb\n", 0o600, "more than one line"),
            ("s3cret", 0o644, "chmod 600"),
        ];
        for (text, mode, expected) in cases {
            let said = read(text, mode).expect_err("a refusal").to_string();
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let missing = read_token_file(Path::new("/nowhere/token")).expect_err("a refusal");
        assert!(missing.to_string().contains("SURETY_TOKEN_FILE"), "{missing}");
    }
}
