//! Converts YAML to JSON values. Numbers keep their spelling, so that no digit of a long one is
//! lost; YAML libraries would convert them to doubles.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{NonFiniteFloatPolicy, Spanned, UserMessageFormatter, options};
use surety_common::domain::json::{self, MAX_DEPTH, Value};

use super::content::unreadable;
use crate::failure::Failure;

/// A value and its position in the text.
struct Node(Spanned<Shape>);

enum Shape {
    Null,
    Bool(bool),
    /// A number as the library parsed it, for spellings that JSON does not have.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

pub(super) fn parse(text: &str) -> Result<Value, Failure> {
    let options = options! {
        // `no` and `on` are texts, as in YAML 1.2.
        strict_booleans: true,
        // A number that no double can represent passes, and is then read from the text.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    let node: Node = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| unreadable(said_of(&error), ""))?;
    to_value(node, text, 1)
}

/// What is wrong, without the names that the library gives to its options and to a text of no name.
fn said_of(error: &serde_saphyr::Error) -> String {
    let said = error.render_with_formatter(&UserMessageFormatter);
    let said = said.replacen("<input>:", "line ", 1);
    format!("invalid YAML: {}", said.strip_prefix("error: ").unwrap_or(&said))
}

fn to_value(node: Node, text: &str, level: usize) -> Result<Value, Failure> {
    if level > MAX_DEPTH {
        return Err(unreadable(format!("nested more than {MAX_DEPTH} levels deep"), ""));
    }
    let Spanned { value, defined, .. } = node.0;
    Ok(match value {
        Shape::Null => Value::Null,
        Shape::Bool(truth) => Value::Bool(truth),
        Shape::Text(text) => Value::String(text),
        Shape::Number(made) => number(&defined, text, made)?,
        Shape::List(items) => {
            let items = items.into_iter().map(|item| to_value(item, text, level + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Shape::Map(members) => {
            let members =
                members.into_iter().map(|(key, node)| Ok((key, to_value(node, text, level + 1)?)));
            Value::Object(members.collect::<Result<_, Failure>>()?)
        }
    })
}

fn number(place: &serde_saphyr::Location, text: &str, made: String) -> Result<Value, Failure> {
    let spelling = || {
        let start = usize::try_from(place.span().byte_offset()?).ok()?;
        let end = |letter: char| letter.is_whitespace() || matches!(letter, ',' | ']' | '}');
        text.get(start..)?.split(end).next()
    };
    // As it was written if JSON has that spelling, else (`0x1f`, `+1`) as it was parsed.
    let candidates = [spelling().unwrap_or_default(), made.as_str()];
    for candidate in candidates {
        if let Ok(json::Parsed { value: value @ Value::Number(_), .. }) = json::parse(candidate) {
            return Ok(value);
        }
    }
    Err(unreadable(
        format!("line {}: {made} is a number that JSON does not have", place.line()),
        "Quote it if it is a text.",
    ))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Shape, E> {
        Ok(Shape::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Shape, E> {
        Ok(Shape::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Shape, E> {
        Ok(Shape::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Shape, E> {
        Ok(Shape::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Shape, E> {
        Ok(Shape::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Shape::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Shape, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Shape::Map(map))
    }
}
