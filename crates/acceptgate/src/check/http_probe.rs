//! `http_probe`: the gate calls an address that the operator allowed.
//!
//! The check's target is the URL; `params.status` is the expected status (200 when absent),
//! `params.contains` a text that the answer must contain. Redirects are not followed, because their
//! target is another address.

use crate::check::{Answer, Shortage};
use futures::{StreamExt, TryStreamExt, stream};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::time::Duration;
use surety_common::config::AllowedAddresses;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::tls::http_client;

/// The time limit of a probe, from the connection to the last byte of the answer. Waiting for other
/// probes does not count.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most concurrent probes of a verdict.
const AT_ONCE: usize = 32;
/// The most bytes of an answer that are read.
const BODY_LIMIT: usize = 1 << 20;
/// The expected status unless the check names another.
const DEFAULT_STATUS: u16 = 200;

/// Why a probe does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The target is not an http or https URL.
    TargetInvalid,
    /// The operator did not allow that host and port.
    NotAllowed,
    /// No answer came in time.
    NoAnswer,
    /// The answer has another status.
    StatusDiffers,
    /// The text is not in the answer.
    TextMissing,
}

impl Failure {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TargetInvalid => "probe_target_invalid",
            Self::NotAllowed => "probe_not_allowed",
            Self::NoAnswer => "probe_no_answer",
            Self::StatusDiffers => "probe_status_differs",
            Self::TextMissing => "probe_text_missing",
        }
    }
}

/// The client for the addresses that the operator allowed.
pub struct Probes {
    allowed: AllowedAddresses,
    /// None where no address is allowed: to make one reads all authorities of the machine.
    client: Option<reqwest::Client>,
}

impl Probes {
    /// Allows the addresses in `allowed`, `host:port` separated by commas.
    ///
    /// # Errors
    /// The TLS provider cannot be used.
    pub fn new(allowed: Option<&str>) -> Result<Self, reqwest::Error> {
        let allowed = AllowedAddresses::read(allowed);
        let client = if allowed.is_empty() { None } else { Some(client()?) };
        Ok(Self { allowed, client })
    }

    /// The results of the `http_probe` checks, by their index in the list.
    ///
    /// # Errors
    /// [`Shortage`] when the gate could not open a connection because of a lack of resources.
    pub async fn answers(
        &self,
        checks: &[AcceptCheck],
    ) -> Result<BTreeMap<usize, Answer>, Shortage> {
        let asked: Vec<_> = checks
            .iter()
            .enumerate()
            .filter(|(_, check)| check.kind == CheckKind::HttpProbe)
            .map(|(place, check)| self.answer(place, check))
            .collect();
        stream::iter(asked).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn answer(&self, place: usize, check: &AcceptCheck) -> Result<(usize, Answer), Shortage> {
        match self.ask(check).await {
            Ok(()) => Ok((place, Ok(()))),
            Err(Unproven::Failed(failure)) => Ok((place, Err(failure.as_str()))),
            Err(Unproven::Shortage) => Err(Shortage),
        }
    }

    async fn ask(&self, check: &AcceptCheck) -> Result<(), Unproven> {
        let url = reqwest::Url::parse(&check.target).map_err(|_| Failure::TargetInvalid)?;
        let address = address_of(&url).ok_or(Failure::TargetInvalid)?;
        let client = self.client.as_ref().filter(|_| self.allowed.contains(&address));
        let client = client.ok_or(Failure::NotAllowed)?;
        let wanted = match check.params.get("status") {
            None => DEFAULT_STATUS,
            Some(status) => status.parse().map_err(|_| Failure::StatusDiffers)?,
        };
        let answer = client.get(url).send().await.map_err(|error| unanswered(&error))?;
        if answer.status().as_u16() != wanted {
            return Err(Failure::StatusDiffers.into());
        }
        match check.params.get("contains") {
            None => Ok(()),
            Some(text) => holds(answer, text.as_bytes()).await,
        }
    }
}

fn client() -> Result<reqwest::Client, reqwest::Error> {
    http_client().timeout(TIMEOUT).no_proxy().build()
}

/// Host and port as the operator writes them; none for a URL other than http or https.
fn address_of(url: &reqwest::Url) -> Option<String> {
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    Some(AllowedAddresses::named(host, port))
}

/// Why a probe has no proof.
enum Unproven {
    /// The address failed: it answered differently, or not in time.
    Failed(Failure),
    /// The address was not called, because the gate lacked resources.
    Shortage,
}

impl From<Failure> for Unproven {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Whether the address or the gate caused the missing answer.
fn unanswered(error: &reqwest::Error) -> Unproven {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(is_shortage) {
            return Unproven::Shortage;
        }
        cause = error.source();
    }
    Failure::NoAnswer.into()
}

/// Whether this machine had no file descriptor or memory left for a connection.
fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
    error.raw_os_error().is_some_and(|number| short.contains(&Errno::from_raw(number)))
}

