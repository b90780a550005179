//! Workers that lie, flood and go beyond their rights: each message has its clear refusal, and nothing is lost.

use crate::tool_workers::{Stage, TOOL, call, reads};
use anyhow::{Context, Result, ensure};
use surety_common::domain::fault::Reason;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_request::Message as Request;
use surety_e2e::agent::{AGENT, PERSON, WORKER};
use surety_e2e::worker::{Worker, admit, announce, entry, result, tool};
use tonic::Status;
use uuid::Uuid;

fn code(status: &Status) -> String {
    match from_status(status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    }
}

fn with(change: impl FnOnce(&mut v1::Tool)) -> v1::Announce {
    let mut tool = tool(TOOL);
    change(&mut tool);
    announce("w9", &[tool])
}

#[tokio::test]
async fn an_announcement_beyond_the_rights_of_its_worker_is_refused_with_its_code() -> Result<()> {
    let stage = Stage::with(1, reads()).await?;
    let executor = &stage.deployment.executors[0];
    let _first = stage.worker(0, "w1").await?;
    let schema = |text: String| with(|tool| tool.input_schema_json = text);
    let many: Vec<v1::Tool> = (0..101).map(|at| tool(&format!("tool{at}"))).collect();
    let elsewhere = |name: &str| v1::Announce {
        namespaces: vec![name.to_owned()],
        ..announce("w9", &[tool(TOOL)])
    };
    let cases: Vec<(&str, &str, v1::Announce)> = vec![
        (
            "another schema under a taken name",
            "tool_name_taken",
            schema(r#"{"type":"object"}"#.to_owned()),
        ),
        ("the name of a built-in tool", "tool_name_taken", announce("w9", &[tool("write_file")])),
        ("the alias of a built-in tool", "tool_name_taken", announce("w9", &[tool("view")])),
        ("a tool that no policy names", "tool_not_granted", announce("w9", &[tool("drop_tables")])),
        ("a namespace without the tool", "tool_not_granted", elsewhere("other")),
        ("a schema that does not compile", "schema_invalid", schema(r#"{"type": 7}"#.to_owned())),
        (
            "a schema of another document",
            "schema_invalid",
            schema(r#"{"$ref":"http://a.test/x"}"#.to_owned()),
        ),
        ("a schema that is no object", "schema_invalid", schema("[]".to_owned())),
        ("a schema that is no JSON", "schema_invalid", schema("{".to_owned())),
        ("a huge schema", "too_large", schema(format!(r#"{{"title":"{}"}}"#, "x".repeat(70_000)))),
        ("a huge description", "too_large", with(|tool| tool.description = "x".repeat(5000))),
        ("a name with a line break", "type_mismatch", announce("w9", &[tool("a\nb")])),
        ("no tool", "field_missing", announce("w9", &[])),
        ("too many tools", "too_large", announce("w9", &many)),
        ("the same tool twice", "type_mismatch", announce("w9", &[tool(TOOL), tool(TOOL)])),
        ("no name", "field_missing", announce("  ", &[tool(TOOL)])),
        (
            "too many calls at a time",
            "limit_out_of_range",
            v1::Announce { max_parallel: 1001, ..announce("w9", &[tool(TOOL)]) },
        ),
        (
            "a call without an end",
            "limit_out_of_range",
            with(|tool| {
                tool.timeout = Some(prost_types::Duration { seconds: 31 * 24 * 3600, nanos: 0 });
            }),
        ),
    ];
    for (what, expected, announce) in cases {
        let refused = Worker::connect(executor, WORKER, announce).await.err();
        let status = refused.with_context(|| format!("{what}: accepted"))?;
        ensure!(code(&status) == expected, "{what}: {status:?}");
    }
    for identity in [AGENT, PERSON] {
        let refused = Worker::connect(executor, identity, announce("w9", &[tool(TOOL)])).await;
        let status = refused.err().context("accepted")?;
        ensure!(code(&status) == "permission_denied", "{identity}: {status:?}");
    }
    let heartbeat = Request::Heartbeat(v1::WorkerHeartbeat {});
    let (_outgoing, mut incoming) = Worker::open(executor, WORKER, heartbeat).await?;
    let status = incoming.message().await.err().context("accepted")?;
    ensure!(code(&status) == "field_missing", "{status:?}");
    stage.deployment.finish().await
}

type Lie = (&'static str, &'static str, Request);

/// Results that are none, and the codes of their refusals.
fn false_results(call: &v1::ToolInvocation) -> Vec<Lie> {
    let fact = |fact: v1::fact::Fact| vec![v1::Fact { fact: Some(fact) }];
    let written = |path: &str| {
        let path = path.to_owned();
        fact(v1::fact::Fact::FileWritten(v1::fact::FileWritten { path, ..Default::default() }))
    };
    let named = |key: &str| {
        let (key, value) = (key.to_owned(), "me".to_owned());
        fact(v1::fact::Fact::Output(v1::fact::Output { key, value }))
    };
    let send = |change: &dyn Fn(&mut v1::ToolResult)| {
        let mut result = result(call, "");
        change(&mut result);
        Request::Result(result)
    };
    let other = Uuid::now_v7().to_string();
    let late = Some(prost_types::Duration { seconds: 90_000, nanos: 0 });
    let many = vec![named("k").remove(0); 201];
    vec![
        ("a call of others", "tool_call_unknown", send(&|it| it.call_id.clone_from(&other))),
        ("no call at all", "invalid_id", send(&|it| "mine".clone_into(&mut it.call_id))),
        ("another fence", "lease_lost", send(&|it| it.fence += 1)),
        ("no fence", "lease_lost", send(&|it| it.fence = 0)),
        ("a file outside", "type_mismatch", send(&|it| it.facts = written("/etc/passwd"))),
        ("a file above", "type_mismatch", send(&|it| it.facts = written("a/../../b"))),
        (
            "a fact in the name of the service",
            "type_mismatch",
            send(&|it| it.facts = named("surety.reported_by")),
        ),
        ("a fact with U+0000", "type_mismatch", send(&|it| it.facts = named("a\0b"))),
        ("too many facts", "too_large", send(&|it| it.facts.clone_from(&many))),
        ("a large output", "too_large", send(&|it| it.output = "x".repeat(40_000))),
        ("a long summary", "too_large", send(&|it| it.summary = "x".repeat(2000))),
        ("an output with U+0000", "type_mismatch", send(&|it| it.output = "a\0".to_owned())),
        ("success and an error", "type_mismatch", send(&|it| it.error = "no".to_owned())),
        (
            "a retry after a day",
            "limit_out_of_range",
            send(&|it| (it.success, it.retryable, it.retry_after) = (false, true, late)),
        ),
    ]
}

/// Other messages that are refused.
fn false_messages(call: &v1::ToolInvocation) -> Vec<Lie> {
    let part = |fence, bytes| {
        let (call_id, data) = (call.call_id.clone(), vec![0; bytes]);
        Request::Output(v1::ToolOutputChunk { call_id, fence, data })
    };
    let progress = |bytes, percent| {
        let (call_id, fence, message) = (call.call_id.clone(), call.fence, "x".repeat(bytes));
        Request::Progress(v1::ToolProgress { call_id, fence, message, percent })
    };
    vec![
        ("a large part of an output", "too_large", part(call.fence, 300_000)),
        ("a part under another fence", "lease_lost", part(call.fence + 1, 3)),
        ("120 percent", "limit_out_of_range", progress(1, Some(120))),
        ("a long report of progress", "too_large", progress(2000, None)),
    ]
}

#[tokio::test]
async fn a_lie_about_a_call_is_refused_and_the_call_goes_on() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let folder = tempfile::tempdir()?;
    let plan = surety_e2e::script::plan(&[surety_e2e::script::step("s", &[], &[call("x")])]);
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.deployment.create(&plan, &folder.path().to_string_lossy()).await?.id;
    let given = worker.call().await?;
    for (what, expected, message) in [false_results(&given), false_messages(&given)].concat() {
        let code = worker.refusal(message).await.with_context(|| what)?;
        ensure!(code == expected, "{what}: {code}");
    }
    worker.store(result(&given, "the truth")).await?;
    let code = worker.refusal(Request::Result(result(&given, "again"))).await?;
    ensure!(code == "tool_call_unknown", "a second result: {code}");
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(stage.receipts(&run_id).await?.iter().filter(|it| it.name == TOOL).count() == 1);
    stage.deployment.finish().await
}

#[tokio::test]
async fn another_worker_cannot_answer_a_call_that_it_was_not_given() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut first = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = first.call().await?;
    let mut second = stage.worker(0, "w2").await?;
    let code = second.refusal(Request::Result(result(&given, "stolen"))).await?;
    ensure!(code == "tool_call_unknown", "{code}");
    first.store(result(&given, "mine")).await?;
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn floods_of_progress_and_outputs_without_end_are_bounded() -> Result<()> {
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    let (call_id, fence) = (given.call_id.clone(), given.fence);
    let progress = || {
        let (call_id, message) = (call_id.clone(), "working".to_owned());
        Request::Progress(v1::ToolProgress { call_id, fence, message, percent: None })
    };
    for _ in 0..100 {
        worker.send(progress()).await?;
    }
    let code = worker.refused().await?;
    ensure!(code == "progress_limit", "{code}");
    for _ in 0..257 {
        let (call_id, data) = (call_id.clone(), vec![b'x'; 256 << 10]);
        worker.send(Request::Output(v1::ToolOutputChunk { call_id, fence, data })).await?;
    }
    let bounded = loop {
        let code = worker.refused().await?;
        if code != "progress_limit" {
            break code;
        }
    };
    ensure!(bounded == "too_large", "{bounded}");
    worker.store(result(&given, "short")).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_silent_worker_is_cut_off_and_a_second_announcement_ends_the_stream() -> Result<()> {
    let stage = Stage::that_loses(1, reads()).await?;
    let executor = &stage.deployment.executors[0];
    let announced = || Request::Announce(announce("w1", &[tool(TOOL)]));
    let (_outgoing, mut incoming) = Worker::open(executor, WORKER, announced()).await?;
    let silent = loop {
        match incoming.message().await {
            Ok(Some(_)) => {}
            Ok(None) => anyhow::bail!("ended without a status"),
            Err(status) => break code(&status),
        }
    };
    ensure!(silent == "worker_silent", "{silent}");
    let mut worker = stage.worker(0, "w1").await?;
    worker.send(announced()).await?;
    let twice = code(&worker.end().await?);
    ensure!(twice == "failed_precondition", "{twice}");
    let mut older = stage.worker(0, "w1").await?;
    let _newer = stage.worker(0, "w1").await?;
    let replaced = code(&older.end().await?);
    ensure!(replaced == "worker_replaced", "{replaced}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_worker_whose_token_is_revoked_is_cut_off_although_it_sends_heartbeats() -> Result<()> {
    let stage = Stage::with(1, reads()).await?;
    let mut revoked = stage.worker(0, "w1").await?;
    let mut admin = stage.deployment.admin()?;
    let tokens = admin.list_tokens(v1::ListTokensRequest::default()).await?.into_inner().tokens;
    let own = tokens.into_iter().find(|token| token.name == WORKER).context("its token")?;
    let revoke = v1::RevokeTokenRequest { token_id: own.id, ..Default::default() };
    admin.revoke_token(revoke).await?;
    let status = revoked.end().await?;
    ensure!(code(&status) == "unauthenticated", "{status:?}");
    let executor = &stage.deployment.executors[0];
    let refused = Worker::connect(executor, WORKER, announce("w2", &[tool(TOOL)])).await;
    ensure!(refused.is_err_and(|status| code(&status) == "unauthenticated"), "it is connected");
    stage.deployment.finish().await
}

#[tokio::test]
async fn annotations_count_only_as_the_operator_repeats_them() -> Result<()> {
    let stage = Stage::that_loses(1, v1::ToolAnnotations::default()).await?;
    let claims = with(|tool| tool.annotations = Some(reads()));
    let executor = &stage.deployment.executors[0];
    let mut liar = Worker::connect(executor, WORKER, claims).await?;
    let run_id = stage.run(&[call("x")]).await?;
    drop(liar.call().await?);
    drop(liar);
    // Of a tool that only reads it would be called again.
    let question = stage.deployment.question(&run_id).await?;
    ensure!(question.question.contains(TOOL), "{question:#?}");
    stage.deployment.answer(&question.wait_id, "fail").await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_tool_that_the_operator_takes_away_is_called_no_more() -> Result<()> {
    let stage = Stage::with(1, reads()).await?;
    let _worker = stage.worker(0, "w1").await?;
    admit(&stage.deployment, &[entry("another", WORKER)]).await?;
    let run_id = stage.run(&[call("x")]).await?;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    let events = format!("{:?}", stage.deployment.events(&run_id).await?);
    ensure!(events.contains("unknown_tool") || events.contains(TOOL), "{events}");
    stage.deployment.finish().await
}
