//! A verdict file as it is read: the JSON that a signature covers, whole, and the verdict in it.

use std::path::{Path, PathBuf};

use surety_common::domain::json::{Value, parse_stored};

use super::file::{FORM, Recorded, VerdictFile};
use crate::failure::{Code, Failure};
use crate::plan_file::read_text_within;

/// A larger file is no verdict.
const MOST_BYTES: u64 = 64 << 20;

/// A verdict file. Its members are those of the file, also where this version does not know them.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    path: PathBuf,
    text: String,
    /// Everything but the signature.
    pub(super) unsigned: Value,
    pub(super) signature: Option<String>,
}

impl Document {
    /// Reads a verdict file.
    ///
    /// # Errors
    /// It cannot be read, or is no JSON of this form.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = read_text_within(path, MOST_BYTES)?;
        let invalid = |why: &str| invalid(path, why);
        let parsed = parse_stored(&text).map_err(|error| invalid(&error.to_string()))?;
        if parsed.duplicate_key {
            return Err(invalid("one of its members stands twice"));
        }
        let form = parsed.value.get("form").and_then(Value::as_str).unwrap_or_default();
        if form != FORM {
            return Err(invalid(&format!("its form is {form:?}, not {FORM:?}")));
        }
        let Value::Object(mut members) = parsed.value else {
            return Err(invalid("it is no JSON object"));
        };
        let signature = match members.iter().position(|(name, _)| name == "signature") {
            None => None,
            Some(place) => match members.remove(place).1 {
                Value::Null => None,
                Value::String(envelope) => Some(envelope),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(invalid("its `signature` is no text"));
                }
            },
        };
        Ok(Self { path: path.to_owned(), text, unsigned: Value::Object(members), signature })
    }

    /// The verdict.
    ///
    /// # Errors
    /// A member is missing, unknown or of another type.
    pub fn verdict(&self) -> Result<VerdictFile, Failure> {
        serde_json::from_str(&self.text)
            .map_err(|error| invalid(&self.path, &what_is_wrong(&error)))
    }

    /// What the file says of the workspace, as far as it reads: nothing is compared with it.
    pub fn named_workspace(&self) -> Recorded {
        let workspace = self.unsigned.get("workspace");
        let text = |name: &str| workspace.and_then(|of| of.get(name)).and_then(Value::as_str);
        let text = |name: &str| text(name).unwrap_or_default().to_owned();
        Recorded { path: text("path"), digest: text("digest"), ignore_rules: String::new() }
    }
}

fn invalid(path: &Path, why: &str) -> Failure {
    let message = format!("{} is no verdict file: {why}", path.display());
    Failure::new(Code::ValueInvalid, message, "Name a file that `surety verify` wrote.")
}

/// In words of the form: those of the reader name types of this program.
fn what_is_wrong(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let name = said.split('`').nth(1).unwrap_or_default();
    let what = match said.split('`').next().unwrap_or_default() {
        "missing field " => format!("the member `{name}` is missing"),
        "unknown field " => format!("the member `{name}` is unknown"),
        "unknown variant " => format!("the value `{name}` is unknown"),
        _ => "a value is of another type than its member".to_owned(),
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}
