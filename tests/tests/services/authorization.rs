//! Every call of the API as every role, without a token, with one that has ended, and with one of another
//! namespace: the answers are those of the table in docs/authorization.md.

use anyhow::{Context, Result, ensure};
use prost::Message;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;
use surety_common::domain::fault::Fault;
use surety_common::domain::identity::{Means, RULES, Role, Rule};
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::admin_service_client::AdminServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::harness::{Deployment, PATIENCE};
use surety_e2e::script::{noop, plan, request, step};
use tonic::{Code, Request, Status};

/// The namespace of the identities under test.
const OWN: &str = "own";
const STRANGER: &str = "stranger-0123456789abcdef0123456789abcdef";

fn secret(name: &str) -> String {
    format!("{name}-0123456789abcdef0123456789abcdef")
}

/// A token file with an identity for each role, and one of another namespace that may do what a person may.
fn token_file() -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    for role in Role::ALL {
        let namespace = if role == Role::Service { "*" } else { OWN };
        writeln!(file, "{} {role} {role} {namespace}", secret(role.as_str()))?;
    }
    writeln!(file, "{STRANGER} stranger viewer,submitter,operator,approver other")?;
    writeln!(file, "{} root viewer,submitter,operator,approver *", secret("root"))?;
    Ok(file)
}

struct Fixture {
    deployment: Deployment,
    _file: tempfile::NamedTempFile,
    /// A run of the submitter.
    run_id: String,
}

impl Fixture {
    async fn start() -> Result<Self> {
        let file = token_file()?;
        let path = file.path().to_string_lossy().into_owned();
        let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &path)]).await?;
        deployment.use_token(Token::new(&secret("submitter"))?);
        let work = v1::CreateRunRequest {
            namespace: OWN.to_owned(),
            goal: "a goal".to_owned(),
            ..v1::CreateRunRequest::default()
        };
        let run_id = deployment.create_run(work).await?.id;
        Ok(Self { deployment, _file: file, run_id })
    }

    /// Where a service of the API is served.
    fn url_of(&self, service: &str) -> Result<String> {
        let executor = self.deployment.executors.first().context("an executor")?;
        Ok(match service {
            "ExecutorService" | "ToolService" => executor.url(),
            "AcceptGateService" | "InternalService" => self.deployment.gate.url(),
            _ => self.deployment.planner.url(),
        })
    }

    /// What a call answers to this token, with a run where the request names one in its first field.
    async fn ask(&self, rule: &Rule, token: Option<&str>) -> Result<Option<Status>> {
        let token = token.map(Token::new).transpose()?;
        let channel = channel(&self.url_of(rule.service)?, token.as_ref())?;
        let path = format!("/surety.v1.{}/{}", rule.service, rule.method);
        call(channel, &path, self.message(rule)).await
    }

    /// The request, as bytes: an object of the namespace where the call is about one.
    fn message(&self, rule: &Rule) -> Vec<u8> {
        let run_id = self.run_id.clone();
        match rule.method {
            "CreateRun" => v1::CreateRunRequest {
                namespace: OWN.to_owned(),
                goal: "a goal".to_owned(),
                ..v1::CreateRunRequest::default()
            }
            .encode_to_vec(),
            "GetNamespacePolicy" | "SetNamespacePolicy" => {
                v1::GetNamespacePolicyRequest { namespace: OWN.to_owned() }.encode_to_vec()
            }
            // In these the run's id is the first field; further fields are left out.
            "GetRun" | "ListReceipts" | "ListTurns" | "GetOutput" | "WatchRun" | "PauseRun"
            | "ResumeRun" | "CancelRun" | "ExportReceipts" | "SubmitPlan" | "GetPlan"
            | "RequestReplan" | "GetVerdict" | "VerifyReceipts" | "EvaluateRun" => {
                v1::ExportReceiptsRequest { run_id }.encode_to_vec()
            }
            _ => Vec::new(),
        }
    }
}

