//! A run's journal as text, kind by kind.

use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;

use crate::lines::{event_line, fact_line, intent_line, receipt_line, turn_line};
use crate::text::{columns, count, harmless, one_line, shortened, time_of_day};

/// How much of the outputs to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Their first lines.
    Short,
    /// All of them.
    Full,
}

/// The lines of an output that are shown by default.
const SHORT_LINES: usize = 6;

/// A run's journal.
#[derive(Debug, Clone, Copy)]
pub struct Journal<'a>(pub &'a [v1::Event]);

impl Journal<'_> {
    /// Every transition, plan, fork and verdict, in order.
    pub(super) fn timeline(&self) -> String {
        let shown = self.0.iter().filter(|event| {
            let kind = event.kind.as_ref();
            kind.is_some_and(|kind| match kind {
                Kind::Transition(_) | Kind::PlanStored(_) | Kind::Verdict(_) | Kind::Forked(_) => {
                    true
                }
                Kind::Turn(_)
                | Kind::Intent(_)
                | Kind::Receipt(_)
                | Kind::Output(_)
                | Kind::Answer(_) => false,
            })
        });
        lines(shown.map(event_line))
    }

    pub(super) fn turns(&self) -> String {
        lines(self.0.iter().filter_map(|event| {
            let Some(Kind::Turn(turn)) = &event.kind else { return None };
            Some(turn_text(turn))
        }))
    }

    pub(super) fn intents(&self) -> String {
        lines(self.0.iter().filter_map(|event| {
            let Some(Kind::Intent(intent)) = &event.kind else { return None };
            Some(format!("{} {}", time_of_day(event.at.as_ref()), intent_line(intent)))
        }))
    }

    pub(super) fn receipts(&self) -> String {
        lines(self.0.iter().filter_map(|event| {
            let Some(Kind::Receipt(receipt)) = &event.kind else { return None };
            Some(receipt_text(receipt))
        }))
    }

    pub(super) fn outputs(&self, extent: Extent) -> String {
        lines(self.0.iter().filter_map(|event| {
            let Some(Kind::Output(output)) = &event.kind else { return None };
            (output.bytes > 0).then(|| output_text(output, extent))
        }))
    }

    pub(super) fn answers(&self) -> String {
        let rows = self.0.iter().filter_map(|event| {
            let Some(Kind::Answer(answer)) = &event.kind else { return None };
            let time = time_of_day(event.at.as_ref());
            Some(vec![time, one_line(&answer.by), harmless(&answer.text)])
        });
        columns(&[], rows.collect())
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

fn turn_text(turn: &v1::Turn) -> String {
    let mut text = vec![turn_line(turn)];
    if let Some(decision) = &turn.decision {
        let said = [
            ("says", &decision.speak),
            ("why", &decision.reason),
            ("goal check", &decision.goal_check),
        ];
        let code = decision.abort.as_ref().map(|abort| abort.code.as_str()).unwrap_or_default();
        let said =
            said.into_iter().map(|(name, said)| (name, said.as_str())).chain([("code", code)]);
        let filled = said.filter(|(_, said)| !said.is_empty());
        text.extend(filled.map(|(name, said)| format!("    {name}: {}", shortened(said, 200))));
    }
    if !turn.validations.is_empty() {
        let verdicts = turn.validations.iter().map(|validation| {
            let passed = if validation.passed { "passed" } else { "refused" };
            let why = one_line(&format!("{} {}", validation.code, validation.reason));
            format!("{} {passed} {why}", one_line(&validation.name)).trim_end().to_owned()
        });
        text.push(format!("    {}", verdicts.collect::<Vec<_>>().join("; ")));
    }
    if let Some(usage) = usage_text(turn) {
        text.push(format!("    used: {usage}"));
    }
    if !turn.correction.is_empty() {
        text.push(format!("    correction: {}", shortened(&turn.correction, 200)));
    }
    text.join("\n")
}

/// What the driver's reply used, and where that is known from; none where it used nothing.
fn usage_text(turn: &v1::Turn) -> Option<String> {
    let v1::Turn { tokens, cost_micros, .. } = turn;
    let tokens = (*tokens > 0).then(|| count(*tokens, "token"));
    let cost = (*cost_micros > 0).then(|| format!("{cost_micros} millionths of cost"));
    let used: Vec<_> = tokens.into_iter().chain(cost).collect();
    if used.is_empty() {
        return None;
    }
    let source = match turn.usage_source() {
        v1::UsageSource::Unspecified => "",
        v1::UsageSource::Reported => " (reported)",
        v1::UsageSource::Reserved => " (charged at the reservation)",
        v1::UsageSource::Measured => " (measured)",
    };
    Some(format!("{}{source}", used.join(", ")))
}

fn receipt_text(receipt: &v1::EvidenceReceipt) -> String {
    let source = receipt.source().as_str_name().trim_start_matches("EVIDENCE_SOURCE_");
    let mut text =
        vec![format!("{} {} {}", receipt.seq, source.to_ascii_lowercase(), receipt_line(receipt))];
    text.extend(receipt.facts.iter().map(|fact| format!("    {}", fact_line(fact))));
    text.join("\n")
}

fn output_text(output: &v1::OutputStored, extent: Extent) -> String {
    let call = one_line(&output.call_id);
    let head = format!("call {call}, {} bytes, sha256 {}", output.bytes, one_line(&output.digest));
    let Some(body) = &output.text else {
        return format!(
            "{head}\n    (stored as an artifact, because it is too large for the journal)"
        );
    };
    let body = harmless(body);
    let all = body.lines().count();
    let wanted = match extent {
        Extent::Short => SHORT_LINES,
        Extent::Full => all,
    };
    let mut text = vec![head];
    text.extend(body.lines().take(wanted).map(|line| match extent {
        Extent::Short => format!("    | {}", shortened_line(line)),
        Extent::Full => format!("    | {line}"),
    }));
    if all > wanted {
        let more = u64::try_from(all - wanted).unwrap_or(u64::MAX);
        text.push(format!("    … {} (--full shows all)", count(more, "more line")));
    }
    text.join("\n")
}

fn shortened_line(line: &str) -> String {
    const LETTERS: usize = 120;
    if line.chars().count() <= LETTERS {
        return line.to_owned();
    }
    let kept: String = line.chars().take(LETTERS - 1).collect();
    format!("{kept}…")
}
