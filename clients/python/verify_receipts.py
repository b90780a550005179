#!/usr/bin/env python3
"""Checks what `surety receipts export` wrote, without Surety: verify_receipts.py FILE KEYS [TSA_CERTIFICATE].

KEYS is what `surety keys export` wrote; TSA_CERTIFICATE (PEM) is that of the time-stamp authority. Needs
PyPI's `cryptography`. Exit code 0: signed; 1: the first problem is printed. docs/receipts.md has the format.
"""

import base64
import hashlib
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import verify_anchor

KIND, STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
ROOT, VSA = "urn:surety:predicate:receipts-root:v1", "https://slsa.dev/verification_summary/v1"
TESTS = "https://in-toto.io/attestation/test-result/v0.1"
STATES = {"INTAKE", "PLANNING", "EXECUTING", "VERIFYING", "RECOVERING", "BLOCKED"}
STATES |= {"DONE", "FAILED", "CANCELLED"}


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(*parts: str | bytes) -> bytes:
    return hashlib.sha256(b"".join(p.encode() if isinstance(p, str) else p for p in parts)).digest()


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def opened(line: Any, keys: Any, at: str | None = None) -> tuple[Any, set[str]]:
    """The statement of an envelope, and the services for which its key signs."""
    payload, [signature] = base64.b64decode(line["payload"]).decode(), line["signatures"]
    statement, sig = json.loads(payload), base64.b64decode(signature["sig"])
    time = instant(at or statement["predicate"].get("signed_at") or statement["predicate"]["timeVerified"])
    named = [key for key in keys if key["key_id"] == signature["keyid"]]
    need(named, "its key is not trusted")
    public = base64.b64decode(named[0]["public_key"])
    Ed25519PublicKey.from_public_bytes(public).verify(
        sig, f"DSSEv1 {len(KIND)} {KIND} {len(payload.encode())} {payload}".encode()
    )
    again = {"keyid": sha256(public).hex()[:32], "sig": base64.b64encode(sig).decode()}
    again = {
        "payload": base64.b64encode(payload.encode()).decode(),
        "payloadType": KIND,
        "signatures": [again],
    }
    need(
        line == again and canonical(statement) == payload and statement["_type"] == STATEMENT,
        "it is not in the canonical form",
    )
    valid = [
        k
        for k in named
        if instant(k["valid_from"]) <= time < instant(k.get("valid_until") or "9999-12-31T00:00:00Z")
    ]
    need(valid, "its key was not valid then")
    return statement, {key["service"] for key in valid}


def tree(leaves: list[bytes], nodes: list[bytes], lo: int, first: int, count: int) -> bytes:
    """The root of `count` leaves from `first` on, of which those from `lo` on are known (RFC 6962)."""
    if first + count <= lo or lo + len(leaves) <= first:
        return nodes.pop(0)
    if count == 1:
        return leaves[first - lo]
    left = 1 << (count - 1).bit_length() - 1
    return sha256(
        b"\1", tree(leaves, nodes, lo, first, left), tree(leaves, nodes, lo, first + left, count - left)
    )


def recorded_by(receipt: Any) -> set[str]:
    """What persons say, the planner records; that time has passed, any service; the rest, the executor."""
    name, by = receipt.get("name"), any(fact.get("key") == "by" for fact in receipt.get("facts", []))
    said = receipt["source"] == "approval" or (receipt["source"], name) == ("user_reply", "ask_user")
    if not said or name == "use_grant":
        return {"executor"}
    return {"planner"} if by else set() if not receipt.get("success") else {"executor"}


