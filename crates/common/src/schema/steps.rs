//! How many steps it takes at most to compare a value with a schema that has references.
//!
//! ```text
//!   steps(schema, value) = 1 + steps of what stands for the same value: $ref, allOf, anyOf, not, if, ...
//!                            + steps of what stands for its members and items: properties, items, ...
//! ```
//!
//! A schema of 4 KB can ask for 2^45 comparisons of `{}`: each of its parts names the one before twice. Each pair of a
//! schema and a value is counted once here, so the count is made in as many steps as there are pairs.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// The most steps of one comparison: below a second of one core.
pub(super) const MAX_STEPS: u64 = 1_000_000;
/// The deepest nesting of schemas that is followed.
const MAX_DEPTH: usize = 256;

/// Keywords with one schema for the same value.
const SAME: &[&str] = &["not", "if", "then", "else"];
/// Those with a list of schemas for it.
const SAME_OF_LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Those with an object of schemas for it.
const SAME_OF_OBJECT: &[&str] = &["dependentSchemas", "dependencies"];
/// Those with a schema, or a list of them, for each item.
const ITEMS: &[&str] = &["items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"];
/// Those with a schema for each member or its name.
const MEMBERS: &[&str] = &["additionalProperties", "propertyNames", "unevaluatedProperties"];
/// Those for which the schema beside them is gone through once more.
const AGAIN: &[&str] = &["unevaluatedItems", "unevaluatedProperties"];

/// Where the schemas of schemas have their names.
const STANDARD: &[&str] = &["http://json-schema.org/", "https://json-schema.org/"];

