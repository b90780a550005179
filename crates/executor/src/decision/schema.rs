//! A tool's JSON Schema, made ready once and asked for each call.

use surety_common::domain::json::Value;
use surety_common::domain::plan::ToolCall;

/// How many faults are told at once: enough to mend a call, not enough to drown the driver.
const MAX_FAULTS: usize = 5;

/// A schema that arguments are judged against. References outside the schema are not followed.
#[derive(Debug)]
pub struct ArgumentSchema {
    validator: jsonschema::Validator,
}

impl ArgumentSchema {
    /// Makes a schema ready.
    ///
    /// # Errors
    /// What makes it no good schema.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let validator =
            jsonschema::validator_for(&schema.to_serde()).map_err(|fault| fault.to_string())?;
        Ok(Self { validator })
    }

    /// Judges a call's arguments.
    ///
    /// # Errors
    /// What does not fit, with the places and without the values.
    pub fn fits(&self, call: &ToolCall) -> Result<(), String> {
        let arguments = call.arguments.to_serde();
        let faults: Vec<String> = self
            .validator
            .iter_errors(&arguments)
            .take(MAX_FAULTS)
            .map(|fault| {
                let place = fault.instance_path().to_string();
                format!("arguments{place}: {}", fault.masked())
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::json;

    fn schema(text: &str) -> Result<ArgumentSchema, String> {
        ArgumentSchema::new(&json::parse(text).unwrap().value)
    }

    fn fits(schema: &ArgumentSchema, arguments: &str) -> Result<(), String> {
        schema
            .fits(&ToolCall { name: "f".into(), arguments: json::parse(arguments).unwrap().value })
    }

    #[test]
    fn arguments_that_do_not_fit_are_told_with_their_places() {
        let schema = schema(
            r#"{"type":"object","required":["path"],
                "properties":{"path":{"type":"string"},"lines":{"type":"integer","minimum":1}}}"#,
        )
        .unwrap();
        assert_eq!(fits(&schema, r#"{"path":"甲.txt","lines":3}"#), Ok(()));
        assert!(fits(&schema, "{}").unwrap_err().contains("path"));
        let fault = fits(&schema, r#"{"path":"a","lines":0}"#).unwrap_err();
        assert!(fault.contains("arguments/lines"), "{fault}");
    }

    #[test]
    fn integers_too_large_for_a_double_stay_integers() {
        let schema = schema(r#"{"properties":{"id":{"type":"integer"}}}"#).unwrap();
        for id in ["18446744073709551615", "123456789012345678901234567890"] {
            assert_eq!(fits(&schema, &format!("{{\"id\":{id}}}")), Ok(()), "{id}");
        }
    }

    #[test]
    fn what_is_no_schema_or_points_outside_is_refused() {
        assert!(schema(r#"{"type":"sausage"}"#).is_err());
        assert!(schema(r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#).is_err());
        assert!(schema(r#"{"$ref":"file:///etc/passwd"}"#).is_err());
    }
}
