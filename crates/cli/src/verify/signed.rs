//! The signature of a verdict file, by a key of the user's.

use surety_common::clock;
use surety_common::config::DataDirConfig;
use surety_common::domain::json::{Value, parse_stored};
use surety_common::domain::signature::{Service, sign_document, verify_document};
use surety_common::keys::{KeyFile, read_secret_key, read_trusted_keys, trust_key};

use super::VerdictFile;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::note;

impl VerdictFile {
    /// Signs the verdict with the user's key in the data folder, which is made at the first time. Where there is no
    /// folder for a key, the verdict stays unsigned, and a note says so.
    ///
    /// # Errors
    /// The key can be read by others, or is none; the verdict is no JSON.
    pub fn sign(&mut self, data: &DataDirConfig) -> Result<(), Failure> {
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
        trust_key(&folder.trusted_keys(), (Service::User, public), clock::now())?;
        let key = read_secret_key(&path)?;
        self.signature = Some(sign_document(&key, clock::now(), &self.document()?));
        Ok(())
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// The verdict is not what was signed, or no trusted key signed it.
    pub fn check_signature(&self, data: &DataDirConfig) -> Result<Signed, Failure> {
        let Some(signature) = &self.signature else {
            return Ok(Signed::Unsigned { refused: trusts_a_user(data)? });
        };
        let keys = read_trusted_keys(&DataFolder::choose(data)?.trusted_keys())?;
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
fn trusts_a_user(data: &DataDirConfig) -> Result<bool, Failure> {
    let Ok(folder) = DataFolder::choose(data) else { return Ok(false) };
    let file = folder.trusted_keys();
    if !file.exists() {
        return Ok(false);
    }
    let keys = read_trusted_keys(&file)?;
    Ok(keys.keys().iter().any(|key| key.service == Service::User))
}

/// The id of the key in an envelope that was checked.
fn key_id(envelope: &str) -> Option<String> {
    let value = parse_stored(envelope).ok()?.value;
    let signature = value.get("signatures")?.as_array()?.first()?;
    signature.get("keyid")?.as_str().map(str::to_owned)
}