/// Makes a unary call, or the beginning of a stream, with bytes for a message.
async fn call(channel: ServiceChannel, path: &str, bytes: Vec<u8>) -> Result<Option<Status>> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await?;
    let request = Request::new(tokio_stream::once(bytes));
    let answer = client.streaming(request, path.parse()?, Bytes).await;
    match answer {
        Err(status) => Ok(Some(status)),
        Ok(response) => match response.into_inner().message().await {
            Err(status) => Ok(Some(status)),
            Ok(_) => Ok(None),
        },
    }
}

/// A codec of bare bytes.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl tonic::codec::Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl tonic::codec::Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(
        &mut self,
        item: Vec<u8>,
        buffer: &mut tonic::codec::EncodeBuf<'_>,
    ) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl tonic::codec::Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(
        &mut self,
        buffer: &mut tonic::codec::DecodeBuf<'_>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let length = bytes::Buf::remaining(buffer);
        Ok(Some(bytes::Buf::copy_to_bytes(buffer, length).to_vec()))
    }
}

fn is_denied(answer: &Option<Status>) -> bool {
    answer.as_ref().is_some_and(|status| status.code() == Code::PermissionDenied)
}

fn is_unauthenticated(answer: &Option<Status>) -> bool {
    answer.as_ref().is_some_and(|status| {
        status.code() == Code::Unauthenticated
            && from_status(status).reason.as_str().eq_ignore_ascii_case("unauthenticated")
    })
}

#[tokio::test]
async fn every_call_answers_every_role_as_the_table_says() -> Result<()> {
    let fixture = Fixture::start().await?;
    // What changes the run comes last, so that every call finds it.
    let (changing, others): (Vec<&Rule>, Vec<&Rule>) =
        RULES.iter().partition(|rule| rule.method == "CancelRun");
    for rule in others.into_iter().chain(changing) {
        for role in Role::ALL {
            let answer = fixture.ask(rule, Some(&secret(role.as_str()))).await?;
            let granted = rule.grants.iter().any(|grant| grant.role == role);
            let found = format!("{}.{} as {role}: {answer:?}", rule.service, rule.method);
            assert_eq!(!is_denied(&answer), granted, "{found}");
            assert!(!is_unauthenticated(&answer), "{found}");
        }
    }
    fixture.deployment.finish().await
}

