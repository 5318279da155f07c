"""Keys, and ssh-keygen as the oracle."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

NAMESPACE = "statecert/event/v1@statecert.invalid"


def make_key(folder: Path, name: str = "key", passphrase: str = "", kind: str = "ed25519") -> Path:
    """Make a key pair by ssh-keygen; return the private file."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "", "-f", str(path)], check=True)
    return path


def public(path: Path) -> str:
    """The public key as text, without a comment."""
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def oracle_sign(key: Path, message: bytes, namespace: str = NAMESPACE, *options: str) -> bytes:
    command = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", namespace, *options]
    return subprocess.run(command, input=message, check=True, capture_output=True).stdout


def oracle_accepts(
    folder: Path,
    signers: str,
    signature: bytes,
    message: bytes,
    *,
    principal: str = "lab-a",
    namespace: str = NAMESPACE,
    at: int = 0,
    revoked: Path | None = None,
) -> bool:
    """Whether ``ssh-keygen -Y verify`` accepts."""
    (folder / "oracle_signers").write_text(signers)
    (folder / "oracle_signature").write_bytes(signature)
    command = ["ssh-keygen", "-Y", "verify", "-f", str(folder / "oracle_signers"), "-I", principal, "-n", namespace]
    command += ["-s", str(folder / "oracle_signature")]
    if at:
        command += ["-O", f"verify-time={datetime.fromtimestamp(at, UTC):%Y%m%d%H%M%SZ}"]
    if revoked is not None:
        command += ["-r", str(revoked)]
    return subprocess.run(command, input=message, capture_output=True, check=False).returncode == 0
