//! Calls of one account: attempts, pages, kept answers.

use crate::account::{ForgeAccount, Token};
use crate::answer::{Answer, Failed, finish, finish_open, late, unanswered};
use crate::ask::{Ask, Reading};
use crate::cache::Kept;
use crate::error::{ForgeError, ForgeErrorCode};
use crate::observer::CallReport;
use crate::paging::Paging;
use crate::process::Shared;
use backon::{BackoffBuilder, ExponentialBuilder};
use chrono::Utc;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, IF_NONE_MATCH};
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use surety_common::domain::toolchain::Forge as ForgeKind;
use tokio::time::{sleep, timeout};

/// The most bytes of an answer in JSON.
const MAX_JSON: usize = 8 << 20;
const JSON: &str = "application/json";
const GITHUB_JSON: &str = "application/vnd.github+json";
const GITHUB_VERSION: (&str, &str) = ("x-github-api-version", "2022-11-28");

/// One answer of a call whose members are on several.
pub(crate) trait Page: DeserializeOwned {
    /// One of them.
    type Member: Send;
    /// How many there are on all pages, where the answer says so.
    fn total(&self) -> Option<usize>;
    /// Those of this answer.
    fn members(self) -> Vec<Self::Member>;
}

impl<T: DeserializeOwned + Send> Page for Vec<T> {
    type Member = T;

    fn total(&self) -> Option<usize> {
        None
    }

    fn members(self) -> Vec<T> {
        self
    }
}

/// The calls of one account.
pub(crate) struct Api {
    shared: Arc<Shared>,
    account: ForgeAccount,
    forge: Arc<str>,
    base: Url,
    /// Names the account among others of the process.
    key: String,
}

impl Api {
    pub(crate) fn new(shared: Arc<Shared>, account: ForgeAccount) -> Result<Self, ForgeError> {
        let base = account.api_url()?;
        let key = format!("{base} {}", account.credential_file.display());
        let forge = Arc::from(account.forge.as_str());
        Ok(Self { shared, account, forge, base, key })
    }

    pub(crate) const fn account(&self) -> &ForgeAccount {
        &self.account
    }

    pub(crate) fn fail(
        &self,
        code: ForgeErrorCode,
        operation: &'static str,
        message: impl Into<String>,
    ) -> ForgeError {
        ForgeError::new(code, &self.account.forge, operation, message)
    }

    /// A read of a path below the base of the API. Each part between two `/` is encoded.
    pub(crate) fn get(&self, operation: &'static str, path: &str) -> Ask {
        self.ask(Method::GET, operation, path)
    }

    pub(crate) fn post(&self, operation: &'static str, path: &str, body: Value) -> Ask {
        self.ask(Method::POST, operation, path).body(body)
    }

    pub(crate) fn put(&self, operation: &'static str, path: &str, body: Value) -> Ask {
        self.ask(Method::PUT, operation, path).body(body)
    }

