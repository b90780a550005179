#!/usr/bin/env python3
"""Checks the signatures in what `surety receipts export` wrote, and no more: verify_signatures.py FILE KEYS.

KEYS is what `surety keys export` wrote. It shows that each receipt, column and row was signed by a trusted
key of a service, and each verdict by one of the gate, and that no receipt is missing. It prints what it does
not compare, which verify_receipts.py does. Needs PyPI's `cryptography`.
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

KIND, ROOT = "application/vnd.in-toto+json", "urn:surety:predicate:receipts-root:v1"
BAD_INPUT = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
NEVER = "9999-12-31T00:00:00Z"
ALL = {"planner", "executor", "gate"}
UNSIGNED = {"export", "stored", "state", "anchor"}
NOT_COMPARED = (
    "not compared: columns in the database, which service signed, order of rows, verdicts, state, anchors"
)


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def sha256(*parts: str | bytes) -> bytes:
    return hashlib.sha256(b"".join(p.encode() if isinstance(p, str) else p for p in parts)).digest()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def opened(line: Any, keys: Any, at: str) -> tuple[Any, str, set[str]]:
    """The statement in a DSSE envelope, its time, and the services for which its key signed then."""
    payload, [signature] = base64.b64decode(line["payload"]), line["signatures"]
    sig, named = signature["sig"], [key for key in keys if key["key_id"] == signature["keyid"]]
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": KIND, "signatures": [signature]}
    need(named and line == envelope and set(signature) == {"keyid", "sig"}, "its key is not trusted")
    need(base64.b64encode(base64.b64decode(sig)).decode() == sig, "its signature is not in base64")
    message = f"DSSEv1 {len(KIND)} {KIND} {len(payload)} ".encode() + payload
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(named[0]["public_key"]))
    public.verify(base64.b64decode(sig), message)
    statement = json.loads(payload)
    at = statement["predicate"].get("signed_at") or statement["predicate"].get("timeVerified") or at
    valid = [k for k in named if time(k["valid_from"]) <= time(at) < time(k.get("valid_until") or NEVER)]
    return statement, at, {key["service"] for key in valid}


def tree(leaves: list[bytes], nodes: list[bytes], lo: int, first: int, count: int) -> bytes:
    """The root of `count` leaves from `first` on, of which those from `lo` on are known (RFC 6962)."""
    if first + count <= lo or lo + len(leaves) <= first:
        return nodes.pop(0)
    if count == 1:
        return leaves[first - lo]
    left = 1 << (count - 1).bit_length() - 1
    sides = tree(leaves, nodes, lo, first, left), tree(leaves, nodes, lo, first + left, count - left)
    return sha256(b"\1", *sides)


def check(text: str, keys: Any) -> None:
    lines, at, last, leaves, end = text.split("\n"), "", "", [], {}
    need(lines.pop() == "", "the file does not end with a line end")
    run, seq, root, proof = json.loads(lines[0])["export"]["run_id"], 0, None, None
    for number, line in enumerate(lines, 1):
        value = json.loads(line)
        kind, is_receipt = next(iter(value)), "seq" in value
        need(canonical(value) == line and not end, f"line {number}: it is not in the canonical form")
        if kind == "payload":
            statement, at, services = opened(value, keys, at)
            need(services & (ALL if statement["predicateType"] == ROOT else {"gate"}), "its key is not valid")
            root = statement if statement["predicateType"] == ROOT else root
        elif kind == "proof":
            need(proof is None and not leaves, f"line {number}: what is before it has no signature")
            proof = value["proof"]
        elif is_receipt:
            digest, seq = value.pop("digest"), seq + 1
            follows = value["seq"] == seq and value.get("prev_digest", "") == last
            need(follows and sha256(canonical(value)).hex() == digest, f"receipt {seq} was changed or moved")
            leaves.append(sha256(b"\0", f"{run}\n{seq}\n{digest}"))
            last = digest
        elif kind == "chain_end":
            end = {"chain_end": {"chain_digest": last, "receipt_count": seq, "run_id": run}}
            need(canonical(end) == line, "the chain does not end there")
        elif kind not in UNSIGNED:
            leaves.append(sha256(b"\0", f"{run}\n{line}"))
        if kind in ("commit", "entry"):
            nodes = [bytes.fromhex(node) for node in proof["nodes"]]
            need([node.hex() for node in nodes] == proof["nodes"], "its proof is not in hexadecimal")
            found = tree(leaves, nodes, proof["first"], 0, root["predicate"]["leaf_count"]).hex()
            is_signed = root["subject"][0]["digest"]["sha256"] == found and not nodes
            need(is_signed, f"line {number}: it ends a row that is not what was signed")
            root, proof, leaves = None, None, []
    need(end and not leaves and proof is None, "the file is cut")


def problem(export: bytes, keys: Any) -> str:
    """What is wrong with the signatures of an export; empty where they hold."""
    try:
        check(export.decode(), keys)
    except InvalidSignature:
        return "an envelope is not what was signed"
    except BAD_INPUT as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: verify_signatures.py FILE KEYS")
    try:
        keys = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))["keys"]
        found = problem(Path(sys.argv[1]).read_bytes(), keys)
    except (OSError, *BAD_INPUT) as error:
        sys.exit(f"a file cannot be read: {error}")
    print(found or f"every signature holds; {NOT_COMPARED}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
