//! The request of a case: its plan, its checks, its policy.

use super::base::Base;
use super::case::{Case, Policy};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use surety_common::wire::v1;

/// The request that creates the case's run.
///
/// # Errors
/// The case says something that this player does not know.
pub(super) fn request(case: &Case, workspace: &str) -> Result<v1::CreateRunRequest> {
    use v1::create_run_request::PlanSource;
    Ok(v1::CreateRunRequest {
        goal: case.title.clone(),
        driver: match (case.agent.is_empty(), case.model.is_empty()) {
            (false, _) => v1::Driver::Remote,
            (true, false) => v1::Driver::Model,
            (true, true) => v1::Driver::Script,
        }
        .into(),
        plan_source: match case.plans_by_model() {
            true => None,
            false => Some(PlanSource::PlanText(plan(case)?.to_string())),
        },
        workspace: workspace.to_owned(),
        verify: checks(&case.checks)?,
        namespace: case.namespace.clone(),
        policy: Some(policy(&case.policy)?),
        limits: Some(limits(case)?),
        ..v1::CreateRunRequest::default()
    })
}

fn plan(case: &Case) -> Result<Value> {
    let base = Base::of(&case.base)?;
    let mut verify: Vec<Value> = case.text_checks.clone();
    verify.extend(case.plan_checks.iter().map(owned_by_plan));
    let mut steps = case.steps.clone();
    if steps.is_empty() {
        steps.push(json!({"id": "work", "script": case.script, "done_when": case.says}));
    }
    if !(case.agent.is_empty() && case.model.is_empty()) {
        steps.iter_mut().for_each(without_script);
    }
    for step in &mut steps {
        let Some(calls) = step["script"].as_array() else { continue };
        let mut script = Vec::new();
        for written in calls {
            script.extend(expand(&base, written)?);
        }
        let works = script.iter().any(|call| call["name"] != "noop");
        if !works && step["evidence"].is_null() {
            step["evidence"] = json!("none");
        }
        step["script"] = json!(script);
        if step["description"].is_null() {
            step["description"] = step["id"].clone();
        }
        let own = step.as_object_mut().and_then(|step| step.remove("checks"));
        let own = own.as_ref().and_then(Value::as_array).into_iter().flatten().cloned();
        let of_plan = step["verify"].as_array().into_iter().flatten().map(owned_by_plan);
        step["verify"] = of_plan.chain(own).collect();
    }
    Ok(json!({"title": case.title, "steps": steps, "verify": verify, "todos": case.todos}))
}

/// An agent decides what the step does.
fn without_script(step: &mut Value) {
    if let Some(step) = step.as_object_mut() {
        step.remove("script");
        let id = step.get("id").cloned().unwrap_or_default();
        step.entry("description").or_insert(id);
    }
}

fn owned_by_plan(check: &Value) -> Value {
    let line = check.as_str();
    let mut check = line
        .map_or_else(|| check.clone(), |line| json!({"kind": "command_success", "target": line}));
    check["owner"] = json!("plan");
    check
}

/// The replies that an agent or a model makes for an entry; none where it is no reply.
pub(super) fn replies(base: &Base, action: &Value) -> Result<Option<Vec<String>>> {
    let decided = |action: &str, calls: Vec<Value>| {
        let of_call = |call: Value| json!({"action": action, "tool_call": call}).to_string();
        calls.into_iter().map(of_call).collect()
    };
    let text = |name: &str| action[name].as_str();
    if action["action"].is_string() {
        return Ok(Some(vec![action.to_string()]));
    }
    if let Some(said) = text("say") {
        return Ok(Some(vec![said.to_owned()]));
    }
    if let Some(said) = text("next") {
        return Ok(Some(vec![json!({"action": "next_plan", "goal_check": said}).to_string()]));
    }
    if let Some(said) = text("done") {
        let done = json!({"action": "done", "speak": said, "goal_check": "all of it is done"});
        return Ok(Some(vec![done.to_string()]));
    }
    if let Some(call) = action.get("confirm") {
        return Ok(Some(decided("confirm", expand(base, call)?)));
    }
    Ok(expand(base, action).ok().map(|calls| decided("continue", calls)))
}

/// The tool calls of one entry of a script.
pub(super) fn expand(base: &Base, written: &Value) -> Result<Vec<Value>> {
    let command = |arguments: Value| json!({"name": "run_command", "arguments": arguments});
    if written == "fix" {
        return Ok(vec![base.fix()?]);
    }
    if written == "noop" {
        return Ok(vec![json!({"name": "noop", "arguments": {}})]);
    }
    if let Some(line) = written["sh"].as_str() {
        return Ok(vec![command(json!({"argv": ["sh", "-c", line], "timeout_s": 60}))]);
    }
    if written["run"].is_array() {
        let mut arguments = json!({"argv": written["run"], "timeout_s": 60});
        for (key, argument) in [("in", "cwd"), ("env", "env")] {
            if !written[key].is_null() {
                arguments[argument] = written[key].clone();
            }
        }
        return Ok(vec![command(arguments)]);
    }
    if let Some(files) = written["write"].as_object() {
        let write = |(path, content): (&String, &Value)| json!({"name": "write_file", "arguments": {"path": path, "content": content}});
        return Ok(files.iter().map(write).collect());
    }
    if let Some([path, old, new]) = written["edit"].as_array().map(Vec::as_slice) {
        return Ok(vec![json!({"name": "edit_file",
            "arguments": {"path": path, "old_text": old, "new_text": new}})]);
    }
    if let Some(path) = written["read"].as_str() {
        return Ok(vec![json!({"name": "read_file", "arguments": {"path": path}})]);
    }
    if written["name"].is_string() {
        return Ok(vec![written.clone()]);
    }
    bail!("no call reads as {written}")
}

