//! Calls as they arrive, and answers.

use super::strict::Field;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A call that arrived, and how it was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The method.
    pub method: String,
    /// The path with its prefix, and the query.
    pub path: String,
    /// The name of the call; empty for an unknown one.
    pub route: String,
    /// The account of the token; empty where it is wrong.
    pub account: String,
    /// The body.
    pub body: Value,
    /// The status; 0 for a connection that was cut.
    pub status: u16,
}

/// Which API a call speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Gitea and Forgejo.
    Gitea,
    /// GitHub.
    Github,
}

/// A call, once its account is known.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) form: Form,
    pub(super) account: String,
    pub(super) method: String,
    /// The parts of the path behind the prefix.
    pub(super) parts: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    pub(super) body: Value,
    pub(super) accept: String,
    /// The address of the server, for links.
    pub(super) host: String,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    Json(Value),
    Text(String),
    Nothing,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) said: Said,
    pub(super) headers: Vec<(&'static str, String)>,
}

pub(super) type Answer = Result<Reply, Reply>;

impl Reply {
    pub(super) const fn new(status: u16, said: Said) -> Self {
        Self { status, said, headers: Vec::new() }
    }

    pub(super) const fn json(value: Value) -> Self {
        Self::new(200, Said::Json(value))
    }

    pub(super) const fn created(value: Value) -> Self {
        Self::new(201, Said::Json(value))
    }

    pub(super) fn refused(status: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(
            status,
            Said::Json(json!({"message": message, "url": "https://forge.example/api"})),
        )
    }
}

pub(super) fn missing<T>() -> Result<T, Reply> {
    Err(Reply::refused(404, "Not Found"))
}

impl Call {
    pub(super) fn is_github(&self) -> bool {
        self.form == Form::Github
    }

    /// The repository of a path below `repos/`.
    pub(super) fn repo(&self) -> String {
        let part = |place: usize| self.parts.get(place).map_or("", String::as_str);
        format!("{}/{}", part(1), part(2))
    }

    /// A number in the path.
    pub(super) fn number(&self, place: usize) -> Result<u64, Reply> {
        let part = self.parts.get(place).map_or("", String::as_str);
        part.trim_end_matches(".diff").parse().map_err(|_| Reply::refused(404, "Not Found"))
    }

    /// The rest of the path, such as the name of a branch.
    pub(super) fn rest(&self, place: usize) -> String {
        self.parts.get(place..).unwrap_or_default().join("/")
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.body.get(name).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }

    /// Refuses a body with other fields than the published ones.
    pub(super) fn check(&self, fields: &[Field]) -> Result<(), Reply> {
        super::strict::check(&self.body, fields).map_err(|why| Reply::refused(422, why))
    }

    /// Refuses a query with other names than the published ones.
    pub(super) fn check_query(&self, names: &[&str]) -> Result<(), Reply> {
        let paging: &[&str] =
            if self.is_github() { &["page", "per_page"] } else { &["page", "limit"] };
        let unknown = self
            .query
            .keys()
            .find(|name| !names.contains(&name.as_str()) && !paging.contains(&name.as_str()));
        match unknown {
            Some(name) => Err(Reply::refused(422, format!("unknown query parameter {name}"))),
            None => Ok(()),
        }
    }

    /// A page of a list, with the link of the next one. The link names the public address of the forge, which is not
    /// the one that was called, as behind a proxy.
    pub(super) fn page(&self, all: Vec<Value>) -> Answer {
        let (name, most) = if self.is_github() { ("per_page", 100) } else { ("limit", 50) };
        let number = |name: &str| self.query.get(name).and_then(|text| text.parse::<usize>().ok());
        let size = number(name).unwrap_or(30).clamp(1, most);
        let page = number("page").unwrap_or(1).max(1);
        let begin = (page - 1) * size;
        let shown: Vec<Value> = all.iter().skip(begin).take(size).cloned().collect();
        let mut reply = Reply::json(Value::Array(shown));
        reply.headers.push(("x-total-count", all.len().to_string()));
        if begin + size < all.len() {
            let mut query = self.query.clone();
            query.insert("page".to_owned(), (page + 1).to_string());
            let pairs: Vec<String> = query
                .iter()
                .map(|(name, value)| {
                    format!("{name}={}", value.replace(':', "%3A").replace('+', "%2B"))
                })
                .collect();
            let link = format!(
                "<https://forge.public.example/{}?{}>; rel=\"next\"",
                self.parts.join("/"),
                pairs.join("&")
            );
            reply.headers.push(("link", link));
        }
        Ok(reply)
    }
}
