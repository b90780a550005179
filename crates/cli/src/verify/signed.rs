//! The signature of a verdict file, by a key of the user's.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use surety_common::clock;
use surety_common::config::{ClientConfig, ConfigError};
use surety_common::domain::json::parse_stored;
use surety_common::domain::signature::{
    DocumentFault, PublicKey, SecretKey, Service, TrustedKey, instant, sign_document,
    verify_document,
};
use surety_common::keys::{KeyFile, read_secret_key, read_trusted_keys, trust_key, trust_keys};

use super::{Document, VerdictFile};
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::note;

/// Trusts the user's key in the file of trusted keys that is set, with the times that it has in that of the data folder,
/// which is meant where none is set. Returns when the key ends.
fn trust_user(
    folder: &DataFolder,
    set: Option<&Path>,
    public: PublicKey,
) -> Result<Option<DateTime<Utc>>, ConfigError> {
    let own = folder.trusted_keys();
    let Some(set) = set else { return trust_key(&own, (Service::User, public), clock::now()) };
    let of_user = |path: &Path| -> Result<Vec<TrustedKey>, ConfigError> {
        let known =
            if path.exists() { read_trusted_keys(path)?.keys().to_vec() } else { Vec::new() };
        let is_users = |known: &TrustedKey| known.service == Service::User && known.key == public;
        Ok(known.into_iter().filter(is_users).collect())
    };
    if of_user(set)?.is_empty() {
        // What was signed before the file was set counts on.
        let earlier = of_user(&own)?;
        if !earlier.is_empty() {
            trust_keys(set, &earlier)?;
        }
    }
    trust_key(set, (Service::User, public), clock::now())
}

/// What a verdict is signed with, looked at before anything runs.
#[derive(Debug)]
pub struct Signer {
    /// The data folder; else why there is none.
    folder: Result<DataFolder, String>,
    /// The file of trusted keys that is set.
    set: Option<PathBuf>,
}

impl Signer {
    /// Looks whether the user's key and the file of trusted keys can be used, where they are there.
    ///
    /// # Errors
    /// The key can be read by others, or is none; the file of trusted keys does not read.
    pub fn open(client: &ClientConfig) -> Result<Self, Failure> {
        let ClientConfig { folder: data, trusted_keys_file: set, .. } = client;
        let made = DataFolder::choose(data).and_then(|folder| folder.make().map(|()| folder));
        let folder = made.map_err(|error| error.to_string());
        if let Ok(folder) = &folder {
            let key = folder.key(Service::User);
            if key.exists() {
                read_secret_key(&key).map_err(unusable_user_key)?;
            }
            let trusted = set.clone().unwrap_or_else(|| folder.trusted_keys());
            if trusted.exists() {
                read_trusted_keys(&trusted)?;
            }
        }
        Ok(Self { folder, set: set.clone() })
    }

    /// Signs a verdict with the user's key in the data folder, which is made and trusted at the first time. Where that fails
    /// by now, the verdict stays unsigned, and a note says so; another one where the file of trusted keys that is set cannot
    /// be written, as that of an operator.
    ///
    /// # Errors
    /// A defect: the verdict is no JSON.
    pub fn sign(&self, verdict: &mut VerdictFile) -> Result<(), Failure> {
        match self.key() {
            Ok(key) => {
                let text = VerdictFile { signature: None, ..verdict.clone() }.compact()?;
                let parsed = parse_stored(&text);
                let parsed =
                    parsed.map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
                verdict.signature = Some(sign_document(&key, clock::now(), &parsed.value));
            }
            Err(why) => note(&format!("surety: the verdict is not signed: {why}")),
        }
        Ok(())
    }

