"""Requests to an inference server over the standard library: JSON, streamed events, and names for what goes wrong."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from harness.errors import EngineCrashedError, EngineError, EngineHungError, ProtocolError, RefusedError
from harness.model.values import RefusalCode

Json = Mapping[str, object]
_DONE = "[DONE]"
_MOST = 256 << 20


class Client:
    """Speaks to one server.

    Args:
        url: Like ``http://127.0.0.1:8080``.
        key: Sent as a bearer token; empty: none.
        patience_s: Seconds until a request counts as hung.
        ended: Tells the exit status of a server that the caller started and that has ended; None: it runs, or is not
            the caller's.

    Raises:
        RefusedError: The address is none (``unsupported``).
    """

    def __init__(self, url: str, *, key: str = "", patience_s: int = 120, ended: Callable[[], int | None]) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise RefusedError(RefusalCode.UNSUPPORTED, "the address of a server is http://host:port")
        self._host, self._port, self._prefix = parts.hostname, parts.port or 80, parts.path.rstrip("/")
        self._key, self._patience_s, self._ended = key, patience_s, ended

    def get(self, path: str) -> Json:
        """Return what a path holds.

        Raises:
            EngineError: As :meth:`post`.
        """
        with self._answer("GET", path, None) as answer:
            return _whole(answer, path)

    def get_list(self, path: str) -> Sequence[object]:
        """Return the list that a path holds.

        Raises:
            EngineError: As :meth:`post`; what it holds is no list (:class:`ProtocolError`).
        """
        with self._answer("GET", path, None) as answer:
            found = _parsed(answer.read(_MOST), path)
        if not isinstance(found, list):
            raise ProtocolError(f"{path}: found JSON of type {type(found).__name__}; expected a list")
        return found

    def get_text(self, path: str) -> str:
        """Return the text that a path holds.

        Raises:
            EngineError: As :meth:`post`.
        """
        with self._answer("GET", path, None) as answer:
            return answer.read(_MOST).decode("utf-8", "replace")

    def poke(self, path: str) -> None:
        """Send a request without a body, whose answer says nothing but its status.

        Raises:
            EngineError: As :meth:`post`.
        """
        with self._answer("POST", path, {}) as answer:
            answer.read(_MOST)

    def post(self, path: str, body: Json) -> Json:
        """Send a request and return its answer.

        Raises:
            RefusedError: The server said no to the request (status 4xx: ``format``).
            EngineHungError: No answer in time.
            EngineCrashedError: The server, started by the caller, ended.
            ProtocolError: What came is no answer of such a server.
            EngineError: The server failed (5xx), or cannot be reached.
        """
        with self._answer("POST", path, body) as answer:
            return _whole(answer, path)

    def stream(self, path: str, body: Json) -> Iterator[Json]:
        """Send a request and yield its events as they come.

        Raises:
            EngineError: As :meth:`post`.
        """
        with self._answer("POST", path, body) as answer:
            for line in answer:
                text = line.decode("utf-8", "replace").strip()
                if not text.startswith("data:"):
                    continue
                data = text.removeprefix("data:").strip()
                if data == _DONE:
                    return
                yield _json(data.encode(), path)

    @contextmanager
    def _answer(self, method: str, path: str, body: Json | None) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._patience_s)
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request(method, f"{self._prefix}{path}", json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise _failed(path, answer.status, answer.read(4096))
            yield answer
        except TimeoutError:
            raise EngineHungError(f"{path}: the server gave no answer within {self._patience_s} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(path, error) from None
        finally:
            connection.close()

    def _lost(self, path: str, error: Exception) -> EngineError:
        status = self._ended()
        if status is not None:
            return EngineCrashedError(f"{path}: the server ended with status {status}", status=status)
        return EngineError(f"ServerGone: {path}: {type(error).__name__}")


def _failed(path: str, status: int, told: bytes) -> EngineError:
    words = told.decode("utf-8", "replace")[:300]
    if status in (401, 403):
        return EngineError(f"NotTheServer: {path}: it does not know the key that it was started with")
    if status < 500:
        code = RefusalCode.MISSING if status == 404 else RefusalCode.FORMAT
        return RefusedError(code, f"{path}: {status} {words}")
    return EngineError(f"ServerError: {path}: {status} {words}")


def _whole(answer: http.client.HTTPResponse, path: str) -> Json:
    return _json(answer.read(_MOST), path)


def _json(data: bytes, path: str) -> Json:
    found = _parsed(data, path)
    if not isinstance(found, dict):
        raise ProtocolError(f"{path}: found JSON of type {type(found).__name__}; expected a mapping")
    return found


def _parsed(data: bytes, path: str) -> object:
    try:
        found: object = json.loads(data)
    except ValueError:
        raise ProtocolError(f"{path}: found what is no JSON: {data[:80]!r}") from None
    return found
