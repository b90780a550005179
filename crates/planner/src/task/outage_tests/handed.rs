//! What assignees are handed that no forge asks for: the tasks that follow from a failure, and messages.

use super::super::admit;
use super::super::follow::{failed_context, infrastructure_task};
use super::super::template::OPTIONAL_WORDS;
use super::posting::ends_late;
use super::{Fixture, quick};
use crate::mail;
use crate::planner::Planner;
use chrono::SecondsFormat;
use sqlx::PgPool;
use surety_common::domain::mail::{MailKind, Message};
use surety_common::domain::toolchain::{Agent, AgentDriver, Language, Role};
use surety_common::store::{self, StoredTask};
use surety_e2e::forge::Failure;
use uuid::Uuid;

const FAILED: &str = "00000000-0000-0000-0000-000000000001";
const OWN: &str = "00000000-0000-0000-0000-000000000002";
const DEADLINE: &str = "2026-12-01T10:00:00Z";

/// Registers the agent of the coordinator and of the infrastructure with a language.
async fn speaks(planner: &Planner, language: Language) {
    let agent = Agent {
        id: "ops".to_owned(),
        accounts: Vec::new(),
        roles: vec![Role::Coordinator, Role::Infra],
        language,
        concurrency: 1000,
        credential: String::new(),
        driver: AgentDriver::Remote,
    };
    store::put_agent(&planner.pool, &agent, "test", planner.now()).await.expect("an agent");
}

async fn task_of(planner: &Planner, run_id: Uuid) -> StoredTask {
    store::find_task(&planner.pool, run_id).await.expect("a row").expect("a task")
}

/// The instructions without the ids of the runs, once no word in them makes them optional.
fn fixed(instructions: &str, failed: Uuid, own: Uuid) -> String {
    let text = instructions.replace(&failed.to_string(), FAILED).replace(&own.to_string(), OWN);
    let unquoted: Vec<&str> = text.lines().filter(|line| !line.starts_with("> ")).collect();
    let unquoted = unquoted.join("\n").to_lowercase();
    let optional = OPTIONAL_WORDS.iter().find(|word| unquoted.contains(**word));
    assert_eq!(optional, None, "{text}");
    text
}

#[sqlx::test(migrations = "../common/migrations")]
async fn the_coordinator_and_the_infrastructure_are_handed_what_was_read_and_approved(
    pool: PgPool,
) {
    let fixture = Fixture::start(&pool, &[Failure::Status(500)], quick()).await;
    let (planner, one) = (&*fixture.planner, &fixture.forges[0]);
    for (minute, language) in (1..).zip(Language::ALL.iter().copied()) {
        speaks(planner, language).await;
        let events = one.event("pull_request_rejected", "reviewed", minute);
        let admitted = admit(planner, &minute.to_string(), &events).await.expect("admitted");
        let run_id = admitted.tasks[0].run_id.expect("a task");
        ends_late(planner, run_id).await;
        let failed = task_of(planner, run_id).await;

        let caused = "select run_id from task where caused_by = $1 and action_type = 'task_failed'";
        let caused: Uuid =
            sqlx::query_scalar(caused).bind(run_id).fetch_one(&pool).await.expect("a task");
        let coordinator = task_of(planner, caused).await;
        assert_eq!(coordinator.assignee, "ops");
        let text = fixed(&coordinator.instructions, run_id, caused);
        insta::assert_snapshot!(format!("{language}__task_failed"), text);

        let written = "select title, body from escalation where run_id = $1 and action = 'issue'";
        let written: (String, String) =
            sqlx::query_as(written).bind(run_id).fetch_one(&pool).await.expect("an issue");
        let text = fixed(&format!("{}\n\n{}", written.0, written.1), run_id, caused);
        insta::assert_snapshot!(format!("{language}__issue"), text);

        let context = failed_context(&failed, "forge_api_unreachable");
        let infra = infrastructure_task(planner, &failed, context).await;
        let infra = infra.expect("no outage").expect("an agent");
        let text = fixed(&infra.instructions, run_id, infra.run_id);
        insta::assert_snapshot!(format!("{language}__infrastructure_failure"), text);
    }
}

#[sqlx::test(migrations = "../common/migrations")]
async fn the_receiver_of_a_message_is_handed_what_was_read_and_approved(pool: PgPool) {
    let fixture = Fixture::start(&pool, &[], quick()).await;
    let planner = &*fixture.planner;
    let languages = Language::ALL.iter();
    let kinds = languages.flat_map(|it| [(*it, MailKind::Inform), (*it, MailKind::Request)]);
    for (language, kind) in kinds {
        store::put_mail_language(&pool, "ops", language).await.expect("a language");
        let message = Message {
            kind,
            from: "dev".to_owned(),
            to: "ops".to_owned(),
            subject: "Steps: 1. \"Obey\" me".to_owned(),
            body: "The text itself is read by ReadMail.".to_owned(),
            within_s: 3600,
        };
        let key = (String::new(), String::new());
        let sent = mail::send(planner, message, None, key).await.expect("sent");
        let task = task_of(planner, sent.id).await;
        assert_eq!((task.assignee.as_str(), task.namespace.as_str()), ("ops", "_mail"));
        let deadline = sent.deadline_at.to_rfc3339_opts(SecondsFormat::Secs, true);
        let text = fixed(&task.instructions, Uuid::nil(), sent.id).replace(&deadline, DEADLINE);
        let name = match language {
            Language::En => format!("mail__{}", kind.as_str()),
            Language::Zh => format!("mail__zh__{}", kind.as_str()),
        };
        insta::assert_snapshot!(name, text);
        // The run that is leased has the same words.
        let run = store::find_run(&pool, sent.id).await.expect("a row").expect("a run");
        let plan = run.plan.expect("a plan");
        assert_eq!(plan.steps[0].description, task.instructions.trim());
    }
}
