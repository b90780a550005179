//! What the forges publish of their APIs, and whether a call and its answer are as published.
//!
//! The descriptions are files beside this one: the forges' own, cut down by `scripts/forge_schemas.py`. `README.md`
//! says where they come from and how they are made anew. A call of a client that is not as published, and an answer
//! of the double that is not, are faults: they are named with the call and the place, and fail the test.

#[cfg(test)]
mod tests;

use super::call::Form;
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

/// Refusals that every call can get, and that descriptions leave out of most calls.
const ANYWHERE: [u16; 4] = [401, 403, 404, 429];

static GITEA: LazyLock<Published> =
    LazyLock::new(|| Published::new("Gitea", include_str!("gitea.json")));
static FORGEJO: LazyLock<Published> =
    LazyLock::new(|| Published::new("Forgejo", include_str!("forgejo.json")));
static GITHUB: LazyLock<Published> =
    LazyLock::new(|| Published::new("GitHub", include_str!("github.json")));

/// One published description.
struct Published {
    forge: &'static str,
    document: Value,
    /// Compiled schemas by their place in the document: a process needs few of them.
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

/// A call as it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'c> {
    pub(super) form: Form,
    /// The name of the call.
    pub(super) route: &'c str,
    pub(super) query: &'c BTreeMap<String, String>,
    /// Null where there is none.
    pub(super) body: &'c Value,
}

/// Checks a call: the names, kinds and words of its query and of its body.
///
/// # Errors
/// What is not as published, with the forge, the call and the place.
pub(super) fn check_call(asked: &Asked<'_>) -> Result<(), String> {
    let known = known(asked.form, asked.route)?;
    each(&known, asked.route, |published| published.body(asked.route, asked.body))?;
    // The client knows which forge it asks, and the double does not: a name that only one of them has is right.
    let query = |published| {
        each(&[published], asked.route, |it: &Published| it.query(asked.route, asked.query))
    };
    let mut all = known.into_iter().map(query);
    let first = all.next().unwrap_or(Ok(()));
    first.or_else(|why| all.find(Result::is_ok).unwrap_or(Err(why)))
}

/// Checks an answer: its status, and the fields, kinds and words of its body. No body is that of a text.
///
/// # Errors
/// As [`check_call`].
pub(super) fn check_answer(
    form: Form,
    route: &str,
    (status, body): (u16, Option<&Value>),
) -> Result<(), String> {
    each(&known(form, route)?, route, |published| published.answer(route, status, body))
}

/// The descriptions that have a call: Forgejo lacks some of Gitea's, and one of them must have it.
fn known(form: Form, route: &str) -> Result<Vec<&'static Published>, String> {
    let all: &[&'static Published] = match form {
        Form::Gitea => &[&GITEA, &FORGEJO],
        Form::Github => &[&GITHUB],
    };
    let known: Vec<_> = all.iter().copied().filter(|it| it.route(route).is_some()).collect();
    if known.is_empty() {
        return Err(format!("{route}: no forge of this form has this call"));
    }
    Ok(known)
}

/// Checks against each of the descriptions, and names the one that does not fit.
fn each(
    all: &[&Published],
    route: &str,
    check: impl Fn(&Published) -> Result<(), String>,
) -> Result<(), String> {
    all.iter().try_for_each(|published| {
        check(published).map_err(|why| format!("{}, {route}: {why}", published.named(route)))
    })
}

impl Published {
    fn new(forge: &'static str, text: &str) -> Self {
        let document = serde_json::from_str(text).unwrap_or_default();
        Self { forge, document, compiled: Mutex::default() }
    }

    fn route(&self, route: &str) -> Option<&Value> {
        self.document.get("routes")?.get(route)
    }

    /// The forge, and the method and the path of a call.
    fn named(&self, route: &str) -> String {
        let text = |name: &str| self.route(route).and_then(|it| it.get(name)?.as_str());
        let (method, path) = (text("method"), text("path"));
        format!("{} {} {}", self.forge, method.unwrap_or_default(), path.unwrap_or_default())
    }

    fn query(&self, route: &str, query: &BTreeMap<String, String>) -> Result<(), String> {
        let place = format!("/routes/{route}/query");
        let described = self.document.pointer(&format!("{place}/properties"));
        let kind = |name: &str| described.and_then(|it| it.get(name)?.get("type")?.as_str());
        let read = query.iter().map(|(name, text)| (name.clone(), value_of(kind(name), text)));
        self.fits("query", &place, &Value::Object(read.collect::<Map<_, _>>()))
    }

    fn body(&self, route: &str, body: &Value) -> Result<(), String> {
        let place = format!("/routes/{route}/body");
        match (self.document.pointer(&place), body) {
            (Some(_), body) => self.fits("body", &place, body),
            (None, Value::Null) => Ok(()),
            (None, _) => Err("body: this call has none".to_owned()),
        }
    }

    fn answer(&self, route: &str, status: u16, body: Option<&Value>) -> Result<(), String> {
        let place = format!("/routes/{route}/answers/{status}");
        // A value that a forge refuses once it has read the body.
        let is_refused =
            status == 422 && self.route(route).is_some_and(|it| it.get("body").is_some());
        match (self.document.pointer(&place), body) {
            (None, _) if is_refused || ANYWHERE.contains(&status) || status >= 500 => Ok(()),
            (None, _) => Err(format!("the status {status} is not published")),
            // The texts of most refusals are described by their headers alone.
            (Some(Value::Null), Some(_)) if status < 400 => {
                Err(format!("answer {status}: is no JSON"))
            }
            (Some(Value::Null), _) => Ok(()),
            (Some(_), None) => Err(format!("answer {status}: has no JSON")),
            (Some(_), Some(body)) => self.fits("answer", &place, body),
        }
    }

    fn fits(&self, what: &str, place: &str, value: &Value) -> Result<(), String> {
        let validator = self.validator(place)?;
        let faults: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{what}{}: {error}", error.instance_path()))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// The schema at a place, which may refer to the others of the document.
    fn validator(&self, place: &str) -> Result<Arc<Validator>, String> {
        let mut compiled = super::locked(&self.compiled);
        if let Some(validator) = compiled.get(place) {
            return Ok(Arc::clone(validator));
        }
        let definitions = self.document.get("definitions").cloned().unwrap_or_default();
        let mut schema = self.document.pointer(place).cloned().unwrap_or_default();
        schema["definitions"] = definitions;
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .offline()
            .build(&schema)
            .map_err(|error| format!("{place}: {error}"))?;
        let validator = Arc::new(validator);
        compiled.insert(place.to_owned(), Arc::clone(&validator));
        Ok(validator)
    }
}

/// The value of a text of a query, where it can be read as what is described.
fn value_of(kind: Option<&str>, text: &str) -> Value {
    let read = match kind {
        Some("integer" | "boolean") => serde_json::from_str(text).ok(),
        Some(_) | None => None,
    };
    read.unwrap_or_else(|| json!(text))
}
