#!/usr/bin/env python3
"""Checks the anchors of verdicts, which are time stamps of RFC 3161: verify_anchor.py FILE TSA_CERTIFICATE.

FILE is an anchor of SURETY_GATE_ANCHOR_DIR. verify_receipts.py checks those of an export.
"""

import base64
import hashlib
import sys
from pathlib import Path
from typing import Any

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding
except ImportError:
    sys.exit("PyPI's cryptography is missing: pip install cryptography")

from verify_rules import Lines
from verify_signatures import WRONG, canonical, named, need, sha256, tree

CONTENT_TYPE, MESSAGE_DIGEST = "2a864886f70d010903", "2a864886f70d010904"
CERTIFICATE, CERTIFICATE_V2 = "2a864886f70d010910020c", "2a864886f70d010910022f"
SHA256 = "608648016503040201"
SIGNED_DATA, TIME_STAMP = "2a864886f70d010702", "2a864886f70d0109100104"
HASHES: dict[str, hashes.HashAlgorithm] = {
    "6086480165030402" + end: kind
    for end, kind in (("01", hashes.SHA256()), ("02", hashes.SHA384()), ("03", hashes.SHA512()))
}
ECDSA: dict[str, hashes.HashAlgorithm] = {
    "2a8648ce3d040302": hashes.SHA256(),
    "2a8648ce3d040303": hashes.SHA384(),
}
RSA = "2a864886f70d010101"
WITH_RSA = {RSA[:-1] + end: kind for end, kind in zip("bcd", HASHES.values(), strict=True)}
TIME_STAMPING = x509.ObjectIdentifier("1.3.6.1.5.5.7.3.8")


def elements(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """The DER elements in these bytes: tag, content, and the whole."""
    found = []
    while data:
        size, start = data[1], 2
        if size > 0x7F:
            start = 2 + size - 0x80
            size = int.from_bytes(data[2:start], "big")
            shortest = 2 + (size.bit_length() + 7) // 8
            need(size > 0x7F and start == shortest, "a length in the time stamp is not the shortest")
        need(start + size <= len(data), "the time stamp is cut")
        found.append((data[0], data[start : start + size], data[: start + size]))
        data = data[start + size :]
    return found


def contents(data: bytes, *allowed: str) -> list[bytes]:
    """The contents of the DER elements in these bytes, whose tags are one of these, in hex."""
    found = elements(data)
    need(bytes(tag for tag, _, _ in found).hex() in allowed, "the time stamp has an unknown form")
    return [content for _, content, _ in found]


def algorithm(data: bytes) -> str:
    """The identifier of an algorithm without parameters, or with NULL."""
    identifier, *parameters = contents(data, "06", "0605")
    need(not any(parameters), "an algorithm of the time stamp has parameters")
    return identifier.hex()


def time_stamp(token: bytes, digest: bytes, certificate: str | None) -> str:
    """The time in a token over this digest. Without a certificate its signature is not checked."""
    [outer] = contents(token, "30")
    kind, explicit = contents(outer, "06a0")
    [data] = contents(explicit, "30")
    # What no signature covers, as certificates and unsigned attributes, has no place here.
    data_version, announced, typed, signers = contents(data, "02313031")
    need(kind.hex() == SIGNED_DATA, "it is no signed data")
    content_type, explicit = contents(typed, "06a0")
    need(content_type.hex() == TIME_STAMP, "it is no time stamp")
    [content] = contents(explicit, "04")
    info = elements(elements(content)[0][1])
    hashing_of_imprint, imprint = contents(info[2][1], "3004")
    is_sha256 = elements(hashing_of_imprint)[0][1].hex() == SHA256
    need(is_sha256 and imprint == digest, "its time stamp is about something else")
    at = info[4][1].decode()
    [signer] = contents(signers, "30")
    contents(signer, "023030a03004", "028030a03004")
    version, name, hashed, attributes, signing, signature = elements(signer)
    forms = {(b"\x01", 0x30), (b"\x03", 0x80)}
    need(data_version == b"\x03" and (version[1], name[0]) in forms, "its version is unknown")
    hashed_by, signed_by = algorithm(hashed[1]), algorithm(signing[1])
    [only] = contents(announced, "30")
    need(algorithm(only) == hashed_by, "its digest algorithm is not the announced one")
    if certificate is None:
        return f"anchored at {at}, by an authority that was not checked"
    authority = x509.load_pem_x509_certificate(certificate.encode())
    usage = authority.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    need(list(usage) == [TIME_STAMPING], "the certificate is not for time stamps alone")
    hashing = HASHES[hashed_by]
    signed = {}
    for _, attribute, _ in elements(attributes[1]):
        kind, values = contents(attribute, "0631")
        signed[kind.hex()] = elements(values)[0]
    need(signed[CONTENT_TYPE][1].hex() == TIME_STAMP, "its signature is about another content")
    hasher = hashes.Hash(hashing)
    hasher.update(content)
    need(signed[MESSAGE_DIGEST][1] == hasher.finalize(), "its content is not what was signed")
    ids = signed.get(CERTIFICATE_V2) or signed[CERTIFICATE]
    named = elements(elements(elements(ids[1])[0][1])[0][1])
    by = "sha1" if CERTIFICATE_V2 not in signed else "sha256"
    if named[0][0] == 0x30:
        by = HASHES[elements(named[0][1])[0][1].hex()].name
    der = authority.public_bytes(serialization.Encoding.DER)
    [identifier] = [part for tag, part, _ in named if tag == 4]
    need(identifier == hashlib.new(by, der).digest(), "another certificate signed it")
    fields = elements(elements(elements(der)[0][1])[0][1])
    fields = fields[fields[0][0] == 0xA0 :]
    expected = fields[2][2] + fields[0][2]
    if name[0] == 0x80:
        expected = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    need(name[1] == expected, "its signer is named as another certificate")
    stated = at.replace("Z", "").split(".")[0]
    starts, ends = authority.not_valid_before_utc, authority.not_valid_after_utc
    within = starts.strftime("%Y%m%d%H%M%S") <= stated <= ends.strftime("%Y%m%d%H%M%S")
    need(within, "its time is outside the validity of the certificate")
    message, key = b"\x31" + attributes[2][1:], authority.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature[1], message, ec.ECDSA(ECDSA[signed_by]))
    else:
        by = hashing if signed_by == RSA else WITH_RSA[signed_by]
        key.verify(signature[1], message, padding.PKCS1v15(), by)  # type: ignore[call-arg, union-attr]
    return f"anchored at {at}"


