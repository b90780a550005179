#!/usr/bin/env python3
"""Checks the signatures in what `surety receipts export` wrote, and no more: verify_signatures.py FILE KEYS.

KEYS is what `surety keys export` wrote. It shows that each receipt, column and row was signed by a trusted
key of a service, and each verdict by one of the gate, and that no receipt is missing before the last one in
the file. It prints what it does not compare, which verify_receipts.py does. Needs PyPI's `cryptography`.
"""

import base64
import hashlib
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    sys.exit("PyPI's cryptography is missing: pip install cryptography")

KIND, STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
ROOT = "urn:surety:predicate:receipts-root:v1"
WRONG = (InvalidSignature, ValueError, LookupError, TypeError, AttributeError, RecursionError)
KEYS, SERVICES = "surety trusted keys 1", {"planner", "executor", "gate", "user"}
TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}[Tt ]([0-9]{2}:){2}[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})")
NEVER = "9999-12-31T00:00:00Z"
NOT_COMPARED = "stored columns, which service signed, order and number of rows, verdicts, state, anchors"


class Refused(ValueError):
    """What is wrong, in words; other errors have words of Python."""


def named(error: BaseException) -> str:
    if isinstance(error, InvalidSignature):
        return "it is not what was signed"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return str(error) if isinstance(error, (Refused, OSError)) else "it does not read"


def need(holds: object, otherwise: str) -> None:
    if not holds:
        raise Refused(otherwise)


def sha256(*parts: str | bytes) -> bytes:
    return hashlib.sha256(b"".join(p.encode() if isinstance(p, str) else p for p in parts)).digest()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def time(text: str) -> datetime:
    need(TIME.fullmatch(text), f"{text!r} is no RFC 3339 time")
    return datetime.fromisoformat(text.upper().replace("Z", "+00:00"))


def read_keys(file: Path) -> list[dict[str, str]]:
    """The keys in what `surety keys export` wrote, each of whose members must be as it is written there."""
    place = "the file"
    try:
        value = json.loads(file.read_bytes().decode())
        need(value["form"] == KEYS and isinstance(value["keys"], list), "its form is unknown")
        for number, key in enumerate(value["keys"], 1):
            place, text = f"key {number}", key["public_key"]
            public = base64.b64decode(text)
            is_whole = len(public) == 32 and base64.b64encode(public).decode() == text
            need(is_whole, "`public_key` is no 32 bytes in base64")
            need(key["key_id"] == sha256(public).hex()[:32], "`key_id` is not that of its public key")
            need(key["service"] in SERVICES, "`service` is unknown")
            time(key["valid_from"])
            time(NEVER if key.get("valid_until") is None else key["valid_until"])
        return value["keys"]  # type: ignore[no-any-return]
    except (OSError, *WRONG) as error:
        sys.exit(f"{file} is no file of keys: {place}: {named(error)}; `surety keys export` writes one")


def opened(line: Any, keys: Any, at: str) -> tuple[Any, str, set[str]]:
    """The statement in a DSSE envelope, its time, and the services whose trusted key signed it then."""
    payload, [named] = base64.b64decode(line["payload"]), line["signatures"]
    statement, signature = json.loads(payload), base64.b64decode(named["sig"])
    again, sig = (base64.b64encode(part).decode() for part in (payload, signature))
    signatures = [{"keyid": named["keyid"], "sig": sig}]
    is_again = line == {"payload": again, "payloadType": KIND, "signatures": signatures}
    is_canonical = is_again and canonical(statement).encode() == payload and statement["_type"] == STATEMENT
    need(is_canonical, "an envelope is not in the canonical form")
    known = [key for key in keys if key["key_id"] == named["keyid"]]
    need(known, "its key is not trusted")
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(known[0]["public_key"]))
    public.verify(signature, f"DSSEv1 {len(KIND)} {KIND} {len(payload)} ".encode() + payload)
    at = statement["predicate"].get("signed_at") or statement["predicate"].get("timeVerified") or at
    valid = [k for k in known if time(k["valid_from"]) <= time(at) < time(k.get("valid_until") or NEVER)]
    need(valid, "its key was not valid then")
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


def root_of(leaves: list[bytes], line: str, count: int) -> str:
    """The root of `count` leaves, among which these stand where the proof in this line says."""
    proof = json.loads(line)["proof"]
    nodes = [bytes.fromhex(node) for node in proof["nodes"]]
    again = {name: int(proof[name]) for name in ("answers", "first") if name in proof}
    is_again = canonical({"proof": again | {"nodes": [node.hex() for node in nodes]}}) == line
    need(is_again, "a proof is not in the canonical form")
    need(0 <= again["first"] <= count - len(leaves), "its inclusion proof does not fit it")
    root = tree(leaves, nodes, again["first"], 0, count)
    need(not nodes, "its inclusion proof does not fit it")
    return root.hex()


def check(lines: list[str], keys: Any, seen: list[str]) -> None:
    run, seq, last, at = json.loads(lines[0])["export"]["run_id"], 0, "", ""
    leaves: list[bytes] = []
    root: Any = None
    proof = ""
    for line in lines[:-2]:
        seen.append(line)
        value = json.loads(line)
        kind = "receipt" if "seq" in value else min(value.keys())
        is_alone = kind in ("payload", "receipt") or len(value) == 1
        need(is_alone and canonical(value) == line, "it is not in the canonical form")
        if kind == "payload":
            statement, at, services = opened(value, keys, at)
            is_root = statement["predicateType"] == ROOT
            need(services & (SERVICES - {"user"} if is_root else {"gate"}), "its key may not sign that")
            root = statement if is_root else root
        elif kind == "proof":
            need(not proof and not leaves, "what is before a proof has no signature")
            proof = line
        elif kind == "receipt":
            digest, seq = value.pop("digest"), seq + 1
            follows = value["seq"] == seq and value.get("prev_digest", "") == last
            is_whole = follows and sha256(canonical(value)).hex() == digest
            need(is_whole, f"receipt {seq} was changed or moved")
            leaves.append(sha256(b"\0", f"{run}\n{seq}\n{digest}"))
            last = digest
        elif kind not in ("export", "stored", "anchor", "state"):
            leaves.append(sha256(b"\0", f"{run}\n{line}"))
        if kind in ("commit", "entry"):
            need(root and proof, f"the {kind} has no signature")
            found = root_of(leaves, proof, root["predicate"]["leaf_count"])
            is_signed = found == root["subject"][0]["digest"]["sha256"]
            need(is_signed, f"the {kind} {line} ends what was not signed")
            root, proof, leaves = None, "", []
    end = {"chain_end": {"chain_digest": last, "receipt_count": seq, "run_id": run}}
    need(lines[-2:] == [canonical(end), ""] and not leaves and not proof, "the file is cut")


def problem(export: bytes, keys: Any) -> str:
    """What is wrong with the signatures of an export; empty where they hold."""
    seen: list[str] = []
    try:
        check(export.decode().split("\n"), keys, seen)
    except WRONG as error:
        return f"line {len(seen) or 1}: {named(error)}"
    return ""


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: verify_signatures.py FILE KEYS")
    keys = read_keys(Path(sys.argv[2]))
    try:
        found = problem(Path(sys.argv[1]).read_bytes(), keys)
    except OSError as error:
        sys.exit(f"a file cannot be read: {error}")
    print(found or f"every signature holds; not compared: {NOT_COMPARED}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
