//! The stateless mode of the executor: parses the text of a driver.

use crate::decision::{Reading, parse_decision};
use surety_common::domain::control::{Control, ControlKind};
use surety_common::domain::problem::WarningCode;
use surety_common::wire::v1;
use surety_common::wire::v1::parse_decision_response::Outcome;

/// Reads a decision from text. An invalid text is part of the answer.
pub fn read_decision(raw: &str) -> v1::ParseDecisionResponse {
    match parse_decision(raw) {
        Ok(Reading { decision, control, final_text: _, warnings }) => {
            let legacy =
                warnings.iter().any(|warning| warning.code == WarningCode::ControlProtocolLegacy);
            let envelope =
                control.as_ref().map_or(v1::ControlKind::Unspecified, |control| kind(control.kind));
            let outcome = match (decision, control) {
                (Some(decision), _) => Some(Outcome::Decision(decision.into())),
                (None, Some(Control { kind: said, reason, .. })) => {
                    let kind = kind(said).into();
                    Some(Outcome::Control(v1::Control { kind, reason }))
                }
                (None, None) => None,
            };
            v1::ParseDecisionResponse {
                outcome,
                envelope: envelope.into(),
                legacy,
                warnings: warnings.into_iter().map(Into::into).collect(),
            }
        }
        Err(problem) => v1::ParseDecisionResponse {
            outcome: Some(Outcome::Problem(problem.into())),
            ..v1::ParseDecisionResponse::default()
        },
    }
}

fn kind(kind: ControlKind) -> v1::ControlKind {
    match kind {
        ControlKind::StepDone => v1::ControlKind::StepDone,
        ControlKind::Replan => v1::ControlKind::Replan,
    }
}
