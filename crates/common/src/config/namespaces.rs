//! The file that names the databases of namespaces.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::error::ConfigError;
use super::secret::Secret;
use super::settings::DATABASE_URL;
use super::token::open_to_all;
use crate::domain::run::MAX_NAMESPACE;

/// A Postgres, and the namespaces whose runs it stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceDatabase {
    /// The namespaces in the order of the file, at least one.
    pub namespaces: Vec<String>,
    /// Its address, with its password.
    pub url: Secret,
}

/// Reads the databases in the file at `path`, each once, in the order of the file.
///
/// # Errors
/// The file cannot be read, is readable by every user, names nothing, or has an invalid line.
pub(super) fn read_namespace_databases(path: &Path) -> Result<Vec<NamespaceDatabase>, ConfigError> {
    let unreadable = |source| ConfigError::NamespacesUnreadable { path: path.to_owned(), source };
    if let Some(mode) = open_to_all(&fs::metadata(path).map_err(unreadable)?) {
        return Err(ConfigError::NamespacesExposed { path: path.to_owned(), mode });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let databases = read(&text).map_err(|(line, why)| ConfigError::NamespacesLine {
        path: path.to_owned(),
        line,
        why,
    })?;
    if databases.is_empty() {
        return Err(ConfigError::NamespacesEmpty { path: path.to_owned() });
    }
    Ok(databases)
}

/// # Errors
/// The number of the invalid line, and what is wrong with it.
fn read(text: &str) -> Result<Vec<NamespaceDatabase>, (usize, &'static str)> {
    let mut databases: Vec<NamespaceDatabase> = Vec::new();
    let mut seen = HashSet::new();
    let lines = (1..).zip(text.lines().map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (namespace, url) = read_line(line).map_err(|why| (number, why))?;
        if !seen.insert(namespace) {
            let why = "repeats a namespace of an earlier line. Keep one of the two lines";
            return Err((number, why));
        }
        match databases.iter_mut().find(|database| database.url.expose() == url) {
            Some(database) => database.namespaces.push(namespace.to_owned()),
            None => databases.push(NamespaceDatabase {
                namespaces: vec![namespace.to_owned()],
                url: Secret::new(url),
            }),
        }
    }
    Ok(databases)
}

/// A namespace may contain blanks and a URL contains none, so the last blank separates them.
fn read_line(line: &str) -> Result<(&str, &str), &'static str> {
    let (namespace, url) = line
        .rsplit_once(char::is_whitespace)
        .ok_or("has no blank. Write it as `<namespace> <postgres url>`")?;
    if !DATABASE_URL.accepts.allows(url) {
        return Err(
            "does not end with a URL that begins with postgres:// or postgresql://. Write \
                    it as `<namespace> <postgres url>`",
        );
    }
    let namespace = namespace.trim();
    if namespace.len() > MAX_NAMESPACE {
        return Err("names a namespace of more than 200 bytes, which is the maximum. Shorten it");
    }
    if namespace.contains('\0') {
        return Err(
            "contains the character U+0000, which is not allowed in a namespace. Remove it",
        );
    }
    Ok((namespace, url))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read_file(text: &str, mode: u32) -> Result<Vec<NamespaceDatabase>, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("databases");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        read_namespace_databases(&path)
    }

    #[test]
    fn each_database_is_there_once_with_its_namespaces_in_the_order_of_the_file() {
        let text = "# a comment\n\n_mail postgres://u:p@b/mail\r\n  the team \t postgresql://h/a\n\
                    _toolchain postgres://u:p@b/mail\n  # _later postgres://h/l\n";
        let found = read_file(text, 0o640).expect("databases");
        let found: Vec<_> =
            found.iter().map(|one| (one.namespaces.join("|"), one.url.expose())).collect();
        assert_eq!(
            found,
            [
                ("_mail|_toolchain".to_owned(), "postgres://u:p@b/mail"),
                ("the team".to_owned(), "postgresql://h/a"),
            ]
        );
        let most = format!("{} postgres://h/d", "n".repeat(MAX_NAMESPACE));
        assert_eq!(read_file(&most, 0o600).expect("databases").len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_what_to_do_and_no_url_is_shown() {
        let long = format!("{} postgres://u:s3cret@h/d", "n".repeat(MAX_NAMESPACE + 1));
        let cases = [
            ("a postgres://u:s3cret@h/d\n\na postgres://u:s3cret@i/d", 0o600, "line 3 of", "Keep"),
            ("a postgres://u:s3cret@h/d\na\tpostgres://u:s3cret@h/d", 0o600, "line 2 of", "Keep"),
            ("postgres://u:s3cret@h/d", 0o600, "line 1 of", "<namespace> <postgres url>"),
            ("# a\na mysql://u:s3cret@h/d", 0o600, "line 2 of", "postgres://"),
            ("a postgres://u:s3cret@h/d # mine", 0o600, "line 1 of", "end with a URL"),
            (&long, 0o600, "line 1 of", "Shorten it"),
            ("a\0b postgres://u:s3cret@h/d", 0o600, "line 1 of", "U+0000"),
            ("# a postgres://u:s3cret@h/d\n", 0o600, "names no namespace", "do not set"),
            ("a postgres://u:s3cret@h/d", 0o604, "mode 604", "chmod 600"),
        ];
        for (text, mode, first, second) in cases {
            let said = read_file(text, mode).expect_err(text).to_string();
            assert!(said.contains(first) && said.contains(second), "{said}");
            assert!(said.contains("--namespace-databases-file"), "{said}");
            assert!(said.contains("SURETY_NAMESPACE_DATABASES_FILE"), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let missing = read_namespace_databases(Path::new("/nowhere/databases"));
        let said = missing.expect_err("a refusal").to_string();
        assert!(said.contains("/nowhere/databases") && said.contains("Create"), "{said}");
    }
}
