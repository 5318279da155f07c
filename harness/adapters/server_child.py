"""A llama-server in a process of its own: ``python -m harness.adapters.server_child``.

Its settings come as one JSON line on standard input, its address goes as one JSON line to a file descriptor that is
told; it ends when standard input does. A server that aborts ends this process, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def _listen_here(params: Any) -> None:
    """Listen on the loopback interface, on a port of the system's choice; older builds take one name, not many."""
    if hasattr(params, "hostnames"):
        params.hostnames = ["127.0.0.1"]
    else:
        params.hostname = "127.0.0.1"
    params.port = 0


def main() -> int:
    """Start the server, tell where it listens, wait for the end of standard input."""
    told = json.loads(sys.stdin.readline())
    report = int(sys.argv[1])
    if told.get("package"):
        sys.path.insert(0, told["package"])
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = told["model"]
    params.model_alias = {told["alias"]} if isinstance(params.model_alias, set) else told["alias"]
    params.api_keys = [told["key"]]
    params.n_ctx, params.n_parallel = told["n_ctx"], told["slots"]
    params.n_batch, params.n_ubatch = told["n_batch"], told["n_ubatch"]
    params.kv_unified = told["unified"]
    params.slot_save_path = told["folder"] + "/"
    _listen_here(params)
    params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = True
    params.cpuparams.n_threads = told["threads"]
    params.warmup = False
    params.cache_ram_mib = told["cache_ram_mib"]
    for name, value in told["more"].items():
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    os.write(report, json.dumps({"address": server.listening_address}).encode() + b"\n")
    os.close(report)
    while sys.stdin.readline():
        continue
    os._exit(0)  # destructors of a server may hang, and nothing of them is judged


if __name__ == "__main__":
    raise SystemExit(main())
