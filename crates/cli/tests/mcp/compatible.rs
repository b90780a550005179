//! The same server with the client of the protocol's own Rust crate.

use crate::flow::broken;
use crate::support::Home;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::process::Command;

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

async fn accepted(home: &Home) -> Value {
    let mut command: Command = home.command(&["mcp"]).into();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let transport = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = ().serve(transport).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 6);
    let plan = object(crate::flow::plan(json!(["product.txt"])));
    let propose = CallToolRequestParams::new("surety_propose_plan").with_arguments(plan);
    let proposed = client.call_tool(propose).await.unwrap();
    assert_eq!(proposed.is_error, Some(false));
    let verdict = client.call_tool(CallToolRequestParams::new("surety_verdict")).await.unwrap();
    client.cancel().await.unwrap();
    assert!(child.wait().await.unwrap().success());
    verdict.structured_content.unwrap()
}

#[tokio::test]
async fn the_crates_own_client_reaches_a_verdict() {
    let home = broken();
    let refused = accepted(&home).await;
    assert_eq!(refused["accepted"], false, "{refused:#}");
    home.put("product.txt", "fixed\n");
    let verdict = accepted(&home).await;
    assert_eq!(verdict["accepted"], true, "{verdict:#}");
}