def check(text: str, keys: Any, authority: str | None, place: list[int]) -> list[str]:
    """What is to be said of a file that holds; `place` is the number of the line that is looked at."""
    lines = text.split("\n")
    need(lines.pop() == "", "the file does not end with a line end")

    def following() -> tuple[str, Any]:
        place[0] += 1
        need(place[0] <= len(lines), "the file is cut")
        value = json.loads(lines[place[0] - 1])
        need(canonical(value) == lines[place[0] - 1], "it is not in the canonical form")
        return lines[place[0] - 1], value

    head, stored, (line, value) = following()[1], following()[1]["stored"], following()
    run, signed, plans, anchors = head["export"]["run_id"], None, {}, []
    need(head == {"export": {"form": "surety receipts 3", "run_id": run}}, "its form is unknown")
    seq, event, last, verdict, after = 0, 0, "", {}, {}
    while "payload" in value:  # a journal row: its signed root, its proof, its leaves, and its verdicts
        (root, services), proof = opened(value, keys), following()[1]["proof"]
        leaves, owners, commit = [], set(), None
        while commit is None:
            line, value = following()
            commit = value.get("commit")
            if "seq" in value:
                digest, seq = value.pop("digest"), seq + 1
                links = value["seq"] == seq and value.get("prev_digest", "") == last
                need(
                    links and sha256(canonical(value)).hex() == digest, f"receipt {seq} was changed or moved"
                )
                leaves, last = [*leaves, sha256(b"\0", f"{run}\n{seq}\n{digest}")], digest
                owners |= recorded_by(value)
                continue
            leaves.append(sha256(b"\0", run, "\n", line))
            for kind in {"run", "plan"} & set(value):
                now, owners = value[kind], owners | {"planner"}
                found = (
                    [stored["run"]]
                    if kind == "run"
                    else [p for p in stored["plans"] if p["revision"] == now["revision"]]
                )
                changed = [column for column in now if not found or found[0].get(column) != now[column]]
                need(not changed, f"{kind}: {', '.join(changed)}: not what was signed")
                signed, plans = (now, plans) if kind == "run" else (signed, plans | {now["revision"]: now})
        owners |= {"gate"} if commit["verdicts"] else set()
        count, nodes = root["predicate"]["leaf_count"], [bytes.fromhex(node) for node in proof["nodes"]]
        need([node.hex() for node in nodes] == proof["nodes"], "it is not in the canonical form")
        subject = [
            {"digest": {"sha256": tree(leaves, nodes, proof["first"], 0, count).hex()}, "name": "receipts"}
        ]
        again = {"leaf_count": count, "signed_at": root["predicate"]["signed_at"]}
        again = {"_type": STATEMENT, "predicate": again, "predicateType": ROOT, "subject": subject}
        need(
            root == again and not nodes and set(proof) == {"first", "nodes"},
            f"journal row {commit['sequence']} is not what was signed",
        )
        need(len(owners) < 2 and owners <= services and services - {"user"}, "its key may not sign that")
        need(commit["sequence"] - commit["entries"] == event, "rows are missing, added or moved")
        event, (line, value) = commit["sequence"], following()
        after = {"progress": commit["progress"], "state": commit["state"]}
        for _ in range(commit["verdicts"]):
            (given, services), sig = opened(value, keys), value["signatures"][0]["sig"]
            verdict, (line, value) = given["predicate"]["surety"], following()
            need(given["predicateType"] == VSA and "gate" in services, "the gate gave no such verdict")
            need(given["predicate"]["resourceUri"] == f"urn:surety:run:{run}", "it is of another run")
            need(
                (verdict["receipts"], verdict.get("last_receipt_digest", "")) == (seq, last),
                "it rests on other receipts",
            )
            plan = plans.get(verdict["plan_revision"], {})
            need(plan.get("digest") == sha256(verdict["plan_digest"]).hex(), "it is about another plan")
            if any(result["name"] != "output_only" for result in verdict["results"]):
                tests, services = opened(value, keys, given["predicate"]["timeVerified"])
                need(
                    tests["predicateType"] == TESTS
                    and "gate" in services
                    and tests["subject"] == given["subject"],
                    "the test result fits no verdict",
                )
                line, value = following()
            if "anchor" in value:
                anchors.append(verify_anchor.check(value, run, sig, authority, tree))
                line, value = following()
    need("proof" not in value, "a row has no signature")
    state, end = value["state"], following()[1]["chain_end"]
    need(
        end == {"chain_digest": last, "receipt_count": seq, "run_id": run} and place[0] == len(lines),
        "the chain does not end there",
    )
    keys_of_state = {"plan_revision", "progress", "sequence", "state"}
    need(
        set(value) == {"state"} and set(state) == keys_of_state and state["state"] in STATES,
        "the run's state is unknown",
    )
    need(
        (state["state"] == "DONE") == verdict.get("accepted", False)
        and state["sequence"] == event
        and state["state"] == after.get("state")
        and signed,
        "the run's state is not what its evidence says",
    )
    need(
        state["progress"] == after.get("progress"),
        "todos, grants, the verification round, the start, the answer or the end are not what was signed",
    )
    need(
        not verdict.get("accepted") or verdict["plan_revision"] == state["plan_revision"],
        "the accepting verdict is about another plan",
    )
    need(
        state["plan_revision"] == max(plans, default=0) and len(stored["plans"]) == len(plans),
        "a plan was added, or is missing",
    )
    return anchors


def problems(text: str, keys: Any, authority: str | None = None) -> list[str]:
    place = [0]
    try:
        check(text, keys, authority, place)
    except InvalidSignature:
        return [f"line {place[0]}: it is not what was signed"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return [f"line {place[0]}: {error or type(error).__name__}"]
    return []


if __name__ == "__main__":
    with (
        open(sys.argv[1], encoding="utf-8", newline="") as export,
        open(sys.argv[2], encoding="utf-8") as trusted,
    ):
        certificate = Path(sys.argv[3]).read_text(encoding="utf-8") if len(sys.argv) > 3 else None
        everything = problems(export.read(), json.load(trusted)["keys"], certificate)
    print("\n".join(everything) or "signed")
    sys.exit(1 if everything else 0)
