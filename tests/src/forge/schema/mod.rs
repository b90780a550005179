//! The published schemas of the answers, cut down to the fields that the double shows. An answer with another field,
//! without a required one, or with another kind of value is an error of the double: its call answers 500 with what is
//! wrong.
//!
//! The facts are those of the Swagger document of Gitea 1.24 (`/swagger.v1.json`, whose definitions are its
//! `modules/structs`; Forgejo's are the same here) and of GitHub's OpenAPI description, version 2022-11-28.

mod gitea;
mod github;

use super::call::Form;
use chrono::DateTime;
use serde_json::Value;

/// What a value is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Text,
    Whole,
    Flag,
    /// A time, as RFC 3339 writes it.
    Time,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of values of one shape.
    List(&'static Shape),
    /// An object with these fields and no others.
    Object(&'static [Member]),
    /// That, or null.
    Nullable(&'static Shape),
    /// A value that the double shows as null or empty only, so that its shape says nothing.
    Unused,
}

/// A field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    name: &'static str,
    shape: Shape,
    is_required: bool,
}

/// A field that every answer has.
const fn has(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, is_required: true }
}

/// A field that an answer may leave out.
const fn may(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, is_required: false }
}

/// Checks the answer of a route of one API.
///
/// # Errors
/// What is not as it is published.
pub(super) fn check(form: Form, route: &str, answer: &Value) -> Result<(), String> {
    let shape = match form {
        Form::Gitea => gitea::of(route),
        Form::Github => github::of(route),
    };
    let shape = shape.ok_or_else(|| format!("no schema is known for {route}"))?;
    holds(shape, answer, route)
}

fn holds(shape: &Shape, value: &Value, place: &str) -> Result<(), String> {
    let fits = match shape {
        Shape::Text => value.is_string(),
        Shape::Whole => value.is_u64() || value.is_i64(),
        Shape::Flag => value.is_boolean(),
        Shape::Time => {
            value.as_str().is_some_and(|text| DateTime::parse_from_rfc3339(text).is_ok())
        }
        Shape::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        Shape::Nullable(shape) => {
            return if value.is_null() { Ok(()) } else { holds(shape, value, place) };
        }
        Shape::Unused => value.is_null() || value.as_array().is_some_and(Vec::is_empty),
        Shape::List(shape) => {
            let Some(all) = value.as_array() else { return Err(wrong(shape, value, place)) };
            let mut numbered = all.iter().enumerate();
            return numbered.try_for_each(|(at, one)| holds(shape, one, &format!("{place}[{at}]")));
        }
        Shape::Object(members) => return object(members, value, place),
    };
    if fits { Ok(()) } else { Err(wrong(shape, value, place)) }
}

fn wrong(shape: &Shape, value: &Value, place: &str) -> String {
    format!("{place}: {value} is not {shape:?}")
}

fn object(members: &[Member], value: &Value, place: &str) -> Result<(), String> {
    let fields = value.as_object().ok_or_else(|| format!("{place}: {value} is no object"))?;
    let is_known = |name: &&String| members.iter().any(|member| member.name == name.as_str());
    if let Some(unknown) = fields.keys().find(|name| !is_known(name)) {
        return Err(format!("{place}.{unknown}: is not published"));
    }
    members.iter().try_for_each(|member| {
        let place = format!("{place}.{}", member.name);
        match fields.get(member.name) {
            Some(value) => holds(&member.shape, value, &place),
            None if member.is_required => Err(format!("{place}: is missing")),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_that_is_not_as_published_is_named_with_its_place() {
        let label = |id: Value| json!([{"id": id, "name": "bug", "color": "ededed"}]);
        assert_eq!(check(Form::Gitea, "labels", &label(json!(4))), Ok(()));
        for (route, answer, named) in [
            ("labels", label(json!("4")), "labels[0].id"),
            ("labels", json!({}), "labels"),
            ("labels", json!([{"id": 4, "name": "bug"}]), "labels[0].color: is missing"),
            ("labels", json!([{"id": 4, "name": "bug", "color": "", "kind": 1}]), "labels[0].kind"),
            ("labels", json!([{"id": 4, "name": null, "color": ""}]), "labels[0].name"),
            ("nothing", json!({}), "nothing"),
        ] {
            let error = check(Form::Gitea, route, &answer).expect_err("it is not as published");
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_two_apis_differ_where_their_documents_do() {
        let status = |word: &str| {
            let mut status = json!({
                "id": 1, "context": "test", "description": "", "target_url": "https://ci.example/1",
                "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T10:00:00Z",
            });
            status[word] = json!("failure");
            json!({"state": "failure", "sha": "0a", "total_count": 1, "statuses": [status]})
        };
        assert_eq!(check(Form::Gitea, "statuses", &status("status")), Ok(()));
        assert_eq!(check(Form::Github, "statuses", &status("state")), Ok(()));
        assert!(check(Form::Gitea, "statuses", &status("state")).is_err());
        assert!(check(Form::Github, "statuses", &status("status")).is_err());
    }
}
