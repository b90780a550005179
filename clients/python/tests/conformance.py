"""Asks a live deployment every conformance row that has a call of its own.

SURETY_PLANNER, SURETY_EXECUTOR and SURETY_GATE are the services' addresses (host:port). The
package `surety` with its generated code is installed.
"""

import base64
import os
import sys

import grpc
from google.rpc import error_details_pb2, status_pb2
from rows import Number, parse, rows, same, write

from surety.v1 import (
    accept_gate_service_pb2 as gate_api,
    accept_gate_service_pb2_grpc as gate_rpc,
    check_pb2,
    decision_pb2,
    executor_service_pb2 as executor_api,
    executor_service_pb2_grpc as executor_rpc,
    plan_pb2,
    planner_service_pb2 as planner_api,
    planner_service_pb2_grpc as planner_rpc,
    receipt_pb2,
    todo_pb2,
    verdict_pb2,
)


class Refused(Exception):
    """A problem, in an answer or as a status."""

    def __init__(self, code, field):
        super().__init__(f"{code} at {field}")
        # An error carries its reason in upper case, a problem in lower case.
        self.code, self.field = code.lower(), field


def word(enum, prefix, number):
    """`STEP_STATE_DONE` as the contract writes it."""
    return enum.Name(number).removeprefix(prefix).lower()


def todo_status(written):
    """The API writes `cancelled` everywhere; the rows keep `canceled` for todos."""
    return "TODO_STATUS_" + ("cancelled" if written == "canceled" else written).upper()


def filled(pairs):
    """The members that say something."""
    return {key: value for key, value in pairs if value not in ("", None, [], {})}


# The services know every caller by a token.
CALLER = [("authorization", "Bearer " + os.environ["SURETY_TOKEN"])]


def ask(call, request):
    try:
        return call(request, metadata=CALLER)
    except grpc.RpcError as error:
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for detail in status_pb2.Status.FromString(value).details:
                    info = error_details_pb2.ErrorInfo()
                    if detail.Unpack(info) and info.domain == "surety":
                        raise Refused(info.reason, info.metadata.get("field", "")) from error
        raise


def outcome(response):
    """Which outcome an answer has; a problem is raised."""
    which = response.WhichOneof("outcome")
    if which == "problem":
        raise Refused(response.problem.code, response.problem.field)
    return which


def warnings_of(response, expect):
    given = {warning.code for warning in response.warnings}
    missing = [code for code in expect.get("warnings", []) if code not in given]
    if missing:
        raise AssertionError(f"no warning {missing} among {sorted(given)}")


def equal(what, expected, found):
    if not same(expected, found):
        raise AssertionError(f"{what}: expected {write(expected)}, found {write(found)}")


def decision_of(decision):
    found = filled(
        [
            ("action", word(decision_pb2.DecisionAction, "DECISION_ACTION_", decision.action)),
            ("speak", decision.speak),
            ("reason", decision.reason),
            ("goal_check", decision.goal_check),
        ]
    )
    if decision.HasField("tool_call"):
        call = decision.tool_call
        found["tool_call"] = {"name": call.name, "arguments": parse(call.arguments_json)}
    if decision.HasField("abort"):
        abort = decision.abort
        names = ("code", "user_message", "internal_reason")
        found["abort"] = filled((name, getattr(abort, name)) for name in names)
    return found


def check_of(check):
    match = word(check_pb2.CheckMatch, "CHECK_MATCH_", check.match)
    owner = word(check_pb2.CheckOwner, "CHECK_OWNER_", check.owner)
    found = filled([("id", check.id), ("kind", check.kind), ("target", check.target)])
    if match != "prefix":
        found["match"] = match
    if not check.required:
        found["required"] = False
    if check.params:
        found["params"] = dict(check.params)
    if owner != "plan":
        found["owner"] = owner
    return found


def without_defaults(check):
    defaults = {"required": True, "match": "prefix", "owner": "plan", "params": {}}
    return {key: value for key, value in check.items() if not same(defaults.get(key, ""), value)}


