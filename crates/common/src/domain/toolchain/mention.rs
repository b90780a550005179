//! The accounts that a text mentions, and their tasks.

use super::action::EventType;
use super::event::{Assignee, ToolchainEvent};
use super::intent::Intent;
use super::payload::{cut, is_login};
use super::source::{Occurrence, Source, context};
use super::subject::Subject;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

/// The most accounts of one text that become tasks.
const MOST: usize = 10;
/// The longest part of a text that a mention shows, in characters.
const MAX_SNIPPET: usize = 500;

/// A text that can mention accounts.
pub(super) struct Said {
    pub(super) source_type: &'static str,
    pub(super) address: String,
    /// What distinguishes it from other texts about its subject.
    pub(super) mark: String,
    pub(super) text: String,
    pub(super) author: String,
    pub(super) happened_at: DateTime<Utc>,
}

impl Said {
    /// The tasks of the accounts that it mentions, without its author and the accounts that act on the event anyway.
    /// A text of the service itself asks no account.
    pub(super) fn tasks(
        self,
        source: &Source<'_>,
        subject: Subject,
        acting: &[&str],
    ) -> Vec<ToolchainEvent> {
        if source.is_own(&self.author, &self.text) {
            return Vec::new();
        }
        let occurrence = Occurrence {
            event_type: EventType::Mention,
            subject,
            from: self.author.clone(),
            happened_at: self.happened_at,
            context: context([
                ("source_type", json!(self.source_type)),
                ("source_url", json!(self.address)),
                ("commenter", json!(self.author)),
                ("content_snippet", json!(cut(&self.text, MAX_SNIPPET))),
                ("intent_hint", json!(Intent::of(&self.text).as_str())),
                // A template of the planner says it in the language of the assignee.
                ("response_guidance", Value::Null),
            ]),
            mark: self.mark,
            brief: String::new(),
        };
        let is_other = |name: &String| {
            let mut known = acting.iter().copied().chain([self.author.as_str()]);
            !known.any(|known| known.eq_ignore_ascii_case(name))
        };
        let others = mentions(&self.text).into_iter().filter(is_other);
        others.map(|name| source.task(&occurrence, Assignee::Account(name))).collect()
    }
}

/// The accounts that a Markdown text mentions as `@name`, each once, in order and in lower case. Code, quoted
/// lines and addresses of mail mention no account.
fn mentions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            is_code = !is_code;
        } else if !is_code && !trimmed.starts_with('>') {
            // Every second part between backticks is code.
            line.split('`').step_by(2).for_each(|part| of_line(part, &mut found));
        }
    }
    found.truncate(MOST);
    found
}

