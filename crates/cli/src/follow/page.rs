//! What the live view shows: the state of a run and of the person's answer, laid out for a terminal of some size. Pure.
//!
//! ```text
//!   head    the run, its time, its goal, what it used of its budgets
//!   tree    the plan; a step at work has its driver's words and its last observation below it
//!   panel   what the run asks the person, whole: it can be scrolled
//!   foot    the keys, and what came of the last one
//! ```

use chrono::{DateTime, TimeDelta, Utc};
use surety_common::wire::v1;

use super::keys::{Key, Prompt, offered};
use super::tree::{Branch, branches};
use super::view::{RunView, StepView};
use super::wrap::{fit, wrapped};
use crate::report::budgets;
use crate::text::{
    count, elapsed, harmless, moment, one_line, run_state, shortened, step_state, stop_reason,
    waiting_on,
};

/// The most lines of a driver's words.
const SPEECH_LINES: usize = 3;
/// The marks of a step that runs, one after the other.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// How long one of them is shown, in milliseconds.
const SPIN: i64 = 200;

/// How a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As it is.
    Plain,
    /// A heading.
    Strong,
    /// Something that has passed.
    Faint,
    /// Something that holds.
    Good,
    /// Something that failed.
    Bad,
    /// What the person can do.
    Key,
}

/// One line, which is no wider than the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// How it is shown.
    pub style: Style,
    /// Its text, without control characters.
    pub text: String,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// Its lines from the top: at most as many as the terminal has.
    pub lines: Vec<Line>,
    /// Whether the last line of what the run asks is on it.
    pub shows_end: bool,
    /// How far the panel can be scrolled, in lines.
    pub most_scroll: usize,
}

/// The page for a terminal of this width and height in characters.
#[must_use]
pub(super) fn page(
    view: &RunView,
    prompt: &Prompt,
    (width, height): (u16, u16),
    now: DateTime<Utc>,
) -> Page {
    let (width, height) = (usize::from(width).max(1), usize::from(height));
    let head = head(view, now);
    let foot = foot(view, prompt, width);
    let left = height.saturating_sub(head.len() + foot.len());
    let asked = asked(view, prompt, width);
    // A tree of which nothing is seen says less than a part of a long question.
    let most = if asked.is_empty() { 0 } else { left.saturating_sub(3).max(left.div_ceil(2)) };
    let room = asked.len().min(most);
    let most_scroll = asked.len() - room;
    let scroll = prompt.scroll.min(most_scroll);
    let panel: Vec<_> = asked.into_iter().skip(scroll).take(room).collect();
    let tree = windowed(tree(view, width, now), left - panel.len());
    let mut lines = head;
    lines.extend(tree.into_iter().map(|(line, _)| line));
    lines.extend(panel);
    lines.extend(foot);
    let surplus = lines.len().saturating_sub(height);
    // The keys are at the end: on a tiny terminal the head goes first.
    lines.drain(..surplus);
    for line in &mut lines {
        line.text = fit(&line.text, width);
    }
    Page { lines, shows_end: room > 0 && scroll == most_scroll, most_scroll }
}

/// The whole tree, for the end of the run.
#[must_use]
pub(super) fn ended(view: &RunView, width: u16, now: DateTime<Utc>) -> Vec<Line> {
    let width = usize::from(width).max(1);
    let tree = tree(view, width, now).into_iter().map(|(line, _)| line);
    let lines = head(view, now).into_iter().chain(tree);
    lines.map(|line| Line { text: fit(&line.text, width), ..line }).collect()
}

fn line(style: Style, text: impl Into<String>) -> Line {
    Line { style, text: text.into() }
}

