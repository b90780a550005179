//! The codes as callers see them: every one crosses the wire and is documented.

use super::assert_page;
use prost::Message;
use prost_types::FileDescriptorSet;
use surety_common::domain::check;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::problem::{Code, Problem, WarningCode};
use surety_common::domain::stop::StopReason;
use surety_common::wire::FILE_DESCRIPTOR_SET;
use surety_common::wire::status::{from_status, to_status};

const INTRODUCTION: &str = "\
# Errors

<!-- Written by `UPDATE_DOCS=1 cargo test -p surety-common --test pages`; edits are lost. -->

Use this page to find what an error code means and what to do about it.

Every gRPC error carries `google.rpc.ErrorInfo` with `domain` `surety` and one of the codes below as
its `reason`, in upper case: `steps_empty` is `STEPS_EMPTY`, the member `ERROR_REASON_STEPS_EMPTY` of
`surety.v1.ErrorReason`. Its metadata holds `advice` and, where a field is at fault, `field`. Where they fit,
`BadRequest`, `PreconditionFailure`, `QuotaFailure` and `RetryInfo` join it. A text that does not
read is an ordinary answer of the calls that read texts: the same codes then stand in `problem`.
Which role may make which call is in
[authorization.md](authorization.md). The codes of the command line are in
[cli.md](cli.md), those of failed tool calls in [tools.md](tools.md).
";

/// The reasons that the gate gives beside those of the evidence alone: of rules, of cautions, of reports, and of checks that
/// it decides by asking.
const GATE_REASONS: &str = "\
| `command_not_started` | The command could not be started; the cause follows. |
| `prepare_failed` | A line of `policy.prepare` failed, so the command did not run; the line follows. |
| `hidden_check_failed` | A hidden check does not hold; its output is for its owner. |
| `too_few_tests` | Fewer tests ran than `params.min_tests` asks for. |
| `too_many_skipped` | More tests were skipped than `params.max_skipped` allows. |
| `tests_not_counted` | The check has such a bound, and the output names no number of tests. |
| `self_checked` | The policy has `require_independent`, and no check of a user or an operator counts (`system.independent`). |
| `workspace_changed_during_verification` | The workspace changed in two rounds (`system.workspace`), or the commit has other files than the workspace that was verified (`system.repository`). |
| `workspace_not_compared` | The workspace could not be read at the end of the round; the cause follows (`system.workspace`). |
| `no_action` | The assignee of the task reported nothing. |
| `report_empty` | The report is blank. |
| `report_author_mismatch` | Another agent wrote the report. |
| `report_before_start` | The report was written before the run began. |
| `account_unknown` | No account of the assignee is known at the forge, so it could not be asked. |
| `check_inputs_changed` | A caution: the check holds only with check inputs that the run changed, or its command wrote them. |
| `ignored_inputs_changed` | A caution: the check holds only with ignored files that steps wrote. |
| `program_from_workspace` | A caution: the run changed the program that the line starts. |
| `no_tests_seen` | A caution: a known runner ended with 0 and ran no test. |
| `tests_missing` | A caution: tests that were announced, or that ran at the start, did not run. |
| `flaky` | A caution: the command failed before on the same workspace. |
| `runner_patched` | A caution: failing tests that were added are not reported, and are with the code of the start. |
| `canary_not_run` | A caution, where `policy.refuse_on` names it: the canary was due and did not run. |
| `check_inputs_differ` | A caution, where `policy.refuse_on` names it: check inputs changed, and both runs hold. |
| `ignored_inputs_as_left` | A caution, where `policy.refuse_on` names it: ignored files of the start cannot be distinguished from later ones. |
| `originals_not_run` | A caution, where `policy.refuse_on` names it: the check did not run with all original check inputs. |
| `thin_check` | A caution, where `policy.refuse_on` names it: the check cannot fail. |
| `thin_report` | A caution, where `policy.refuse_on` names it: the report names no file, no build and no review. |
| `forge_not_asked` | A caution, where `policy.refuse_on` names it: the forge could not be asked about the task. |
| `sandbox_partial` | A caution, where `policy.refuse_on` names it: the command ran below the level `full`. |
| `participant_unconfined` | A caution, where `policy.refuse_on` names it: the command or the agent ran outside the sandbox (`system.participant`). |
| `overlay_readable` | A caution, where `policy.refuse_on` names it: the participant can read files of hidden checks (`system.participant`). |
| `no_base_revision` | A caution, where `policy.refuse_on` names it: the start is no revision (`system.start`). |
| `probe_target_invalid` | The target of an `http_probe` is not an http or https URL. |
| `probe_not_allowed` | The operator did not allow that host and port. |
| `probe_no_answer` | No answer came in time. |
| `probe_status_differs` | The answer has another status than the expected one. |
| `probe_text_missing` | The text is not in the answer. |
| `pull_request_not_merged` | The forge does not show the pull request as merged. |
| `no_new_push` | The forge shows no other commit than that of the event. |
| `checks_failing` | The forge shows a failing check of the newest commit. |
| `no_review` | The forge shows no review by the assignee after the event. |
| `no_response` | The forge shows neither a reply by the assignee nor a push after the event. |
| `no_reply` | The forge shows no comment by the assignee after the event. |
| `no_pull_request` | The forge shows no open or merged pull request that refers to the issue. |
| `no_successful_deployment` | The forge shows no successful deployment after the event. |
| `forge_api_unreachable` | The forge could not be asked; the failure is one of the infrastructure. |
| `verify_error` | The gate may not ask the forge, or its forges file has none for the repository. |
| `expression_false` | The expression is false. |
| `expression_invalid` | It does not parse, is too long, calls an unknown function, or fails on these facts. |
| `expression_not_bool` | Its result is neither true nor false. |
| `expression_timeout` | It used too much processor time, or could cost too much to be evaluated. |
";

