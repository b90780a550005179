//! The address of a repository, a revision in it, and the name of its credential.

use crate::domain::problem::{Code, Problem};
use crate::domain::secret::is_secret_name;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The longest address and the longest revision, in bytes.
const MAX_URL: usize = 2000;
const MAX_REVISION: usize = 250;
/// The revision of a request that names none.
const DEFAULT_REVISION: &str = "HEAD";
/// Hexadecimal digits of an object's name: of SHA-1, and of SHA-256.
const OBJECT_NAMES: [usize; 2] = [40, 64];

/// The repository of a run, as its request names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The address, without a slash at its end.
    pub url: String,
    /// A branch, a tag, a whole ref, or a commit with all its digits.
    pub revision: String,
    /// The name of the secret with the credential; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
}

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryScheme {
    /// HTTP over TLS.
    Https,
    /// HTTP in plain text.
    Http,
    /// A folder of the executor's machine.
    File,
}

/// The parts of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryRemote<'a> {
    /// How it is reached.
    pub scheme: RepositoryScheme,
    /// The host's name or address, without brackets; empty for a folder.
    pub host: &'a str,
    /// The port; none is the scheme's own.
    pub port: Option<u16>,
    /// The path, which begins with a slash.
    pub path: &'a str,
}

impl Repository {
    /// Whether one of these prefixes of addresses allows the repository: the address is one, or goes on behind it
    /// with another part of the path.
    pub fn is_allowed(&self, prefixes: &[String]) -> bool {
        prefixes.iter().any(|prefix| {
            let prefix = prefix.trim_end_matches('/');
            let rest = self.url.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Whether the revision is a commit, so that it need not be looked up.
    pub fn names_commit(&self) -> bool {
        is_object_name(&self.revision)
    }
}

/// Whether a text is the whole name of an object.
pub fn is_object_name(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    OBJECT_NAMES.contains(&text.len()) && text.bytes().all(is_digit)
}

/// Reads the repository of a request.
///
/// # Errors
/// `repository_invalid`, with the field below `field`.
pub fn read_repository(
    field: &str,
    (url, revision, secret): (&str, &str, &str),
) -> Result<Repository, Problem> {
    let refused = |part: &str, message: String| {
        Err(Problem::at(Code::RepositoryInvalid, format!("{field}.{part}"), message))
    };
    let url = url.trim().trim_end_matches('/');
    let remote = match remote_of(url) {
        Ok(remote) => remote,
        Err(why) => return refused("url", why.to_owned()),
    };
    let revision = match revision.trim() {
        "" => DEFAULT_REVISION,
        revision => revision,
    };
    if !is_revision(revision) {
        let message = "is no name of a revision; write a branch, a tag, a whole ref such as refs/heads/main, or a \
                       commit with all its digits";
        return refused("revision", message.to_owned());
    }
    let secret = secret.trim();
    if !secret.is_empty() && !is_secret_name(secret) {
        let message = "is no name of a secret; use letters, digits, `_` and `-`, without `secret:`";
        return refused("secret", message.to_owned());
    }
    let is_sent_plain = match remote.scheme {
        RepositoryScheme::Https => false,
        RepositoryScheme::Http => !is_loopback(remote.host),
        RepositoryScheme::File => true,
    };
    if !secret.is_empty() && is_sent_plain {
        let message = "a credential is sent over https only, or to the executor's own loopback; change the address, \
                       or leave the secret out";
        return refused("secret", message.to_owned());
    }
    Ok(Repository { url: url.to_owned(), revision: revision.to_owned(), secret: secret.to_owned() })
}

/// Reads an address.
///
/// # Errors
/// Why it is none, and what to write.
pub fn remote_of(url: &str) -> Result<RepositoryRemote<'_>, &'static str> {
    if url.len() > MAX_URL {
        return Err("is longer than 2,000 bytes; shorten it");
    }
    let (scheme, rest) = match url.split_once("://") {
        Some(("https", rest)) => (RepositoryScheme::Https, rest),
        Some(("http", rest)) => (RepositoryScheme::Http, rest),
        Some(("file", rest)) => (RepositoryScheme::File, rest),
        Some(_) | None => {
            return Err(
                "is no address that is served; begin it with https://, or with file:// or http:// where the \
                 executor's operator allows that",
            );
        }
    };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"'`<>{}|^".contains(&byte);
    if !rest.bytes().all(is_plain) {
        return Err(
            "has a character that no address of a repository has; leave spaces, `?`, `#` and quotes out",
        );
    }
    let slash = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(slash).unwrap_or((rest, ""));
    if authority.contains('@') {
        return Err("has a user name or a password; leave them out and name a secret");
    }
    let climbs =
        |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if path.len() < 2 || path.split('/').any(climbs) {
        return Err("has no path to a repository, or one with `..`; write the whole path");
    }
    let (host, port) = match (scheme, authority) {
        (RepositoryScheme::File, "") => ("", None),
        (RepositoryScheme::File, _) => {
            return Err("names a host; a folder is written as file:///PATH");
        }
        (RepositoryScheme::Https | RepositoryScheme::Http, authority) => {
            host_of(authority).ok_or("names no host; write https://HOST/PATH")?
        }
    };
    Ok(RepositoryRemote { scheme, host, port, path })
}

/// Whether a text is the beginning of addresses: a host of https or http, with a part of a path or without, or a
/// folder.
pub fn is_repository_prefix(text: &str) -> bool {
    let text = text.trim_end_matches('/');
    // A host alone has no path, which an address needs.
    remote_of(text).is_ok() || text != "file:" && remote_of(&format!("{text}/path")).is_ok()
}

fn host_of(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<IpAddr>().ok()?;
            (host, rest)
        }
        None => {
            let colon = authority.find(':').unwrap_or(authority.len());
            authority.split_at_checked(colon)?
        }
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse::<u16>().ok().filter(|port| *port > 0)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_plain)).then_some((host, port))
}

fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_revision(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_graphic() && !b"~^:?*[\\".contains(&byte) || !byte.is_ascii();
    (1..=MAX_REVISION).contains(&text.len())
        && text.bytes().all(is_plain)
        && !text.starts_with(['-', '/', '.'])
        && !text.ends_with(['/', '.'])
        && !["..", "//", "@{", "/."].iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_http_or_a_folder_without_credentials() {
        for (url, part) in [
            ("https://example.org/a/b.git", ""),
            ("https://example.org/a/b.git/", ""),
            ("https://example.org:8443/a", ""),
            ("https://[2001:db8::1]:8443/a", ""),
            ("http://127.0.0.1:3000/a.git", ""),
            ("file:///srv/git/a.git", ""),
            ("https://example.org/a%20b/_git/c", ""),
            ("ssh://git@example.org/a", "begin it with https"),
            ("git@example.org:a/b.git", "begin it with https"),
            ("ext::sh -c id", "begin it with https"),
            ("--upload-pack=id", "begin it with https"),
            ("https://user:token@example.org/a", "name a secret"),
            ("https://example.org", "whole path"),
            ("https://example.org/a/../b", "whole path"),
            ("https://example.org/a/%2E%2e/b", "whole path"),
            ("https:///a", "names no host"),
            ("https://EXAMPLE.org/a", "names no host"),
            ("https://example.org:0/a", "names no host"),
            ("https://example.org/a?x=1", "character"),
            ("https://example.org/a b", "character"),
            ("https://example.org/a\nb", "character"),
            ("file://host/a", "file:///PATH"),
        ] {
            let read = read_repository("repository", (url, "main", ""));
            match part {
                "" => assert_eq!(read.unwrap().url, url.trim_end_matches('/')),
                part => {
                    let problem = read.unwrap_err();
                    assert_eq!(problem.code, Code::RepositoryInvalid, "{url}");
                    assert_eq!(problem.field.as_deref(), Some("repository.url"), "{url}");
                    assert!(problem.message.contains(part), "{url}: {}", problem.message);
                }
            }
        }
    }

    #[test]
    fn a_revision_is_a_name_and_a_secret_is_sent_over_tls_only() {
        let read = |url: &str, revision: &str, secret: &str| {
            read_repository("r", (url, revision, secret)).map_err(|problem| problem.field.unwrap())
        };
        let (https, http) = ("https://a.org/b", "http://a.org/b");
        assert_eq!(read(https, " ", "").unwrap().revision, "HEAD");
        for revision in ["main", "feature/x", "v1.0", "refs/heads/main", "ünicode"] {
            assert_eq!(read(https, revision, "s").unwrap().revision, revision);
        }
        for revision in ["-x", "a..b", "a b", "HEAD~1", "a:b", "x^{}", "@{u}", "a/", ".a"] {
            assert_eq!(read(https, revision, ""), Err("r.revision".to_owned()), "{revision}");
        }
        for (url, secret, fits) in [
            (https, "s", true),
            (http, "", true),
            (http, "s", false),
            ("http://127.0.0.1:1/b", "s", true),
            ("file:///b", "s", false),
            (https, "secret:s", false),
        ] {
            assert_eq!(read(url, "x", secret).is_ok(), fits, "{url} {secret}");
        }
    }

    #[test]
    fn a_prefix_ends_where_a_part_of_the_path_ends() {
        let named = |url: &str| read_repository("r", (url, "", "")).unwrap();
        let prefixes = ["https://a.org/team/".to_owned(), "file:///srv/git".to_owned()];
        for (url, allowed) in [
            ("https://a.org/team/x.git", true),
            ("https://a.org/team", true),
            ("https://a.org/teammate/x", false),
            ("https://a.org.evil.org/team/x", false),
            ("http://a.org/team/x", false),
            ("file:///srv/git/x", true),
            ("file:///srv/git-private/x", false),
        ] {
            assert_eq!(named(url).is_allowed(&prefixes), allowed, "{url}");
        }
        assert!(!named("https://a.org/x").is_allowed(&[]));
    }
}
