"""A driver that is right until it is asked for one operation, and then wrong in one way: ``bad_driver.py HOW OP``."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable

HOW, OP = sys.argv[1], sys.argv[2]
POSITION = 0
OUT = ""


def good(request: dict[str, object]) -> dict[str, object]:
    global POSITION, OUT
    match request["op"]:
        case "hello":
            OUT = str(request["out"])
            globals()["fd"] = os.open(OUT, os.O_RDWR)
            return {
                "protocol": "statecert-stdio",
                "version": 2 if HOW == "version" else 1,
                "capabilities": ["parts", "logits"],
                "devices": [{"name": "cpu", "absent": ""}],
                "archives": [{"codec": "rows", "version": 1}],
            }
        case "open":
            return {
                "engine": "bad",
                "version": "1",
                "model": "bad",
                "model_digest": "ab" * 32,
                "observability": "parts",
                "facts": {"logits_type": "u32"},
                "device": {"type": "cpu"},
            }
        case "open_session":
            return {"session": 1}
        case "begin":
            POSITION = 0
            return {"cached": 0, "restored_bytes": 0, "schedule": [request["tokens"]]}
        case "prefill":
            POSITION = int(str(request["upto"]))
            return {"forwarded": POSITION}
        case "position":
            return {"position": POSITION}
        case "decode":
            return {"tokens": [1] * int(str(request["count"]))}
        case "logits":
            os.pwrite(globals()["fd"], bytes(64), 0)
            return {"at": 0, "bytes": 64}
        case "parts":
            os.pwrite(globals()["fd"], bytes(range(32)), 0)
            return {"parts": [part("meta", "meta", "u8", [16], 0, 16), part("layer0.k", "kv", "u32", [2, 2], 16, 16)]}
        case _:
            return {}


def part(name: str, family: str, kind: str, shape: list[int], at: int, size: int) -> dict[str, object]:
    return {
        "name": name,
        "family": family,
        "layer": -1 if family == "meta" else 0,
        "type": kind,
        "shape": shape,
        "stream": "fixed",
        "at": at,
        "bytes": size,
    }


def ok(**result: object) -> dict[str, object]:
    return {"id": request["id"], "ok": result}


def mute() -> None:
    os.close(1)
    time.sleep(600)


request: dict[str, object] = {}
LINES: dict[str, Callable[[], object]] = {
    "garbage": lambda: "loading model ... 100%",
    "list": lambda: "[]",
    "nan": lambda: json.dumps(ok(position=float("nan"))),
    "other_id": lambda: json.dumps({**ok(position=1), "id": 999}),
    "no_result": lambda: json.dumps({"id": request["id"]}),
    "negative": lambda: json.dumps(ok(position=-1)),
    "oversize": lambda: json.dumps(ok(position=2**80)),
    "unknown_field": lambda: json.dumps(ok(position=1, more=2)),
    "long_line": lambda: "x" * ((16 << 20) + 4096),
    "odd_refusal": lambda: json.dumps({"id": request["id"], "refused": "maybe"}),
    "error": lambda: json.dumps({"id": request["id"], "error": "the device is on fire"}),
    "beyond_file": lambda: json.dumps(ok(at=0, bytes=1 << 30)),
    "wrong_length": lambda: json.dumps(ok(parts=[part("meta", "meta", "u8", [16], 0, 12)])),
    "fewer_tokens": lambda: json.dumps(ok(tokens=[1])),
    "hang": lambda: time.sleep(600),
    "crash": lambda: os.kill(os.getpid(), signal.SIGABRT),
    "exit": lambda: sys.exit(7),
    "mute": mute,
}


for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"], "ok": good(request)}
    print(LINES[HOW]() if request["op"] == OP else json.dumps(answer), flush=True)
    if request["op"] == "close":
        sys.exit(5 if HOW == "bad_end" else 0)
