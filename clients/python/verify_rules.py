"""What verify_receipts.py needs: canonical lines, statements about a verdict, and who may sign a
row."""

import base64
import json
from typing import Any

from verify_signatures import STATEMENT, Refused, canonical, need, sha256

VSA = "https://slsa.dev/verification_summary/v1"
TESTS = "https://in-toto.io/attestation/test-result/v0.1"
STATES = {
    "INTAKE",
    "PLANNING",
    "EXECUTING",
    "VERIFYING",
    "RECOVERING",
    "BLOCKED",
    "DONE",
    "FAILED",
    "CANCELLED",
}
# The entries of a task that the planner alone writes.
ENTRIES = {"assignment", "handoff", "note", "observation", "review", "system"}


def no_fraction(text: str) -> Any:
    raise Refused(f"{text} is no integer")


class Lines:
    """The lines of a file, each in its one canonical form."""

    def __init__(self, text: str) -> None:
        self.lines, self.number, self.line = text.split("\n"), 0, ""
        self.value: Any = None
        need(self.lines.pop() == "", "the file does not end with a line end")

    def read(self) -> Any:
        need(self.number < len(self.lines), "the file is cut")
        self.line, self.number = self.lines[self.number], self.number + 1
        self.value = json.loads(self.line, parse_float=no_fraction, parse_constant=no_fraction)
        self.must_be(self.value, "it is not in the canonical form")
        return self.value

    def must_be(self, value: Any, otherwise: str) -> None:
        """As text: in Python the number 1 and the word true are equal."""
        need(canonical(value) == self.line, otherwise)

    def is_at_end(self) -> bool:
        return self.number == len(self.lines)


def predicate_type(line: Any) -> str:
    """What the statement in an envelope is; empty for a line without one. Nothing is checked."""
    payload = base64.b64decode(line.get("payload", ""))
    return str(json.loads(payload)["predicateType"]) if payload else ""


def is_tested(said: Any) -> bool:
    """Whether a verdict has the result of a check or of the project's own tests, besides the gate's rules."""
    names = [result.get("name", "") for result in said["results"]]
    checks = [name for name in names if name != "output_only" and not name.startswith("system.")]
    return bool(checks) or "system.project_tests" in names


def statements(run: str, said: Any, at: str) -> tuple[str, str]:
    """The summary and the test result that the gate signs for a verdict, in their canonical form."""
    accepted, receipts = said.get("accepted", False), said.get("last_receipt_digest", "")

    def digested(uri: str, digest: str) -> Any:
        return {"digest": {"sha256": digest}, "uri": f"urn:surety:{uri}"}

    def names(passed: bool) -> list[str]:
        return [it.get("name", "") for it in said["results"] if it.get("passed", False) == passed]

    plan = digested(f"plan:{run}:{said['plan_revision']}", said.get("plan_digest", ""))
    result = "PASSED" if accepted else "FAILED"
    summary = {
        "inputAttestations": [digested(f"receipts:{run}", receipts)],
        "policy": plan,
        "resourceUri": f"urn:surety:run:{run}",
        "slsaVersion": "1.0",
        "surety": said,
        "timeVerified": at,
        "verificationResult": result,
        "verifiedLevels": ["SURETY_" + said["strength"].upper() if accepted else "FAILED"],
        "verifier": {"id": "urn:surety:acceptgate"},
    }
    tests = {
        "configuration": [plan],
        "failedTests": names(False),
        "passedTests": names(True),
        "result": result,
    }
    run_digest = {"sha256": sha256(run, "\n", receipts).hex()}
    subject = [{"digest": run_digest, "name": f"urn:surety:run:{run}"}]
    if "workspace_digest" in said:
        digest = {"suretyWorkspace": said["workspace_digest"]}
        subject.append({"digest": digest, "name": "workspace"})

    def statement(kind: str, predicate: Any) -> str:
        whole = {"_type": STATEMENT, "predicate": predicate, "predicateType": kind, "subject": subject}
        return canonical(whole)

    return statement(VSA, summary), statement(TESTS, tests)


def owners(kind: str, said: Any) -> set[str]:
    """The services that may sign a leaf; every service may, where there is none."""
    if kind == "receipt":
        return recorded_by(said)
    if kind == "entry":
        is_report = said["kind"] == "action_report"
        need(is_report or said["kind"] in ENTRIES, "the kind of the entry is unknown")
        return {"executor", "planner"} if is_report else {"planner"}
    if kind == "commit":
        return {"gate"} if said["verdicts"] else set()
    return {"planner"}


def recorded_by(receipt: Any) -> set[str]:
    """What persons say, the planner records; that time has passed, any service; the rest, the executor."""
    name, facts = receipt.get("name"), receipt.get("facts", [])
    by = any(fact.get("key") == "by" for fact in facts)
    said = receipt["source"] == "approval" or (receipt["source"], name) == ("user_reply", "ask_user")
    if not said or any(fact["fact"] != "output" for fact in facts):
        return {"executor"}
    if not by and not receipt.get("success"):
        return set()
    return {"planner"} if by and name != "use_grant" else {"executor"}


def may_sign(services: set[str], of_leaves: list[set[str]]) -> bool:
    """Whether a key of these services may sign all of the leaves."""
    allowed = services - {"user"}
    for needed in filter(None, of_leaves):
        allowed &= needed
    return bool(allowed)


def compare_columns(stored: Any, kind: str, signed: Any) -> None:
    """The columns of the run, its task or a plan, as they were signed, against those in the database."""
    found = stored.get(kind, {})
    if kind == "plan":
        found = next((plan for plan in stored["plans"] if plan["revision"] == signed["revision"]), {})
    changed = sorted(column for column in signed | found if found.get(column) != signed.get(column))
    need(not changed, f"{kind}: {', '.join(changed)}: not what was signed")
