//! A model server of our own: OpenAI's chat completions and Anthropic's Messages over a real socket, as strict as the
//! servers that it stands for.
//!
//! ```text
//!   request --> key, path, model --> strict reader (roles, fields, schema, context) --> script --> reply or fault
//!                    \___________________________ refused as the real ones do, and recorded
//! ```
//!
//! A script is a list of replies or a function of the request, so a test can play models of any quality.

mod anthropic;
mod openai;
mod reply;
mod schema;
mod serve;
mod strict;

pub use reply::{Finish, Reply};

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a test waits for a request.
const DEADLINE: Duration = Duration::from_secs(30);

/// The form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `POST /v1/chat/completions`.
    OpenAi,
    /// `POST /v1/messages`.
    Anthropic,
}

/// The ways to hold a model to a form of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offers {
    /// `response_format` and forced functions.
    Everything,
    /// Forced functions; `response_format` is refused with this status.
    Functions(u16),
    /// Neither; both are refused with this status.
    Nothing(u16),
}

/// What a server is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key that it asks for.
    pub key: Option<String>,
    /// Its models.
    pub models: Vec<String>,
    /// The ways to hold a model to a form.
    pub offers: Offers,
    /// How many tokens prompt and reply may have together, at four bytes a token.
    pub context_tokens: u64,
    /// Whether system messages may only stand first and roles have to alternate, as in llama.cpp's templates.
    pub strict_roles: bool,
    /// Whether it answers `GET /v1/models`.
    pub lists_models: bool,
    /// The authority's folder file names of a certificate and its key; TLS with HTTP/2 then.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key: None,
            models: vec!["test-model".to_owned()],
            offers: Offers::Everything,
            context_tokens: 1_000_000,
            strict_roles: true,
            lists_models: true,
            tls: None,
        }
    }
}

/// A request that the strict reader took.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its number among those that were taken, from 0.
    pub number: usize,
    /// The form.
    pub form: Form,
    /// The model.
    pub model: String,
    /// All system text.
    pub system: String,
    /// The other messages: role and text.
    pub messages: Vec<(String, String)>,
    /// The schema that it asks for, and the function's name where it forces one.
    pub schema: Option<(Option<String>, Value)>,
    /// Whether the reply is streamed.
    pub stream: bool,
    /// The most tokens of the reply.
    pub max_tokens: Option<u64>,
    /// The body.
    pub body: Value,
}

impl Asked {
    /// The last message.
    #[must_use]
    pub fn last(&self) -> &str {
        self.messages.last().map_or("", |(_, text)| text.as_str())
    }
}

/// A request as it arrived, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The method and the path.
    pub line: String,
    /// The protocol: `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null where it is no JSON.
    pub body: Value,
    /// The status of the answer; none while there is none.
    pub status: Option<u16>,
    /// Whether the client closed the connection before the answer was whole.
    pub closed_early: bool,
}

/// What a server replies.
pub enum Script {
    /// These, in order; then HTTP 500.
    List(VecDeque<Reply>),
    /// What a function says.
    Function(Box<dyn FnMut(&Asked) -> Reply + Send>),
}

impl Script {
    /// A list of replies.
    pub fn list(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::List(replies.into_iter().collect())
    }

    /// A function of the request.
    pub fn function(function: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        Self::Function(Box::new(function))
    }
}

/// Answers until it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    settings: Mutex<Settings>,
    script: Mutex<Script>,
    log: watch::Sender<Vec<Recorded>>,
    taken: Mutex<Vec<Asked>>,
    at_work: Mutex<(usize, usize)>,
}

impl Shared {
    fn settings(&self) -> Settings {
        locked(&self.settings).clone()
    }

    /// The reply to a request.
    fn reply(&self, asked: &mut Asked) -> Reply {
        let mut taken = locked(&self.taken);
        asked.number = taken.len();
        taken.push(asked.clone());
        drop(taken);
        match &mut *locked(&self.script) {
            Script::List(replies) => replies
                .pop_front()
                .unwrap_or_else(|| Reply::status(500).saying("the script is over")),
            Script::Function(function) => function(asked),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModelServer {
    /// Serves on a free port of the loopback.
    ///
    /// # Errors
    /// No port is free, or the certificate cannot be read.
    pub async fn start(settings: Settings, script: Script) -> Result<Self> {
        Self::start_on("127.0.0.1:0".parse()?, settings, script).await
    }

    /// Serves on an address, such as that of a server that ended.
    ///
    /// # Errors
    /// The address is taken, or the certificate cannot be read.
    pub async fn start_on(address: SocketAddr, settings: Settings, script: Script) -> Result<Self> {
        let listener =
            TcpListener::bind(address).await.context("an address for the model server")?;
        let address = listener.local_addr()?;
        let tls = settings.tls.as_ref().map(serve::tls).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            settings: Mutex::new(settings),
            script: Mutex::new(script),
            log: watch::Sender::new(Vec::new()),
            taken: Mutex::new(Vec::new()),
            at_work: Mutex::new((0, 0)),
        });
        let server = serve::spawn(listener, tls, Arc::clone(&shared));
        Ok(Self { address, scheme, shared, server })
    }

    /// The base address of OpenAI's form and of Anthropic's, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}/v1", self.scheme, self.address)
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the script.
    pub fn play(&self, script: Script) {
        *locked(&self.shared.script) = script;
    }

    /// Changes what the server is.
    pub fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut locked(&self.shared.settings));
    }

    /// The requests that were taken, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.shared.taken).clone()
    }

    /// Every request, refused ones and other paths included.
    #[must_use]
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared.log.borrow().clone()
    }

    /// The most requests that were answered at a time.
    #[must_use]
    pub fn most_at_once(&self) -> usize {
        locked(&self.shared.at_work).1
    }

    /// Waits until the records are as `holds` says.
    ///
    /// # Errors
    /// They were not in 30 seconds.
    pub async fn wait_until(
        &self,
        holds: impl FnMut(&Vec<Recorded>) -> bool,
    ) -> Result<Vec<Recorded>> {
        let mut log = self.shared.log.subscribe();
        let found = tokio::time::timeout(DEADLINE, log.wait_for(holds)).await;
        let found = found.context("the model server waits for requests")??;
        Ok(found.clone())
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}