    fn ask(&self, method: Method, operation: &'static str, path: &str) -> Ask {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path.split('/'));
        }
        let accept = match self.account.kind {
            ForgeKind::Github => GITHUB_JSON,
            ForgeKind::Gitea | ForgeKind::Forgejo => JSON,
        };
        let reading = Reading::Whole { most: MAX_JSON };
        let forge = Arc::clone(&self.forge);
        Ask { forge, operation, method, url, accept, body: None, reading }
    }

    /// The answer of a call, read from JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, ForgeError> {
        let (value, _) =
            self.answered(&ask, |answer| self.read(ask.operation, &answer.body)).await?;
        Ok(value)
    }

    fn read<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        body: &[u8],
    ) -> Result<T, ForgeError> {
        serde_json::from_slice(body).map_err(|error| {
            // The text of a value is not shown: line and column are enough to find it.
            let what = match error.classify() {
                serde_json::error::Category::Data => "has other fields than the API describes",
                serde_json::error::Category::Syntax
                | serde_json::error::Category::Eof
                | serde_json::error::Category::Io => "is no JSON",
            };
            let (line, column) = (error.line(), error.column());
            let message = format!(
                "the answer {what} (line {line}, column {column}); check the forge's url and its version"
            );
            self.fail(ForgeErrorCode::BadAnswer, operation, message)
        })
    }

    /// The members of all pages, at most `most`, as long as they pass.
    ///
    /// A page with links says which one is next. Gitea and Forgejo send none with reviews, labels and statuses, and
    /// say how many members there are.
    pub(crate) async fn pages<P: Page>(
        &self,
        mut ask: Ask,
        most: usize,
        passes: impl Fn(&P::Member) -> bool + Send,
    ) -> Result<Vec<P::Member>, ForgeError> {
        let (mut all, mut seen, mut number) = (Vec::new(), 0, 1);
        loop {
            let reading = |answer: &Answer| self.read(ask.operation, &answer.body);
            let (page, answer): (P, Answer) = self.answered(&ask, reading).await?;
            let Paging { next, has_links, total } = answer.paging;
            let total = total.or(page.total()).unwrap_or_default();
            let members = page.members();
            let is_empty = members.is_empty();
            seen += members.len();
            for member in members {
                if all.len() == most || !passes(&member) {
                    return Ok(all);
                }
                all.push(member);
            }
            if is_empty || all.len() >= most {
                return Ok(all);
            }
            number += 1;
            ask.url = match next {
                Some(next) => self.next(&ask, &next)?,
                None if !has_links && seen < total && ask.is_paged() => ask.numbered(number),
                None => return Ok(all),
            };
        }
    }

    /// The next page: the query of the forge's link at the address that was asked. A forge behind a proxy names
    /// itself by another address, which would get the credential.
    fn next(&self, ask: &Ask, link: &str) -> Result<Url, ForgeError> {
        let linked = self.base.join(link).map_err(|error| {
            let message = format!("the link of the next page does not read: {error}");
            self.fail(ForgeErrorCode::BadAnswer, ask.operation, message)
        })?;
        let mut url = ask.url.clone();
        url.set_query(linked.query());
        if url == ask.url {
            let message = "the link of the next page leads to the same page";
            return Err(self.fail(ForgeErrorCode::BadAnswer, ask.operation, message));
        }
        Ok(url)
    }

    /// Sends a call. A read is repeated after failures of the forge; a write is sent once.
    pub(crate) async fn send(&self, ask: &Ask) -> Result<Answer, ForgeError> {
        let ((), answer) = self.answered(ask, |_| Ok(())).await?;
        Ok(answer)
    }

    /// Sends a call, reads its answer, and tells the observer what came of both.
    async fn answered<T>(
        &self,
        ask: &Ask,
        read: impl FnOnce(&Answer) -> Result<T, ForgeError> + Send,
    ) -> Result<(T, Answer), ForgeError> {
        let mut left = None;
        let answer = self.attempts(ask, &mut left).await;
        let read = answer.and_then(|answer| {
            let value = read(&answer).map_err(|error| error.unsure(!ask.is_read()))?;
            Ok((value, answer))
        });
        let result = match &read {
            Ok((_, answer)) if answer.is_kept => "not_modified",
            Ok(_) => "ok",
            Err(error) => error.code.as_str(),
        };
        let (forge, operation) = (self.account.forge.as_str(), ask.operation);
        let report = CallReport { forge, operation, result, rate_limit_left: left };
        self.shared.observer.called(&report);
        if let Err(error) = &read {
            tracing::debug!(forge, operation, code = %error.code, "forge: a call failed");
        }
        read
    }

    async fn attempts(&self, ask: &Ask, left: &mut Option<u64>) -> Result<Answer, ForgeError> {
        let times = self.shared.times;
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(times.pause)
            .with_jitter()
            .without_max_times()
            .build();
        let mut attempt = 1;
        loop {
            self.check_limit(ask)?;
            let failed = match self.attempt(ask, left).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if let Some(until) = failed.error.until {
                self.shared.limit(&self.key, until);
            }
            let own = pauses.next().unwrap_or(times.pause);
            let pause = match failed.error.until {
                Some(until) => (until - Utc::now()).to_std().unwrap_or_default() + own,
                None => own,
            };
            let is_short = failed.error.until.is_none() || pause <= times.patience + own;
            let is_repeated = failed.is_transient && ask.is_read() && is_short;
            if !is_repeated || attempt >= times.attempts {
                return Err(failed.error);
            }
            attempt += 1;
            sleep(pause).await;
        }
    }

    /// Asks no forge that said to wait: calls during a secondary limit prolong it.
    fn check_limit(&self, ask: &Ask) -> Result<(), ForgeError> {
        let Some(until) = self.shared.limited_until(&self.key, Utc::now()) else { return Ok(()) };
        let message = "the account's rate limit is used up, and the forge was not asked; wait";
        let error = self.fail(ForgeErrorCode::RateLimited, ask.operation, message);
        Err(ForgeError { until: Some(until), ..error })
    }

    async fn attempt(&self, ask: &Ask, left: &mut Option<u64>) -> Result<Answer, Failed> {
        let token = self.token(ask.operation).await?;
        let key = format!("{} {} {}", self.key, ask.accept, ask.url);
        let kept = if ask.is_read() { self.shared.cache.get(&key) } else { None };
        let limit = self.shared.times.attempt;
        let asking = self.exchange(ask, &token, kept.as_deref(), left);
        let answer = match timeout(limit, asking).await {
            Ok(answer) => answer?,
            Err(_) => return Err(late(ask, limit)),
        };
        if let (Some(etag), false, true) = (&answer.etag, answer.is_kept, ask.is_read()) {
            let (body, paging) = (answer.body.clone(), answer.paging.clone());
            if !answer.is_cut {
                self.shared.cache.keep(key, Kept { etag: etag.clone(), body, paging });
            }
        }
        Ok(answer)
    }

    async fn token(&self, operation: &'static str) -> Result<Token, ForgeError> {
        let account = self.account.clone();
        let reading = tokio::task::spawn_blocking(move || account.token(operation));
        reading.await.unwrap_or_else(|error| {
            let message = format!("reading the credential failed: {error}");
            Err(self.fail(ForgeErrorCode::CredentialUnreadable, operation, message))
        })
    }

    async fn exchange(
        &self,
        ask: &Ask,
        token: &Token,
        kept: Option<&Kept>,
        left: &mut Option<u64>,
    ) -> Result<Answer, Failed> {
        let Some(header) = token.header() else {
            let message = "the credential cannot stand in a header";
            let code = ForgeErrorCode::CredentialUnreadable;
            return Err(self.fail(code, ask.operation, message).into());
        };
        let mut request = self
            .shared
            .http(&ask.url)
            .request(ask.method.clone(), ask.url.clone())
            .header(AUTHORIZATION, header)
            .header(ACCEPT, ask.accept);
        if self.account.kind == ForgeKind::Github {
            request = request.header(GITHUB_VERSION.0, GITHUB_VERSION.1);
        }
        if let Some(etag) = kept.and_then(|kept| HeaderValue::from_str(&kept.etag).ok()) {
            request = request.header(IF_NONE_MATCH, etag);
        }
        if let Some(body) = &ask.body {
            request = request.header("content-type", JSON).body(body.to_string());
        }
        let response = request.send().await.map_err(|error| unanswered(ask, &error))?;
        *left = crate::rate::calls_left(response.headers()).or(*left);
        finish(ask, response, (token, kept)).await
    }

    /// Reads the text at an address of another host, to which a forge redirected a call, without the credential.
    pub(crate) async fn text_elsewhere(
        &self,
        operation: &'static str,
        url: Url,
        reading: Reading,
    ) -> Result<Answer, ForgeError> {
        let is_allowed = url.scheme() == "https" || self.base.scheme() == "http";
        if !is_allowed {
            let message = "the redirect does not lead to an https address";
            return Err(self.fail(ForgeErrorCode::BadAnswer, operation, message));
        }
        let ask = Ask {
            forge: Arc::clone(&self.forge),
            operation,
            method: Method::GET,
            url,
            accept: "text/plain",
            body: None,
            reading,
        };
        let limit = self.shared.times.attempt;
        let asking = async {
            let sending = self.shared.http(&ask.url).get(ask.url.clone()).send();
            let response = sending.await.map_err(|error| unanswered(&ask, &error))?;
            finish_open(&ask, response).await
        };
        match timeout(limit, asking).await {
            Ok(answer) => answer.map_err(|failed| failed.error),
            Err(_) => Err(late(&ask, limit).error),
        }
    }
}
