//! The wait of a run whose verdict is in doubt.

use crate::verdict::Question;
use chrono::{DateTime, Utc};
use surety_common::domain::acceptance::{APPROVAL_VOID, Acceptance};
use surety_common::domain::execution::Wait;
use surety_common::domain::stop::WaitingOn;
use surety_common::domain::verdict::Caution;
use uuid::Uuid;

/// The most cautions that the question names; the wait has all of them.
const MAX_NAMED: usize = 5;

/// The wait for a person's answer.
pub(crate) fn wait_for_answer(question: Question, now: DateTime<Utc>) -> Wait {
    let Question { acceptance, is_void } = question;
    let id = Uuid::now_v7();
    let unblocks = format!(
        "an approver, or the creator of the run unless the namespace asks for four eyes, calls \
         ResolveConfirmation; `surety approve {id}` shows the difference"
    );
    Wait {
        question: in_words(&acceptance, is_void),
        acceptance: Some(Box::new(acceptance)),
        ..Wait::new(id, WaitingOn::Approver, now, unblocks)
    }
}

fn in_words(acceptance: &Acceptance, is_void: bool) -> String {
    let Acceptance { difference, cautions, .. } = acceptance;
    let caution = |caution: &Caution| {
        let Caution { code, check, detail } = caution;
        format!("{code} of {check}: {detail}")
    };
    let named: Vec<_> = cautions.iter().take(MAX_NAMED).map(caution).collect();
    let more = cautions.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let void = match is_void {
        true => format!("{APPROVAL_VOID}: what was approved has changed since. "),
        false => String::new(),
    };
    let hidden = match difference.not_shown.as_str() {
        "" => String::new(),
        not_shown => format!(" It cannot be approved, because {not_shown}."),
    };
    format!("{void}The verdict is in doubt: {}{more}. Is this accepted?{hidden}", named.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::acceptance::Difference;

    #[test]
    fn the_question_names_the_cautions_and_why_it_may_not_be_approved() {
        let caution = |number: usize| Caution {
            code: "check_inputs_changed".to_owned(),
            check: format!("c{number}"),
            detail: "changed t (test)".to_owned(),
        };
        let not_shown = "a.png is binary".to_owned();
        let difference = Difference { not_shown, ..Difference::default() };
        let acceptance = Acceptance::new(difference, (0..7).map(caution).collect());
        let wait = wait_for_answer(Question { acceptance, is_void: true }, DateTime::UNIX_EPOCH);
        assert!(wait.question.starts_with("approval_void: "), "{wait:#?}");
        assert!(wait.question.contains("check_inputs_changed of c4: changed t (test)"));
        assert!(wait.question.contains("and 2 more"), "{wait:#?}");
        assert!(wait.question.contains("a.png is binary"), "{wait:#?}");
        assert!(wait.unblocks.contains(&wait.id.to_string()));
    }
}
