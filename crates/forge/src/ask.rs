//! One call of a forge, and how much of its answer is kept.

use crate::error::{ForgeError, ForgeErrorCode};
use reqwest::{Method, Url};
use serde_json::Value;
use std::sync::Arc;

/// How much of a body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of it; more bytes are an error.
    Whole { most: usize },
    /// The first bytes.
    Start { most: usize },
    /// The last bytes, or where a redirect leads.
    End { most: usize },
}

/// One call.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The forge's name in the configuration.
    pub(crate) forge: Arc<str>,
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    pub(crate) body: Option<Value>,
    pub(crate) reading: Reading,
}

impl Ask {
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Asks for a text, of which a part is kept.
    pub(crate) const fn text(mut self, accept: &'static str, reading: Reading) -> Self {
        self.accept = accept;
        self.reading = reading;
        self
    }

    /// Whether the call says how many members a page has, and so takes the number of a page.
    pub(crate) fn is_paged(&self) -> bool {
        self.url.query_pairs().any(|(name, _)| name == "limit" || name == "per_page")
    }

    /// The address of the page with a number.
    pub(crate) fn numbered(&self, number: usize) -> Url {
        let mut url = self.url.clone();
        let others = self.url.query_pairs().filter(|(name, _)| name != "page");
        url.query_pairs_mut().clear().extend_pairs(others).append_pair("page", &number.to_string());
        url
    }

    pub(crate) fn is_read(&self) -> bool {
        self.method == Method::GET
    }

    pub(crate) fn is_write(&self) -> bool {
        !self.is_read()
    }

    /// The failure of this call.
    pub(crate) fn fail(&self, code: ForgeErrorCode, message: impl Into<String>) -> ForgeError {
        ForgeError::new(code, &self.forge, self.operation, message)
    }

    /// The address without its query, which may hold the key of a log.
    pub(crate) fn shown(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{} {}://{host}{port}{}", self.method, self.url.scheme(), self.url.path())
    }
}
