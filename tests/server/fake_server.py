"""A server of completions over token ids in this process: right, or wrong in one way.

It computes nothing: the next token is a hash of all tokens so far. Its slot remembers which tokens it holds, so it can
count what it reuses; ``wrong`` is what it does otherwise. A chat is made of marks around messages and of their words.
With ``--port`` and ``--alias`` it is a program of its own, for a command that starts it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "fake-model"
OPENS, CLOSES, ANSWERS = 1, 2, 3
"""Marks that the template puts before and after a message, and before the answer."""


def next_token(tokens: Sequence[int]) -> int:
    return 8 + int.from_bytes(hashlib.sha256(repr(list(tokens)).encode()).digest()[:4], "little") % 400


def templated(messages: Sequence[dict[str, str]]) -> list[int]:
    tokens: list[int] = []
    for one in messages:
        tokens += [OPENS, *(int(word[1:]) for word in one["content"].split()), CLOSES]
    return [*tokens, ANSWERS]


class Slot:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.forwarded = 0
        self.first: list[int] = []
        """Prompt of the first answer, for a server that gives it again."""
        self.files: dict[str, list[int]] = {}
        self.restored = False


class Handler(BaseHTTPRequestHandler):
    slot: Slot
    wrong = ""
    flying: list[list[int]]
    """Prompts of the requests that are in flight."""
    alias = ""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.answer({"data": [{"id": self.alias or MODEL, "created": time.time_ns()}]})
        elif self.path == "/slots" and self.wrong != "untold_slots":
            claimed = self.flying[:-1] if self.wrong == "loses_one" else self.flying
            rows = [{"id_task": id(one), "is_processing": True} for one in claimed]
            self.send(json.dumps([*rows, {"is_processing": False}]).encode(), 200)
        elif self.path == "/metrics" and self.wrong != "untold_slots":
            self.send(f"llamacpp:prompt_tokens_total {self.slot.forwarded}\n".encode(), 200)
        else:
            self.answer({"build_info": "b1", "model_alias": self.alias})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        if self.path in ("/reset_prefix_cache", "/flush_cache"):
            self.slot.tokens, self.slot.first = [], []
            self.send(b"", 404 if self.wrong == "keeps" else 200)
        elif self.path.startswith("/slots/"):
            self.slots(self.path.rpartition("=")[2], str(body.get("filename", "")))
        else:
            self.complete(body)

    def slots(self, action: str, name: str) -> None:
        slot = self.slot
        if action == "erase":
            slot.tokens, slot.first = [], []
            self.answer({"n_erased": 1})
        elif action == "save":
            slot.files[name] = list(slot.tokens)
            self.answer({"n_saved": len(slot.tokens), "n_written": 8 * len(slot.tokens)})
        elif name not in slot.files:
            self.answer({"error": "no such file"}, 400)
        else:
            slot.tokens, slot.restored = list(slot.files[name]), True
            self.answer({"n_restored": len(slot.tokens), "n_read": 8 * len(slot.tokens)})

    def complete(self, body: dict[str, Any]) -> None:
        if self.wrong == "hang":
            time.sleep(5)
        if self.wrong == "failed":
            self.answer({"error": "out of slots"}, 500)
            return
        if "messages" in body:
            body["prompt"] = templated(body["messages"])
        self.flying.append(body["prompt"])
        try:
            self.completed(body)
        finally:
            self.flying.remove(body["prompt"])

    def completed(self, body: dict[str, Any]) -> None:
        prompt, count = body["prompt"], int(body.get("n_predict") or body.get("max_tokens") or 1)
        cached = self.reused(prompt) if body.get("cache_prompt", True) else 0
        self.slot.forwarded += len(prompt) - (0 if self.wrong == "claims_reuse" else cached)
        tokens: list[int] = []
        mixed = self.wrong == "mixed" and len(self.flying) > 1
        heard = self.flying[0] if mixed else prompt
        self.slot.first = self.slot.first or list(prompt)
        if self.wrong == "stale" and cached:
            heard = self.slot.first
        for _ in range(count - (1 if self.wrong == "short" else 0)):
            tokens.append(next_token([*heard, *tokens]))
        self.slot.tokens = [*prompt, *tokens[:-1]]
        if self.wrong == "wrong_after_restore" and self.slot.restored:
            tokens = [token + 1 for token in tokens]
        answer = self.shaped(tokens, len(prompt), cached, native=self.path == "/completion")
        if "messages" in body and self.wrong == "no_logprobs":
            answer["choices"] = [{"message": {"content": "".join(f" w{one}" for one in tokens)}}]
        if self.wrong == "garbage":
            self.send(b"Internal plan: no JSON today", 200)
        elif body.get("stream"):
            self.stream(answer, tokens, native=self.path == "/completion")
        else:
            self.answer(answer)

    def reused(self, prompt: Sequence[int]) -> int:
        if self.wrong == "false_reuse" and self.slot.restored:
            return 0  # the restore said 200, and all is computed again
        same = 0
        while same < min(len(prompt) - 1, len(self.slot.tokens)) and prompt[same] == self.slot.tokens[same]:
            same += 1
        return len(prompt) + 3 if self.wrong == "too_many" else same

    def shaped(self, tokens: list[int], total: int, cached: int, *, native: bool) -> dict[str, Any]:
        rows: list[dict[str, Any]] = [{"id": one, "token": f" w{one}", "logprob": -0.5} for one in tokens]
        if self.wrong == "texts":
            rows = [{"token": one["token"], "logprob": -0.5} for one in rows]
        logprobs = [{**one, "top_logprobs": [one]} for one in rows]
        if native:
            timings = {"cache_n": cached, "prompt_n": max(0, total - cached)}
            answer = {"tokens": tokens, "tokens_evaluated": total, "timings": timings, "id_slot": 0}
            return {
                **answer,
                "completion_probabilities": logprobs,
                **({"timings": {}} if self.wrong == "untold" else {}),
            }
        details = {} if self.wrong == "untold" else {"prompt_tokens_details": {"cached_tokens": cached}}
        return {
            "choices": [{"logprobs": {"content": logprobs}}],
            "usage": {"prompt_tokens": total, **details},
        }

    def stream(self, answer: dict[str, Any], tokens: list[int], *, native: bool) -> None:
        lines = []
        for index, token in enumerate(tokens):
            one = self.shaped([token], 0, 0, native=native)
            one.pop("usage", None)
            one.pop("timings", None)
            lines.append(one if index else {**one, "id_slot": 0})
        end = {
            key: value for key, value in answer.items() if key in ("usage", "timings", "tokens_evaluated", "id_slot")
        }
        self.send_response(200)
        self.end_headers()
        lines = lines[:2] if self.wrong == "hasty" else lines
        try:
            for line in [*lines, end]:
                self.wfile.write(f"data: {json.dumps(line)}\n\n".encode())
                self.wfile.flush()
                time.sleep(0.03 * (len(lines) > 50))  # a neighbour outlasts a request also on a busy machine
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            return  # the caller left

    def answer(self, body: dict[str, Any], status: int = 200) -> None:
        self.send(json.dumps(body).encode(), status)

    def send(self, data: bytes, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def handler_of(wrong: str, alias: str = "") -> type[Handler]:
    return type("Wrong", (Handler,), {"slot": Slot(), "wrong": wrong, "flying": [], "alias": alias})


@contextmanager
def fake_server(wrong: str = "") -> Iterator[str]:
    """Serve on a port of the loopback interface; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(wrong))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)  # the end is not waited for long
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Serve where the command says, until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--wrong", default="")
    told = parser.parse_args()
    ThreadingHTTPServer(("127.0.0.1", told.port), handler_of(told.wrong, told.alias)).serve_forever()


if __name__ == "__main__":
    main()