/// The reasons of a group, each as the fault it makes.
fn inputs() -> Vec<Fault> {
    Code::ALL.iter().map(|code| Problem::new(*code, code.meaning()).into()).collect()
}

fn services() -> Vec<Fault> {
    FaultCode::ALL.iter().map(|code| Fault::new(*code, code.meaning())).collect()
}

/// `InvalidArgument` as the status is written everywhere else: `INVALID_ARGUMENT`.
fn status_name(fault: &Fault) -> String {
    let mut name = String::new();
    for letter in format!("{:?}", to_status(fault).code()).chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

fn table(page: &mut String, title: &str, faults: &[Fault]) {
    page.push_str(&format!(
        "\n## {title}\n\n| code | meaning | status | what to do |\n|---|---|---|---|\n"
    ));
    for fault in faults {
        let (code, meaning, advice) =
            (fault.reason.as_str(), fault.reason.meaning(), fault.reason.advice());
        let status = status_name(fault);
        page.push_str(&format!("| `{code}` | {meaning} | {status} | {advice} |\n"));
    }
}

fn document() -> String {
    let mut page = INTRODUCTION.to_owned();
    table(&mut page, "What was sent is at fault", &inputs());
    table(&mut page, "The call is good and cannot be carried out", &services());
    page.push_str(
        "\n## Warnings\n\nThe input was good all the same; what was put right is said. Nothing needs \
         doing.\n\n| code | meaning |\n|---|---|\n",
    );
    for code in WarningCode::ALL {
        page.push_str(&format!("| `{code}` | {} |\n", code.meaning()));
    }
    page.push_str(
        "\n## Why a check does not hold\n\nIn the `reason` of a verdict's result. That of \
         `system.todo_failed` and `system.todo_unconverged` names the todos instead.\n\n\
         | reason | meaning |\n|---|---|\n",
    );
    for reason in check::Reason::ALL {
        page.push_str(&format!("| `{reason}` | {} |\n", reason.meaning()));
    }
    page.push_str(GATE_REASONS);
    page.push_str(
        "\n## Stop reasons\n\nWhy a run ended, in `terminal.stop_reason`.\n\n\
         | reason | meaning |\n|---|---|\n",
    );
    for reason in StopReason::ALL {
        page.push_str(&format!("| `{}` | {} |\n", reason.as_str(), reason.meaning()));
    }
    page
}

#[test]
fn the_documentation_is_what_the_enums_say() {
    assert_page("errors.md", &document());
}

#[test]
fn the_enum_of_the_api_has_every_code_and_no_other() {
    let mut codes: Vec<String> = inputs()
        .iter()
        .chain(&services())
        .map(|fault| format!("ERROR_REASON_{}", fault.reason.to_wire()))
        .collect();
    codes.push("ERROR_REASON_UNSPECIFIED".to_owned());
    codes.sort();
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the API's descriptors");
    let mut enums = files.file.iter().flat_map(|file| &file.enum_type);
    let reasons = enums.find(|item| item.name() == "ErrorReason").expect("the enum");
    let mut members: Vec<_> = reasons.value.iter().map(|value| value.name().to_owned()).collect();
    members.sort();
    assert_eq!(members, codes, "proto/surety/v1/error_reason.proto and the Rust enums differ");
}

#[test]
fn every_code_comes_back_from_the_status_it_became() {
    for fault in inputs().into_iter().chain(services()) {
        assert_eq!(from_status(&to_status(&fault)), fault);
    }
}
