//! Answers the stop hook of an agent, in the form that the agent reads.
//!
//! ```text
//!   in the input                    agents               to go on                                to stop
//!   "hook_event_name": "Stop"       Claude Code, Codex   {"decision": "block", "reason": TEXT}   {}
//!   "hook_event_name": "AfterAgent" Gemini CLI           {"decision": "deny", "reason": TEXT}    {}
//!   "hook_event_name": "stop"       Cursor               {"followup_message": TEXT}              {}
//!   "event": "Stop"                 Goose                {"decision": "block", "reason": TEXT}   {}
//!   "event_type": "Stop"            OpenHands            {"decision": "deny", "reason": TEXT}    {}
//! ```

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};
use surety_common::domain::json::sha256_hex;

use crate::failure::{Code, Failure};
use crate::folder::DataFolder;

/// The largest input in bytes: it may hold the agent's last message.
const MOST_INPUT: u64 = 8 << 20;
/// The longest reason in bytes.
const MOST_REASON: usize = 8 << 10;
/// The folder of the counts below the data folder, and how long a count is kept.
const KEPT: &str = "hooks";
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Digits of the digest that name a session.
const KEY_DIGITS: usize = 32;
/// How a stop of Cursor ended that its agent chose.
const COMPLETED: &str = "completed";

/// Which agent asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    /// Claude Code and Codex.
    Claude,
    Gemini,
    Cursor,
    Goose,
    OpenHands,
}

/// What an agent sends to its hook. Other keys are not read.
#[derive(Debug, Deserialize)]
struct Sent {
    hook_event_name: Option<String>,
    event: Option<String>,
    event_type: Option<String>,
    session_id: Option<String>,
    conversation_id: Option<String>,
    #[serde(default)]
    stop_hook_active: bool,
    #[serde(default)]
    loop_count: u32,
    status: Option<String>,
}

impl Sent {
    /// The agent, by the key and the name of its event.
    fn agent(&self) -> Result<Agent, String> {
        let [named, event, kind] =
            [&self.hook_event_name, &self.event, &self.event_type].map(Option::as_deref);
        match (named, event, kind) {
            (Some("Stop"), _, _) => Ok(Agent::Claude),
            (Some("AfterAgent"), _, _) => Ok(Agent::Gemini),
            (Some("stop"), _, _) => Ok(Agent::Cursor),
            (None, Some("Stop"), _) => Ok(Agent::Goose),
            (None, None, Some("Stop")) => Ok(Agent::OpenHands),
            (Some(other), _, _) | (None, Some(other), _) | (None, None, Some(other)) => {
                Err(format!("its event is {other:?}"))
            }
            (None, None, None) => {
                Err("it has none of `hook_event_name`, `event` and `event_type`".to_owned())
            }
        }
    }
}

/// The input of a stop hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInput {
    agent: Agent,
    session_id: String,
    stop_hook_active: bool,
    loop_count: u32,
    status: Option<String>,
}