async fn holds(mut answer: reqwest::Response, text: &[u8]) -> Result<(), Unproven> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| unanswered(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() >= BODY_LIMIT {
            body.truncate(BODY_LIMIT);
            break;
        }
    }
    let found = text.is_empty() || body.windows(text.len()).any(|window| window == text);
    if found { Ok(()) } else { Err(Failure::TextMissing.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use surety_common::domain::check::{Match, Owner};

    fn check(target: &str, params: &[(&str, &str)]) -> AcceptCheck {
        AcceptCheck {
            id: String::new(),
            kind: CheckKind::HttpProbe,
            target: target.to_owned(),
            r#match: Match::Prefix,
            required: true,
            params: params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            owner: Owner::Operator,
            overlay: surety_common::domain::check::Overlay::default(),
        }
    }

    /// A real server that gives every caller the same answer.
    fn server(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 1024];
                drop(stream.read(&mut request));
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        address
    }

    async fn asked(allowed: &str, check: AcceptCheck) -> Answer {
        let probes = Probes::new(Some(allowed)).unwrap();
        probes.answers(&[check]).await.unwrap().remove(&0).unwrap()
    }

    #[tokio::test]
    async fn an_allowed_address_is_asked_and_its_answer_decides() {
        let up = server("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nhealthy");
        let url = format!("http://{up}/health");
        assert_eq!(asked(&up, check(&url, &[])).await, Ok(()));
        assert_eq!(asked(&up, check(&url, &[("contains", "health")])).await, Ok(()));
        let missing = asked(&up, check(&url, &[("contains", "ill")])).await;
        assert_eq!(missing, Err("probe_text_missing"));
        let other = asked(&up, check(&url, &[("status", "503")])).await;
        assert_eq!(other, Err("probe_status_differs"));
    }

    #[tokio::test]
    async fn no_other_address_is_asked_and_no_redirect_followed() {
        let up = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let url = format!("http://{up}/");
        assert_eq!(asked("localhost:1", check(&url, &[])).await, Err("probe_not_allowed"));
        assert_eq!(asked(&up, check("file:///etc/passwd", &[])).await, Err("probe_target_invalid"));
        let away = server(
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        );
        let redirected = asked(&away, check(&format!("http://{away}/"), &[])).await;
        assert_eq!(redirected, Err("probe_status_differs"));
    }

    #[tokio::test]
    async fn silence_is_no_success() {
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().to_string()
        };
        let answer = asked(&closed, check(&format!("http://{closed}/"), &[])).await;
        assert_eq!(answer, Err("probe_no_answer"));
    }

    #[tokio::test]
    async fn one_slow_address_does_not_hold_up_the_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            // The server answers none before all have connected.
            let mut waiting: Vec<_> = listener.incoming().take(3).map(Result::unwrap).collect();
            for stream in &mut waiting {
                drop(stream.read(&mut [0; 1024]));
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
            }
        });
        let probes = Probes::new(Some(&address)).unwrap();
        let checks: Vec<_> = (0..3).map(|n| check(&format!("http://{address}/{n}"), &[])).collect();
        let answers = probes.answers(&checks).await.unwrap();
        assert_eq!(answers, BTreeMap::from([(0, Ok(())), (1, Ok(())), (2, Ok(()))]));
    }

    #[test]
    fn what_this_machine_is_short_of_is_not_held_against_an_address() {
        let short = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
        for number in short {
            assert!(is_shortage(&io::Error::from_raw_os_error(number as i32)), "{number}");
        }
        for number in [Errno::ECONNREFUSED, Errno::EHOSTUNREACH, Errno::EADDRNOTAVAIL] {
            assert!(!is_shortage(&io::Error::from_raw_os_error(number as i32)), "{number}");
        }
    }
}
