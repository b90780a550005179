//! Tasks and agents on the wire.

use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::toolchain::{Agent, AgentDriver, Forge, Language, Role, TaskEntry};
use surety_common::store::{EntryRow, StoredTask, TaskEnd};
use surety_common::wire::run::ended;
use surety_common::wire::v1;
use surety_common::wire::value::timestamp;

/// A task as it is shown.
pub(super) fn task(task: StoredTask) -> v1::Task {
    let StoredTask { payload, subject, state, .. } = task;
    let subject_of_mail = payload.context.get("subject").and_then(serde_json::Value::as_str);
    let is_mail = task.task_type == "mail";
    let subject_of_mail = subject_of_mail.filter(|_| is_mail).unwrap_or_default().to_owned();
    let failure = task.end.and_then(|TaskEnd { failure, .. }| failure);
    v1::Task {
        run_id: task.run_id.to_string(),
        task_type: task.task_type,
        state: v1::RunState::from(state).into(),
        event_type: payload.event_type,
        action_type: payload.action_type,
        from: payload.from,
        assignee: task.assignee,
        steps: payload.steps,
        context_json: serde_json::Value::Object(payload.context).to_string(),
        source: payload.source,
        subject: subject_of_mail,
        body: String::new(),
        created_at: Some(timestamp(task.created_at)),
        updated_at: Some(timestamp(task.updated_at)),
        terminal: task.terminal.map(|terminal| ended(terminal, state)),
        forge: task.forge,
        repo: subject.repo,
        number: subject.number,
        addressee: task.addressee,
        chain_id: task.chain_id.to_string(),
        caused_by: task.caused_by.map(|id| id.to_string()).unwrap_or_default(),
        depth: task.depth,
        reminders: task.reminders,
        remind_at: task.remind_at.map(timestamp),
        waiting_for: task.waiting_for,
        reported_at: task.reported_at.map(timestamp),
        outcome: task.end.map(|end| end.outcome.to_string()).unwrap_or_default(),
        failure: failure.map(|(failure, _)| failure.to_string()).unwrap_or_default(),
        failure_class: failure.map(|(_, class)| class.to_string()).unwrap_or_default(),
    }
}

/// An entry as it is shown.
pub(super) fn entry(row: EntryRow) -> v1::TaskEntry {
    let EntryRow { sequence, entry, links, attachment } = row;
    let TaskEntry { kind, author, body, at } = entry;
    v1::TaskEntry {
        sequence,
        kind: kind.to_string(),
        author,
        body,
        links,
        attachment,
        at: Some(timestamp(at)),
    }
}

/// An agent as it is shown.
pub(super) fn agent(agent: Agent) -> v1::Agent {
    let account =
        |(forge, login): (Forge, String)| v1::ForgeAccount { forge: forge.to_string(), login };
    v1::Agent {
        id: agent.id,
        accounts: agent.accounts.into_iter().map(account).collect(),
        roles: agent.roles.iter().map(ToString::to_string).collect(),
        language: agent.language.to_string(),
        concurrency: agent.concurrency,
        credential: agent.credential,
        driver: agent.driver.to_string(),
    }
}

/// An agent as it was sent, in its one form.
///
/// # Errors
/// `field_missing`, `type_mismatch`, `too_large`, `limit_out_of_range`, each with the field.
pub(super) fn read_agent(agent: v1::Agent) -> Result<Agent, Problem> {
    let v1::Agent { id, accounts, roles, language, concurrency, credential, driver } = agent;
    let accounts = accounts.into_iter().enumerate().map(|(index, account)| {
        let v1::ForgeAccount { forge, login } = account;
        Ok((read_forge(&format!("accounts[{index}].forge"), &forge)?, login))
    });
    let roles = roles.iter().enumerate().map(|(index, role)| {
        let known = || Role::ALL.iter().map(|role| role.as_str());
        Role::from_text(role.trim()).ok_or_else(|| unknown(format!("roles[{index}]"), known()))
    });
    let language = match language.trim() {
        "" => Language::En,
        text => Language::from_text(text).ok_or_else(|| {
            unknown("language".to_owned(), Language::ALL.iter().map(|language| language.as_str()))
        })?,
    };
    let driver = match driver.trim() {
        "" => AgentDriver::Remote,
        text => AgentDriver::from_text(text).ok_or_else(|| {
            unknown("driver".to_owned(), AgentDriver::ALL.iter().map(|driver| driver.as_str()))
        })?,
    };
    let agent = Agent {
        id,
        accounts: accounts.collect::<Result<_, Problem>>()?,
        roles: roles.collect::<Result<_, Problem>>()?,
        language,
        concurrency: concurrency.max(1),
        credential,
        driver,
    };
    agent.normalized()
}

/// A forge by its word.
///
/// # Errors
/// `field_missing`, `type_mismatch`.
pub(super) fn read_forge(field: &str, text: &str) -> Result<Forge, Problem> {
    if text.trim().is_empty() {
        return Err(Problem::at(Code::FieldMissing, field, "is missing; name the forge"));
    }
    let known = || Forge::ALL.iter().map(|forge| forge.as_str());
    Forge::from_text(text.trim()).ok_or_else(|| unknown(field.to_owned(), known()))
}

fn unknown<'a>(field: String, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    let message = format!("is unknown; use one of {}", known.join(", "));
    Problem::at(Code::TypeMismatch, field, message)
}
