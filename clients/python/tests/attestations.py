"""Checks exports with programs that others wrote, and with verify_receipts.py:
attestations.py FOLDER KEYS [TSA_CERTIFICATE].

Every `good-*` of the folder must hold, every `bad-*` must be refused by verify_receipts.py, and by
verify_signatures.py where its name ends with `-of-` and a signed kind of lines. The same holds for
`anchor-good-*`, `anchor-bad-*` and verify_anchor.py, and for `token-good-*` and `token-bad-*`, which are time
stamps of the sample certificate for RSA. Every `keys-bad-*` is refused as a file of keys. The envelopes of
good files are verified by securesystemslib, and their statements read by in-toto-attestation.
"""

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from verify_anchor import time_stamp, verified
from verify_receipts import problems
from verify_signatures import WRONG, problem, read_keys

# Words of Python that tell a reader nothing.
PYTHON = ("Traceback", "Error:", "NoneType", "empty list", "indices", "Expecting value", "codec can't")
RSA = Path(__file__).resolve().parents[3] / "crates/common/src/domain/timestamp/samples/rsa.pem"
SIGNED = {"payload", "proof", "receipt", "run", "task", "plan", "commit", "entry", "chain_end"}


def public(key: dict[str, Any]) -> SSlibKey:
    text = base64.b64decode(key["public_key"]).hex()
    return SSlibKey(key["key_id"], "ed25519", "ed25519", {"public": text})


def is_named(program: str, *arguments: str | Path) -> None:
    """The program refuses these files, and says why."""
    script = Path(__file__).resolve().parent.parent / program
    ran = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    is_said = ran.returncode == 1 and len(said.strip().splitlines()) == 1
    assert is_said and not any(word in said for word in PYTHON), f"{program} {arguments}: {said}"


def anchor_holds(anchor: Path, authority: Path) -> bool:
    try:
        return bool(verified(anchor, authority))
    except WRONG:
        return False


def token_holds(token: Path) -> bool:
    try:
        return bool(time_stamp(token.read_bytes(), bytes([7] * 32), RSA.read_text(encoding="utf-8")))
    except WRONG:
        return False


def refuse_other_files(good: Path, keys: Path) -> None:
    bad = [b"", b"{}", b"[]", b"\xff", b'{"keys":[{}]}', b'{"anchors":{}}', b'{"anchors":{"form":1}}\n{}']
    with tempfile.TemporaryDirectory() as folder:
        for content in bad:
            other = Path(folder) / "other"
            other.write_bytes(content)
            is_named("verify_receipts.py", other, keys)
            is_named("verify_receipts.py", good, other)
            is_named("verify_signatures.py", other, keys)
            is_named("verify_signatures.py", good, other)
            is_named("verify_anchor.py", other, keys)
        is_named("verify_receipts.py", good)
        is_named("verify_receipts.py", good, Path(folder) / "missing")
        is_named("verify_anchor.py", good)


def main() -> None:
    folder, keys = Path(sys.argv[1]), read_keys(Path(sys.argv[2]))
    known = [public(key) for key in keys]
    authority = Path(sys.argv[3]).read_text(encoding="utf-8") if len(sys.argv) > 3 else None
    envelopes, refused, unsigned = 0, 0, 0
    bad_keys: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("anchor-"):
            holds = anchor_holds(path, Path(sys.argv[3]))
            assert holds == path.name.startswith("anchor-good-"), f"{path.name}: {holds}"
            refused += not holds
            continue
        if path.name.startswith("token-"):
            holds = token_holds(path)
            assert holds == path.name.startswith("token-good-"), f"{path.name}: {holds}"
            continue
        if path.name.startswith("keys-"):
            bad_keys.append(path)
            continue
        export = path.read_bytes()
        found = problems(export, keys, authority)
        if path.name.startswith("bad-"):
            assert found, f"{path.name} is accepted"
            refused += 1
            if path.name.rpartition("-of-")[2] in SIGNED:
                assert problem(export, keys), f"{path.name} is accepted by verify_signatures.py"
                unsigned += 1
            continue
        assert not found, f"{path.name}: {found}"
        assert not problem(export, keys), f"{path.name}: {problem(export, keys)}"
        for line in filter(lambda line: line.startswith('{"payload"'), export.decode().split("\n")):
            envelope = Envelope.from_dict(json.loads(line))
            verified = envelope.verify(known, 1)
            assert len(verified) == 1, line
            parsed = json_format.Parse(envelope.payload.decode(), statement_pb2.Statement())
            Statement.copy_from_pb(parsed).validate()
            envelopes += 1
        if path.name.startswith("good-"):
            good = path
    assert envelopes and refused and unsigned, "the folder has no envelope, or no bad file"
    refuse_other_files(good, Path(sys.argv[2]))
    for path in bad_keys:
        is_named("verify_receipts.py", good, path)
        is_named("verify_signatures.py", good, path)
    print(f"{envelopes} envelopes hold, {refused} changed files are refused")


main()
