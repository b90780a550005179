//! Models that follow a script: what they say at each question of a run, and what a script waits for.

use crate::model_server::{Asked, Reply, Script};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One line of a model's script.
#[derive(Debug, Clone)]
pub enum Line {
    /// Says a text.
    Say(String),
    /// Says a text where the question holds these words. Without them the model knows of nothing to do and says that
    /// its step is complete.
    Hinted {
        /// The words.
        words: Vec<String>,
        /// The text.
        say: String,
    },
    /// Says these texts by turns, for ever, or until the question holds the words.
    Round {
        /// The texts.
        says: Vec<String>,
        /// The words.
        until: Option<&'static str>,
    },
}

impl Line {
    /// Says a JSON value.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self::Say(value.to_string())
    }
}

/// A decision that calls a tool.
#[must_use]
pub fn tool(name: &str, arguments: &Value) -> Value {
    json!({"action": "continue", "tool_call": {"name": name, "arguments": arguments}})
}

/// A decision that says that the step is complete.
#[must_use]
pub fn complete(why: &str) -> Value {
    json!({"action": "next_plan", "speak": why, "goal_check": why})
}

/// A model in one run.
#[derive(Debug, Clone, Default)]
struct Player {
    lines: VecDeque<Line>,
    in_round: usize,
    questions: usize,
    replied: Option<(Instant, bool)>,
}

impl Player {
    fn says(&mut self, asked: &Asked) -> String {
        self.questions += 1;
        let last = asked.last();
        let knows_nothing = || complete("I see nothing left to do.").to_string();
        loop {
            match self.lines.front() {
                None => return knows_nothing(),
                Some(Line::Hinted { words, .. })
                    if !words.iter().all(|word| last.contains(word.as_str())) =>
                {
                    return knows_nothing();
                }
                Some(Line::Say(say) | Line::Hinted { say, .. }) => {
                    let say = say.clone();
                    self.lines.pop_front();
                    return say;
                }
                Some(Line::Round { until: Some(words), .. }) if last.contains(words) => {
                    self.lines.pop_front();
                }
                Some(Line::Round { says, .. }) => {
                    let say = says.get(self.in_round % says.len().max(1)).cloned();
                    self.in_round += 1;
                    return say.unwrap_or_default();
                }
            }
        }
    }
}

/// The models by the goals of their runs.
#[derive(Clone, Default)]
pub struct Players(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    players: BTreeMap<String, Player>,
    overheads: Vec<Duration>,
}

impl Players {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what the model of a run with this goal says.
    pub fn add(&self, goal: &str, lines: Vec<Line>) {
        let player = Player { lines: lines.into(), ..Player::default() };
        self.lock().players.insert(goal.to_owned(), player);
    }

    /// How often the model of a run with this goal was asked.
    #[must_use]
    pub fn questions(&self, goal: &str) -> usize {
        self.lock().players.get(goal).map_or(0, |player| player.questions)
    }

    /// The times from a reply that reads a file to the next question of its run: what a turn costs beside the
    /// endpoint.
    #[must_use]
    pub fn overheads(&self) -> Vec<Duration> {
        self.lock().overheads.clone()
    }

    /// All of them as the script of a model server.
    #[must_use]
    pub fn script(&self) -> Script {
        let players = self.clone();
        Script::function(move |asked| players.reply(asked))
    }

    fn reply(&self, asked: &Asked) -> Reply {
        let mut known = self.lock();
        let Known { players, overheads } = &mut *known;
        let Some(player) = players.get_mut(goal_of(asked)) else {
            return Reply::status(500).saying("no script has this goal");
        };
        let waited = player.replied.take().filter(|(_, only_reads)| *only_reads);
        let waited = waited.map(|(since, _)| since.elapsed());
        let text = player.says(asked);
        player.replied = Some((Instant::now(), text.contains("\"name\":\"read_file\"")));
        overheads.extend(waited);
        Reply::text(text)
    }
}

/// The goal of the run that a question is about.
fn goal_of(asked: &Asked) -> &str {
    let first = asked.messages.first().map_or("", |(_, text)| text.as_str());
    first.lines().find_map(|line| line.strip_prefix("Goal of the run: ")).unwrap_or_default()
}
