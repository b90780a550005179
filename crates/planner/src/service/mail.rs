//! Mail between agents.

use super::Service;
use super::page::Page;
use super::run::no_namespace;
use crate::call::MAX_REQUEST_ID;
use crate::mail;
use crate::planner::Planner;
use std::sync::Arc;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::{Object, Role, is_service_name};
use surety_common::domain::mail::{
    ANSWER_WITHIN_S, MAIL_NAMESPACE, MAIL_SYSTEM, MAX_WITHIN_S, MailKind, Message,
};
use surety_common::domain::problem::{Code, Problem};
use surety_common::store::{self, MailFilter, StoredMail};
use surety_common::wire::caller::Caller;
use surety_common::wire::mail::{read_mail_kind, read_mail_state};
use surety_common::wire::v1;
use surety_common::wire::value::{id, seconds, sha256_of};
use uuid::Uuid;

impl Service {
    /// The planner of the mail's database, once the caller may make the call.
    async fn of_mail(&self, caller: &Caller) -> Result<Arc<Planner>, Fault> {
        caller.may(&Object::namespace(MAIL_NAMESPACE), || no_namespace(MAIL_NAMESPACE))?;
        self.shards.of_namespace(MAIL_NAMESPACE).await
    }

    pub(super) async fn send(
        &self,
        caller: &Caller,
        request: v1::SendMailRequest,
    ) -> Result<v1::SendMailResponse, Fault> {
        let planner = self.of_mail(caller).await?;
        let request_digest = sha256_of(&request);
        let v1::SendMailRequest {
            request_id,
            from,
            to,
            subject,
            body,
            kind,
            answer_within,
            thread_id,
        } = request;
        check_request_id(&request_id)?;
        let from = acting(caller, "from", from)?;
        let kind = read_mail_kind("kind", kind)?;
        let within_s = match (kind, answer_within) {
            (MailKind::Request, Some(within)) => seconds("answer_within", within)?,
            (MailKind::Request, None) => ANSWER_WITHIN_S,
            (MailKind::Inform, None) => MAX_WITHIN_S,
            (MailKind::Inform, Some(_)) => {
                let message = "has no effect without the kind REQUEST; leave it out";
                return Err(Problem::at(Code::KeyWithoutEffect, "answer_within", message).into());
            }
        };
        let message = Message { kind, from, to, subject, body, within_s }.check()?;
        let thread = match thread_id.as_str() {
            "" => None,
            text => Some(self.thread_of(&planner, text, &message.from).await?),
        };
        let sent = mail::send(&planner, message, thread, (request_id, request_digest)).await?;
        Ok(v1::SendMailResponse { mail: Some(sent.into()) })
    }

    /// A thread that the sender takes part in.
    async fn thread_of(&self, planner: &Planner, text: &str, sender: &str) -> Result<Uuid, Fault> {
        let thread_id = id("thread_id", text)?;
        let takes_part = store::takes_part(&planner.pool, thread_id, sender).await?;
        if takes_part { Ok(thread_id) } else { Err(no_mail(text, "thread_id")) }
    }

    pub(super) async fn list_messages(
        &self,
        caller: &Caller,
        mut request: v1::ListMailRequest,
    ) -> Result<v1::ListMailResponse, Fault> {
        let planner = self.of_mail(caller).await?;
        let page = Page::of(&mut request)?;
        let v1::ListMailRequest { agent, sent, states, unread, thread_id, .. } = request;
        let thread_id = match thread_id.as_str() {
            "" => None,
            text => Some(id("thread_id", text)?),
        };
        let states = states.into_iter().map(|state| read_mail_state("states", state));
        let filter = MailFilter {
            agent: acting(caller, "agent", agent)?,
            sent,
            states: states.collect::<Result<_, _>>()?,
            unread,
            thread_id,
            before: page.after()?,
            limit: page.limit + 1,
        };
        let mut found = store::list_mail(&planner.pool, &filter).await?;
        let next_page_token = page.cut(&mut found, |mail| mail.id);
        let mail = found.into_iter().map(Into::into).collect();
        Ok(v1::ListMailResponse { mail, next_page_token })
    }

    pub(super) async fn read_message(
        &self,
        caller: &Caller,
        mail_id: &str,
    ) -> Result<v1::ReadMailResponse, Fault> {
        let planner = self.of_mail(caller).await?;
        let found = find(&planner, mail_id).await?;
        let name = caller.name();
        let is_operator = caller.identity().has(Role::Operator);
        let may_read = |mail: &StoredMail| is_operator || mail.from == name || mail.to == name;
        if !may_read(&found) {
            return Err(no_mail(mail_id, "mail_id"));
        }
        // What others read stays unread.
        let mail = if found.to == name { mail::read(&planner, found).await? } else { found };
        let thread = store::mail_thread(&planner.pool, mail.thread_id).await?;
        let thread = thread.into_iter().filter(may_read).map(Into::into).collect();
        Ok(v1::ReadMailResponse { mail: Some(mail.into()), thread })
    }

    pub(super) async fn reply(
        &self,
        caller: &Caller,
        request: v1::ReplyMailRequest,
    ) -> Result<v1::ReplyMailResponse, Fault> {
        let planner = self.of_mail(caller).await?;
        let request_digest = sha256_of(&request);
        let v1::ReplyMailRequest { request_id, mail_id, body } = request;
        check_request_id(&request_id)?;
        let asked = find(&planner, &mail_id).await?;
        if asked.to != caller.name() {
            return Err(no_mail(&mail_id, "mail_id"));
        }
        if is_service_name(caller.name()) {
            let message =
                "the name of this identity stands for the service; use a token with another name";
            return Err(Fault::new(FaultCode::PermissionDenied, message));
        }
        if asked.from == MAIL_SYSTEM {
            let message = "the service reads no answers; the message needs none";
            return Err(Fault::new(FaultCode::FailedPrecondition, message));
        }
        if body.trim().is_empty() {
            return Err(Problem::at(Code::FieldMissing, "body", "is blank; say the answer").into());
        }
        let (mail, answered) =
            mail::reply(&planner, asked, body, (request_id, request_digest)).await?;
        Ok(v1::ReplyMailResponse { mail: Some(mail.into()), answered: Some(answered.into()) })
    }
}

async fn find(planner: &Planner, mail_id: &str) -> Result<StoredMail, Fault> {
    let id = id("mail_id", mail_id)?;
    store::find_mail(&planner.pool, id).await?.ok_or_else(|| no_mail(mail_id, "mail_id"))
}

fn no_mail(id: &str, field: &str) -> Fault {
    let message = format!("this identity has sent and received no message with the id {id}");
    Fault::new(FaultCode::TaskNotFound, message).with_field(field)
}

/// The agent for which a call is made: the caller, or any other where the caller is an operator.
fn acting(caller: &Caller, field: &str, named: String) -> Result<String, Fault> {
    if named.is_empty() || named == caller.name() {
        return Ok(caller.name().to_owned());
    }
    if caller.identity().has(Role::Operator) {
        return Ok(named);
    }
    let message = format!("{:?} may not act for {named:?}; leave {field} out", caller.name());
    Err(Fault::new(FaultCode::PermissionDenied, message).with_field(field))
}

fn check_request_id(request_id: &str) -> Result<(), Problem> {
    if request_id.len() > MAX_REQUEST_ID {
        let message = format!("has more than {MAX_REQUEST_ID} bytes");
        return Err(Problem::at(Code::TooLarge, "request_id", message));
    }
    Ok(())
}
