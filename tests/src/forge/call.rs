//! Calls as they arrive, and answers.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The lists of Gitea and Forgejo whose pages have no links; their answers say how many members there are.
const UNLINKED: [&str; 3] = ["reviews", "labels", "statuses"];

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
    /// Its name.
    pub(super) route: &'static str,
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
        Self::new(status, Said::Json(json!({"message": message.into()})))
    }

    /// A refusal as the forges of a form write it: GitHub's own fields, and those of a value that is refused.
    pub(super) fn in_form(mut self, form: Form, route: &str) -> Self {
        let Said::Json(said) = &mut self.said else { return self };
        if self.status < 400 || form == Form::Gitea {
            return self;
        }
        said["documentation_url"] = json!("https://docs.github.com/rest");
        if self.status == 422 {
            let why = said["message"].take();
            let (message, errors) = match route {
                "submit_review" => ("Unprocessable Entity", json!([why])),
                _ => ("Validation Failed", json!([{"message": why}])),
            };
            said["message"] = json!(message);
            said["errors"] = errors;
        }
        self
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

    /// Refuses blank texts: the descriptions say that a field is there, and the forges want it to say something.
    pub(super) fn needs(&self, names: &[&str]) -> Result<(), Reply> {
        match names.iter().find(|name| self.text(name).trim().is_empty()) {
            Some(name) => Err(Reply::refused(422, format!("[{name}]: Required"))),
            None => Ok(()),
        }
    }

    /// A text that names a commit, empty where there is none.
    pub(super) fn commit(&self, name: &str) -> Result<String, Reply> {
        let commit = self.text(name);
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if commit.is_empty() || is_commit {
            return Ok(commit);
        }
        Err(Reply::refused(422, format!("[{name}]: {commit} is no commit")))
    }

    /// A page of a list.
    pub(super) fn page(&self, all: &[Value]) -> Answer {
        let (shown, headers) = self.part(all);
        Ok(Reply { headers, ..Reply::json(json!(shown)) })
    }

    /// The members of a page, and the headers that name the other pages. The link of the next one has the public
    /// address of the forge, which is not the one that was called, as behind a proxy.
    pub(super) fn part<'v>(&self, all: &'v [Value]) -> (&'v [Value], Vec<(&'static str, String)>) {
        let (name, most) = if self.is_github() { ("per_page", 100) } else { ("limit", 50) };
        let number = |name: &str| self.query.get(name).and_then(|text| text.parse::<usize>().ok());
        let size = number(name).unwrap_or(30).clamp(1, most);
        let page = number("page").unwrap_or(1).max(1);
        let begin = (page - 1) * size;
        let end = (begin + size).min(all.len());
        let mut headers = Vec::new();
        if !self.is_github() {
            headers.push(("x-total-count", all.len().to_string()));
        }
        let is_linked = self.is_github() || !UNLINKED.contains(&self.route);
        if is_linked && end < all.len() {
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
            headers.push(("link", link));
        }
        (all.get(begin..end).unwrap_or_default(), headers)
    }
}