#[tokio::test]
async fn no_call_is_answered_without_a_token_that_is_known_and_valid() -> Result<()> {
    let fixture = Fixture::start().await?;
    let url = fixture.deployment.planner.url();
    let root = Token::new(&secret("root"))?;
    let mut admin = AdminServiceClient::new(channel(&url, Some(&root))?);
    let create = |name: &str, seconds: i64| v1::CreateTokenRequest {
        name: name.to_owned(),
        roles: vec![v1::Role::Viewer.into(), v1::Role::Submitter.into()],
        namespaces: vec!["*".to_owned()],
        valid_for: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..v1::CreateTokenRequest::default()
    };
    let expiring = admin.create_token(create("expiring", 1)).await?.into_inner();
    let revoked = admin.create_token(create("revoked", 3600)).await?.into_inner();
    let token_id = revoked.token.clone().context("a token")?.id;
    admin.revoke_token(v1::RevokeTokenRequest { token_id, ..Default::default() }).await?;
    let list = RULES.iter().find(|rule| rule.method == "ListRuns").context("ListRuns")?;
    let began = Instant::now();
    while !is_unauthenticated(&fixture.ask(list, Some(&expiring.secret)).await?) {
        ensure!(began.elapsed() < PATIENCE, "an expired token is still known");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let unknown = "unknown-0123456789abcdef0123456789abcdef".to_owned();
    for rule in RULES {
        for token in [None, Some(&expiring.secret), Some(&revoked.secret), Some(&unknown)] {
            let answer = fixture.ask(rule, token.map(String::as_str)).await?;
            let found = format!("{}.{}: {answer:?}", rule.service, rule.method);
            assert!(is_unauthenticated(&answer), "{found}");
        }
    }
    malformed(&url).await?;
    fixture.deployment.finish().await
}

/// A run that waits for its plan is followed without an event.
#[tokio::test]
async fn a_follower_is_cut_off_once_its_token_is_revoked_or_expires() -> Result<()> {
    let fixture = Fixture::start().await?;
    let url = fixture.deployment.planner.url();
    let mut admin = AdminServiceClient::new(channel(&url, Some(&Token::new(&secret("root"))?))?);
    for (name, seconds) in [("revoked", 3600), ("expiring", 2)] {
        let create = v1::CreateTokenRequest {
            name: name.to_owned(),
            roles: vec![v1::Role::Viewer.into()],
            namespaces: vec![OWN.to_owned()],
            valid_for: Some(prost_types::Duration { seconds, nanos: 0 }),
            ..v1::CreateTokenRequest::default()
        };
        let created = admin.create_token(create).await?.into_inner();
        let mut runs = RunServiceClient::new(channel(&url, Some(&Token::new(&created.secret)?))?);
        let watch = v1::WatchRunRequest {
            run_id: fixture.run_id.clone(),
            follow: true,
            ..v1::WatchRunRequest::default()
        };
        let mut events = runs.watch_run(watch).await?.into_inner();
        ensure!(events.message().await?.is_some(), "the run has events");
        if name == "revoked" {
            let token_id = created.token.context("a token")?.id;
            admin.revoke_token(v1::RevokeTokenRequest { token_id, ..Default::default() }).await?;
        }
        let ended = async {
            while events.message().await?.is_some() {}
            Ok::<(), Status>(())
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await.context("it goes on")?;
        assert_eq!(fault(ended)?.class_word(), "unauthenticated", "{name}");
    }
    fixture.deployment.finish().await
}

/// Headers that hold no token.
async fn malformed(url: &str) -> Result<()> {
    for header in ["Bearer", "Bearer ", "Basic dTpw", "x", &format!("Token {}", secret("root"))] {
        let mut client = RunServiceClient::new(channel(url, None)?);
        let mut request = Request::new(v1::ListRunsRequest::default());
        request.metadata_mut().insert("authorization", header.parse()?);
        let status = client.list_runs(request).await.err().context("it was answered")?;
        assert_eq!(status.code(), Code::Unauthenticated, "{header:?}: {status:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_object_of_another_namespace_is_not_found() -> Result<()> {
    let fixture = Fixture::start().await?;
    for rule in RULES
        .iter()
        .filter(|rule| matches!(rule.means, Means::Read | Means::Change | Means::Answer))
    {
        let person = |role: &Role| Role::PERSON.contains(role);
        if !rule.grants.iter().any(|grant| person(&grant.role)) || fixture.message(rule).is_empty()
        {
            continue;
        }
        let answer = fixture.ask(rule, Some(STRANGER)).await?;
        let status = answer.with_context(|| format!("{} was answered", rule.method))?;
        assert_eq!(status.code(), Code::NotFound, "{}: {status:?}", rule.method);
    }
    let stranger = Token::new(STRANGER)?;
    let mut runs =
        RunServiceClient::new(channel(&fixture.deployment.planner.url(), Some(&stranger))?);
    for namespace in [String::new(), OWN.to_owned()] {
        let list = v1::ListRunsRequest { namespace, ..v1::ListRunsRequest::default() };
        assert!(runs.list_runs(list).await?.into_inner().runs.is_empty());
    }
    assert!(runs.list_waits(v1::ListWaitsRequest::default()).await?.into_inner().waits.is_empty());
    fixture.deployment.finish().await
}

fn fault<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<Fault> {
    Ok(from_status(&answer.err().context("it was answered")?))
}

#[tokio::test]
async fn a_token_is_made_once_rotated_revoked_and_audited() -> Result<()> {
    let fixture = Fixture::start().await?;
    let url = fixture.deployment.planner.url();
    let client = |name: &str| -> Result<_> {
        Ok(AdminServiceClient::new(channel(&url, Some(&Token::new(&secret(name))?))?))
    };
    let mut root = client("root")?;
    let create = v1::CreateTokenRequest {
        request_id: "once".to_owned(),
        name: "ci".to_owned(),
        roles: vec![v1::Role::Submitter.into()],
        namespaces: vec![OWN.to_owned()],
        valid_for: None,
    };
    let first = root.create_token(create.clone()).await?.into_inner();
    let again = root.create_token(create.clone()).await?.into_inner();
    assert_eq!(first.secret.len(), 64);
    assert_eq!((&again.token, again.secret.as_str()), (&first.token, ""));
    let other = v1::CreateTokenRequest { name: "other".to_owned(), ..create.clone() };
    assert_eq!(fault(root.create_token(other).await)?.class_word(), "request_id_conflict");
    let token = first.token.context("a token")?;

    // An operator of one namespace reaches neither more roles nor more namespaces than it has.
    let mut operator = client("operator")?;
    for (roles, namespaces) in [
        (vec![v1::Role::Approver.into()], vec![OWN.to_owned()]),
        (vec![v1::Role::Operator.into()], vec!["*".to_owned()]),
    ] {
        let greedy = v1::CreateTokenRequest { roles, namespaces, ..create.clone() };
        let found = fault(operator.create_token(greedy).await)?;
        assert_eq!(found.class_word(), "permission_denied", "{found:?}");
    }
    let driver = v1::CreateTokenRequest {
        request_id: String::new(),
        roles: vec![v1::Role::Driver.into()],
        ..create.clone()
    };
    operator.create_token(driver).await?;

    let rotate =
        v1::RotateTokenRequest { token_id: token.id.clone(), ..v1::RotateTokenRequest::default() };
    let rotated = root.rotate_token(rotate).await?.into_inner();
    assert_eq!(rotated.token.as_ref().map(|token| token.name.as_str()), Some("ci"));
    let list = RULES.iter().find(|rule| rule.method == "ListRuns").context("ListRuns")?;
    let began = Instant::now();
    while !is_unauthenticated(&fixture.ask(list, Some(&first.secret)).await?) {
        ensure!(began.elapsed() < PATIENCE, "the old token is still known");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(fixture.ask(list, Some(&rotated.secret)).await?.is_none());

    let events = root.list_audit_events(v1::ListAuditEventsRequest::default()).await?.into_inner();
    let actions: Vec<_> = events.events.iter().map(|event| event.action.as_str()).collect();
    assert!(actions.starts_with(&["rotate_token", "create_token", "create_token", "import_token"]));
    let text = format!("{events:?}");
    assert!(!text.contains(&first.secret) && !text.contains(&rotated.secret), "a secret leaks");
    let mut stranger = AdminServiceClient::new(channel(&url, Some(&Token::new(STRANGER)?))?);
    let events = stranger.list_audit_events(v1::ListAuditEventsRequest::default()).await?;
    let objects: Vec<_> = events.into_inner().events;
    assert!(objects.iter().all(|event| event.action == "import_token"), "{objects:?}");
    assert_eq!(objects.len(), 1, "{objects:?}");
    fixture.deployment.finish().await
}

#[tokio::test]
async fn a_run_is_changed_by_its_submitter_or_an_operator_whose_name_is_in_its_journal()
-> Result<()> {
    let mut fixture = Fixture::start().await?;
    let url = fixture.deployment.planner.url();
    let root = RunServiceClient::new(channel(&url, Some(&Token::new(&secret("root"))?))?);
    let work = v1::CreateRunRequest {
        namespace: OWN.to_owned(),
        goal: "of root".to_owned(),
        ..v1::CreateRunRequest::default()
    };
    let of_root = root.clone().create_run(work).await?.into_inner().run.context("a run")?.id;
    let cancel = |run_id: &str| v1::CancelRunRequest {
        run_id: run_id.to_owned(),
        ..v1::CancelRunRequest::default()
    };
    let found = fault(fixture.deployment.runs()?.cancel_run(cancel(&of_root)).await)?;
    assert_eq!(found.class_word(), "permission_denied", "{found:?}");
    fixture.deployment.runs()?.cancel_run(cancel(&fixture.run_id)).await?;
    fixture.deployment.use_token(Token::new(&secret("operator"))?);
    fixture.deployment.runs()?.cancel_run(cancel(&of_root)).await?;
    for (run_id, name) in [(&of_root, "operator"), (&fixture.run_id, "submitter")] {
        let events = format!("{:?}", fixture.deployment.events(run_id).await?);
        assert!(events.contains(&format!("planner/{name}")), "{events}");
        assert!(events.contains(&format!("cancelled by {name}")), "{events}");
    }
    fixture.deployment.finish().await
}

#[tokio::test]
async fn a_namespaces_policy_bounds_what_a_run_may_ask_for_and_adds_its_checks() -> Result<()> {
    let mut fixture = Fixture::start().await?;
    let url = fixture.deployment.planner.url();
    let operator = Token::new(&secret("operator"))?;
    let mut admin = AdminServiceClient::new(channel(&url, Some(&operator))?);
    let check = v1::AcceptCheck { kind: "output_only".to_owned(), ..v1::AcceptCheck::default() };
    let policy = v1::NamespacePolicy {
        ceilings: [("max_run_rounds".to_owned(), 7)].into(),
        refuse_receipts_only: true,
        checks: vec![check],
        ..v1::NamespacePolicy::default()
    };
    let set = v1::SetNamespacePolicyRequest {
        namespace: OWN.to_owned(),
        policy: Some(policy),
        expected_version: Some(0),
        request_id: "set-1".to_owned(),
    };
    let ceilings = [("max_wishes".to_owned(), 7)].into();
    let strict = v1::NamespacePolicy { ceilings, ..v1::NamespacePolicy::default() };
    let strict = v1::SetNamespacePolicyRequest { policy: Some(strict), ..set.clone() };
    let refused = fault(admin.set_namespace_policy(strict).await)?;
    assert_eq!(
        (refused.class_word(), refused.field.as_deref()),
        ("limit_out_of_range".to_owned(), Some("ceilings.max_wishes"))
    );
    let stored = admin.set_namespace_policy(set.clone()).await?.into_inner();
    assert_eq!(stored.version, 1);
    let again = v1::SetNamespacePolicyRequest { request_id: "other".to_owned(), ..set.clone() };
    assert_eq!(fault(admin.set_namespace_policy(again).await)?.class_word(), "version_conflict");
    assert_eq!(admin.set_namespace_policy(set).await?.into_inner(), stored, "the first answer");

    fixture.deployment.use_token(Token::new(&secret("submitter"))?);
    let good = v1::CreateRunRequest {
        namespace: OWN.to_owned(),
        ..request(&plan(&[step("a", &[], &[noop()])]), "")
    };
    let run = fixture.deployment.create_run(good.clone()).await?;
    assert_eq!(run.limits.context("limits")?.max_run_rounds, Some(7));
    let wanted = v1::GetPlanRequest { run_id: run.id, revision: 0 };
    let stored = fixture.deployment.plans()?.get_plan(wanted).await?.into_inner();
    let owners: Vec<_> = stored.plan.context("a plan")?.verify.iter().map(|c| c.owner).collect();
    assert_eq!(owners.first(), Some(&v1::CheckOwner::Operator.into()), "{owners:?}");

    let limits = v1::Limits { max_run_rounds: Some(8), ..v1::Limits::default() };
    let greedy = v1::CreateRunRequest { limits: Some(limits), ..good.clone() };
    let found = fault(fixture.deployment.runs()?.create_run(greedy).await)?;
    assert_eq!(found.class_word(), "policy_exceeded", "{found:?}");
    assert!(found.message.contains("ceilings.max_run_rounds"), "{found:?}");
    let loose = v1::Policy {
        verify_commands: v1::VerifyCommands::ReceiptsOnly.into(),
        ..v1::Policy::default()
    };
    let loose = v1::CreateRunRequest { policy: Some(loose), ..good };
    let found = fault(fixture.deployment.runs()?.create_run(loose).await)?;
    assert!(found.message.contains("refuse_receipts_only"), "{found:?}");
    fixture.deployment.finish().await
}

/// The code of a fault, in lower case.
trait Word {
    fn class_word(&self) -> String;
}

impl Word for Fault {
    fn class_word(&self) -> String {
        self.reason.as_str().to_ascii_lowercase()
    }
}
