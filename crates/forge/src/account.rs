//! An account on a forge, and its credential.

use crate::error::{ForgeError, ForgeErrorCode};
use reqwest::Url;
use reqwest::header::HeaderValue;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use surety_common::config::{Secret, open_to_all};
use surety_common::domain::redact::Redactor;
use surety_common::domain::toolchain::Forge as ForgeKind;

/// The longest credential, in bytes.
const LONGEST_TOKEN: u64 = 4_096;
const GITHUB_HOST: &str = "github.com";
const GITHUB_API: &str = "https://api.github.com";

/// An account on a forge. Its `Debug` form has the name of the credential's file and not the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeAccount {
    /// The forge's name in the configuration.
    pub forge: String,
    /// The kind of forge.
    pub kind: ForgeKind,
    /// The address at which people see the forge, without a path of its API.
    pub url: String,
    /// The file with the token of the account.
    pub credential_file: PathBuf,
    /// The account, where it is known; else the forge is asked for it.
    pub account: Option<String>,
}

impl ForgeAccount {
    /// The base address of the API.
    ///
    /// # Errors
    /// `config_invalid` for an address that is no URL, that has a user, a query or a fragment, or that is neither
    /// https nor a loopback address.
    pub fn api_url(&self) -> Result<Url, ForgeError> {
        let wrong = |why: &str| {
            let message = format!("its url {why}; correct it in the forges file");
            ForgeError::new(ForgeErrorCode::ConfigInvalid, &self.forge, "read the address", message)
        };
        let url =
            Url::parse(&self.url).map_err(|error| wrong(&format!("does not read: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("has a user or a password, which belong into credential_file"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has a query or a fragment"));
        }
        let host = url.host_str().ok_or_else(|| wrong("names no host"))?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(host) => {}
            "http" => return Err(wrong("is http, which would show the credential; use https")),
            _ => return Err(wrong("is neither https nor http")),
        }
        let base = self.url.trim_end_matches('/');
        let api = match self.kind {
            ForgeKind::Github if host == GITHUB_HOST => GITHUB_API.to_owned(),
            ForgeKind::Github if base == GITHUB_API => base.to_owned(),
            ForgeKind::Github => format!("{base}/api/v3"),
            ForgeKind::Gitea | ForgeKind::Forgejo => format!("{base}/api/v1"),
        };
        Url::parse(&api).map_err(|error| wrong(&format!("makes no address of an API: {error}")))
    }

    /// Reads the credential. It blocks.
    pub(crate) fn token(&self, operation: &'static str) -> Result<Token, ForgeError> {
        let path = &self.credential_file;
        let failed = |why: String| {
            let message = format!("the credential file {} {why}", path.display());
            ForgeError::new(ForgeErrorCode::CredentialUnreadable, &self.forge, operation, message)
        };
        let text = read(path).map_err(failed)?;
        Token::new(self.kind, &text).ok_or_else(|| {
            failed("holds no token; write the token alone into it, on one line".to_owned())
        })
    }
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}; correct its path");
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if let Some(mode) = open_to_all(&metadata) {
        let path = path.display();
        return Err(format!(
            "can be read by every user of this machine (mode {mode:03o}). Run: chmod 600 {path}"
        ));
    }
    if metadata.len() > LONGEST_TOKEN {
        return Err(format!("has more than {LONGEST_TOKEN} bytes; write the token alone into it"));
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// Whether a host of an address is this machine.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A credential while it is used.
pub(crate) struct Token {
    secret: Secret,
    kind: ForgeKind,
}

impl Token {
    fn new(kind: ForgeKind, text: &str) -> Option<Self> {
        let text = text.trim();
        let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Self { secret: Secret::new(text), kind })
    }

    /// The value of the header `Authorization`, marked as one that is not shown.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let scheme = match self.kind {
            ForgeKind::Gitea | ForgeKind::Forgejo => "token",
            ForgeKind::Github => "Bearer",
        };
        let mut value =
            HeaderValue::from_str(&format!("{scheme} {}", self.secret.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The credential itself.
    pub(crate) fn into_secret(self) -> Secret {
        self.secret
    }

    /// Takes the credential out of what the forge says.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new([("forge-credential", self.secret.expose())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(kind: ForgeKind, url: &str) -> ForgeAccount {
        ForgeAccount {
            forge: "main".to_owned(),
            kind,
            url: url.to_owned(),
            credential_file: PathBuf::from("/nowhere"),
            account: None,
        }
    }

    #[test]
    fn the_address_of_the_api_follows_from_that_of_the_forge() {
        for (kind, url, expected) in [
            (ForgeKind::Gitea, "https://git.example", "https://git.example/api/v1"),
            (ForgeKind::Forgejo, "https://git.example/sub/", "https://git.example/sub/api/v1"),
            (ForgeKind::Github, "https://github.com", "https://api.github.com/"),
            (ForgeKind::Github, "https://ghe.example", "https://ghe.example/api/v3"),
            (ForgeKind::Gitea, "http://127.0.0.1:3000", "http://127.0.0.1:3000/api/v1"),
            (ForgeKind::Gitea, "http://[::1]:3000", "http://[::1]:3000/api/v1"),
        ] {
            assert_eq!(account(kind, url).api_url().expect("an address").as_str(), expected);
        }
        for url in [
            "http://git.example",
            "http://127.0.0.1.evil.example",
            "ftp://git.example",
            "https://user:secret@git.example",
            "https://git.example/?a=b",
            "git.example",
            "",
        ] {
            let refused = account(ForgeKind::Gitea, url).api_url().expect_err(url);
            assert_eq!(refused.code, ForgeErrorCode::ConfigInvalid, "{url}");
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_credential_that_every_user_may_read_is_refused_without_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let account = ForgeAccount {
            credential_file: path.clone(),
            ..account(ForgeKind::Gitea, "https://git.example")
        };
        let missing = account.token("x").err().expect("a refusal");
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
        for (text, mode, said) in [
            ("c4nary-token\n", 0o644, "chmod 600"),
            ("", 0o600, "holds no token"),
            ("two tokens", 0o600, "holds no token"),
        ] {
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let refused = account.token("x").err().expect("a refusal");
            assert_eq!(refused.code, ForgeErrorCode::CredentialUnreadable);
            assert!(refused.to_string().contains(said), "{refused}");
            assert!(!refused.to_string().contains("c4nary"), "{refused}");
        }
        fs::write(&path, "c4nary-token\n").expect("a file");
        let token = account.token("x").expect("a token");
        let header = token.header().expect("a header");
        assert_eq!(header.to_str().expect("a text"), "token c4nary-token");
        assert!(!format!("{header:?} {account:?}").contains("c4nary"));
    }
}
