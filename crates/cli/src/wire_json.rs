//! Messages as JSON for scripts, generated from the API's descriptors, so that no field is missing.
//!
//! Fields have the names in the `.proto` files, and enum values the contract's names. Times are RFC
//! 3339, durations are seconds, as in `3600s`, and bytes are hexadecimal. An absent message or
//! optional text is null.

use data_encoding::HEXLOWER;
use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::{DateTime, SecondsFormat};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, Duration, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    Timestamp,
};
use surety_common::domain::json::Value;
use surety_common::wire::FILE_DESCRIPTOR_SET;

const TIMESTAMP: &str = ".google.protobuf.Timestamp";
const DURATION: &str = ".google.protobuf.Duration";
const PACKAGE: &str = ".surety.v1";

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of_this_build);

/// The message with this name in package `surety.v1`, as JSON.
#[must_use]
pub fn message(name: &str, message: &impl Message) -> Value {
    let bytes = message.encode_to_vec();
    SCHEMA.message(&format!("{PACKAGE}.{name}"), &bytes).unwrap_or(Value::Null)
}

/// Several messages with one name.
#[must_use]
pub fn list<M: Message>(name: &str, messages: &[M]) -> Value {
    Value::Array(messages.iter().map(|item| message(name, item)).collect())
}

/// An object with these members.
#[must_use]
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(key, value)| (key.to_owned(), value)).into())
}

/// A text.
#[must_use]
pub fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

struct Schema {
    messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, EnumDescriptorProto>,
}

/// A field's value in the wire format.
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Schema {
    fn of_this_build() -> Self {
        let mut schema = Self { messages: HashMap::new(), enums: HashMap::new() };
        // The descriptors are part of this binary; a test checks that they can be decoded.
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
        for file in files.file {
            let scope = format!(".{}", file.package());
            for item in file.enum_type {
                schema.enums.insert(format!("{scope}.{}", item.name()), item);
            }
            for item in file.message_type {
                schema.learn(&scope, item);
            }
        }
        schema
    }

    fn learn(&mut self, scope: &str, message: DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for item in &message.enum_type {
            self.enums.insert(format!("{name}.{}", item.name()), item.clone());
        }
        for item in &message.nested_type {
            self.learn(&name, item.clone());
        }
        self.messages.insert(name, message);
    }

    /// None when the bytes are no such message.
    fn message(&self, name: &str, bytes: &[u8]) -> Option<Value> {
        if name == TIMESTAMP {
            return moment(bytes);
        }
        if name == DURATION {
            return duration(bytes);
        }
        let descriptor = self.messages.get(name)?;
        let raw = split(bytes)?;
        let mut members = Vec::new();
        for field in &descriptor.field {
            let values = raw
                .iter()
                .filter(|(number, _)| i32::try_from(*number) == Ok(field.number()))
                .map(|(_, value)| value);
            let values: Vec<_> = values.collect();
            if let Some(value) = self.field(field, &values)? {
                members.push((field.name().to_owned(), value));
            }
        }
        Some(Value::Object(members))
    }

    /// The inner option is none for unset members of a oneof.
    fn field(&self, field: &FieldDescriptorProto, values: &[&Raw<'_>]) -> Option<Option<Value>> {
        if field.label() == Label::Repeated {
            return self.repeated(field, values).map(Some);
        }
        if let Some(last) = values.last() {
            return self.single(field, last).map(Some);
        }
        let optional = field.proto3_optional();
        if field.oneof_index.is_some() && !optional {
            return Some(None);
        }
        if optional || field.r#type() == Type::Message {
            return Some(Some(Value::Null));
        }
        let absent = if matches!(field.r#type(), Type::String | Type::Bytes) {
            Raw::Bytes(&[])
        } else {
            Raw::Number(0)
        };
        self.single(field, &absent).map(Some)
    }

    fn repeated(&self, field: &FieldDescriptorProto, values: &[&Raw<'_>]) -> Option<Value> {
        if let Some(entry) = self.map_entry(field) {
            let mut members = Vec::new();
            for value in values {
                let Raw::Bytes(bytes) = value else { return None };
                let pair = self.message(entry, bytes)?;
                let key = pair.get("key")?.as_str()?.to_owned();
                members.push((key, pair.get("value")?.clone()));
            }
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            return Some(Value::Object(members));
        }
        let packable = !matches!(field.r#type(), Type::String | Type::Bytes | Type::Message);
        let mut items = Vec::new();
        for value in values {
            match value {
                Raw::Bytes(bytes) if packable => {
                    let mut rest: &[u8] = bytes;
                    while !rest.is_empty() {
                        let number = Raw::Number(decode_varint(&mut rest).ok()?);
                        items.push(self.single(field, &number)?);
                    }
                }
                Raw::Bytes(_) | Raw::Number(_) => items.push(self.single(field, value)?),
            }
        }
        Some(Value::Array(items))
    }

    fn map_entry<'f>(&self, field: &'f FieldDescriptorProto) -> Option<&'f str> {
        let name = field.type_name.as_deref()?;
        let descriptor = self.messages.get(name)?;
        descriptor.options.as_ref()?.map_entry().then_some(name)
    }

    fn single(&self, field: &FieldDescriptorProto, raw: &Raw<'_>) -> Option<Value> {
        match (field.r#type(), raw) {
            (Type::String, Raw::Bytes(bytes)) => {
                Some(Value::String(String::from_utf8(bytes.to_vec()).ok()?))
            }
            (Type::Bytes, Raw::Bytes(bytes)) => Some(Value::String(HEXLOWER.encode(bytes))),
            (Type::Message, Raw::Bytes(bytes)) => self.message(field.type_name(), bytes),
            (Type::Bool, Raw::Number(number)) => Some(Value::Bool(*number != 0)),
            (Type::Enum, Raw::Number(number)) => {
                Some(Value::String(self.word(field.type_name(), number.cast_signed())))
            }
            (Type::Int32 | Type::Int64, Raw::Number(number)) => {
                Some(Value::Number(number.cast_signed().to_string()))
            }
            (_, Raw::Number(number)) => Some(Value::Number(number.to_string())),
            (_, Raw::Bytes(_)) => None,
        }
    }

    /// The contract's name of an enum member; its number when this version does not know it.
    fn word(&self, name: &str, number: i64) -> String {
        let member = self.enums.get(name).and_then(|descriptor| {
            let known = |value: &&_| same_number(value, number);
            descriptor.value.iter().find(known)
        });
        let Some(member) = member else { return number.to_string() };
        let short = name.rsplit('.').next().unwrap_or(name);
        let prefix = format!("{}_", screaming(short));
        let word = member.name().strip_prefix(&prefix).unwrap_or(member.name());
        match (short, word) {
            (_, "UNSPECIFIED") => String::new(),
            ("RunState", word) => word.to_owned(),
            (_, word) => word.to_ascii_lowercase(),
        }
    }
}

