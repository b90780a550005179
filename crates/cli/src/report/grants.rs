//! Grants, and what is left of them.

use chrono::{DateTime, Utc};
use surety_common::domain::grant::list_in_words;
use surety_common::wire::v1;
use surety_common::wire::v1::granted_argument::Value;

use super::rows::push;
use crate::text::{count, day_and_time, elapsed, moment, one_line};

/// Grants, one paragraph each, as they are at a time.
#[must_use]
pub fn grants(grants: &[v1::CallGrant], now: DateTime<Utc>) -> String {
    let paragraphs: Vec<_> = grants.iter().map(|grant| paragraph(grant, now)).collect();
    paragraphs.join("\n\n")
}

/// The grants of a run that still cover calls; empty for an ended run.
#[must_use]
pub(super) fn open_grants(run: &v1::Run, now: DateTime<Utc>) -> String {
    let open = |grant: &&v1::CallGrant| run.terminal.is_none() && state(grant, now) == "open";
    let open: Vec<_> = run.grants.iter().filter(open).cloned().collect();
    grants(&open, now)
}

/// What an approver is about to grant.
#[must_use]
pub fn terms(terms: &v1::GrantTerms) -> String {
    let mut text = format!("would be granted with it: {} of this tool", count(terms.uses, "call"));
    for (name, pattern) in &terms.arguments {
        let said = match serde_json::from_str::<Vec<String>>(pattern) {
            Ok(patterns) => list_in_words(&patterns),
            Err(_) => format!("matches {pattern}"),
        };
        push(&mut text, "where", &one_line(&format!("{name} {said}")));
    }
    push(&mut text, "and", "every other argument is exactly as shown");
    if let Some(ttl) = &terms.ttl {
        push(&mut text, "for", &elapsed(chrono::TimeDelta::seconds(ttl.seconds)));
    }
    text
}

fn paragraph(grant: &v1::CallGrant, now: DateTime<Utc>) -> String {
    let v1::CallGrant { id, tool, arguments, uses, used, granted_by, .. } = grant;
    let state = state(grant, now);
    let mut text = format!("{id}  {state}  {} used {used} of {uses}", one_line(tool));
    for v1::GrantedArgument { name, value } in arguments {
        let said = match value {
            Some(Value::ExactJson(json)) => format!("{name} is {json}"),
            Some(Value::Pattern(glob)) => format!("{name} matches {glob}"),
            Some(Value::Elements(list)) => format!("{name} {}", list_in_words(&list.patterns)),
            None => name.clone(),
        };
        push(&mut text, "where", &one_line(&said));
    }
    push(&mut text, "by", &one_line(granted_by));
    push(&mut text, "until", &day_and_time(grant.expires_at.as_ref()));
    if grant.revoked_at.is_some() {
        let at = day_and_time(grant.revoked_at.as_ref());
        push(&mut text, "revoked", &one_line(&format!("{at} by {}", grant.revoked_by)));
    }
    text
}

fn state(grant: &v1::CallGrant, now: DateTime<Utc>) -> &'static str {
    let expired = moment(grant.expires_at.as_ref()).is_some_and(|at| at <= now);
    if grant.revoked_at.is_some() {
        "revoked"
    } else if grant.used >= grant.uses {
        "used up"
    } else if expired {
        "expired"
    } else {
        "open"
    }
}
