//! What participants write into the history of a task.

use crate::call::Call;
use crate::planner::Planner;
use chrono::{DateTime, Utc};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Role;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::text::check_text;
use surety_common::domain::toolchain::{EntryKind, ProbeMode, is_blank};
use surety_common::store::{self, NewEntry, StoredTask, WaitingFor};
use surety_common::wire::caller::Caller;
use surety_common::wire::v1;

/// The longest text of an entry, in bytes.
const MAX_BODY: usize = 64 << 10;
/// The longest link, name of an attachment, and text of what is waited for, in bytes.
const MAX_LINE: usize = 200;
const MAX_LINK: usize = 2_000;
/// The most links of an entry.
const MAX_LINKS: usize = 50;

/// The report of a task, and who wrote it.
///
/// # Errors
/// `permission_denied`, `field_missing`, `too_large`, `type_mismatch`.
pub(super) fn read_report(
    caller: &Caller,
    task: &StoredTask,
    request: &v1::SubmitActionReportRequest,
    now: DateTime<Utc>,
) -> Result<NewEntry, Fault> {
    let is_assignee = caller.name() == task.assignee;
    let is_above = caller.identity().has(Role::Operator);
    if !is_assignee && !is_above {
        return Err(denied(caller, task, "reports on the task"));
    }
    let author = match request.author.trim() {
        "" => task.assignee.clone(),
        author if author == caller.name() || is_above => line("author", author)?,
        _ => return Err(denied(caller, task, "names another author")),
    };
    Ok(NewEntry {
        run_id: task.run_id,
        kind: EntryKind::ActionReport,
        author,
        body: body("report", &request.report)?,
        links: links(&request.links)?,
        attachment: String::new(),
        at: now,
    })
}

fn denied(caller: &Caller, task: &StoredTask, what: &str) -> Fault {
    let message = format!(
        "{:?} is not the assignee of task {} and no operator, so it {what} no more than it may; the assignee is {:?}",
        caller.name(),
        task.run_id,
        task.assignee
    );
    Fault::new(FaultCode::PermissionDenied, message)
}

/// An entry that a participant adds.
fn read_entry(
    caller: &Caller,
    task: &StoredTask,
    request: &v1::AddTaskEntryRequest,
    now: DateTime<Utc>,
) -> Result<NewEntry, Fault> {
    let kind = match request.kind.trim() {
        "" => EntryKind::Note,
        text => EntryKind::from_text(text)
            .filter(|kind| {
                !matches!(kind, EntryKind::ActionReport | EntryKind::Assignment | EntryKind::System)
            })
            .ok_or_else(|| {
                let message = "is none that a participant adds; use note, handoff, observation or review, and \
                               SubmitActionReport for the report";
                Problem::at(Code::EntryKindUnknown, "kind", message)
            })?,
    };
    if !request.waiting_for.trim().is_empty() && caller.name() != task.assignee {
        return Err(denied(caller, task, "stops the clock of the task"));
    }
    Ok(NewEntry {
        run_id: task.run_id,
        kind,
        author: caller.name().to_owned(),
        body: body("body", &request.body)?,
        links: links(&request.links)?,
        attachment: line("attachment", request.attachment.trim())?,
        at: now,
    })
}

/// Adds an entry. The assignee's entry says whether it waits for others.
///
/// # Errors
/// `permission_denied`, `entry_kind_unknown`, `field_missing`, `too_large`, `type_mismatch`, `request_id_conflict`,
/// `database_unavailable`.
pub(super) async fn add(
    planner: &Planner,
    caller: &Caller,
    task: &StoredTask,
    request: &v1::AddTaskEntryRequest,
) -> Result<v1::AddTaskEntryResponse, Fault> {
    let entry = read_entry(caller, task, request, planner.now())?;
    let waiting_for = line("waiting_for", request.waiting_for.trim())?;
    let call = Call::of(task.run_id, caller.name(), request)?;
    loop {
        if let Some(first) = planner.answered_before(&call).await? {
            return Ok(first);
        }
        let outcome = |sequence| {
            let response = v1::AddTaskEntryResponse { sequence };
            call.outcome(Some(task.run_id), &response, entry.at)
        };
        let (pool, signing) = (&planner.pool, &planner.keys.signing);
        let added = match caller.name() == task.assignee {
            true => {
                let mode = planner.escalations.probe_mode(&task.forge, &task.subject.repo);
                // A forge that is asked decides itself, at the time of the next reminder.
                let stops_clock = mode == ProbeMode::Off || task.remind_at.is_none();
                let waiting = WaitingFor { text: &waiting_for, stops_clock };
                store::add_own_entry(pool, signing, (&entry, waiting), outcome).await?
            }
            false => store::add_entry(pool, signing, &entry, outcome).await?,
        };
        if let Some(sequence) = added {
            return Ok(v1::AddTaskEntryResponse { sequence });
        }
    }
}

/// Stores the report of a task once for the call.
///
/// # Errors
/// `request_id_conflict`, `database_unavailable`.
pub(super) async fn report(planner: &Planner, call: &Call, entry: &NewEntry) -> Result<(), Fault> {
    loop {
        let first: Option<v1::SubmitActionReportResponse> = planner.answered_before(call).await?;
        if first.is_some() {
            return Ok(());
        }
        let outcome = |_| {
            let response = v1::SubmitActionReportResponse::default();
            call.outcome(Some(entry.run_id), &response, entry.at)
        };
        if store::report_task(&planner.pool, &planner.keys.signing, entry, outcome).await?.is_some()
        {
            return Ok(());
        }
    }
}

fn body(field: &str, text: &str) -> Result<String, Problem> {
    let text = text.trim();
    if is_blank(text) {
        return Err(Problem::at(Code::FieldMissing, field, "is blank; say what was done"));
    }
    within(field, text, MAX_BODY)
}

fn line(field: &str, text: &str) -> Result<String, Problem> {
    if text.contains(char::is_control) {
        let message = "contains a control character; use one line of text";
        return Err(Problem::at(Code::TypeMismatch, field, message));
    }
    within(field, text, MAX_LINE)
}

fn links(links: &[String]) -> Result<Vec<String>, Problem> {
    if links.len() > MAX_LINKS {
        let message = format!("has more than {MAX_LINKS} links; send fewer");
        return Err(Problem::at(Code::TooLarge, "links", message));
    }
    let link = |(index, link): (usize, &String)| within(&format!("links[{index}]"), link, MAX_LINK);
    links.iter().enumerate().map(link).collect()
}

fn within(field: &str, text: &str, most: usize) -> Result<String, Problem> {
    check_text(field, text, most)?;
    Ok(text.to_owned())
}
