"""A server that the adapter starts: its own child, on a port that the system chose, known by a nonce."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.adapters.server_http import Client
from harness.errors import EngineCrashedError, EngineError, EngineHungError

_CHILD: Final = "harness.adapters.server_child"
_KEEPER: Final = "harness.adapters.server_keeper"
_START_S: Final = 120.0
_GRACE_S: Final = 5.0


class OwnServer:
    """A running child: a llama-server of the installed package, or the keeper of a server that a command starts.

    Args:
        settings: What :mod:`harness.adapters.server_child` reads, without key, alias and folder; with ``command``
            what :mod:`harness.adapters.server_keeper` reads.
        patience_s: Seconds until a request counts as hung.

    Raises:
        EngineError: It does not start, or what answers at its address is not it.
    """

    def __init__(self, settings: Mapping[str, object], patience_s: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="statecert-slots-"))
        self._key, alias = secrets.token_hex(16), f"own-{secrets.token_hex(8)}"
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _KEEPER if "command" in settings else _CHILD, str(writer)],
                stdin=subprocess.PIPE,
                pass_fds=(writer,),
            )
        finally:
            os.close(writer)
        try:
            told = {**settings, "key": self._key, "alias": alias, "folder": str(self.folder)}
            self._say(json.dumps(told).encode() + b"\n")
            answer = self._listening(reader)
            self.build = str(answer.get("build", ""))
            """SHA-256 of what a server of a command has loaded; empty: the system does not tell."""
            self.client = Client(str(answer["address"]), key=self._key, patience_s=patience_s, ended=self.status)
            self._require_own(alias, aliased=settings.get("aliased", True) is True)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(reader)

    def status(self) -> int | None:
        """Exit status, once the process has ended; one that closed its socket is given a moment to end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_GRACE_S)
        return None

    def close(self) -> None:
        """End the process and remove the folder of slot files."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _say(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def _listening(self, reader: int) -> Mapping[str, object]:
        if not select.select([reader], [], [], _START_S)[0]:
            raise EngineHungError(f"the server did not start within {_START_S:g} s")
        line = os.read(reader, 4096)
        if not line:
            status = self.status()
            raise EngineCrashedError(f"the server ended with status {status} before it listened", status=status or 0)
        told: Mapping[str, object] = json.loads(line)
        return told

    def _require_own(self, alias: str, *, aliased: bool = True) -> None:
        """Ask what answers there for the alias that only this child was given.

        Args:
            alias: Of this child.
            aliased: It tells its alias among its properties; else among its models.
        """
        if aliased:
            found = self.client.get("/props").get("model_alias") == alias
        else:
            models = self.client.get("/v1/models").get("data")
            found = isinstance(models, list) and any(isinstance(one, dict) and one.get("id") == alias for one in models)
        if not found:
            raise EngineError("NotTheServer: what listens at the address of the server that was started is another one")