/// Whether a schema refers to others.
pub(super) fn has_references(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.iter().any(|(key, value)| is_reference(key) || has_references(value))
        }
        Value::Array(items) => items.iter().any(has_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn is_reference(key: &str) -> bool {
    matches!(key, "$ref" | "$dynamicRef" | "$recursiveRef")
}

/// Whether a comparison of this value with this schema ends within [`MAX_STEPS`].
pub(super) fn ends(schema: &Value, value: &Value) -> bool {
    let anchors = &mut HashMap::new();
    find_anchors(schema, anchors);
    let mut count = Count { root: schema, anchors, known: HashMap::new() };
    count.steps(schema, value, 0) <= MAX_STEPS
}

/// The schemas that have a name of their own.
type Anchors<'s> = HashMap<&'s str, Vec<&'s Value>>;

fn find_anchors<'s>(schema: &'s Value, found: &mut Anchors<'s>) {
    match schema {
        Value::Object(members) => {
            for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                let name = members.get(key).and_then(Value::as_str);
                name.into_iter().for_each(|name| found.entry(name).or_default().push(schema));
            }
            members.values().for_each(|value| find_anchors(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_anchors(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Count<'s> {
    root: &'s Value,
    anchors: &'s Anchors<'s>,
    /// By the places of a schema and of a value. None while it is counted: a schema that comes to itself for the same value
    /// never ends.
    known: HashMap<(usize, usize), Option<u64>>,
}

impl<'s> Count<'s> {
    fn steps(&mut self, schema: &'s Value, value: &'s Value, depth: usize) -> u64 {
        let Value::Object(members) = schema else { return 1 };
        let pair = (std::ptr::from_ref(schema).addr(), std::ptr::from_ref(value).addr());
        match self.known.get(&pair) {
            Some(found) => return found.unwrap_or(u64::MAX),
            None if depth > MAX_DEPTH || self.known.len() as u64 > MAX_STEPS => return u64::MAX,
            None => {}
        }
        self.known.insert(pair, None);
        let mut steps = 1_u64;
        let here = self.of_the_same(members);
        let below = below(members, value);
        for (schema, value) in here.into_iter().map(|schema| (schema, value)).chain(below) {
            steps = steps.saturating_add(self.steps(schema, value, depth + 1));
            if steps > MAX_STEPS {
                break;
            }
        }
        let again = AGAIN.iter().filter(|key| members.contains_key(**key)).count();
        let steps = steps.saturating_mul(1 + again as u64);
        self.known.insert(pair, Some(steps));
        steps
    }

    /// The schemas that stand for the same value.
    fn of_the_same(&self, members: &'s Map<String, Value>) -> Vec<&'s Value> {
        let mut found: Vec<&Value> = SAME.iter().filter_map(|key| members.get(*key)).collect();
        let lists = SAME_OF_LIST.iter().filter_map(|key| members.get(*key)?.as_array());
        found.extend(lists.flatten());
        let objects = SAME_OF_OBJECT.iter().filter_map(|key| members.get(*key)?.as_object());
        found.extend(objects.flat_map(Map::values));
        let named = members.iter().filter(|(key, _)| is_reference(key));
        for (_, name) in named {
            found.extend(name.as_str().into_iter().flat_map(|name| self.named(name)));
        }
        found
    }

    /// What a reference may lead to. A document of others is never read.
    fn named(&self, name: &str) -> Vec<&'s Value> {
        let (document, fragment) = name.split_once('#').unwrap_or((name, ""));
        let of_name = |name: &str| self.anchors.get(name).cloned().unwrap_or_default();
        let inside = match document {
            "" => vec![self.root],
            _ if self.anchors.contains_key(document) => of_name(document),
            // The validator has the schemas of schemas, which come to an end.
            _ if STANDARD.iter().any(|known| document.starts_with(known)) => return Vec::new(),
            // A name that is relative to another one may be that of any part.
            _ => self.anchors.values().flatten().copied().chain([self.root]).collect(),
        };
        if fragment.is_empty() {
            return inside;
        }
        if !fragment.starts_with('/') {
            return of_name(fragment);
        }
        let pointer = percent_decoded(fragment);
        inside.into_iter().filter_map(|schema| schema.pointer(&pointer)).collect()
    }
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The schemas for the members and items of a value, each with what it stands for.
fn below<'s>(members: &'s Map<String, Value>, value: &'s Value) -> Vec<(&'s Value, &'s Value)> {
    let mut found = Vec::new();
    match value {
        Value::Array(items) => {
            for schema in ITEMS.iter().filter_map(|key| members.get(*key)) {
                let schemas = schema.as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
                found.extend(
                    schemas.iter().flat_map(|schema| items.iter().map(move |it| (schema, it))),
                );
            }
        }
        Value::Object(values) => {
            if let Some(named) = members.get("properties").and_then(Value::as_object) {
                let own = named.iter().filter_map(|(key, schema)| Some((schema, values.get(key)?)));
                found.extend(own);
            }
            let patterns = members.get("patternProperties").and_then(Value::as_object);
            let of_all = MEMBERS.iter().filter_map(|key| members.get(*key));
            let schemas = patterns.into_iter().flat_map(Map::values).chain(of_all);
            found.extend(schemas.flat_map(|schema| values.values().map(move |it| (schema, it))));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn doubling(levels: usize) -> Value {
        let mut named = Map::new();
        named.insert("a0".to_owned(), json!({"type": "object"}));
        for level in 1..=levels {
            let before = json!({"$ref": format!("#/$defs/a{}", level - 1)});
            named.insert(format!("a{level}"), json!({"allOf": [before.clone(), before]}));
        }
        json!({"$defs": named, "$ref": format!("#/$defs/a{levels}")})
    }

    #[test]
    fn a_comparison_that_takes_too_long_is_told_before() {
        let tree = json!({
            "$defs": {"node": {"anyOf": [
                {"properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}},
                {"properties": {"left": {"$ref": "#/$defs/node"}}},
                {"type": "string"},
            ]}},
            "$ref": "#/$defs/node",
        });
        let mut nested = json!("leaf");
        for _ in 0..40 {
            nested = json!({"left": nested});
        }
        let mut of_names = doubling(45);
        let last = of_names.as_object_mut().and_then(|it| it.remove("$ref"));
        of_names["propertyNames"] = json!({"$ref": last});
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}});
        let named =
            json!({"$defs": {"n": {"$anchor": "n", "items": {"$ref": "#n"}}}, "$ref": "#n"});
        for (schema, value, expected) in [
            (&doubling(10), &json!({}), true),
            (&doubling(45), &json!({}), false),
            (&json!({"$ref": "#"}), &json!({}), false),
            (&json!({"$dynamicRef": "#a", "$dynamicAnchor": "a"}), &json!({}), false),
            (&tree, &json!({"left": {"left": "leaf", "right": "leaf"}}), true),
            (&tree, &nested, false),
            (&list, &json!(vec![1; 10_000]), true),
            (&of_names, &json!({"a": 1}), false),
            (&of_names, &json!({}), true),
            (
                &json!({"items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}),
                &json!([{}]),
                true,
            ),
            (
                &json!({"$id": "https://a/b", "$ref": "c", "$defs": {"c": {"$id": "https://a/c", "$ref": "b"}}}),
                &json!(1),
                false,
            ),
            (&named, &json!([[[]], []]), true),
            (
                &json!({"properties": {"a%b": {"$ref": "#/properties/a%25b/$defs/x", "$defs": {"x": {}}}}}),
                &json!({"a%b": 1}),
                true,
            ),
        ] {
            assert_eq!(ends(schema, value), expected, "{:.80}", schema.to_string());
        }
        assert!(has_references(&tree) && !has_references(&json!({"items": {"type": "string"}})));
    }
}
