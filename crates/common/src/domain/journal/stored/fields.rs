//! Reads and writes objects of the stored form field by field.

use super::StoredError;
use crate::domain::json::{ObjectText, Value};
use uuid::Uuid;

/// Reads an object field by field: an absent field is empty, another type is an error.
pub(super) struct Fields<'a>(pub(super) &'a Value);

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, StoredError> {
        value.as_object().map(|_| Fields(value)).ok_or_else(|| missing("an object"))
    }

    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, StoredError> {
        self.0.get(key).map(|value| read(value).ok_or_else(|| missing(key))).transpose()
    }

    pub(super) fn text(&self, key: &str) -> Result<String, StoredError> {
        Ok(self.optional(key, Value::as_str)?.unwrap_or_default().to_owned())
    }

    pub(super) fn number<T: std::str::FromStr + Default>(
        &self,
        key: &str,
    ) -> Result<T, StoredError> {
        let number = self.optional(key, |value| value.as_number()?.parse().ok())?;
        Ok(number.unwrap_or_default())
    }

    pub(super) fn uuid(&self, key: &str) -> Result<Uuid, StoredError> {
        Uuid::parse_str(&self.text(key)?).map_err(|_| missing(key))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, StoredError> {
        Ok(self.optional(key, Value::as_bool)?.unwrap_or_default())
    }

    pub(super) fn list(&self, key: &str) -> Result<&'a [Value], StoredError> {
        Ok(self.optional(key, Value::as_array)?.unwrap_or_default())
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<Fields<'a>>, StoredError> {
        self.0.get(key).map(Fields::of).transpose()
    }
}

/// Writes a value that is present.
pub(super) fn optional<'o, T>(
    object: ObjectText<'o>,
    key: &str,
    value: Option<T>,
    write: impl FnOnce(&mut String, T),
) -> ObjectText<'o> {
    match value {
        Some(value) => object.with(key, |out| write(out, value)),
        None => object,
    }
}

pub(super) fn missing(what: &str) -> StoredError {
    StoredError(format!("{what} is missing or of another type"))
}
