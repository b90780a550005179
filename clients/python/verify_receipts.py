#!/usr/bin/env python3
"""Checks what `surety receipts export` wrote, without Surety: verify_receipts.py FILE KEYS [TSA_CERTIFICATE].

KEYS is what `surety keys export` wrote; TSA_CERTIFICATE (PEM) is that of the time-stamp authority. Needs
PyPI's `cryptography`. Exit code 0: signed; 1: the first problem is printed, or why nothing was checked.
docs/receipts.md has the format.
"""

import sys
from pathlib import Path
from typing import Any

from verify_rules import (
    STATES,
    TESTS,
    Lines,
    compare_columns,
    is_tested,
    may_sign,
    owners,
    predicate_type,
    statements,
)
from verify_signatures import ROOT, WRONG, canonical, named, need, opened, read_keys, root_of, sha256

FORM = "surety receipts 6"
# The form before: it does not say which rows have answers of persons.
WITHOUT_ANSWERS = "surety receipts 5"
NEW: dict[str, str] = {}  # the state of a run before its first row


class Check:
    """What the lines so far say of one run."""

    def __init__(self, text: str, keys: Any, authority: str | None) -> None:
        self.lines, self.keys, self.authority = Lines(text), keys, authority
        self.receipts, self.last, self.event, self.after = 0, "", 0, NEW
        self.columns: dict[Any, Any] = {}  # by "run", "task", or the revision of a plan
        self.verdict: dict[str, Any] = {}
        self.entries: list[str] = []  # the digests of the task's entries
        self.histories: list[Any] = []  # what verdicts name of them

    def file(self) -> None:
        lines = self.lines
        head = lines.read()["export"]
        self.run, self.form = head["run_id"], head["form"]
        need(self.form in (FORM, WITHOUT_ANSWERS), "its form is unknown")
        lines.must_be({"export": {"form": self.form, "run_id": self.run}}, "its form is unknown")
        self.stored, self.stored_line = lines.read()["stored"], lines.line
        lines.read()
        while "payload" in lines.value:
            kind, said = self.group()
            lines.read()
            if kind == "entry":
                continue
            need(kind == "commit" and not self.entries, "it is not in the canonical form")
            need(said["sequence"] - said["entries"] == self.event, "rows are missing, added or moved")
            need(said.get("before", NEW) == self.after, "it began from a state that was not signed")
            self.event, self.after = said["sequence"], {key: said[key] for key in ("progress", "state")}
            for _ in range(said["verdicts"]):
                self.gave_verdict()
        self.end()

    def group(self) -> tuple[str, Any]:
        """The lines under one signed root: the last one is a journal row or an entry of the task."""
        (root, _, services), lines = opened(self.lines.value, self.keys, ""), self.lines
        proof, place, kind, leaves, signers = lines.read()["proof"], lines.line, "", [], []
        while kind not in ("commit", "entry"):
            said = lines.read()
            [(kind, said)] = [("receipt", said)] if "seq" in said else said.items()
            signers.append(owners(kind, said))
            leaves.append(self.leaf(kind, said))
        need(kind == "commit" or len(leaves) == 1, "an entry of the task stands alone under its root")
        answers = [of["answers"] for of in (said, proof) if "answers" in of]
        if answers:
            is_one = len(answers) == 1 and answers[0] > 0 and kind == "commit"
            need(is_one and self.form == FORM, "its answers are not in the canonical form")
            signers.append({"planner"})
        digest = root_of(leaves, place, root["predicate"]["leaf_count"])
        is_signed = root["predicateType"] == ROOT and root["subject"][0]["digest"]["sha256"] == digest
        need(is_signed, f"the {kind} that ends here is not what was signed")
        need(may_sign(services, signers), "its key may not sign that")
        return kind, said

    def leaf(self, kind: str, said: Any) -> bytes:
        if kind == "receipt":
            digest, self.receipts = said["digest"], self.receipts + 1
            follows = said["seq"] == self.receipts and said.get("prev_digest", "") == self.last
            whole = canonical({name: said[name] for name in said if name != "digest"})
            is_whole = follows and sha256(whole).hex() == digest
            need(is_whole, f"receipt {self.receipts} was changed or moved")
            self.last = digest
            return sha256(b"\0", f"{self.run}\n{self.receipts}\n{digest}")
        leaf = sha256(b"\0", self.run, "\n", self.lines.line)
        if kind == "entry":
            before = (len(self.entries) + 1, self.entries[-1] if self.entries else "")
            need((said["number"], said["previous"]) == before, "entries of the task are missing or moved")
            self.entries.append(leaf.hex())
        elif kind != "commit":
            need(kind in ("run", "task", "plan"), "it is of no known kind")
            compare_columns(self.stored, kind, said)
            name = said["revision"] if kind == "plan" else kind
            need(name not in self.columns, f"{kind}: it was signed twice")
            self.columns[name] = said
        return leaf

    def gave_verdict(self) -> None:
        """The gate's statements about a verdict, and the anchor behind them."""
        (given, at, services), lines = opened(self.lines.value, self.keys, ""), self.lines
        said, signature = given["predicate"]["surety"], lines.value["signatures"][0]["sig"]
        summary, tests = statements(self.run, said, at)
        need(canonical(given) == summary and "gate" in services, "the gate gave no such verdict")
        rests_on = (said["receipts"], said.get("last_receipt_digest", ""))
        need(rests_on == (self.receipts, self.last), "it rests on other receipts")
        plan = self.columns.get(said["plan_revision"], {})
        need(plan.get("digest") == sha256(said["plan_digest"]).hex(), "it is about another plan")
        self.verdict, self.histories = said, self.histories + [said[key] for key in said if key == "history"]
        lines.read()
        # Earlier versions signed a test result of every verdict.
        if is_tested(said) or predicate_type(lines.value) == TESTS:
            found, _, services = opened(lines.value, self.keys, at)
            need(canonical(found) == tests and "gate" in services, "the test result fits no verdict")
            lines.read()
        if "anchor" in lines.value:
            import verify_anchor  # the only part that reads DER

            verify_anchor.check(lines.value, self.run, signature, self.authority)
            lines.read()

    def end(self) -> None:
        """The run's state and the end of its chain, against what the rows say."""
        need("proof" not in self.lines.value, "a row has no signature")
        for history in self.histories:
            named = self.entries[history["entries"] - 1 : history["entries"]]
            need(named == [history["last_digest"]], "a verdict rests on other entries of the task")
        plans = sorted(name for name in self.columns if isinstance(name, int))
        last = plans[-1] if plans else 0
        state = {"plan_revision": last, "sequence": self.event, **self.after}
        self.lines.must_be(
            {"state": state},
            "state, todos, grants, questions, steps, round, start, answer or end are not what was signed",
        )
        accepted = self.verdict.get("accepted", False)
        fits = state["state"] in STATES and (state["state"] == "DONE") == accepted
        need(fits, "the run's state is not what its last verdict says")
        need(
            not accepted or self.verdict["plan_revision"] == last,
            "the accepting verdict is about another plan",
        )
        need("run" in self.columns, "the run was not signed")
        again = {name: said for name, said in self.columns.items() if isinstance(name, str)}
        again["plans"] = [self.columns[revision] for revision in plans]
        is_again = canonical({"stored": again}) == self.stored_line
        need(is_again, "the line `stored` is not the run, the task and the plans that were signed")
        end = {"chain_digest": self.last, "receipt_count": self.receipts, "run_id": self.run}
        self.lines.read()
        self.lines.must_be({"chain_end": end}, "the chain does not end there")
        need(self.lines.is_at_end(), "there are more lines after the chain's end")


def problems(export: bytes, keys: Any, authority: str | None = None) -> list[str]:
    number = 0
    try:
        check = Check(export.decode(), keys, authority)
        try:
            check.file()
        finally:
            number = check.lines.number
    except UnicodeDecodeError as error:
        before = export[: error.start].split(b"\n")
        return [f"line {len(before)}: it is not UTF-8 text"]
    except WRONG as error:
        return [f"line {number or 1}: {named(error)}"]
    return []


def main() -> None:
    paths = list(map(Path, sys.argv[1:]))
    if len(paths) not in (2, 3):
        sys.exit("usage: verify_receipts.py FILE KEYS [TSA_CERTIFICATE]")
    keys = read_keys(paths[1])
    try:
        certificate = paths[2].read_text(encoding="utf-8") if len(paths) > 2 else None
        found = problems(paths[0].read_bytes(), keys, certificate)
    except (OSError, *WRONG) as error:
        sys.exit(f"a file cannot be read: {named(error)}")
    print("\n".join(found) or "signed")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
