//! Requests whose method or parameters the types of the protocol do not take.

use super::fit::{shortened, shown};
use rmcp::ErrorData;
use rmcp::model::{CustomRequest, ErrorCode};
use serde_json::Value;

/// What a field of parameters has to be.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Object,
}

/// A field of the parameters of a method.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

impl Field {
    const fn required(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_required: true }
    }

    const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_required: false }
    }
}

/// The methods that are served, with the fields that they take.
const METHODS: [(&str, &[Field]); 8] = [
    (
        "initialize",
        &[
            Field::required("protocolVersion", Kind::Text),
            Field::required("capabilities", Kind::Object),
            Field::required("clientInfo", Kind::Object),
        ],
    ),
    ("server/discover", &[]),
    ("ping", &[]),
    ("tools/list", &[Field::optional("cursor", Kind::Text)]),
    (
        "tools/call",
        &[
            Field::required("name", Kind::Text),
            Field::optional("arguments", Kind::Object),
            Field::optional("inputResponses", Kind::Object),
            Field::optional("requestState", Kind::Text),
        ],
    ),
    ("tasks/get", &[Field::required("taskId", Kind::Text)]),
    (
        "tasks/update",
        &[Field::required("taskId", Kind::Text), Field::required("inputResponses", Kind::Object)],
    ),
    ("tasks/cancel", &[Field::required("taskId", Kind::Text)]),
];

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Object => "an object",
        }
    }

    fn has(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Object => value.is_object(),
        }
    }
}

/// The error of such a request: the field that does not fit, or the methods that are there.
pub(super) fn refusal(request: &CustomRequest) -> ErrorData {
    let CustomRequest { method, params, .. } = request;
    let Some((method, fields)) = METHODS.iter().find(|(known, _)| known == method) else {
        let method = shortened(method);
        let known = METHODS.map(|(known, _)| known).join(", ");
        let message = format!("there is no method {method:?}; there are {known}");
        return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None);
    };
    let fault = fields.iter().find_map(|field| fault(params.as_ref(), field));
    let fault = fault.unwrap_or_else(|| {
        "params does not have the form that the protocol gives it; compare it with the schema of the protocol's version"
            .to_owned()
    });
    ErrorData::invalid_params(format!("{method}: {fault}"), None)
}

fn fault(params: Option<&Value>, field: &Field) -> Option<String> {
    let Field { name, kind, is_required } = *field;
    let expected = kind.as_str();
    match params.and_then(|params| params.get(name)) {
        None | Some(Value::Null) if is_required => {
            Some(format!("params.{name} is missing; it must be {expected}"))
        }
        None | Some(Value::Null) => None,
        Some(value) if kind.has(value) => None,
        Some(value) => Some(format!("params.{name} is {}; it must be {expected}", shown(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameters_that_do_not_fit_are_named_with_what_they_must_be() {
        for (method, params, said) in [
            (
                "tools/call",
                Some(json!({"name": "surety_status", "arguments": [1]})),
                "tools/call: params.arguments is a list; it must be an object",
            ),
            (
                "tools/call",
                Some(json!({"arguments": {}})),
                "tools/call: params.name is missing; it must be a string",
            ),
            ("tools/call", None, "tools/call: params.name is missing; it must be a string"),
            (
                "tools/call",
                Some(json!([1])),
                "tools/call: params.name is missing; it must be a string",
            ),
            (
                "tools/list",
                Some(json!({"cursor": 7})),
                "tools/list: params.cursor is the number 7; it must be a string",
            ),
        ] {
            let error = refusal(&CustomRequest::new(method, params));
            assert_eq!((error.code, error.message.as_ref()), (ErrorCode::INVALID_PARAMS, said));
        }
        let other = refusal(&CustomRequest::new("ping", Some(json!(7))));
        assert_eq!(other.code, ErrorCode::INVALID_PARAMS);
        assert!(other.message.starts_with("ping: params does not have the form"), "{other:?}");
    }

    #[test]
    fn a_method_that_is_not_there_is_named_with_those_that_are() {
        let error = refusal(&CustomRequest::new("x".repeat(100_000), None));
        assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
        assert!(error.message.starts_with("there is no method \"xxx"), "{error:?}");
        assert!(error.message.contains("tools/call") && error.message.len() < 400, "{error:?}");
    }
}
