//! The signature of a verdict file, by a key of the user's.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use surety_common::clock;
use surety_common::config::{ClientConfig, ConfigError};
use surety_common::domain::json::{Value, parse_stored};
use surety_common::domain::signature::{
    DocumentFault, PublicKey, Service, TrustedKey, instant, sign_document, verify_document,
};
use surety_common::keys::{KeyFile, read_secret_key, read_trusted_keys, trust_key, trust_keys};

use super::VerdictFile;
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

impl VerdictFile {
    /// Signs the verdict with the user's key in the data folder, which is made and trusted at the first time. Where there
    /// is no folder for a key, the verdict stays unsigned, and a note says so; another one where the file of trusted keys
    /// that is set cannot be written, as that of an operator.
    ///
    /// # Errors
    /// The key can be read by others, or is none; the file of trusted keys is unusable; the verdict is no JSON.
    pub fn sign(&mut self, client: &ClientConfig) -> Result<(), Failure> {
        let ClientConfig { folder: data, trusted_keys_file: set, .. } = client;
        let folder =
            match DataFolder::choose(data).and_then(|folder| folder.make().map(|()| folder)) {
                Ok(folder) => folder,
                Err(error) => {
                    note(&format!("surety: the verdict is not signed: {error}"));
                    return Ok(());
                }
            };
        let path = folder.key(Service::User);
        let is_new = !path.exists();
        let public = match KeyFile::open_or_make(&path) {
            Ok(key) => key.public(),
            Err(error) if is_new => {
                note(&format!("surety: the verdict is not signed: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        match trust_user(&folder, set.as_deref(), public) {
            Err(error) if set.is_some() => {
                note(&format!(
                    "surety: the key {} of the verdict is not trusted: {error}; `surety verify --still` refuses the \
                     verdict until the operator pins this key: `surety keys export`, then `surety keys pin`",
                    public.id()
                ));
            }
            trusted => {
                if let Some(until) = trusted?.filter(|until| *until <= clock::now()) {
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
        let key = read_secret_key(&path)?;
        self.signature = Some(sign_document(&key, clock::now(), &self.document()?));
        Ok(())
    }

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
        match verify_document(&keys, signature, &self.document()?) {
            Ok(()) => Ok(Signed::By(key_id(signature).unwrap_or_default())),
            Err(DocumentFault::Changed(why)) => Ok(Signed::Changed(why)),
            Err(DocumentFault::Untrusted(why)) => {
                let message = format!("the verdict's signature does not hold: {why}");
                let advice = "Trust the key of its author with `surety keys pin`, or make the verdict again.";
                Err(Failure::new(Code::ValueInvalid, message, advice).at("signature"))
            }
        }
    }

    /// What is signed: everything but the signature.
    fn document(&self) -> Result<Value, Failure> {
        let unsigned = Self { signature: None, ..self.clone() };
        let parsed = parse_stored(&unsigned.compact()?);
        let value = parsed.map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?;
        Ok(value.value)
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
