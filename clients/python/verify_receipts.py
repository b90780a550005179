#!/usr/bin/env python3
"""Checks what `surety receipts export` wrote, without Surety: verify_receipts.py FILE KEYS.

KEYS is what `surety keys export` wrote. Needs PyPI's `cryptography`. Exit code 0: signed; 1: each problem is
printed. docs/receipts.md has the format.
"""

import base64
import hashlib
import json
import sys
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KIND = "application/vnd.in-toto+json"
ROOT, VSA = "urn:surety:predicate:receipts-root:v1", "https://slsa.dev/verification_summary/v1"
TESTS = "https://in-toto.io/attestation/test-result/v0.1"


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(*parts: str | bytes) -> bytes:
    return hashlib.sha256(b"".join(p.encode() if isinstance(p, str) else p for p in parts)).digest()


def opened(line: dict[str, Any], keys: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """The statement of an envelope and the service that signed it."""
    payload, [signature] = base64.b64decode(line["payload"], validate=True).decode(), line["signatures"]
    statement: dict[str, Any] = json.loads(payload)
    at = statement["predicate"].get("signed_at") or statement["predicate"].get("timeVerified") or "9999"
    key = next(k for k in keys if k["key_id"] == signature["keyid"])
    public = base64.b64decode(key["public_key"], validate=True)
    message = f"DSSEv1 {len(KIND)} {KIND} {len(payload.encode())} {payload}".encode()
    sig = base64.b64decode(signature["sig"], validate=True)
    Ed25519PublicKey.from_public_bytes(public).verify(sig, message)
    again = {
        "payload": base64.b64encode(payload.encode()).decode(),
        "payloadType": KIND,
        "signatures": [{"keyid": sha256(public).hex()[:32], "sig": base64.b64encode(sig).decode()}],
    }
    assert line == again and canonical(statement) == payload, "it is not in the canonical form"
    assert at == "9999" or key["valid_from"] <= at < (key.get("valid_until") or "9999"), (
        "its key is not valid"
    )
    return statement, str(key["service"])


def tree(leaves: list[bytes], nodes: list[bytes], lo: int, first: int, count: int) -> bytes:
    """The root of the leaves from first on, of which those from lo on are known (RFC 6962)."""
    if first + count <= lo or lo + len(leaves) <= first:
        return nodes.pop(0)
    if count == 1:
        return leaves[first - lo]
    left = 1 << (count - 1).bit_length() - 1
    return sha256(
        b"\1", tree(leaves, nodes, lo, first, left), tree(leaves, nodes, lo, first + left, count - left)
    )


def problems(text: str, keys: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    lines = text.split("\n")
    if lines.pop():
        found.append("the file does not end with a line end")
    plans: dict[int, dict[str, Any]] = {}
    run, stored, root, proof, state, ended = "", {}, None, None, None, False
    leaves: list[bytes] = []
    seq, event, last, awaited, tested, machine, stores, verdict = 0, 0, "", 0, None, False, False, None
    signed_run: dict[str, Any] | None = None
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            assert not ended and canonical(value) == line, (
                "it is not in the canonical form, or behind the end"
            )
            assert tested is None or value.get("payload"), "the test result of the verdict is missing"
            if number == 1:
                assert value["export"]["form"] == "surety receipts 2", "its form is unknown"
                run = value["export"]["run_id"]
            elif number == 2:
                stored = value["stored"]
            elif "payload" in value:
                statement, service = opened(value, keys)
                predicate, kind = statement["predicate"], statement["predicateType"]
                if kind == ROOT:
                    assert tested is None and root is None, "a row or a verdict before it is cut"
                    root = (statement, service)
                elif kind == VSA:
                    given = predicate["surety"]
                    assert service == "gate" and awaited == 1, (
                        "no row announces it, or the gate did not sign it"
                    )
                    assert predicate["resourceUri"] == f"urn:surety:run:{run}", "it is of another run"
                    assert given["receipts"] == seq and given.get("last_receipt_digest", "") == last, (
                        "other receipts"
                    )
                    plan = plans.get(given["plan_revision"], {})
                    assert plan.get("digest") == sha256(given["plan_digest"]).hex(), (
                        "it is about another plan"
                    )
                    verdict, awaited = given, 0
                    tested = (
                        statement["subject"]
                        if any(r["name"] != "output_only" for r in given["results"])
                        else None
                    )
                else:
                    assert kind == TESTS and service == "gate" and statement["subject"] == tested, (
                        "it fits no verdict"
                    )
                    tested = None
            elif "proof" in value:
                assert value["proof"] is not None and root and proof is None, "a row has no signature"
                proof, leaves, machine, stores = value["proof"], [], False, False
            elif "commit" in value:
                commit, (statement, service), nodes = value["commit"], root or ({}, ""), proof["nodes"]  # type: ignore
                leaves.append(sha256(b"\0", run, "\n", line))
                count, rest = statement["predicate"]["leaf_count"], [bytes.fromhex(n) for n in nodes]
                computed = tree(leaves, rest, proof["first"], 0, count)  # type: ignore[index]
                expected = {
                    "_type": "https://in-toto.io/Statement/v1",
                    "predicateType": ROOT,
                    "predicate": {"leaf_count": count, "signed_at": statement["predicate"]["signed_at"]},
                    "subject": [{"digest": {"sha256": computed.hex()}, "name": "receipts"}],
                }
                assert statement == expected and not rest, (
                    f"journal row {commit['sequence']} is not what was signed"
                )
                owner = {(0, 1): "planner", (1, 0): "executor"}.get((machine, stores), service)
                owner = "gate" if commit["verdicts"] else owner
                assert service == owner and not (machine and (stores or commit["verdicts"])), (
                    "it may not sign that"
                )
                assert commit["sequence"] - commit["entries"] == event and not awaited, (
                    "rows are missing or added"
                )
                event, awaited, root, proof = commit["sequence"], commit["verdicts"], None, None
            elif "run" in value or "plan" in value:
                leaves.append(sha256(b"\0", run, "\n", line))
                stores = True
                if "run" in value:
                    signed_run = value["run"]
                    differs = [k for k in signed_run if stored["run"].get(k) != signed_run[k]]
                else:
                    plan = plans[value["plan"]["revision"]] = value["plan"]
                    there = [p for p in stored["plans"] if p["revision"] == plan["revision"]] or [{}]
                    differs = [k for k in plan if there[0].get(k) != plan[k]]
                assert not differs, f"{next(iter(value))}: {', '.join(differs)}: not what was signed"
            elif "state" in value:
                state = value["state"]
            elif "chain_end" in value:
                end = {"chain_digest": last, "receipt_count": seq, "run_id": run}
                assert value["chain_end"] == end, "the chain does not end there"
                ended = True
            else:
                seq += 1
                digest = value.pop("digest")
                leaves.append(sha256(b"\0", f"{run}\n{seq}\n{digest}"))
                assert sha256(canonical(value)).hex() == digest and value["seq"] == seq, (
                    f"receipt {seq} was changed"
                )
                assert value.get("prev_digest", "") == last, f"receipt {seq} does not follow the one before"
                last, machine = digest, machine or value["source"] not in ("approval", "user_reply")
        except InvalidSignature:
            found.append(f"line {number}: it is not what was signed")
        except (AssertionError, ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
            found.append(f"line {number}: {error or type(error).__name__}")
    if found:
        return found
    done = bool(verdict and verdict.get("accepted"))
    if not ended or state is None or awaited or root or proof or tested is not None:
        found.append("the file is cut")
    elif (state["state"] == "DONE") != done or state["sequence"] != event or not signed_run:
        found.append("the run's state is not what its evidence says")
    elif state["plan_revision"] != max(plans, default=0) or len(stored["plans"]) != len(plans):
        found.append("a plan was added, or is missing")
    elif state["state"] not in (
        "INTAKE",
        "PLANNING",
        "EXECUTING",
        "VERIFYING",
        "RECOVERING",
        "BLOCKED",
        "DONE",
        "FAILED",
        "CANCELLED",
    ) or set(state) != {"plan_revision", "sequence", "state"}:
        found.append("the run's state is unknown")
    return found


if __name__ == "__main__":
    with (
        open(sys.argv[1], encoding="utf-8", newline="") as export,
        open(sys.argv[2], encoding="utf-8") as trusted,
    ):
        everything = problems(export.read(), json.load(trusted)["keys"])
    print("\n".join(everything) or "signed")
    sys.exit(1 if everything else 0)
