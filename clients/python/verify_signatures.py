#!/usr/bin/env python3
"""Checks the signatures in what `surety receipts export` wrote, and no more: verify_signatures.py FILE KEYS.

KEYS is what `surety keys export` wrote. It shows that each receipt, column and row was signed by a trusted
key of a service, and each verdict by one of the gate, and that no receipt is missing before the last one in
the file. It prints what it does not compare, which verify_receipts.py does. Needs PyPI's `cryptography`.
"""

import base64
import hashlib
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit("PyPI's cryptography is missing: pip install cryptography")

KIND, ROOT = "application/vnd.in-toto+json", "urn:surety:predicate:receipts-root:v1"
WRONG = (InvalidSignature, ValueError, LookupError, TypeError, AttributeError, RecursionError)
NEVER = "9999-12-31T00:00:00Z"
NOT_COMPARED = "stored columns, which service signed, order and number of rows, verdicts, state, anchors"


class Refused(ValueError):
    """What is wrong, in words; other errors have words of Python."""


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise Refused(otherwise)


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def opened(line: Any, keys: Any, at: str) -> tuple[Any, str]:
    """The statement in a DSSE envelope, and its time. A trusted key that was valid then signed it."""
    payload, [named] = base64.b64decode(line["payload"]), line["signatures"]
    statement, signature = json.loads(payload), base64.b64decode(named["sig"])
    again, sig = (base64.b64encode(part).decode() for part in (payload, signature))
    signatures = [{"keyid": named["keyid"], "sig": sig}]
    is_again = line == {"payload": again, "payloadType": KIND, "signatures": signatures}
    need(is_again, "an envelope is not in the canonical form")
    at = statement["predicate"].get("signed_at") or statement["predicate"].get("timeVerified") or at
    services = ["planner", "executor", "gate"] if statement["predicateType"] == ROOT else ["gate"]
    known = [key for key in keys if key["key_id"] == named["keyid"] and key["service"] in services]
    valid = [k for k in known if time(k["valid_from"]) <= time(at) < time(k.get("valid_until") or NEVER)]
    need(valid, "its key was not trusted then")
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(valid[0]["public_key"]))
    public.verify(signature, f"DSSEv1 {len(KIND)} {KIND} {len(payload)} ".encode() + payload)
    return statement, at


def tree(leaves: list[bytes], nodes: list[bytes], lo: int, first: int, count: int) -> bytes:
    """The root of `count` leaves from `first` on, of which those from `lo` on are known (RFC 6962)."""
    if first + count <= lo or lo + len(leaves) <= first:
        return nodes.pop(0)
    if count == 1:
        return leaves[first - lo]
    left = 1 << (count - 1).bit_length() - 1
    sides = tree(leaves, nodes, lo, first, left), tree(leaves, nodes, lo, first + left, count - left)
    return sha256(b"\1", *sides)


def check(lines: list[str], keys: Any, seen: list[str]) -> None:
    run, seq, last, at = json.loads(lines[0])["export"]["run_id"], 0, "", ""
    leaves: list[bytes] = []
    root = proof = None
    for line in lines[:-2]:
        seen.append(line)
        value = json.loads(line)
        kind = "receipt" if "seq" in value else min(value.keys())
        need(canonical(value) == line, "it is not in the canonical form")
        if kind == "payload":
            statement, at = opened(value, keys, at)
            root = statement if statement["predicateType"] == ROOT else root
        elif kind == "proof":
            need(proof is None and not leaves, "what is before a proof has no signature")
            proof = value["proof"]
        elif kind == "receipt":
            digest, seq = value.pop("digest"), seq + 1
            follows = value["seq"] == seq and value.get("prev_digest", "") == last
            is_whole = follows and sha256(canonical(value).encode()).hex() == digest
            need(is_whole, f"receipt {seq} was changed or moved")
            leaves.append(sha256(b"\0", f"{run}\n{seq}\n{digest}".encode()))
            last = digest
        elif kind not in ("export", "stored", "anchor", "state"):
            leaves.append(sha256(b"\0", f"{run}\n{line}".encode()))
        if kind in ("commit", "entry"):
            need(root and proof, f"the {kind} has no signature")
            nodes = [bytes.fromhex(node) for node in proof["nodes"]]
            is_hex = [node.hex() for node in nodes] == proof["nodes"]
            found = tree(leaves, nodes, proof["first"], 0, root["predicate"]["leaf_count"]).hex()
            is_signed = is_hex and not nodes and found == root["subject"][0]["digest"]["sha256"]
            need(is_signed, f"the {kind} {line} ends what was not signed")
            root, proof, leaves = None, None, []
    end = {"chain_end": {"chain_digest": last, "receipt_count": seq, "run_id": run}}
    need(lines[-2:] == [canonical(end), ""] and not leaves and proof is None, "the file is cut")


def problem(export: bytes, keys: Any) -> str:
    """What is wrong with the signatures of an export; empty where they hold."""
    seen: list[str] = []
    try:
        check(export.decode().split("\n"), keys, seen)
    except WRONG as error:
        said = "it is not what was signed" if isinstance(error, InvalidSignature) else "it does not read"
        return f"line {len(seen) or 1}: {error if isinstance(error, Refused) else said}"
    return ""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: verify_signatures.py FILE KEYS")
    try:
        found = problem(Path(sys.argv[1]).read_bytes(), json.loads(Path(sys.argv[2]).read_bytes())["keys"])
    except OSError as error:
        sys.exit(f"a file cannot be read: {error}")
    except WRONG:
        sys.exit(f"{sys.argv[2]} is no file of keys, as `surety keys export` writes it")
    print(found or f"every signature holds; not compared: {NOT_COMPARED}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
