//! A question to the person, in a form of the client.

use std::time::Duration;

use rmcp::model::{
    CallToolResponse, ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, InputResponses,
    JsonObject, ProtocolVersion,
};
use rmcp::service::{RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use super::answers::{answer_of, answered};
use super::arguments::Ask;
use super::observer::{Answer, Observer};
use crate::failure::Failure;

/// How long a form may stay open.
const PATIENCE: Duration = Duration::from_secs(600);
/// The key of the form where the client is asked by an answer.
const KEY: &str = "answer";

/// Asks the person. The tool never answers by itself: without a form the question is kept.
pub(super) async fn ask(
    observer: &Observer,
    ask: Ask,
    retry: (Option<InputResponses>, Option<String>),
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if let (Some(mut responses), Some(state)) = retry {
        return Ok(answered(resumed(observer, &state, responses.remove(KEY))).into());
    }
    let id = match observer.asked(&ask) {
        Ok(id) => id,
        Err(failure) => return Ok(answered(Err(failure)).into()),
    };
    if !has_forms(context.client_capabilities().as_ref()) {
        let why = "the client has no form for questions";
        return Ok(answer_of(Observer::unanswered(id, why)).into());
    }
    let form = form(&ask)?;
    let asks_by_answer =
        context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    if asks_by_answer {
        let request = InputRequest::Elicitation(ElicitRequest::new(form));
        let requests = std::iter::once((KEY.to_owned(), request)).collect();
        return Ok(InputRequiredResult::new(Some(requests), Some(id.to_string())).into());
    }
    let shown = context.peer.create_elicitation_with_timeout(form, Some(PATIENCE));
    let shown = tokio::select! {
        shown = shown => shown,
        () = context.ct.cancelled() => return Ok(answer_of(Observer::unanswered(id, "the call was cancelled")).into()),
    };
    Ok(answered(filled(observer, id, shown)).into())
}

/// Whether the client says that it shows forms. One that names no mode has them.
fn has_forms(capabilities: Option<&ClientCapabilities>) -> bool {
    let offered = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    offered.is_some_and(|offered| offered.form.is_some() || offered.url.is_none())
}

/// The form for a question.
fn form(ask: &Ask) -> Result<ElicitRequestParams, ErrorData> {
    let mut answer = json!({"type": "string", "title": "Answer"});
    if !ask.options.is_empty()
        && let Some(answer) = answer.as_object_mut()
    {
        answer.insert("enum".to_owned(), json!(ask.options));
    }
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), json!({ KEY: answer }));
    schema.insert("required".to_owned(), json!([KEY]));
    let requested_schema = ElicitationSchema::from_json_schema(schema)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let message = format!("The agent asks: {}", ask.question);
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What the person did with the form.
fn filled(
    observer: &Observer,
    id: u32,
    shown: Result<ElicitResult, ServiceError>,
) -> Result<Answer, Failure> {
    let result = match shown {
        Ok(result) => result,
        Err(error) => {
            let why = format!("the form could not be shown: {error}");
            return Ok(Observer::unanswered(id, &why));
        }
    };
    match result.action {
        ElicitationAction::Accept => {
            let text = result.content.as_ref().and_then(|content| content.get(KEY)?.as_str());
            text.map_or_else(
                || Ok(Observer::unanswered(id, "the form came back without an answer")),
                |text| observer.answered(id, text),
            )
        }
        ElicitationAction::Decline => Ok(Observer::unanswered(id, "the person declined the form")),
        ElicitationAction::Cancel => Ok(Observer::unanswered(id, "the person closed the form")),
        // The crate may add actions, and none of them is an answer.
        _ => Ok(Observer::unanswered(id, "the form came back in another way")),
    }
}

/// The answer of a client that was asked by an answer. The state is the question's number, which is checked like any
/// other input.
fn resumed(observer: &Observer, state: &str, response: Option<Value>) -> Result<Answer, Failure> {
    let id: u32 = state.parse().unwrap_or_default();
    let Some(response) = response else {
        return Ok(Observer::unanswered(id, "the client sent no answer"));
    };
    match serde_json::from_value::<ElicitResult>(response) {
        Ok(result) => filled(observer, id, Ok(result)),
        Err(error) => Ok(Observer::unanswered(id, &format!("the answer does not read: {error}"))),
    }
}
