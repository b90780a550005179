//! Typed access to the fields of a message's object. Null counts as absent. Plans, checks and todos
//! report the same errors by it.

use crate::domain::json::{JsonError, Value, parse};
use crate::domain::problem::{Code, Problem, Warning, WarningCode};
use crate::domain::reader::{Fields, too_deep};
use std::collections::HashSet;

/// One object of a message. Arguments and params are excluded, because their authors choose the
/// keys.
#[derive(Debug)]
pub struct TypedFields<'a> {
    path: String,
    fields: Fields<'a>,
}

impl<'a> TypedFields<'a> {
    /// Sorts an object's members into known keys and the rest, ignoring the case of keys.
    ///
    /// # Errors
    /// `type_mismatch` when the value is no object.
    pub fn of(
        value: &'a Value,
        path: &str,
        keys: &[&'a str],
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, Problem> {
        let members = value.as_object().ok_or_else(|| mismatch(path, "an object", value))?;
        Ok(Self::of_members(members, path, keys, warnings))
    }

    /// As [`TypedFields::of`], for the members of an object.
    pub fn of_members(
        members: &'a [(String, Value)],
        path: &str,
        keys: &[&'a str],
        warnings: &mut Vec<Warning>,
    ) -> Self {
        let mut folded = Vec::new();
        let fields = Fields::fold(members, keys, &mut folded);
        warnings.extend(folded.into_iter().map(|warning| Warning {
            field: warning.field.map(|key| join(path, &key)),
            ..warning
        }));
        Self { path: path.to_owned(), fields }
    }

    /// The unknown keys, in the order of the text.
    pub fn unknown(&self) -> &[&'a str] {
        self.fields.unknown()
    }

    /// Whether the key is present, even with the value null.
    pub fn has(&self, key: &str) -> bool {
        self.fields.get(key).is_some()
    }

    /// The value of a known key; none for null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.filled(key)
    }

    /// The path of one of this object's fields.
    pub fn path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// A trimmed text; empty when absent.
    ///
    /// # Errors
    /// `type_mismatch` for anything else.
    pub fn text(&self, key: &str) -> Result<String, Problem> {
        self.get(key).map_or(Ok(String::new()), |value| {
            let text = value.as_str().map(|text| text.trim().to_owned());
            text.ok_or_else(|| mismatch(&self.path(key), "text", value))
        })
    }

    /// A boolean; the default when absent.
    ///
    /// # Errors
    /// `type_mismatch` for anything else.
    pub fn truth(&self, key: &str, default: bool) -> Result<bool, Problem> {
        self.get(key).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| mismatch(&self.path(key), "true or false", value))
        })
    }

    /// A trimmed id; empty when absent. A number becomes text as it was written.
    ///
    /// # Errors
    /// `type_mismatch` for anything else.
    pub fn id(&self, key: &str, warnings: &mut Vec<Warning>) -> Result<String, Problem> {
        self.get(key).map_or(Ok(String::new()), |value| read_id(value, || self.path(key), warnings))
    }

    /// The items of a list; none when absent.
    ///
    /// # Errors
    /// `type_mismatch` when the value is no list.
    pub fn list(&self, key: &str) -> Result<&'a [Value], Problem> {
        self.get(key).map_or(Ok(&[]), |value| {
            value.as_array().ok_or_else(|| mismatch(&self.path(key), "a list", value))
        })
    }

    /// A list of ids, each trimmed, in order, repeats kept.
    ///
    /// # Errors
    /// `type_mismatch` when the value is no list, or an item neither text nor number.
    pub fn ids(&self, key: &str, warnings: &mut Vec<Warning>) -> Result<Vec<String>, Problem> {
        let items = self.list(key)?.iter().enumerate();
        items.map(|(at, item)| read_id(item, || item_path(&self.path(key), at), warnings)).collect()
    }

    /// A list of ids without repetitions; a repeated one gives a warning.
    ///
    /// # Errors
    /// As [`TypedFields::ids`].
    pub fn dependencies(
        &self,
        key: &str,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<String>, Problem> {
        let ids = self.ids(key, warnings)?;
        let mut seen = HashSet::new();
        let mut once = Vec::with_capacity(ids.len());
        for (at, id) in ids.into_iter().enumerate() {
            if seen.insert(id.clone()) {
                once.push(id);
            } else {
                let path = item_path(&self.path(key), at);
                warnings.push(Warning::at(WarningCode::DuplicateDependency, path));
            }
        }
        Ok(once)
    }

    /// Words for a reader, of any type: one value is a list of one, and what is no text is kept as compact JSON.
    /// Blank text in place of a list, null items and repeated ones are dropped.
    pub fn words(&self, key: &str) -> Vec<String> {
        let Some(value) = self.get(key) else { return Vec::new() };
        if value.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Vec::new();
        }
        let mut seen = HashSet::new();
        let items = value.as_array().unwrap_or(std::slice::from_ref(value)).iter();
        let items = items.filter(|item| !item.is_null());
        let word = |item: &Value| {
            item.as_str().map_or_else(|| item.to_compact(), |text| text.trim().to_owned())
        };
        items.map(word).filter(|word| seen.insert(word.clone())).collect()
    }

    /// A list of trimmed texts without repetitions.
    ///
    /// # Errors
    /// `type_mismatch` when the value is no list, or an item no text.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Problem> {
        let mut seen = HashSet::new();
        let mut texts = Vec::new();
        for (at, item) in self.list(key)?.iter().enumerate() {
            let path = || item_path(&self.path(key), at);
            let text = item.as_str().ok_or_else(|| mismatch(&path(), "text", item))?;
            if seen.insert(text.trim()) {
                texts.push(text.trim().to_owned());
            }
        }
        Ok(texts)
    }
}

