"""Addresses, tokens and certificates: from arguments, else from the environment of the command line."""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ._errors import ConfigurationError

PLANNER = "http://127.0.0.1:7401"
EXECUTOR = "http://127.0.0.1:7402"
_HTTPS_PORT = 443
PERSON = frozenset({"viewer", "submitter", "operator", "approver"})
DRIVER = frozenset({"driver"})
WORKER = frozenset({"worker"})


@dataclass(frozen=True)
class Address:
    """The address of a service."""

    host: str
    port: int
    tls: bool

    @property
    def target(self) -> str:
        """As gRPC writes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether it is of this machine."""
        if self.host == "localhost":
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return (mapped or address).is_loopback


def read_address(text: str) -> Address:
    """Reads `http://host:port`, `https://host:port` or `host:port`."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    tls = parts.scheme == "https"
    port = port or (_HTTPS_PORT if tls else None)
    extra = parts.path.strip("/") or parts.query or parts.username
    if parts.scheme not in ("http", "https") or not host or not port or extra or " " in host:
        raise ConfigurationError(
            f"{text!r} is no address of a service; write it as http://host:port or https://host:port"
        )
    return Address(host.lower(), port, tls)


@dataclass(frozen=True)
class Settings:
    """How services are reached. What is not given is read from the environment."""

    token: str | None = field(default=None, repr=False)
    token_file: str | os.PathLike[str] | None = None
    ca_file: str | os.PathLike[str] | None = None
    cert_file: str | os.PathLike[str] | None = None
    key_file: str | os.PathLike[str] | None = None
    plaintext_peers: Iterable[str] | None = None

    def secret(self, address: Address, roles: frozenset[str]) -> str | None:
        """The token to send to an address, if there is one and it may be sent there."""
        secret = self._given(roles)
        local = data_folder() / "token"
        # The token of `surety up` is for this machine: another service must not receive it.
        if secret is None and address.loopback and _is_file(local):
            secret = read_token_file(local, roles)
        if secret is None:
            return None
        if not secret.isascii() or not secret.isprintable() or not secret or " " in secret:
            raise ConfigurationError("the token cannot be sent in a header; it has blanks or is not ASCII")
        if not (address.tls or address.loopback or address.host in self._peers()):
            raise ConfigurationError(
                f"a token is not sent to {address.host} without TLS. Use https://, or name {address.host} in "
                "plaintext_peers (SURETY_PLAINTEXT_PEERS) if another layer encrypts the connection",
                code="plaintext_refused",
            )
        return secret

    def _given(self, roles: frozenset[str]) -> str | None:
        if self.token is not None:
            return self.token.strip()
        if self.token_file is not None:
            return read_token_file(Path(self.token_file), roles)
        if token := os.environ.get("SURETY_TOKEN"):
            return token.strip()
        if path := os.environ.get("SURETY_TOKEN_FILE"):
            return read_token_file(Path(path), roles)
        return None

    def _peers(self) -> set[str]:
        named = self.plaintext_peers
        if named is None:
            named = os.environ.get("SURETY_PLAINTEXT_PEERS", "").split(",")
        return {peer.strip().lower() for peer in named}

    def certificates(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The authorities, the private key and the certificate chain in PEM; None uses gRPC's default."""
        ca = _read(self.ca_file, "SURETY_TLS_CA_FILE")
        chain = _read(self.cert_file, "SURETY_TLS_CERT_FILE")
        key = _read(self.key_file, "SURETY_TLS_KEY_FILE")
        if (chain is None) != (key is None):
            raise ConfigurationError("a client certificate needs both cert_file and key_file")
        return ca, key, chain


def planner_address(given: str | None) -> Address:
    """The address of the planner: the argument, SURETY_URL, what `surety up` wrote, or the default."""
    return read_address(given or os.environ.get("SURETY_URL") or _noted() or PLANNER)


def executor_address(given: str | None) -> Address:
    """The address of the executor: the argument, SURETY_EXECUTOR_URL, or the default."""
    return read_address(given or os.environ.get("SURETY_EXECUTOR_URL") or EXECUTOR)


def data_folder() -> Path:
    """Where `surety up` keeps its address and its token."""
    if named := os.environ.get("SURETY_DATA_DIR"):
        return Path(named)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/surety")
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "surety"


def _noted() -> str | None:
    try:
        return (data_folder() / "endpoint").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _read(path: str | os.PathLike[str] | None, variable: str) -> bytes | None:
    named = path or os.environ.get(variable)
    if not named:
        return None
    try:
        return Path(named).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{named} ({variable}) cannot be read: {error.strerror}") from None


def read_token_file(path: Path, roles: frozenset[str]) -> str:
    """The token of a file: the first with one of the roles, else the first.

    A line is a token alone, or `token name roles namespaces`, as docs/configuration.md describes.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o007:
        raise ConfigurationError(f"every user may read the token file {path}; run: chmod 600 {path}")
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    if not lines:
        raise ConfigurationError(f"the token file {path} holds no token")
    named = [line for line in lines if len(line) > 2 and roles & set(line[2].split(","))]
    return (named or lines)[0][0]
