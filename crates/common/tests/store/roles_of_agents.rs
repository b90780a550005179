//! Which agent is given a task of a role.

use crate::support::now;
use crate::tasks::task;
use sqlx::PgPool;
use surety_common::domain::toolchain::{Agent, AgentDriver, Assignee, Forge, Language, Role};
use surety_common::store::{self, Admission, LeftOut, NewTask};

async fn put(pool: &PgPool, id: &str, (roles, concurrency): (&[Role], u32)) {
    let agent = Agent {
        id: id.to_owned(),
        accounts: vec![(Forge::Gitea, format!("{id}-account"))],
        roles: roles.to_vec(),
        language: Language::Zh,
        concurrency,
        credential: String::new(),
        driver: AgentDriver::Remote,
    };
    store::put_agent(pool, &agent, "test", now()).await.unwrap();
}

/// Stores an open task of an agent.
async fn busy(pool: &PgPool, agent: &str, number: u128) {
    let new = NewTask { assignee: agent.to_owned(), ..task("toolchain", number, now()) };
    let mut admission = Admission::begin(pool, []).await.unwrap();
    admission.insert(&new).await.unwrap();
    admission.commit().await.unwrap();
}

async fn reviewer(pool: &PgPool, left_out: &LeftOut) -> Option<String> {
    let mut admission = Admission::begin(pool, []).await.unwrap();
    let role = Assignee::Role(Role::Reviewer);
    let found = admission.agent_of(Forge::Gitea, &role, left_out).await.unwrap();
    found.map(|found| found.agent_id)
}

#[sqlx::test(migrations = "./migrations")]
async fn a_task_of_a_role_goes_to_the_agent_with_the_fewest_open_tasks_that_has_room(pool: PgPool) {
    put(&pool, "a", (&[Role::Reviewer], 1)).await;
    put(&pool, "b", (&[Role::Reviewer, Role::Infra], 5)).await;
    put(&pool, "c", (&[Role::Developer], 5)).await;
    let all = LeftOut::default();
    assert_eq!(reviewer(&pool, &all).await.as_deref(), Some("a"));
    // Equal numbers: by the id. One that has no room comes after one with more tasks.
    busy(&pool, "b", 1).await;
    assert_eq!(reviewer(&pool, &all).await.as_deref(), Some("a"));
    busy(&pool, "a", 2).await;
    assert_eq!(reviewer(&pool, &all).await.as_deref(), Some("b"));
    for number in 3..7 {
        busy(&pool, "b", number).await;
    }
    // No agent has room: the fewest tasks count.
    assert_eq!(reviewer(&pool, &all).await.as_deref(), Some("a"));
    // Ended tasks do not count.
    sqlx::query("update task set ended_at = created_at, outcome = 'accepted' where assignee = 'b'")
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(reviewer(&pool, &all).await.as_deref(), Some("b"));
}

#[sqlx::test(migrations = "./migrations")]
async fn agents_and_the_agents_of_accounts_are_left_out_of_a_role(pool: PgPool) {
    for id in ["a", "b", "c"] {
        put(&pool, id, (&[Role::Reviewer], 5)).await;
    }
    let left_out = |accounts: &[&str], agents: &[&str]| LeftOut {
        accounts: accounts.iter().map(ToString::to_string).collect(),
        agents: agents.iter().map(ToString::to_string).collect(),
    };
    for (accounts, agents, found) in [
        (&["A-Account"][..], &[][..], Some("b")),
        (&["a-account", "B-ACCOUNT"], &[], Some("c")),
        (&["stranger"], &["a"], Some("b")),
        (&["b-account"], &["a", "c"], None),
    ] {
        let reviewer = reviewer(&pool, &left_out(accounts, agents)).await;
        assert_eq!(reviewer.as_deref(), found, "{accounts:?} {agents:?}");
    }
    // The account of another forge is another one's.
    let mut admission = Admission::begin(&pool, []).await.unwrap();
    let role = Assignee::Role(Role::Reviewer);
    let left_out = left_out(&["a-account"], &[]);
    let found = admission.agent_of(Forge::Github, &role, &left_out).await.unwrap().unwrap();
    assert_eq!((found.agent_id.as_str(), found.language), ("a", Language::Zh));
}
