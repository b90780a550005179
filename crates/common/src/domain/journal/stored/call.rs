//! The stored form of tool calls: intents and outputs.

use super::StoredError;
use super::fields::{Fields, optional};
use crate::domain::journal::{Intent, Output};
use crate::domain::json::{ObjectText, Value, write_string};

pub(super) fn write_intent(out: &mut String, intent: &Intent) {
    ObjectText::begin(out)
        .text("step", &intent.step_id)
        .text("call_id", &intent.call_id.to_string())
        .text("tool", &intent.tool)
        .text("arguments_json", &intent.arguments_json)
        .end();
}

pub(super) fn read_intent(body: &Fields<'_>) -> Result<Intent, StoredError> {
    Ok(Intent {
        step_id: body.text("step")?,
        call_id: body.uuid("call_id")?,
        tool: body.text("tool")?,
        arguments_json: body.text("arguments_json")?,
    })
}

pub(super) fn write_output(out: &mut String, output: &Output) {
    let object = ObjectText::begin(out)
        .text("call_id", &output.call_id)
        .text("digest", &output.digest)
        .number("bytes", output.bytes);
    // An empty text differs from one that is stored elsewhere.
    optional(object, "text", output.text.as_deref(), |out, text| write_string(text, out)).end();
}

pub(super) fn read_output(body: &Fields<'_>) -> Result<Output, StoredError> {
    Ok(Output {
        call_id: body.text("call_id")?,
        digest: body.text("digest")?,
        bytes: body.number("bytes")?,
        text: body.optional("text", Value::as_str)?.map(str::to_owned),
    })
}
