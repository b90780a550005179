//! The file with bearer tokens.
//!
//! ```text
//!   # token    name      roles              namespaces
//!   3f9a...    alice     viewer,submitter   default,team-a
//!   77c1...    internal  service            *
//! ```
//!
//! A file with one token and nothing else stands for [`LONE_NAME`] with every role of a person and the
//! role service, in every namespace.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use super::error::ConfigError;
use super::secret::Secret;
use crate::domain::identity::{Identity, Namespaces, Role};

/// The identity of a token that stands alone in its file.
const LONE_NAME: &str = "token-file";

/// A token of a file, and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileToken {
    /// The token.
    pub secret: Secret,
    /// Its identity.
    pub identity: Identity,
}

/// Reads the tokens in `path`.
///
/// # Errors
/// The file cannot be read, holds no token, holds a line that does not read, or every user may read
/// it. A group may: that is how Kubernetes mounts a secret for a user that is not root.
pub fn read_token_file(path: &Path) -> Result<Vec<FileToken>, ConfigError> {
    let unreadable = |source| ConfigError::TokenUnreadable { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    if let Some(mode) = open_to_all(&metadata) {
        return Err(ConfigError::TokenExposed { path: path.to_owned(), mode });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let tokens = read(&text).map_err(|(line, why)| ConfigError::TokenLine {
        path: path.to_owned(),
        line,
        why,
    })?;
    if tokens.is_empty() {
        return Err(ConfigError::TokenEmpty { path: path.to_owned() });
    }
    Ok(tokens)
}

/// The token that a person's command shows: the first of a person's role, else the first.
///
/// # Errors
/// Those of [`read_token_file`].
pub fn read_client_token(path: &Path) -> Result<Secret, ConfigError> {
    let tokens = read_token_file(path)?;
    let of_a_person =
        |token: &&FileToken| Role::PERSON.iter().any(|role| token.identity.has(*role));
    let token = tokens.iter().find(of_a_person).or_else(|| tokens.first());
    token
        .map(|token| token.secret.clone())
        .ok_or_else(|| ConfigError::TokenEmpty { path: path.to_owned() })
}

/// # Errors
/// The number of the line that does not read, and what is wrong with it.
fn read(text: &str) -> Result<Vec<FileToken>, (usize, String)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines: Vec<(usize, &str)> =
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
    if let [(number, only)] = lines.as_slice()
        && !only.contains(char::is_whitespace)
    {
        let roles = Role::PERSON.into_iter().chain([Role::Service]);
        let identity = Identity::new(LONE_NAME, roles, Namespaces::Every);
        let identity = identity.map_err(|error| (*number, error.to_string()))?;
        return Ok(vec![FileToken { secret: Secret::new(*only), identity }]);
    }
    let (mut tokens, mut seen) = (Vec::with_capacity(lines.len()), HashSet::new());
    for (number, line) in lines {
        let token = read_line(line).map_err(|why| (number, why))?;
        if !seen.insert(token.secret.expose().to_owned()) {
            return Err((number, "holds a token of a line above. Keep one of the two".to_owned()));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn read_line(line: &str) -> Result<FileToken, String> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let (secret, name, roles, namespaces) = match columns.as_slice() {
        [secret, name, roles] => (secret, name, roles, &"*"),
        [secret, name, roles, namespaces] => (secret, name, roles, namespaces),
        _ => {
            let why = "has not three or four columns. Write it as `<token> <name> <roles> \
                       <namespaces>`, with commas inside a column";
            return Err(why.to_owned());
        }
    };
    match Identity::from_columns(name, roles, namespaces) {
        Ok(identity) => Ok(FileToken { secret: Secret::new(*secret), identity }),
        Err(error) => Err(format!("does not read: {error}")),
    }
}

/// The permission bits of a file that every user of the machine can access.
#[cfg(unix)]
pub fn open_to_all(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o007 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub fn open_to_all(_metadata: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn in_file<T>(text: &str, mode: u32, read: impl FnOnce(&Path) -> T) -> T {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        read(&path)
    }

    #[test]
    fn one_token_alone_has_the_roles_of_a_person_and_of_a_service() {
        let tokens = in_file("  s3cret \n", 0o640, read_token_file).expect("a token");
        let [only] = tokens.as_slice() else { panic!("{tokens:?}") };
        assert_eq!(only.secret.expose(), "s3cret");
        let roles: Vec<_> = only.identity.roles.iter().map(|role| role.as_str()).collect();
        assert_eq!(roles, ["viewer", "submitter", "operator", "approver", "service"]);
        assert_eq!(only.identity.namespaces, Namespaces::Every);
    }

    #[test]
    fn each_line_names_its_identity_and_a_command_takes_the_token_of_a_person() {
        let text =
            "# who\n t1 internal service\n\nt2\talice submitter,viewer a,b\nt3 bot driver *\n";
        let tokens = in_file(text, 0o600, read_token_file).expect("tokens");
        let names: Vec<_> = tokens.iter().map(|token| token.identity.name.as_str()).collect();
        assert_eq!(names, ["internal", "alice", "bot"]);
        let alice = &tokens.get(1).expect("alice").identity;
        assert!(alice.namespaces.contains("b") && !alice.namespaces.contains("c"));
        let shown = in_file(text, 0o600, read_client_token).expect("a token");
        assert_eq!(shown.expose(), "t2");
        let shown = in_file("t3 bot driver", 0o600, read_client_token).expect("a token");
        assert_eq!(shown.expose(), "t3");
    }

    #[test]
    fn a_file_that_is_missing_wrong_or_open_to_all_is_refused_with_what_to_do() {
        let cases = [
            (" \n# s3cret\n", 0o600, "is empty"),
            ("s3cret\nb c viewer\n", 0o600, "line 1 of"),
            ("b c viewer\ns3cret c d e f\n", 0o600, "line 2 of"),
            ("s3cret c god\n", 0o600, "no role"),
            ("s3cret c approver,driver\n", 0o600, "never approve"),
            ("s3cret c viewer a,*\n", 0o600, "leave the others out"),
            ("s3cret c viewer\ns3cret d viewer", 0o600, "Keep one"),
            ("s3cret", 0o644, "chmod 600"),
        ];
        for (text, mode, expected) in cases {
            let said = in_file(text, mode, read_token_file).expect_err("a refusal").to_string();
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let missing = read_token_file(Path::new("/nowhere/token")).expect_err("a refusal");
        assert!(missing.to_string().contains("SURETY_TOKEN_FILE"), "{missing}");
    }

    #[test]
    fn a_folder_as_token_file_is_no_matter_of_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let refused = read_token_file(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("is a directory"), "{refused}");
        assert!(!refused.contains("chmod"), "{refused}");
    }
}
