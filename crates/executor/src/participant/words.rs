//! The words of models while they arrive, for people who watch a run.
//!
//! ```text
//!   parts of a reply --> text so far, by wait --every 500 ms, one statement--> progress of the wait
//! ```
//!
//! Nothing is journalled: the turn has the decision, and the wait goes with it. A reply that is shorter than the
//! interval is stored never.

use super::held_wait::HeldWait;
use sqlx::PgPool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use surety_common::store::{self, ProgressReport};
use surety_model::ReplyPart;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often words are stored.
const EVERY: Duration = Duration::from_millis(500);
/// The most bytes of a reply that are looked at.
const MOST_REPLY: usize = 64 << 10;
/// The most bytes of words that are stored: the last ones.
const MOST_WORDS: usize = 1000;
/// The keys of a decision that hold words, the first that is there first.
const KEYS: [&str; 2] = ["\"speak\"", "\"reason\""];

/// The replies that arrive in this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replying {
    replies: Arc<Mutex<HashMap<Uuid, Reply>>>,
    news: Arc<Notify>,
}

/// A reply so far.
#[derive(Debug)]
struct Reply {
    run_id: Uuid,
    lease_epoch: i64,
    text: String,
    is_new: bool,
}

/// One reply, until it is dropped.
#[derive(Debug)]
pub(crate) struct Words {
    held: HeldWait,
    replying: Replying,
}

impl Replying {
    /// The words of the reply for a wait.
    pub(crate) fn words(&self, held: HeldWait) -> Words {
        Words { held, replying: self.clone() }
    }

    /// Stores words until `ended`.
    pub(super) async fn run(self, pool: PgPool, ended: CancellationToken) {
        loop {
            tokio::select! {
                () = ended.cancelled() => return,
                () = self.news.notified() => sleep(EVERY).await,
            }
            let reports = self.reports();
            if reports.is_empty() {
                continue;
            }
            if let Err(error) = store::report_progress(&pool, &reports).await {
                tracing::debug!(%error, "model: words could not be stored; later ones follow");
            }
        }
    }

    fn reports(&self) -> Vec<ProgressReport> {
        let report = |(wait_id, reply): (&Uuid, &mut Reply)| {
            let is_new = std::mem::take(&mut reply.is_new);
            let message = spoken(&reply.text);
            (is_new && !message.is_empty()).then_some(ProgressReport {
                run_id: reply.run_id,
                wait_id: *wait_id,
                lease_epoch: reply.lease_epoch,
                message,
                percent: None,
            })
        };
        self.lock().iter_mut().filter_map(report).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Reply>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Words {
    /// Takes a part of the reply, as it arrives.
    pub(crate) fn take(&self, part: ReplyPart<'_>) {
        let HeldWait { run_id, wait_id, lease_epoch } = self.held;
        let mut replies = self.replying.lock();
        let empty = || Reply { run_id, lease_epoch, text: String::new(), is_new: false };
        let reply = replies.entry(wait_id).or_insert_with(empty);
        match part {
            ReplyPart::Text(text) if reply.text.len() < MOST_REPLY => {
                reply.text.push_str(text);
                reply.is_new = true;
            }
            ReplyPart::Restart(_) => reply.text.clear(),
            ReplyPart::Text(_) | ReplyPart::Reasoning(_) => return,
        }
        drop(replies);
        self.replying.news.notify_one();
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.replying.lock().remove(&self.held.wait_id);
    }
}

/// The words in a reply so far, on one line: of a decision those for people, of any other text the text.
fn spoken(reply: &str) -> String {
    let words = match reply.find('{') {
        None => reply.to_owned(),
        Some(object) => {
            let object = reply.get(object..).unwrap_or_default();
            KEYS.iter().find_map(|key| value_of(object, key)).unwrap_or_default()
        }
    };
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ").replace('\0', "\u{fffd}");
    let from = line.ceil_char_boundary(line.len().saturating_sub(MOST_WORDS));
    line.get(from..).unwrap_or_default().to_owned()
}

/// The string behind a key, as far as it has arrived; none before it began, or where it is empty.
fn value_of(object: &str, key: &str) -> Option<String> {
    let (_, rest) = object.split_once(key)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut value = String::new();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n' | 'r' | 't' | 'b' | 'f') => value.push(' '),
                // A pair of surrogates is shown as two unknown characters: the decision has the right one.
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).collect();
                    let number = u32::from_str_radix(&digits, 16).ok();
                    value.push(number.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                }
                Some(letter) => value.push(letter),
                None => break,
            },
            letter => value.push(letter),
        }
    }
    Some(value).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::decision::Usage;

    #[test]
    fn words_are_those_for_people_as_far_as_they_arrived() {
        for (reply, words) in [
            ("I look", "I look"),
            ("{\"action\": \"continue\", \"sp", ""),
            (r#"{"speak": "I lo"#, "I lo"),
            (r#"{"speak": "I look\nat \"a\" \u00e4\u12"#, "I look at \"a\" ä\u{12}"),
            (r#"{"speak": "done", "reason": "why"}"#, "done"),
            (r#"{"speak": "", "reason": "why"#, "why"),
            (r#"{"tool_call": {"arguments": {"content": "a \"speak\": \"no\""#, ""),
            ("```json\n{\"reason\" : \"b\\", "b"),
        ] {
            assert_eq!(spoken(reply), words, "{reply}");
        }
        let long = format!("{{\"speak\": \"{}end", "ä ".repeat(2 * MOST_WORDS));
        assert!(spoken(&long).len() <= MOST_WORDS && spoken(&long).ends_with("end"));
    }

    #[test]
    fn words_go_with_their_reply_and_a_restart_voids_them() {
        let replying = Replying::default();
        let wait_id = Uuid::from_u128(1);
        let held = HeldWait { run_id: Uuid::nil(), wait_id, lease_epoch: 3 };
        let words = replying.words(held);
        words.take(ReplyPart::Text("one"));
        words.take(ReplyPart::Restart(Usage::default()));
        words.take(ReplyPart::Reasoning("hm"));
        assert!(replying.reports().is_empty(), "nothing arrived since");
        words.take(ReplyPart::Text("two"));
        let reports = replying.reports();
        assert_eq!(reports.len(), 1);
        assert_eq!((reports[0].wait_id, reports[0].lease_epoch), (wait_id, 3));
        assert_eq!(reports[0].message, "two");
        assert!(replying.reports().is_empty(), "it was said");
        words.take(ReplyPart::Text(" three"));
        drop(words);
        assert!(replying.reports().is_empty(), "the reply has ended");
    }
}