fn of_line(line: &str, found: &mut Vec<String>) {
    for (at, _) in line.match_indices('@') {
        let before = line[..at].chars().next_back();
        if before
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '@'))
        {
            continue;
        }
        let rest = &line[at + 1..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches(['.', '-', '_']).to_ascii_lowercase();
        // `@owner/team` is a team, which is no account.
        let is_team = rest[end..].starts_with('/');
        if is_login(&name) && !is_team && !found.contains(&name) {
            found.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Delivery, Forge, Ignored, Reading, Rules, marker};
    use super::*;
    use uuid::Uuid;

    const FORGES: [Forge; 3] = [Forge::Gitea, Forge::Forgejo, Forge::Github];

    #[test]
    fn code_quotes_addresses_and_teams_mention_no_account() {
        let text = "@Dave_y, ask @erin.\n> @quoted said\n`@code` x@mail.example @team/core @@twice\n```\n@fenced\n```\n(@dave_y)";
        assert_eq!(mentions(text), ["dave_y", "erin"]);
        let many: String = (0..20).map(|number| format!("@a{number} ")).collect();
        assert_eq!(mentions(&many).len(), MOST);
    }

    fn pull(body: &str) -> Value {
        json!({
            "number": 7, "title": "Fix", "body": body, "user": {"login": "alice"},
            "head": {"ref": "fix", "sha": "d555a5dd07f4d0148a58d4686ec381502ae6a2d4"},
            "updated_at": "2026-11-01T10:00:00Z", "draft": false, "merged": false,
            "html_url": "https://forge.example/o/r/pulls/7",
            "requested_reviewers": [{"login": "carol"}]
        })
    }

    fn payload(action: &str, body: &str) -> Value {
        json!({
            "action": action, "number": 7, "pull_request": pull(body),
            "repository": {"full_name": "o/r"}, "sender": {"login": "alice"}
        })
    }

    /// A review as each forge sends it: the name of its event, and its payload.
    fn review(forge: Forge, (by, state): (&str, &str), text: &str) -> (String, Value) {
        let mut payload = payload("reviewed", "");
        payload["sender"]["login"] = json!(by);
        if forge == Forge::Github {
            payload["action"] = json!("submitted");
            payload["review"] = json!({
                "id": 4, "state": state, "body": text, "user": {"login": by},
                "submitted_at": "2026-11-01T11:00:00Z",
                "html_url": "https://forge.example/o/r/pull/7#pullrequestreview-4"
            });
            return ("pull_request_review".to_owned(), payload);
        }
        let (event, kind) = match state {
            "approved" => ("pull_request_approved", "pull_request_review_approved"),
            "changes_requested" => ("pull_request_rejected", "pull_request_review_rejected"),
            _ => ("pull_request_comment", "pull_request_review_comment"),
        };
        payload["review"] = json!({"type": kind, "content": text});
        (event.to_owned(), payload)
    }

    fn read(forge: Forge, event: &str, payload: &Value, own: &[&str]) -> Reading {
        let own = own.iter().map(ToString::to_string).collect();
        let rules = Rules { own, ..Rules::default() };
        let body = payload.to_string();
        Delivery { forge, event, body: &body }.read(&rules).expect("a reading")
    }

    /// What a delivery asks for: each event with its assignee.
    fn asked(reading: Reading) -> Vec<(EventType, String)> {
        let Reading::Tasks(tasks) = reading else { return Vec::new() };
        tasks.into_iter().map(|task| (task.event_type, task.assignee.to_string())).collect()
    }

    fn of(event: EventType, login: &str) -> (EventType, String) {
        (event, format!("account {login}"))
    }

    #[test]
    fn a_description_asks_the_accounts_that_it_mentions_once() {
        let body = "@dave please check the totals. @carol @alice see #3.\n> @quoted";
        for forge in FORGES {
            let mut keys = Vec::new();
            for action in ["opened", "reopened", "ready_for_review"] {
                let reading = read(forge, "pull_request", &payload(action, body), &[]);
                let Reading::Tasks(tasks) = &reading else { panic!("{reading:?}") };
                let mention = tasks.last().expect("a task").clone();
                // The reviewer acts on the request, and the author wrote the text.
                let both =
                    [of(EventType::ReviewRequested, "carol"), of(EventType::Mention, "dave")];
                assert_eq!(asked(reading), both, "{forge} {action}");
                assert_eq!(mention.subject.number, Some(7));
                assert!(mention.subject.is_pull_request);
                let context = &mention.context;
                assert_eq!(context["source_type"], "pull_request");
                assert_eq!(context["source_url"], "https://forge.example/o/r/pulls/7");
                assert_eq!(
                    (mention.from.as_str(), &context["commenter"]),
                    ("alice", &json!("alice"))
                );
                keys.push(mention.key);
            }
            keys.dedup();
            assert_eq!(keys.len(), 1, "{keys:?}");
            // Other events of the pull request repeat its description.
            for action in ["review_requested", "synchronize"] {
                let found = asked(read(forge, "pull_request", &payload(action, body), &[]));
                assert!(found.iter().all(|(event, _)| *event != EventType::Mention), "{found:?}");
            }
            let mut draft = payload("opened", body);
            draft["pull_request"]["draft"] = json!(true);
            let ignored = Reading::Ignored(Ignored::DraftPullRequest);
            assert_eq!(read(forge, "pull_request", &draft, &[]), ignored);
        }
    }

    #[test]
    fn a_review_asks_the_accounts_that_its_text_mentions_beside_the_author() {
        let text = "The sum is wrong. @dave which rounding is right? @alice @bob";
        for forge in FORGES {
            for (state, event) in [
                ("approved", EventType::ReviewApproved),
                ("changes_requested", EventType::ChangesRequested),
                ("commented", EventType::ReviewComment),
            ] {
                let (name, payload) = review(forge, ("bob", state), text);
                let reading = read(forge, &name, &payload, &[]);
                let Reading::Tasks(tasks) = &reading else { panic!("{reading:?}") };
                let mention = tasks.last().expect("a task").clone();
                let both = [of(event, "alice"), of(EventType::Mention, "dave")];
                assert_eq!(asked(reading), both, "{forge} {state}");
                assert_eq!(mention.context["source_type"], "pull_request_review");
                assert_eq!(mention.context["intent_hint"], "question");
                assert_eq!(mention.from, "bob");
                let address = mention.context["source_url"].as_str().expect("an address");
                assert!(address.starts_with("https://forge.example/o/r/pull"), "{address}");
                // Another text is another mention.
                let (name, mut payload) = review(forge, ("bob", state), "@dave thank you?");
                if forge == Forge::Github {
                    payload["review"]["id"] = json!(5);
                }
                let Reading::Tasks(other) = read(forge, &name, &payload, &[]) else { panic!() };
                assert_ne!(other.last().expect("a task").key, mention.key, "{forge} {state}");
            }
        }
    }

    #[test]
    fn an_author_that_reviews_its_own_pull_request_asks_others_only() {
        for forge in FORGES {
            let (name, payload) = review(forge, ("alice", "commented"), "@dave which rounding?");
            let found = asked(read(forge, &name, &payload, &[]));
            assert_eq!(found, [of(EventType::Mention, "dave")], "{forge}");
            let (name, payload) = review(forge, ("alice", "commented"), "Done.");
            let reading = read(forge, &name, &payload, &[]);
            assert_eq!(reading, Reading::Ignored(Ignored::OwnPullRequest), "{forge}");
        }
    }

    #[test]
    fn a_marked_text_of_the_service_asks_no_account_that_it_mentions() {
        let text = format!("@dave look.\n{}", marker(Uuid::nil()));
        for forge in FORGES {
            let reading = read(forge, "pull_request", &payload("opened", &text), &["alice"]);
            assert_eq!(asked(reading), [of(EventType::ReviewRequested, "carol")], "{forge}");
            let (name, payload) = review(forge, ("surety", "changes_requested"), &text);
            let found = asked(read(forge, &name, &payload, &["surety"]));
            assert_eq!(found, [of(EventType::ChangesRequested, "alice")], "{forge}");
        }
    }
}