    /// The key, which is trusted; else why there is none.
    fn key(&self) -> Result<SecretKey, String> {
        let folder = self.folder.as_ref().map_err(Clone::clone)?;
        let path = folder.key(Service::User);
        let of_user = |error| unusable_user_key(error).to_string();
        let public = KeyFile::open_or_make(&path).map_err(of_user)?.public();
        match trust_user(folder, self.set.as_deref(), public) {
            Err(error) if self.set.is_some() => {
                note(&format!(
                    "surety: the key {} of the verdict is not trusted: {error}; `surety verify --still` refuses the \
                     verdict until the operator pins this key: `surety keys export`, then `surety keys pin`",
                    public.id()
                ));
            }
            Err(error) => return Err(error.to_string()),
            Ok(until) => {
                if let Some(until) = until.filter(|until| *until <= clock::now()) {
                    note(&format!(
                        "surety: the key {} ended at {}, so the verdict's signature does not count; move {} away, and \
                         another key is made",
                        public.id(),
                        instant(until),
                        path.display()
                    ));
                }
            }
        }
        read_secret_key(&path).map_err(of_user)
    }
}

/// A key file of the user's that cannot be used: it has its place in the data folder, and no setting of a service.
pub fn unusable_user_key(error: ConfigError) -> Failure {
    if let ConfigError::KeyUnusable { path, why } = &error {
        let message = format!("the user's key file {} cannot be used: {why}", path.display());
        let advice = "Move the file away: `surety verify` makes another key. A key that was made elsewhere has to be a \
                      regular file in PEM, which only you can read.";
        return Failure::new(Code::SettingInvalid, message, advice);
    }
    if let ConfigError::KeyExposed { path, mode } = &error {
        let path = path.display();
        let message = format!(
            "the user's key file {path} can be read by other users of this machine (mode {mode:03o}), so its key proves \
             nothing"
        );
        let advice = format!("Run: chmod 600 {path}, and replace the key: surety keys rotate user");
        return Failure::new(Code::SettingInvalid, message, advice);
    }
    error.into()
}

impl Document {
    /// Checks the signature.
    ///
    /// # Errors
    /// No trusted key signed it.
    pub fn check_signature(&self, client: &ClientConfig) -> Result<Signed, Failure> {
        let file = DataFolder::trusted_keys_of(client.trusted_keys_file.as_deref(), &client.folder);
        let Some(signature) = &self.signature else {
            return Ok(Signed::Unsigned { refused: trusts_a_user(file.ok())? });
        };
        let keys = read_trusted_keys(&file?)?;
        match verify_document(&keys, signature, &self.unsigned) {
            Ok(()) => Ok(Signed::By(key_id(signature).unwrap_or_default())),
            Err(DocumentFault::Changed(why)) => Ok(Signed::Changed(why)),
            Err(DocumentFault::Untrusted(why)) => {
                let message = format!("the verdict's signature does not hold: {why}");
                let advice = "Trust the key of its author with `surety keys pin`, or make the verdict again.";
                Err(Failure::new(Code::ValueInvalid, message, advice).at("signature"))
            }
        }
    }
}

/// Who signed what a workspace is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// A key of a user with this id, which is trusted.
    By(String),
    /// The file is not what was signed; the text says why.
    Changed(String),
    /// A verdict file without a signature.
    Unsigned {
        /// The reader trusts keys of users, so a signature may have been taken out.
        refused: bool,
    },
}

/// Whether the reader has a trusted key of a user. Without a file of keys there is none.
fn trusts_a_user(file: Option<PathBuf>) -> Result<bool, Failure> {
    let Some(file) = file.filter(|file| file.exists()) else { return Ok(false) };
    let keys = read_trusted_keys(&file)?;
    Ok(keys.keys().iter().any(|key| key.service == Service::User))
}

/// The id of the key in an envelope that was checked.
fn key_id(envelope: &str) -> Option<String> {
    let value = parse_stored(envelope).ok()?.value;
    let signature = value.get("signatures")?.as_array()?.first()?;
    signature.get("keyid")?.as_str().map(str::to_owned)
}
