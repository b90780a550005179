//! JSON Schemas from outside: compiled without documents of others, with patterns in linear time.

mod steps;

use crate::domain::json::{self, Value};
use crate::domain::problem::{Code, Problem};
use jsonschema::{PatternOptions, Validator};

/// The most errors that are reported for one value.
const MAX_FAULTS: usize = 5;
/// The largest schema of an answer, in bytes of compact JSON.
const MAX_SCHEMA: usize = 16 << 10;
/// The most levels of objects and lists in it.
const MAX_LEVELS: usize = 16;

/// A schema that compiled.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// Its text, where it refers to parts of itself: a comparison with it may take longer than both are long.
    referring: Option<serde_json::Value>,
}

/// Compiles a schema. Its patterns run in linear time, and no document is fetched.
///
/// # Errors
/// What is wrong with the schema.
pub fn compile(schema: &serde_json::Value) -> Result<Schema, String> {
    let validator = jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .offline()
        .build(schema)
        .map_err(|error| error.to_string())?;
    let referring = steps::has_references(schema).then(|| schema.clone());
    Ok(Schema { validator, referring })
}

/// Where a value does not fit a schema, without the values: one sentence for each place, with its path. A value whose
/// comparison with the schema would take too long does not fit.
pub fn faults(schema: &Schema, value: &Value) -> Vec<String> {
    let value = value.to_serde();
    if schema.referring.as_ref().is_some_and(|it| !steps::ends(it, &value)) {
        let most = steps::MAX_STEPS;
        return vec![format!(
            "the tool's schema refers to itself in a way that takes more than {most} steps for this value; pass a smaller \
             or flatter one, or write the schema with fewer references"
        )];
    }
    let found = schema.validator.iter_errors(&value).take(MAX_FAULTS);
    let said = found.map(|error| match error.instance_path().as_str() {
        "" => error.masked().to_string(),
        path => format!("{path}: {}", error.masked()),
    });
    said.collect()
}

/// Looks at the schema of an answer: an object of bounded size and depth without references, which compiles.
///
/// # Errors
/// `answer_schema_invalid`
pub fn check_answer_schema(schema: &Value) -> Result<(), Problem> {
    compiled(schema)
        .map(drop)
        .map_err(|why| Problem::at(Code::AnswerSchemaInvalid, "answer_schema", why))
}

/// Looks at an answer under the schema of its question. An answer that is no JSON, or does not fit as such, counts as
/// a text.
///
/// # Errors
/// `answer_invalid` with the paths that do not fit; `answer_schema_invalid` for a schema that cannot be used.
pub fn check_answer(schema_json: &str, answer: &str) -> Result<(), Problem> {
    let unusable = |why: String| Problem::at(Code::AnswerSchemaInvalid, "answer_schema", why);
    let schema = json::parse(schema_json).map_err(|error| unusable(error.to_string()))?.value;
    let schema = compiled(&schema).map_err(unusable)?;
    let as_text = faults(&schema, &Value::String(answer.to_owned()));
    let wrong = match json::parse(answer) {
        Ok(parsed) => faults(&schema, &parsed.value),
        Err(_) => as_text.clone(),
    };
    if wrong.is_empty() || as_text.is_empty() {
        return Ok(());
    }
    let message = format!("does not fit the question's JSON Schema: {}", wrong.join("; "));
    Err(Problem::at(Code::AnswerInvalid, "answer", message))
}

fn compiled(schema: &Value) -> Result<Schema, String> {
    let bytes = schema.to_compact().len();
    if bytes > MAX_SCHEMA {
        return Err(format!("has {bytes} bytes; at most {MAX_SCHEMA} are read"));
    }
    look_inside(schema, MAX_LEVELS)?;
    compile(&schema.to_serde())
}

/// A reference could make the validation of a small answer endless.
fn look_inside(value: &Value, levels: usize) -> Result<(), String> {
    let below = || {
        let more = levels.checked_sub(1);
        more.ok_or_else(|| format!("has more than {MAX_LEVELS} levels; make it flatter"))
    };
    match value {
        Value::Object(members) => {
            let below = below()?;
            for (key, value) in members {
                if key.starts_with("$") && key.to_ascii_lowercase().ends_with("ref") {
                    return Err(format!("has a {key}; write out what it refers to"));
                }
                look_inside(value, below)?;
            }
            Ok(())
        }
        Value::Array(items) => {
            let below = below()?;
            items.iter().try_for_each(|item| look_inside(item, below))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Value {
        json::parse(text).expect("JSON").value
    }

    #[test]
    fn an_answer_fits_as_json_or_as_text_and_else_its_path_is_named() {
        let colour = r#"{"type": "string", "enum": ["red", "blue"]}"#;
        let port = r#"{"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer", "minimum": 1, "maximum": 65535}}}"#;
        for (schema, answer, said) in [
            (colour, "red", ""),
            (colour, "\"red\"", ""),
            (colour, "green", "not one of"),
            (colour, "7", "not one of"),
            (port, r#"{"port": 80}"#, ""),
            (port, r#"{"port": 0}"#, "/port: "),
            (port, r#"{"port": "80"}"#, "/port: "),
            (port, "{}", "port"),
            (port, "80", "not of type"),
            (port, "eighty", "not of type"),
            (r#"{"type": "string"}"#, "7", ""),
        ] {
            let refused = check_answer(schema, answer).err();
            assert_eq!(refused.is_some(), !said.is_empty(), "{schema} {answer}: {refused:?}");
            if let Some(problem) = refused {
                assert_eq!(problem.code, Code::AnswerInvalid, "{schema} {answer}");
                assert!(problem.message.contains(said), "{answer}: {}", problem.message);
            }
        }
    }

    #[test]
    fn a_schema_is_bounded_refers_to_nothing_and_compiles() {
        let nested = |levels: usize| {
            format!("{}{}{}", r#"{"not": "#.repeat(levels), "{}", "}".repeat(levels))
        };
        let long = format!(r#"{{"title": "{}"}}"#, "x".repeat(MAX_SCHEMA));
        for (text, valid) in [
            (r#"{"type": "string"}"#, true),
            (r#"{"pattern": "^a+$"}"#, true),
            (r#"{"type": "strange"}"#, false),
            (r#"{"pattern": "("}"#, false),
            (r##"{"$ref": "#"}"##, false),
            (r##"{"allOf": [{"$dynamicRef": "#a"}]}"##, false),
            (r#"{"$ref": "https://example.org/schema"}"#, false),
            (nested(MAX_LEVELS - 1).as_str(), true),
            (nested(MAX_LEVELS).as_str(), false),
            (long.as_str(), false),
        ] {
            let checked = check_answer_schema(&schema(text));
            assert_eq!(checked.is_ok(), valid, "{text:.60}: {checked:?}");
        }
    }
}
