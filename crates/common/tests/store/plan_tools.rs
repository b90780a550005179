//! The tools that plans may name: those of a namespace, and of servers that are still configured.

use crate::support::{later, now};
use sqlx::PgPool;
use surety_common::store::{
    PlanTool, forget_other_servers, plan_tools, show_server_tools, show_tools,
};

fn described(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), format!("does {name}"))).collect()
}

/// The names of the tools that a plan of the namespace may name.
async fn named(pool: &PgPool, namespace: &str) -> Vec<String> {
    let tools = plan_tools(pool, namespace, later(1)).await.unwrap();
    tools.into_iter().map(|tool| tool.tool).collect()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_plan_names_tools_of_servers_of_its_namespace_that_are_still_configured(pool: PgPool) {
    let built_in = PlanTool {
        tool: "read_file".to_owned(),
        description: "reads".to_owned(),
        schema: "{}".to_owned(),
        from_outside: false,
    };
    show_tools(&pool, &[built_in], now()).await.unwrap();
    let only = ["default".to_owned()];
    let limited = described(&["a__add", "a__drop"]);
    show_server_tools(&pool, "a", Some(&only), &limited, now()).await.unwrap();
    show_server_tools(&pool, "b", None, &described(&["b__list"]), now()).await.unwrap();
    assert_eq!(named(&pool, "default").await, ["read_file", "a__add", "a__drop", "b__list"]);
    assert_eq!(named(&pool, "elsewhere").await, ["read_file", "b__list"]);
    // A list without a tool of before takes it away.
    show_server_tools(&pool, "a", Some(&only), &described(&["a__add"]), later(1)).await.unwrap();
    assert_eq!(named(&pool, "default").await, ["read_file", "a__add", "b__list"]);
    // A server that an executor starts without is gone with its tools.
    forget_other_servers(&pool, &["b"]).await.unwrap();
    assert_eq!(named(&pool, "default").await, ["read_file", "b__list"]);
}