def check(line: Any, run: str, signature: str, certificate: str | None) -> str:
    """Checks the anchor behind a verdict in an export."""
    anchor = line["anchor"]
    leaf = canonical({"anchored": {"run_id": run, "signature": signature}})
    nodes, token = [bytes.fromhex(node) for node in anchor["nodes"]], base64.b64decode(anchor["token"])
    again = {name: int(anchor[name]) for name in ("first", "leaf_count")}
    parts = {"nodes": [node.hex() for node in nodes], "token": base64.b64encode(token).decode()}
    is_again = canonical(line) == canonical({"anchor": again | parts})
    need(is_again, "the anchor is not in the canonical form")
    fits = 0 <= again["first"] < again["leaf_count"]
    root = tree([sha256(b"\0", leaf)], nodes, again["first"], 0, again["leaf_count"]) if fits else b""
    need(fits and not nodes, "the anchor's inclusion proof does not fit the verdict")
    return time_stamp(token, root, certificate)


def verified(anchor: Path, authority: Path) -> list[str]:
    """What the anchor says of each of its verdicts."""
    lines = Lines(anchor.read_bytes().decode())
    token = base64.b64decode(lines.read()["anchors"]["token"])
    head = {"form": "surety anchor 1", "token": base64.b64encode(token).decode()}
    lines.must_be({"anchors": head}, "it is no anchor")
    leaves, runs = [], []
    while not lines.is_at_end():
        verdict = lines.read()["anchored"]
        signature = base64.b64encode(base64.b64decode(verdict["signature"])).decode()
        leaf = {"run_id": str(verdict["run_id"]), "signature": signature}
        lines.must_be({"anchored": leaf}, "it names no verdict")
        leaves.append(sha256(b"\0", lines.line))
        runs.append(leaf["run_id"])
    need(leaves, "it names no verdict")
    certificate = authority.read_text(encoding="utf-8")
    said = time_stamp(token, tree(leaves, [], 0, 0, len(leaves)), certificate)
    return [f"a verdict of the run {run} was {said}" for run in runs]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: verify_anchor.py FILE TSA_CERTIFICATE")
    try:
        print("\n".join(verified(Path(sys.argv[1]), Path(sys.argv[2]))))
    except (OSError, *WRONG) as error:
        sys.exit(f"the anchor does not hold: {named(error)}")


if __name__ == "__main__":
    main()