def steps_of(plan, statuses, expected):
    """Of each step what every row compares, and what this row names besides."""
    found = []
    for at, (step, status) in enumerate(zip(plan.steps, statuses, strict=True)):
        evidence = "none" if step.evidence == plan_pb2.EVIDENCE_NONE else "required"
        script = [{"name": c.name, "arguments": parse(c.arguments_json)} for c in step.script]
        named = {
            "description": step.description,
            "tools_expected": list(step.tools_expected),
            "outputs_expected": list(step.outputs_expected),
            "confirm_tools": list(step.confirm_tools),
            "write_scope": list(step.write_scope),
            "done_when": step.done_when,
            "evidence": evidence,
            "script": script,
            "verify": [check_of(check) for check in step.verify],
        }
        wanted = expected[at] if at < len(expected) else {}
        found.append(
            {
                "id": step.id,
                "status": word(plan_pb2.StepState, "STEP_STATE_", status.state),
                "dependencies": list(step.dependencies),
                **{key: value for key, value in named.items() if key in wanted},
            }
        )
    return found


# Fields of a command fact that are left out where they are empty.
CONDITIONS = ("environment", "workspace_before", "workspace_after")


def fact_of(fact):
    kind = fact.WhichOneof("fact")
    value = getattr(fact, kind)
    found = {"fact": kind}
    for field in value.DESCRIPTOR.fields:
        if field.name == "argv":
            if value.WhichOneof("command") == "argv":
                found["argv"] = list(value.argv.args)
        elif field.name in CONDITIONS:
            item = getattr(value, field.name)
            found.update(filled([(field.name, item if type(item) is str else list(item))]))
        elif not field.has_presence or value.HasField(field.name):
            item = getattr(value, field.name)
            found[field.name] = Number(item) if type(item) is int else item
    return found


def signature_of(receipt):
    """A signature in base64; what is no Ed25519 signature is returned as it was sent."""
    signature = receipt.signature
    return base64.b64encode(signature).decode() if len(signature) == 64 else signature.decode()


def receipt_of(receipt):
    texts = ("step_id", "call_id", "name", "arguments_digest", "summary", "output_digest")
    found = filled((name, getattr(receipt, name)) for name in (*texts, "prev_digest", "digest"))
    found.update(filled([("key_id", receipt.key_id), ("signature", signature_of(receipt))]))
    for name in ("started_at", "finished_at"):
        if receipt.HasField(name):
            found[name] = getattr(receipt, name).ToJsonString()
    found["step_index"] = Number(receipt.step_index)
    found["source"] = word(receipt_pb2.EvidenceSource, "EVIDENCE_SOURCE_", receipt.source)
    found["success"] = receipt.success
    for name in ("plan_revision", "seq"):
        if getattr(receipt, name):
            found[name] = Number(getattr(receipt, name))
    if receipt.facts:
        found["facts"] = [fact_of(fact) for fact in receipt.facts]
    return found