/// Reads an optional object. Null, blank text and an empty list are none, `{}` is an object, and an
/// object inside a text is read.
///
/// # Errors
/// `not_object` for anything else, `too_deep` for text that nests too deep.
pub fn read_optional_object(
    value: &Value,
    path: &str,
    not_object: Code,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Value>, Problem> {
    let refuse = || {
        let message = format!("expected one object or null, found {}", value.kind());
        Err(Problem::at(not_object, path, message))
    };
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(value.clone())),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => read_object_in_text(text, path, warnings)?
            .map_or_else(refuse, |object| Ok(Some(object))),
        Value::Array(items) if items.is_empty() => {
            warnings.push(Warning::at(WarningCode::EmptyArrayAsAbsent, path));
            Ok(None)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => refuse(),
    }
}

/// The object inside a text; none when the text is anything else.
///
/// # Errors
/// `too_deep` when it nests too deep.
pub fn read_object_in_text(
    text: &str,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Value>, Problem> {
    let parsed = match parse(text.trim()) {
        Ok(parsed) => parsed,
        Err(JsonError::TooDeep { .. }) => {
            return Err(Problem { field: Some(path.to_owned()), ..too_deep() });
        }
        Err(JsonError::Syntax { .. }) => return Ok(None),
    };
    if parsed.value.as_object().is_none() {
        return Ok(None);
    }
    warnings.push(Warning::at(WarningCode::ObjectInString, path));
    if parsed.duplicate_key {
        warnings.push(Warning::at(WarningCode::DuplicateKey, path));
    }
    Ok(Some(parsed.value))
}

/// Builds an object without default values, so that a field added later does not change the digests
/// of older objects.
#[derive(Debug, Default)]
pub struct SparseObject(Vec<(String, Value)>);

impl SparseObject {
    /// Adds a text that is not empty.
    #[must_use]
    pub fn text(self, key: &str, text: &str) -> Self {
        let value = Value::String(text.to_owned());
        self.value_if(!text.is_empty(), key, value)
    }

    /// Adds a boolean that is not the default.
    #[must_use]
    pub fn truth(self, key: &str, truth: bool, default: bool) -> Self {
        self.value_if(truth != default, key, Value::Bool(truth))
    }

    /// Adds a list of texts that is not empty.
    #[must_use]
    pub fn texts(self, key: &str, texts: &[String]) -> Self {
        self.list(key, texts.iter().cloned().map(Value::String))
    }

    /// Adds a list that is not empty.
    #[must_use]
    pub fn list(self, key: &str, items: impl Iterator<Item = Value>) -> Self {
        let items: Vec<Value> = items.collect();
        self.value_if(!items.is_empty(), key, Value::Array(items))
    }

    /// Adds a value on a condition.
    #[must_use]
    pub fn value_if(mut self, wanted: bool, key: &str, value: Value) -> Self {
        if wanted {
            self.0.push((key.to_owned(), value));
        }
        self
    }

    /// The object.
    pub fn build(self) -> Value {
        Value::Object(self.0)
    }
}

/// A trimmed id, or a number as it was written.
fn read_id(
    value: &Value,
    path: impl Fn() -> String,
    warnings: &mut Vec<Warning>,
) -> Result<String, Problem> {
    if let Some(spelling) = value.as_number() {
        warnings.push(Warning::at(WarningCode::IdCoerced, path()));
        return Ok(spelling.to_owned());
    }
    let text = value.as_str().map(|text| text.trim().to_owned());
    text.ok_or_else(|| mismatch(&path(), "an id", value))
}

/// The path of a key inside the object at a path.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The path of an item inside the list at a path.
pub fn item_path(path: &str, at: usize) -> String {
    format!("{path}[{at}]")
}

/// The `type_mismatch` of a value of another type than expected.
pub fn mismatch(path: &str, wanted: &str, found: &Value) -> Problem {
    let message = format!("expected {wanted}, found {}", found.kind());
    Problem::at(Code::TypeMismatch, path, message)
}
