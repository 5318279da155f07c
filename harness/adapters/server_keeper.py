"""Keeps a server of a user's command: ``python -m harness.adapters.server_keeper``.

Its settings come as one JSON line on standard input; the address of the server, and the digest of what it has loaded,
go as one JSON line to a file descriptor that is told. The server is ended when standard input ends, and this process
ends as the server did: so nothing outlives the engine, and a crash has its status.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from harness.adapters.loaded import loaded_digest

_START_S = 110.0
_GRACE_S = 4.0
_STEP_S = 0.05


def main() -> int:
    """Start the server, wait until it answers, tell where it listens, and wait for the end of standard input."""
    told = json.loads(sys.stdin.readline())
    report = int(sys.argv[1])
    port = _free_port()
    words = filled(told["command"], {**told, "port": port})
    server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    threading.Thread(target=_leave_with, args=(server,), daemon=True).start()
    _await(server, port, told["key"])
    address = f"http://127.0.0.1:{port}"
    build = loaded_digest(server.pid, words)
    os.write(report, json.dumps({"address": address, "build": build}).encode() + b"\n")
    os.close(report)
    while sys.stdin.readline():
        continue
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_GRACE_S)
    server.kill()
    os._exit(0)


def filled(command: str, told: Mapping[str, object]) -> list[str]:
    """Return the words of a command, with the names in braces replaced.

    Args:
        command: As a shell would split it.
        told: ``port``, ``key``, ``alias``, ``model`` (path), ``folder`` (for ``{slots}``), ``slots`` (for
            ``{parallel}``), ``threads`` and ``n_ctx``.
    """
    names = {
        "port": told["port"],
        "key": told["key"],
        "alias": told["alias"],
        "model": told["model"],
        "slots": f"{told['folder']}/",
        "parallel": told["slots"],
        "threads": told["threads"],
        "n_ctx": told["n_ctx"],
    }
    words = shlex.split(command)
    for name, value in names.items():
        words = [word.replace(f"{{{name}}}", str(value)) for word in words]
    return words


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _leave_with(server: subprocess.Popen[bytes]) -> None:
    status = server.wait()
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(abs(status))


def _await(server: subprocess.Popen[bytes], port: int, key: str) -> None:
    """Return when the server lists its models, which it does once it has loaded one."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_S)
        try:
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
            if connection.getresponse().status < 500:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(_STEP_S)
    server.kill()
    os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
