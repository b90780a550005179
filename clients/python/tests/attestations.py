"""Checks exports with programs that others wrote, and with verify_receipts.py:
attestations.py FOLDER KEYS [TSA_CERTIFICATE].

Every `good-*` of the folder must hold, every `bad-*` must be refused by verify_receipts.py. The envelopes of
good files are verified by securesystemslib, and their statements read by in-toto-attestation.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from verify_receipts import problems


def public(key: dict[str, Any]) -> SSlibKey:
    text = base64.b64decode(key["public_key"]).hex()
    return SSlibKey(key["key_id"], "ed25519", "ed25519", {"public": text})


def main() -> None:
    folder, keys = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))["keys"]
    known = [public(key) for key in keys]
    authority = Path(sys.argv[3]).read_text(encoding="utf-8") if len(sys.argv) > 3 else None
    envelopes, refused = 0, 0
    for path in sorted(folder.iterdir()):
        export = path.read_bytes()
        found = problems(export, keys, authority)
        if path.name.startswith("bad-"):
            assert found, f"{path.name} is accepted"
            refused += 1
            continue
        assert not found, f"{path.name}: {found}"
        for line in filter(lambda line: line.startswith('{"payload"'), export.decode().split("\n")):
            envelope = Envelope.from_dict(json.loads(line))
            verified = envelope.verify(known, 1)
            assert len(verified) == 1, line
            parsed = json_format.Parse(envelope.payload.decode(), statement_pb2.Statement())
            Statement.copy_from_pb(parsed).validate()
            envelopes += 1
    assert envelopes and refused, "the folder has no envelope, or no bad file"
    print(f"{envelopes} envelopes hold, {refused} changed files are refused")


main()