fn head(view: &RunView, now: DateTime<Utc>) -> Vec<Line> {
    let run = &view.run;
    let style = match run.state() {
        v1::RunState::Done => Style::Good,
        v1::RunState::Failed | v1::RunState::Cancelled => Style::Bad,
        v1::RunState::Unspecified
        | v1::RunState::Intake
        | v1::RunState::Planning
        | v1::RunState::Executing
        | v1::RunState::Verifying
        | v1::RunState::Recovering
        | v1::RunState::Blocked => Style::Strong,
    };
    let end = run.terminal.as_ref().and_then(|_| moment(run.updated_at.as_ref()));
    let time = moment(run.created_at.as_ref()).map(|began| elapsed(end.unwrap_or(now) - began));
    let why = run.terminal.as_ref().map(|it| format!(" [{}]", stop_reason(it.stop_reason())));
    let first = format!(
        "run {}  {}{}  {}",
        one_line(&run.id),
        run_state(run.state()),
        why.unwrap_or_default(),
        time.unwrap_or_default()
    );
    let counters = run.counters.unwrap_or_default();
    let mut used = vec![count(counters.rounds, "turn"), count(counters.tool_calls, "tool call")];
    if counters.replans + counters.repairs > 0 {
        used.push(count(counters.replans, "replan"));
        used.push(count(counters.repairs, "repair"));
    }
    used.extend(Some(budgets(run)).filter(|budgets| !budgets.is_empty()));
    let goal = Some(one_line(&run.goal)).filter(|goal| !goal.is_empty());
    let mut lines = vec![line(style, first.trim_end())];
    lines.extend(goal.map(|goal| line(Style::Plain, format!("goal  {goal}"))));
    lines.push(line(Style::Plain, format!("used  {}", used.join(", "))));
    if !view.last.is_empty() {
        lines.push(line(Style::Plain, format!("last  {}", one_line(&view.last))));
    }
    lines
}

/// The lines of the tree, and whether each is about a step at work.
fn tree(view: &RunView, width: usize, now: DateTime<Utc>) -> Vec<(Line, bool)> {
    let revision = match view.run.plan_revision {
        0 if view.steps.is_empty() => "there is no plan yet".to_owned(),
        0 => String::new(),
        revision => format!("  (plan revision {revision})"),
    };
    let root = format!("{}{revision}", one_line(&view.title));
    let mut lines = vec![(line(Style::Strong, root.trim_start()), false)];
    lines.extend(speech(&view.planned(), width).map(|line| (line, true)));
    for branch in branches(&view.steps) {
        let is_at_work = branch.step.is_at_work();
        lines.push((step_line(&branch, now), is_at_work));
        if is_at_work {
            let below = details(view, branch.step, width.saturating_sub(branch.below.len() + 4));
            let below = below
                .into_iter()
                .map(|it| Line { text: format!("{}    {}", branch.below, it.text), ..it });
            lines.extend(below.map(|line| (line, true)));
        }
    }
    lines
}

fn step_line(branch: &Branch<'_>, now: DateTime<Utc>) -> Line {
    let step = branch.step;
    let spin = usize::try_from(now.timestamp_millis() / SPIN).unwrap_or_default() % SPINNER.len();
    let (mark, style) = match step.state {
        v1::StepState::Running => (SPINNER.get(spin).copied().unwrap_or('*'), Style::Strong),
        v1::StepState::Waiting => ('…', Style::Strong),
        v1::StepState::Done => ('✓', Style::Good),
        v1::StepState::Failed | v1::StepState::Blocked | v1::StepState::Cancelled => {
            ('✗', Style::Bad)
        }
        v1::StepState::Unspecified
        | v1::StepState::Pending
        | v1::StepState::Ready
        | v1::StepState::Skipped => ('·', Style::Faint),
    };
    let (id, state) = (shortened(&step.id, 24), step_state(step.state));
    let time = step.time(now).map(|time| elapsed(time.max(TimeDelta::zero())));
    let about = match (branch.after.as_slice(), step.is_at_work() || step.last.is_empty()) {
        ([], true) => one_line(&step.description),
        ([], false) => one_line(&step.last),
        (after, true) => {
            format!("after {}: {}", one_line(&after.join(", ")), one_line(&step.description))
        }
        (_, false) => one_line(&step.last),
    };
    let time = time.unwrap_or_default();
    let text = format!("{}{mark} {id:<16} {state:<9} {time:>10}  {about}", branch.lines);
    line(style, text.trim_end())
}

