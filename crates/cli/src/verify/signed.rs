//! The signature of a verdict file, by a key of the user's.

use std::path::PathBuf;

use surety_common::clock;
use surety_common::config::ClientConfig;
use surety_common::domain::json::{Value, parse_stored};
use surety_common::domain::signature::{Service, sign_document, verify_document};
use surety_common::keys::{KeyFile, read_secret_key, read_trusted_keys, trust_key};

use super::VerdictFile;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::note;

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
        let trusted = set.clone().unwrap_or_else(|| folder.trusted_keys());
        match trust_key(&trusted, (Service::User, public), clock::now()) {
            Err(error) if set.is_some() => {
                note(&format!(
                    "surety: the key {} of the verdict is not trusted: {error}",
                    public.id()
                ));
            }
            trusted => drop(trusted?),
        }
        let key = read_secret_key(&path)?;
        self.signature = Some(sign_document(&key, clock::now(), &self.document()?));
        Ok(())
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// The verdict is not what was signed, or no trusted key signed it.
    pub fn check_signature(&self, client: &ClientConfig) -> Result<Signed, Failure> {
        let file = DataFolder::trusted_keys_of(client.trusted_keys_file.as_deref(), &client.folder);
        let Some(signature) = &self.signature else {
            return Ok(Signed::Unsigned { refused: trusts_a_user(file.ok())? });
        };
        let keys = read_trusted_keys(&file?)?;
        verify_document(&keys, signature, &self.document()?).map_err(|why| {
            let message = format!("the verdict's signature does not hold: {why}");
            let advice =
                "Trust the key of its author with `surety keys pin`, or make the verdict again.";
            Failure::new(Code::ValueInvalid, message, advice).at("signature")
        })?;
        Ok(Signed::By(key_id(signature).unwrap_or_default()))
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