fn same_number(value: &prost_types::EnumValueDescriptorProto, number: i64) -> bool {
    i64::from(value.number()) == number
}

/// `RunState` as `RUN_STATE`.
fn screaming(camel: &str) -> String {
    let mut text = String::new();
    for (place, letter) in camel.char_indices() {
        if place > 0 && letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

fn moment(bytes: &[u8]) -> Option<Value> {
    let Timestamp { seconds, nanos } = Timestamp::decode(bytes).ok()?;
    let at = DateTime::from_timestamp(seconds, u32::try_from(nanos).ok()?)?;
    Some(Value::String(at.to_rfc3339_opts(SecondsFormat::Micros, true)))
}

fn duration(bytes: &[u8]) -> Option<Value> {
    let Duration { seconds, nanos } = Duration::decode(bytes).ok()?;
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (whole, part) = (seconds.unsigned_abs(), nanos.unsigned_abs());
    let text = match part {
        0 => format!("{sign}{whole}s"),
        part => format!("{sign}{whole}.{part:09}s"),
    };
    Some(Value::String(text))
}

/// The fields of a message; none for invalid bytes. The API has no fixed-width numbers.
fn split(mut bytes: &[u8]) -> Option<Vec<(u32, Raw<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (number, wire) = decode_key(&mut bytes).ok()?;
        let value = match wire {
            WireType::Varint => Raw::Number(decode_varint(&mut bytes).ok()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Raw::Bytes(value)
            }
            WireType::SixtyFourBit
            | WireType::ThirtyTwoBit
            | WireType::StartGroup
            | WireType::EndGroup => return None,
        };
        fields.push((number, value));
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use surety_common::wire::v1;

    use super::*;

    #[test]
    fn a_run_shows_all_its_fields_in_the_contracts_words() {
        let mut run = v1::Run {
            id: "a".to_owned(),
            created_at: Some(Timestamp { seconds: 1, nanos: 5_000_000 }),
            priority: -3,
            ..v1::Run::default()
        };
        run.set_state(v1::RunState::Executing);
        run.labels.insert("k".to_owned(), "v".to_owned());
        run.terminal = Some(v1::Terminal {
            stop_reason: v1::StopReason::AcceptCheckFailed.into(),
            ..v1::Terminal::default()
        });
        let value = message("Run", &run);
        let shown = |key: &str| value.get(key).map(Value::to_compact);
        assert_eq!(shown("state").as_deref(), Some("\"EXECUTING\""));
        assert_eq!(shown("created_at").as_deref(), Some("\"1970-01-01T00:00:01.005000Z\""));
        assert_eq!(shown("priority").as_deref(), Some("-3"));
        let limits = v1::Limits {
            step_deadline: Some(Duration { seconds: 90, nanos: 0 }),
            ..v1::Limits::default()
        };
        let limits = message("Limits", &limits);
        assert_eq!(limits.get("step_deadline"), Some(&text("90s")));
        assert_eq!(shown("labels").as_deref(), Some("{\"k\":\"v\"}"));
        assert_eq!(shown("steps").as_deref(), Some("[]"));
        assert_eq!(shown("lease").as_deref(), Some("null"));
        let terminal = value.get("terminal").and_then(|terminal| terminal.get("stop_reason"));
        assert_eq!(terminal, Some(&text("accept_check_failed")));
    }

    #[test]
    fn of_a_choice_only_what_was_chosen_is_shown() {
        let event = v1::Event {
            kind: Some(v1::event::Kind::Answer(v1::Answer::default())),
            ..v1::Event::default()
        };
        let shown = message("Event", &event);
        assert!(shown.get("answer").is_some() && shown.get("turn").is_none(), "{shown:?}");
    }

    #[test]
    fn every_message_of_the_api_has_a_field_for_each_in_its_descriptor() {
        assert!(SCHEMA.messages.len() > 50);
        for (name, descriptor) in &SCHEMA.messages {
            let empty = SCHEMA.message(name, &[]);
            assert!(empty.is_some(), "{name} with {} fields", descriptor.field.len());
        }
    }
}