class Services:
    def __init__(self):
        channel = {
            name: grpc.insecure_channel(os.environ[name])
            for name in ("SURETY_PLANNER", "SURETY_EXECUTOR", "SURETY_GATE")
        }
        self.planner = planner_rpc.PlannerServiceStub(channel["SURETY_PLANNER"])
        self.executor = executor_rpc.ExecutorServiceStub(channel["SURETY_EXECUTOR"])
        self.gate = gate_rpc.AcceptGateServiceStub(channel["SURETY_GATE"])

    def parse_decision(self, raw):
        return ask(self.executor.ParseDecision, executor_api.ParseDecisionRequest(raw=raw))

    def decision(self, row, expect):
        response = self.parse_decision(row["raw"])
        found = decision_of(response.decision) if outcome(response) == "decision" else None
        equal("decision", expect.get("decision"), found)
        warnings_of(response, expect)

    def control(self, row, expect):
        try:
            response = self.parse_decision(row["raw"])
            outcome(response)
        except Refused:
            response = executor_api.ParseDecisionResponse()
        kind = word(decision_pb2.ControlKind, "CONTROL_KIND_", response.envelope)
        equal("control", expect["control"], None if kind == "unspecified" else kind)
        equal("legacy", expect.get("legacy", response.legacy), response.legacy)

    def plan(self, row, expect):
        request = planner_api.ParsePlanRequest(raw=row["raw"])
        response = ask(self.planner.ParsePlan, request)
        outcome(response)
        equal("title", expect.get("title", response.plan.title), response.plan.title)
        steps = steps_of(response.plan, response.statuses, expect["steps"])
        equal("steps", expect["steps"], steps)
        warnings_of(response, expect)

    def patch(self, row, expect):
        patch = row["patch"]
        states = plan_pb2.StepState
        statuses = [
            plan_pb2.StepStatus(
                step_id=str(step["id"]).strip(),
                state=states.Value("STEP_STATE_" + step.get("status", "pending").upper()),
            )
            for step in row["plan"]["steps"]
        ]
        request = planner_api.ApplyPatchRequest(
            plan_text=write(row["plan"]),
            statuses=statuses,
            patch=write(patch) if isinstance(patch, dict | list) else patch,
            max_plan_steps=int(row.get("max_plan_steps", 0)),
        )
        response = ask(self.planner.ApplyPatch, request)
        outcome(response)
        steps = steps_of(response.plan, response.statuses, expect["steps"])
        equal("title", expect.get("title", response.plan.title), response.plan.title)
        equal("steps", expect["steps"], steps)
        truncated = response.truncated_add
        equal("truncated_add", expect.get("truncated_add", truncated), truncated)
        warnings_of(response, expect)

    def checks(self, row, expect):
        step = {"id": "a", "description": "d"}
        raw = write({"title": "T", "steps": [step], "verify": row["verify"]})
        response = ask(self.planner.ParsePlan, planner_api.ParsePlanRequest(raw=raw))
        outcome(response)
        found = [check_of(check) for check in response.plan.verify]
        equal("checks", [without_defaults(check) for check in expect["checks"]], found)
        warnings_of(response, expect)

    def receipt(self, row, expect):
        receipt = gate_api.ReceiptInput(receipt_json=write(row["receipt"]))
        response = ask(self.gate.Evaluate, gate_api.EvaluateRequest(receipts=[receipt]))
        outcome(response)
        equal("receipt", filled(expect["receipt"].items()), receipt_of(response.normalised_receipts[0]))

    def evaluate(self, row, expect):
        receipts = []
        for fact in row["receipts"]:
            fact = dict(fact)
            call_id = fact.pop("call_id", "")
            receipt = {
                "step_index": Number("0"),
                "source": "tool_observation",
                "success": True,
                "call_id": call_id,
                "facts": [fact],
            }
            receipts.append(gate_api.ReceiptInput(receipt_json=write(receipt)))
        statuses = todo_pb2.TodoStatus
        todos = [
            todo_pb2.Todo(
                id=todo["id"],
                required=todo.get("required", True),
                status=statuses.Value(todo_status(todo["status"])),
            )
            for todo in row["todos"]
        ]
        response = ask(
            self.gate.Evaluate,
            gate_api.EvaluateRequest(
                workspace_root=row["workspace_root"],
                checks_json=write(row["checks"]),
                receipts=receipts,
                final_text=row["final_text"],
                todos=todos,
            ),
        )
        outcome(response)
        verdict = response.verdict
        found = {
            "accepted": verdict.accepted,
            "stop_reason": word(verdict_pb2.StopReason, "STOP_REASON_", verdict.stop_reason),
            "results": [
                {"name": result.name, "passed": result.passed}
                | ({"reason": result.reason} if result.reason else {})
                | ({"optional": True} if result.optional else {})
                for result in verdict.results
            ],
        }
        for key, value in found.items():
            equal(key, expect.get(key, value), value)


def check(method, row):
    """None, or what came back in place of what the row expects."""
    expect = row["expect"]
    refusal = expect.get("ok") is False
    try:
        method(row, expect)
    except Refused as problem:
        right = refusal and problem.code == expect["error"].lower()
        if right and problem.field.endswith(expect.get("field", "")):
            return None
        return f"refused: {problem}"
    except AssertionError as difference:
        return str(difference)
    return f"expected {expect['error']}, was read" if refusal else None


def main():
    services = Services()
    files = {
        "decision.jsonl": services.decision,
        "control.jsonl": services.control,
        "plan.jsonl": services.plan,
        "patch.jsonl": services.patch,
        "checks.jsonl": services.checks,
        "receipt.jsonl": services.receipt,
        "gate.jsonl": services.evaluate,
    }
    passed = failed = 0
    for name, method in files.items():
        for row in rows(name):
            said = check(method, row)
            if said is None:
                passed += 1
            else:
                failed += 1
                print(f"FAILED {name} {row['id']} {row.get('case', '')}: {said}")
    print(f"conformance: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
