//! The keys of the live view, and what they do. Pure: the time is an argument.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use surety_common::wire::v1;

use super::view::RunView;
use crate::answering::Way;

/// How long a question is on the page before a key answers it: a key that was meant for the one before does not count.
const SEEN_FOR: Duration = Duration::from_millis(400);
/// The longest answer in bytes, as the service takes it.
const MOST_TYPED: usize = 16 << 10;

/// What a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// Approve what is asked.
    Approve,
    /// Deny what is asked.
    Deny,
    /// Answer a question.
    Answer,
    /// Double the budgets.
    Extend,
    /// End the run instead.
    End,
    /// Pause the run.
    Pause,
    /// Resume the run.
    Resume,
    /// Stop watching. The run continues.
    Leave,
}

impl Key {
    /// The letter to press.
    #[must_use]
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Approve => 'a',
            Self::Deny => 'd',
            Self::Answer => 't',
            Self::Extend => 'e',
            Self::End => 's',
            Self::Pause => 'p',
            Self::Resume => 'r',
            Self::Leave => 'q',
        }
    }

    /// What it does.
    #[must_use]
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Answer => "type the answer",
            Self::Extend => "double the budgets",
            Self::End => "stop the run",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Leave => "leave (the run continues)",
        }
    }
}

/// The whole of what a confirmation asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// The wait.
    pub wait_id: String,
    /// What is asked, or why that is not known.
    pub text: String,
    /// Whether the text is what the digest of the wait is over.
    pub is_whole: bool,
}

/// What the person at the terminal has seen and typed.
#[derive(Debug, Clone, Default)]
pub(super) struct Prompt {
    /// What the present confirmation asks; none before it was read.
    pub asked: Option<Asked>,
    /// The first line of the question that is on the page.
    pub scroll: usize,
    /// Since when the end of the question has been on the page.
    pub seen: Option<Instant>,
    /// The answer that is being typed.
    pub typed: Option<String>,
    /// What came of the last key.
    pub notice: String,
    /// The wait that all of this is about.
    about: Option<String>,
    /// Whether the question was on the page for long enough.
    is_ready: bool,
}

/// What follows from a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// Answer a confirmation.
    Resolve(Box<v1::Wait>, v1::ConfirmationAnswer),
    /// Answer a question.
    Answer(Box<v1::Wait>, String),
    /// Double the budgets.
    Extend,
    /// End a run that waits for a budget.
    End,
    /// Pause or resume the run.
    Control(Way),
    /// Stop watching.
    Leave,
}

/// What the person can do now. A confirmation is answered once all of it was on the page.
#[must_use]
pub(super) fn offered(view: &RunView, prompt: &Prompt) -> Vec<Key> {
    let mut keys = Vec::new();
    if let Some(wait) = view.asking() {
        let is_read = || {
            let asked = prompt.asked.as_ref();
            prompt.is_ready && asked.is_some_and(|it| it.is_whole && it.wait_id == wait.id)
        };
        if wait.kind() == v1::WaitKind::Budget {
            keys.push(Key::Extend);
            // It cannot be taken back: a key that was pressed before the question came does not count.
            keys.extend(prompt.is_ready.then_some(Key::End));
        } else if wait.call_digest.is_empty() {
            keys.push(Key::Answer);
        } else if is_read() {
            keys.extend([Key::Approve, Key::Deny]);
        }
    }
    if view.run.terminal.is_none() {
        keys.push(if view.is_paused() { Key::Resume } else { Key::Pause });
    }
    keys.push(Key::Leave);
    keys
}

impl Prompt {
    /// Takes note of what a page showed. Another question is seen anew.
    pub(super) fn shown(&mut self, shows_end: bool, most_scroll: usize, now: Instant) {
        self.scroll = self.scroll.min(most_scroll);
        if shows_end && self.seen.is_none() {
            self.seen = Some(now);
        }
        self.is_ready = self.seen.is_some_and(|seen| now.duration_since(seen) >= SEEN_FOR);
    }

    /// Begins anew where the run asks something else, or nothing. Answers the confirmation that has to be read then.
    pub(super) fn turn_to(&mut self, view: &RunView) -> Option<v1::Wait> {
        let asking = view.asking();
        if asking.map(|wait| &wait.id) == self.about.as_ref() {
            return None;
        }
        let about = asking.map(|wait| wait.id.clone());
        *self = Self { about, notice: std::mem::take(&mut self.notice), ..Self::default() };
        asking.filter(|wait| !wait.call_digest.is_empty()).cloned()
    }

    /// What follows from a key; none where it only changed the page, or is not offered.
    #[allow(clippy::wildcard_enum_match_arm, reason = "most keys of a terminal do nothing here")]
    pub(super) fn press(&mut self, view: &RunView, key: KeyEvent) -> Option<Act> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Act::Leave);
        }
        if let Some(typed) = self.typed.as_mut() {
            return match key.code {
                KeyCode::Esc => {
                    self.typed = None;
                    None
                }
                KeyCode::Backspace => {
                    typed.pop();
                    None
                }
                KeyCode::Char(letter) if !is_control && typed.len() < MOST_TYPED => {
                    typed.push(letter);
                    None
                }
                KeyCode::Enter if !typed.trim().is_empty() => {
                    let text = typed.clone();
                    self.typed = None;
                    view.asking().map(|wait| Act::Answer(Box::new(wait.clone()), text))
                }
                _ => None,
            };
        }
        match key.code {
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::Char(letter) if !is_control => return self.choose(view, letter),
            _ => {}
        }
        None
    }

    fn choose(&mut self, view: &RunView, letter: char) -> Option<Act> {
        let key = offered(view, self).into_iter().find(|key| key.letter() == letter)?;
        let resolve = |word| view.asking().map(|wait| Act::Resolve(Box::new(wait.clone()), word));
        match key {
            Key::Approve => resolve(v1::ConfirmationAnswer::Approve),
            Key::Deny => resolve(v1::ConfirmationAnswer::Deny),
            Key::Answer => {
                self.typed = Some(String::new());
                None
            }
            Key::Extend => Some(Act::Extend),
            Key::End => Some(Act::End),
            Key::Pause => Some(Act::Control(Way::Pause)),
            Key::Resume => Some(Act::Control(Way::Resume)),
            Key::Leave => Some(Act::Leave),
        }
    }
}