/// What stands below a step at work.
fn details(view: &RunView, step: &StepView, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let reported = view.reported(&step.id);
    let words = match reported {
        Some(wait) if wait.kind() == v1::WaitKind::Decision => one_line(&wait.progress),
        Some(_) | None => step.speech.clone(),
    };
    lines.extend(speech(&words, width));
    if let Some(wait) = reported.filter(|wait| wait.kind() == v1::WaitKind::Tool) {
        let percent = wait.progress_percent.map(|it| format!("{it} %  ")).unwrap_or_default();
        lines.push(line(Style::Plain, format!("worker  {percent}{}", one_line(&wait.progress))));
    }
    if !step.last.is_empty() {
        lines.push(line(Style::Faint, one_line(&step.last)));
    }
    lines
}

/// The last lines of words that arrive.
fn speech(words: &str, width: usize) -> impl Iterator<Item = Line> + use<> {
    let said = wrapped(words, width.saturating_sub(2));
    let surplus = said.len().saturating_sub(SPEECH_LINES);
    said.into_iter().skip(surplus).map(|it| line(Style::Plain, format!("> {it}")))
}

/// At most `room` lines of the tree: those about steps at work, else the last ones.
fn windowed(lines: Vec<(Line, bool)>, room: usize) -> Vec<(Line, bool)> {
    if lines.len() <= room {
        return lines;
    }
    let last_at_work = lines.iter().rposition(|(_, is_at_work)| *is_at_work);
    let until = last_at_work.map_or(lines.len(), |at| (at + 2).min(lines.len()));
    let from = until.saturating_sub(room);
    lines.into_iter().skip(from).take(room).collect()
}

/// What the run asks, whole.
fn asked(view: &RunView, prompt: &Prompt, width: usize) -> Vec<Line> {
    let Some(wait) = view.asking() else {
        let Some(blocked) = &view.run.blocked else { return Vec::new() };
        let on = waiting_on(blocked.waiting_on());
        let text = format!("waits on {on}: {}", one_line(&blocked.unblocks));
        let lines = wrapped(&text, width).into_iter();
        return lines.map(|text| line(Style::Strong, text)).collect();
    };
    let on = waiting_on(wait.waiting_on());
    let step = Some(one_line(&wait.step_id)).filter(|step| !step.is_empty());
    let step = step.map(|step| format!(" for step {step}")).unwrap_or_default();
    let mut lines = vec![line(Style::Strong, format!("waits on {on}{step}"))];
    let text = match (&prompt.asked, wait.kind()) {
        (Some(asked), _) if asked.wait_id == wait.id => asked.text.clone(),
        (_, _) if !wait.call_digest.is_empty() => "reading what is asked".to_owned(),
        (_, _) => wait.question.clone(),
    };
    let mut paragraphs: Vec<_> = harmless(&text).lines().map(str::to_owned).collect();
    if !wait.choices.is_empty() {
        paragraphs.push(format!("choices: {}", one_line(&wait.choices.join(", "))));
    }
    for paragraph in paragraphs {
        let parts = wrapped(&paragraph, width.saturating_sub(2)).into_iter();
        lines.extend(parts.map(|part| line(Style::Plain, format!("  {part}"))));
    }
    lines
}

fn foot(view: &RunView, prompt: &Prompt, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if !prompt.notice.is_empty() {
        lines.push(line(Style::Bad, one_line(&prompt.notice)));
    }
    if let Some(typed) = &prompt.typed {
        let shown = format!("answer: {}_", harmless(typed));
        lines.extend(wrapped(&shown, width).into_iter().map(|text| line(Style::Key, text)));
        lines.push(line(Style::Key, "[Enter] send  [Esc] back"));
        return lines;
    }
    let keys = offered(view, prompt);
    let mut words: Vec<_> =
        keys.iter().map(|key| format!("[{}] {}", key.letter(), key.word())).collect();
    let waits_for_reading = view.asking().is_some_and(|wait| !wait.call_digest.is_empty())
        && !keys.contains(&Key::Approve);
    if waits_for_reading {
        words.insert(0, "[↓] read to the end, then approve or deny".to_owned());
    }
    lines.push(line(Style::Key, words.join("  ")));
    lines
}