/// The user's checks as messages.
///
/// # Errors
/// A check has no kind, or a match that is none.
pub(crate) fn checks(written: &[Value]) -> Result<Vec<v1::AcceptCheck>> {
    written.iter().map(check).collect()
}

fn check(written: &Value) -> Result<v1::AcceptCheck> {
    if let Some(line) = written.as_str() {
        let (kind, target) = ("command_success".to_owned(), line.to_owned());
        return Ok(v1::AcceptCheck { kind, target, ..v1::AcceptCheck::default() });
    }
    let text = |key: &str| written[key].as_str().unwrap_or_default().to_owned();
    let r#match = match written["match"].as_str() {
        None => v1::CheckMatch::Unspecified,
        Some("exact") => v1::CheckMatch::Exact,
        Some("prefix") => v1::CheckMatch::Prefix,
        Some("contains") => v1::CheckMatch::Contains,
        Some(other) => bail!("no match is named {other:?}"),
    };
    let params = written["params"].as_object().into_iter().flatten();
    let params = params.map(|(key, value)| {
        (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    let overlay = written["overlay"].as_object().into_iter().flatten();
    let overlay = overlay.map(|(path, content)| {
        (path.clone(), content.as_str().unwrap_or_default().as_bytes().to_vec())
    });
    Ok(v1::AcceptCheck {
        id: text("id"),
        kind: written["kind"].as_str().context("a check has a kind")?.to_owned(),
        target: text("target"),
        r#match: r#match.into(),
        required: written["required"].as_bool(),
        params: params.collect(),
        owner: 0,
        overlay: overlay.collect(),
        overlay_digest: String::new(),
    })
}

fn policy(policy: &Policy) -> Result<v1::Policy> {
    let verify_commands = if policy.receipts_only {
        v1::VerifyCommands::ReceiptsOnly
    } else {
        v1::VerifyCommands::Runner
    };
    let in_doubt = match policy.in_doubt.as_str() {
        "" => v1::InDoubt::Unspecified,
        "ask" => v1::InDoubt::Ask,
        "refuse" => v1::InDoubt::Refuse,
        "allow" => v1::InDoubt::Allow,
        other => bail!("no in_doubt is named {other:?}"),
    };
    let canary = match policy.canary.as_str() {
        "" | "auto" => v1::CanaryPolicy::Auto,
        "always" => v1::CanaryPolicy::Always,
        "never" => v1::CanaryPolicy::Never,
        other => bail!("no canary is named {other:?}"),
    };
    let network = match (policy.loopback_ports.as_slice(), policy.hosts.as_slice()) {
        ([], []) => v1::NetworkPolicy::Unspecified,
        (_, []) => v1::NetworkPolicy::HostLoopback,
        (_, _) => v1::NetworkPolicy::Hosts,
    };
    let verify_tools = policy.verify_tools.iter().map(|(name, argv)| v1::VerifyTool {
        name: name.clone(),
        argv: argv.clone(),
        timeout: None,
    });
    Ok(v1::Policy {
        verify_tools: verify_tools.collect(),
        canary: canary.into(),
        verify_commands: verify_commands.into(),
        require_independent: policy.require_independent,
        in_doubt: in_doubt.into(),
        refuse_on: policy.refuse_on.clone(),
        protect: policy.protect.clone(),
        may_change: policy.may_change.clone(),
        prepare: policy.prepare.clone(),
        network: network.into(),
        loopback_ports: policy.loopback_ports.clone(),
        hosts: policy.hosts.clone(),
        ..v1::Policy::default()
    })
}

fn limits(case: &Case) -> Result<v1::Limits> {
    let mut limits =
        v1::Limits { max_repairs: Some(0), max_replans: Some(0), ..v1::Limits::default() };
    for (name, value) in &case.limits {
        match name.as_str() {
            "max_repairs" => limits.max_repairs = Some(*value),
            "max_replans" => limits.max_replans = Some(*value),
            "step_deadline_s" => {
                let seconds = i64::from(*value);
                limits.step_deadline = Some(prost_types::Duration { seconds, nanos: 0 });
            }
            other => bail!("no limit is named {other:?}"),
        }
    }
    Ok(limits)
}