impl HookInput {
    /// Reads the input of a hook.
    ///
    /// # Errors
    /// `value_invalid`: it is no input of a stop hook.
    pub fn read(input: impl Read) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let invalid = |why: String| {
            let message = format!("standard input holds no input of a stop hook: {why}");
            let advice = "Configure the command as the hook Stop, stop or AfterAgent of an agent.";
            Failure::new(Code::ValueInvalid, message, advice).at("--hook")
        };
        input
            .take(MOST_INPUT)
            .read_to_end(&mut bytes)
            .map_err(|error| invalid(error.to_string()))?;
        let sent: Sent =
            serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        let agent = sent.agent().map_err(invalid)?;
        let Sent { session_id, conversation_id, stop_hook_active, loop_count, status, .. } = sent;
        let session_id = session_id.or(conversation_id).unwrap_or_default();
        Ok(Self { agent, session_id, stop_hook_active, loop_count, status })
    }

    /// Whether the agent ends by its own choice: a person's interruption is not held up.
    #[must_use]
    pub fn is_by_choice(&self) -> bool {
        self.status.as_deref().is_none_or(|status| status == COMPLETED)
    }

    /// The answer that lets the agent stop; a message is for the person.
    #[must_use]
    pub fn stop(&self, message: Option<&str>) -> Value {
        match (message, self.agent) {
            (Some(message), Agent::Claude | Agent::Gemini) => {
                json!({"systemMessage": shortened(message)})
            }
            (Some(_), Agent::Cursor | Agent::Goose | Agent::OpenHands) | (None, _) => json!({}),
        }
    }

    /// The answer that makes the agent go on.
    #[must_use]
    pub fn go_on(&self, reason: &str) -> Value {
        let reason = shortened(reason);
        match self.agent {
            Agent::Claude | Agent::Goose => json!({"decision": "block", "reason": reason}),
            Agent::Gemini | Agent::OpenHands => json!({"decision": "deny", "reason": reason}),
            Agent::Cursor => json!({"followup_message": reason}),
        }
    }

    /// Whether the agent itself says that a hook made it go on.
    const fn tells_repeats(&self) -> bool {
        match self.agent {
            Agent::Claude | Agent::Gemini | Agent::Cursor => true,
            Agent::Goose | Agent::OpenHands => false,
        }
    }
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(MOST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// How often the stops of one session were held up.
#[derive(Debug)]
pub struct HeldUp {
    /// None where there is nothing to count by, or nowhere to keep it.
    file: Option<PathBuf>,
    so_far: u32,
}

impl HeldUp {
    /// The count of a session in a workspace; of all sessions without an id whose agent says nothing of earlier
    /// hold-ups. Where no count is kept, such an agent, and one that says that a hook made it go on, counts as held
    /// up as often as `limit` allows.
    #[must_use]
    pub fn of(input: &HookInput, workspace: &str, data: Option<&DataFolder>, limit: u32) -> Self {
        let can_count = !input.session_id.is_empty() || !input.tells_repeats();
        let file = data.filter(|_| can_count).and_then(|data| {
            let folder = data.path().join(KEPT);
            fs::create_dir_all(&folder).ok()?;
            forget_old(&folder);
            let mut key = sha256_hex(format!("{workspace}\0{}", input.session_id).as_bytes());
            key.truncate(KEY_DIGITS);
            Some(folder.join(key))
        });
        let kept = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        let kept = kept.and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or_default();
        let may_repeat = input.stop_hook_active || !input.tells_repeats();
        let unkept = if file.is_none() && may_repeat { limit } else { 0 };
        Self { so_far: kept.max(input.loop_count).max(unkept), file }
    }

    /// How often.
    #[must_use]
    pub fn so_far(&self) -> u32 {
        self.so_far
    }

    /// Counts one more. Answers whether it is kept.
    #[must_use]
    pub fn again(&self) -> bool {
        let count = self.so_far.saturating_add(1).to_string();
        self.file.as_ref().is_none_or(|file| fs::write(file, count).is_ok())
    }

    /// Begins to count anew.
    pub fn clear(&self) {
        if let Some(file) = &self.file {
            // There may be no count, and one that stays makes the next hold-ups fewer.
            fs::remove_file(file).ok();
        }
    }
}

/// Removes the counts of sessions that ended long ago.
fn forget_old(folder: &std::path::Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| now.duration_since(modified).ok());
        if age.is_some_and(|age| age > KEPT_FOR) {
            // Another process may have removed it.
            fs::remove_file(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HookInput, Failure> {
        HookInput::read(text.as_bytes())
    }

    #[test]
    fn each_agent_has_its_own_form() {
        let cases = [
            (
                r#"{"hook_event_name":"Stop","session_id":"s"}"#,
                json!({"decision":"block","reason":"r"}),
            ),
            (
                r#"{"hook_event_name":"AfterAgent","prompt":"p"}"#,
                json!({"decision":"deny","reason":"r"}),
            ),
            (
                r#"{"hook_event_name":"stop","conversation_id":"c","status":"completed","loop_count":0}"#,
                json!({"followup_message":"r"}),
            ),
            (
                r#"{"event":"Stop","session_id":"20260921_3","matcher_context":null,"last_assistant_message":"Done."}"#,
                json!({"decision":"block","reason":"r"}),
            ),
            (
                r#"{"event_type":"Stop","tool_name":null,"message":null,"session_id":null,"working_dir":"/w","metadata":{}}"#,
                json!({"decision":"deny","reason":"r"}),
            ),
        ];
        for (text, expected) in cases {
            let input = read(text).unwrap();
            assert_eq!(input.go_on("r"), expected);
            assert_eq!(input.stop(None), json!({}));
        }
        let others = [
            "",
            "[]",
            r#"{"hook_event_name":"PreToolUse"}"#,
            r#"{"event":"SessionEnd"}"#,
            r#"{"event_type":"PreToolUse"}"#,
            r#"{"session_id":"s"}"#,
        ];
        for text in others {
            assert!(read(text).unwrap_err().to_text().contains("[value_invalid]"), "{text}");
        }
        let aborted = read(r#"{"hook_event_name":"stop","status":"aborted"}"#).unwrap();
        assert!(!aborted.is_by_choice());
    }

    #[test]
    fn a_session_is_held_up_at_most_so_often() {
        let kept = tempfile::tempdir().unwrap();
        let config = surety_common::config::DataDirConfig { data_dir: Some(kept.path().into()) };
        let data = DataFolder::choose(&config).unwrap();
        let input =
            read(r#"{"hook_event_name":"Stop","session_id":"s","stop_hook_active":true}"#).unwrap();
        let of = |workspace: &str| HeldUp::of(&input, workspace, Some(&data), 5);
        for count in 0..3 {
            assert_eq!(of("/w").so_far(), count);
            assert!(of("/w").again());
        }
        assert_eq!(of("/other").so_far(), 0);
        of("/w").clear();
        assert_eq!(of("/w").so_far(), 0);
        // Without a count the agent's own word bounds it.
        assert_eq!(HeldUp::of(&input, "/w", None, 5).so_far(), 5);
        // An agent that says nothing of earlier hold-ups is counted without the id of a session, too.
        let unnamed = read(r#"{"event_type":"Stop","session_id":null}"#).unwrap();
        for count in 0..2 {
            let held_up = HeldUp::of(&unnamed, "/w", Some(&data), 5);
            assert_eq!(held_up.so_far(), count);
            assert!(held_up.again());
        }
        assert_eq!(HeldUp::of(&unnamed, "/w", None, 5).so_far(), 5);
        let looped = read(r#"{"hook_event_name":"stop","loop_count":4}"#).unwrap();
        assert_eq!(HeldUp::of(&looped, "/w", Some(&data), 5).so_far(), 4);
    }
}
