"""Engines in any language behind the seam: a program that speaks the stdio protocol (``docs/formats/stdio.md``).

The option ``command`` names the program. Each engine is a process of its own; who it is and what it can do is asked
of it. Each operation of the seam is one request; this module only translates.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from harness.adapters.host_cpu import cpu_class
from harness.adapters.loaded import BUILD
from harness.adapters.stdio_driver import PATIENCE_S, PROTOCOL, VERSION, Driver, Scalar
from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import ProtocolError, RefusedError
from harness.model.values import Capability, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME: Final = "stdio"
COMMAND: Final = "command"
PATIENCE: Final = "patience_s"
OTHER_COMMAND: Final = "other_command"
BUILD_OPTION: Final = "build"
OWN: Final = frozenset({COMMAND, OTHER_COMMAND, BUILD_OPTION, PATIENCE})
"""Options that are for this adapter; all others go to the driver."""
OPTION: Final = "option."
"""What the name of an option begins with in a request."""


class StdioAdapter:
    """Entry point ``stdio``."""

    name = NAME

    def __init__(self) -> None:
        self._hello: Mapping[str, object] = {}
        self._two = False

    def aim(self, options: Options) -> None:
        """Start the driver that the target names, and let it say what it can do.

        Raises:
            RefusedError: There is no command, or no such program (``unsupported``).
            EngineError: As :class:`Driver`.
        """
        driver = _started(options)
        self._hello, self._two = driver.hello, bool(options.get(OTHER_COMMAND))
        driver.close()

    def capabilities(self) -> frozenset[Capability]:
        """What the driver declares; and that there is another build of it, where the target names one."""
        declared = {Capability(str(name)) for name in _list(self._hello, "capabilities")} - {Capability.BUILDS}
        return frozenset(declared | ({Capability.BUILDS} if self._two else set()))

    def devices(self) -> Sequence[tuple[str, str]]:
        """What the driver sees."""
        told = cast("Sequence[Mapping[str, str]]", _list(self._hello, "devices"))
        return [(one["name"], one["absent"]) for one in told]

    def open(self, options: Options) -> StdioEngine:
        """Start a driver and let it load a model."""
        driver = _started(options)
        try:
            chosen = {name: value for name, value in options.items() if name not in OWN}
            return StdioEngine(driver, chosen, str(options.get(BUILD_OPTION, "own")))
        except BaseException:
            driver.kill()
            raise


class StdioEngine:
    """One driver with its model.

    Args:
        driver: Freshly started.
        options: For the driver.
        build: ``own`` or ``other``.
    """

    def __init__(self, driver: Driver, options: Options, build: str = "own") -> None:
        self.driver, self.build = driver, build
        self._told = driver.ask("open", {f"{OPTION}{name}": value for name, value in options.items()})

    def identity(self) -> Identity:
        """What the driver says of itself, with the digest of the program that really runs."""
        told = self._told
        archives = cast("Sequence[Mapping[str, str]]", _list(self.driver.hello, "archives"))
        facts: dict[str, Scalar] = {
            "driver.protocol": f"{PROTOCOL}/{VERSION}",
            "driver.sha256": self.driver.digest(),
            **({BUILD: loaded} if (loaded := self.driver.loaded()) else {}),
            BUILD_OPTION: self.build,
            **{f"driver.archive.{one['codec']}.{one['version']}": True for one in archives},
            **cast("Mapping[str, Scalar]", told["facts"]),
        }
        return Identity(
            engine=str(told["engine"]),
            version=str(told["version"]),
            model=str(told["model"]),
            model_digest=str(told["model_digest"]),
            hw_class=str(told.get("hw_class") or cpu_class()),
            observability=Observability(str(told["observability"])),
            facts=facts,
            device=cast("Options", told["device"]),
            path_sets={"adapter": [f"harness.adapters:{name}.py" for name in ("stdio_*", "host_cpu", "loaded")]},
        )

    def open_session(self, options: Options) -> StdioSession:
        """Open a session."""
        told = self.driver.ask("open_session", {f"{OPTION}{name}": value for name, value in options.items()})
        return StdioSession(self.driver, _count(told, "session"))

    def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
        """Snapshots held, and the counters."""
        told = self.driver.ask("store")
        return cast("Sequence[Options]", told["entries"]), cast("Mapping[str, int]", told["counters"])

    def evict(self, count: int) -> int:
        """Evict least recently used snapshots."""
        return _count(self.driver.ask("evict", {"count": count}), "evicted")

    def release(self, need: int) -> int:
        """Give bytes of snapshots back."""
        return _count(self.driver.ask("release", {"need": need}), "freed")

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change the budget of the store."""
        self.driver.ask("set_budget", dict(budget))

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits in an explicit snapshot."""
        self.driver.ask("corrupt_handle", {"handle": handle, "part": part, "byte": byte, "mask": mask})

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        """Flip bits in a stored snapshot."""
        self.driver.ask("corrupt_store", {"key": key, "part": part, "byte": byte, "mask": mask})

    def damage_store(self, key: str, kind: str) -> None:
        """Break the geometry of a stored snapshot."""
        self.driver.ask("damage_store", {"key": key, "kind": kind})

    def forge_image(self, data: Buffer, what: str) -> Buffer:
        """Let the engine forge one field of an image."""
        told = self.driver.ask("forge_image", {"bytes": memoryview(data).nbytes, "what": what}, data)
        return self.driver.read(told["at"], told["bytes"])

    def disk_files(self) -> Sequence[Options]:
        """Links that lie in the disk folder."""
        return cast("Sequence[Options]", self.driver.ask("disk_files")["files"])

    def close(self) -> None:
        """End the driver; one that was let go of already said why."""
        if self.driver.lost is None:
            self.driver.close()


class StdioSession:
    """One session of a driver."""

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver = driver
        self._number = number

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Reset, or restore the deepest cached prefix."""
        return _begun(self._ask("begin", {"cache": cache, "tokens": len(prompt)}, _ids(prompt)))

    def prefill(self, upto: int) -> int:
        """Forward the prompt."""
        return _count(self._ask("prefill", {"upto": upto}), "forwarded")

    def commit(self) -> None:
        """Publish this turn's captures."""
        self._ask("commit")

    def abandon(self) -> None:
        """Drop this turn's captures."""
        self._ask("abandon")

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn on top of the present state."""
        return _begun(self._ask("extend", {"tokens": len(tokens)}, _ids(tokens)))

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Sample tokens; as many as were asked for.

        Raises:
            ProtocolError: Other than that many came.
        """
        told = self._ask("decode", {"count": count, **{f"sampler.{name}": sampler[name] for name in sampler}})
        found = cast("Sequence[int]", told["tokens"])
        if len(found) != count:
            raise ProtocolError(f"decode: found {len(found)} tokens; {count} were asked for")
        return found

    def position(self) -> int:
        """Tokens that the state stands for."""
        return _count(self._ask("position"), "position")

    def logits(self) -> Buffer | None:
        """The pending logits; None: there are none."""
        told = self._ask("logits")
        return self._driver.read(told["at"], told["bytes"]) or None

    def parts(self) -> Sequence[StatePart]:
        """Every part."""
        told = cast("Sequence[Mapping[str, object]]", self._ask("parts")["parts"])
        return [
            StatePart(
                name=str(one["name"]),
                family=str(one["family"]),
                layer=int(str(one["layer"])),
                element_type=str(one["type"]),
                shape=cast("Sequence[int]", one["shape"]),
                stream=str(one["stream"]),
                data=self._driver.read(one["at"], one["bytes"]),
            )
            for one in told
        ]

    def snapshot(self) -> str:
        """Save the whole session."""
        return str(self._ask("snapshot")["handle"])

    def restore(self, handle: str) -> Begun:
        """Become a saved session."""
        return _begun(self._ask("restore", {"handle": handle}))

    def image_size(self) -> int:
        """Bytes of the image as it is now."""
        return _count(self._ask("image_size"), "bytes")

    def export_image(self, capacity: int) -> Buffer:
        """The session as one byte string."""
        told = self._ask("export_image", {"capacity": capacity})
        return self._driver.read(told["at"], told["bytes"])

    def import_image(self, data: Buffer) -> Begun:
        """Become the session of an image."""
        return _begun(self._ask("import_image", {"bytes": memoryview(data).nbytes}, data))

    def import_archive(self, data: Buffer, *, codec: str, version: int) -> Begun:
        """Let the driver decode an archive into the session's K/V rows."""
        size = memoryview(data).nbytes
        return _begun(self._ask("import_archive", {"codec": codec, "version": version, "bytes": size}, data))

    def cancel(self) -> None:
        """End the turn between two calls."""
        self._ask("cancel")

    def meanwhile(self, ask: str, *, upto: int, count: int, handle: str) -> str:
        """Go on, and in the middle of it ask for something else; the refusal's word, empty where there was none."""
        told = self._ask("meanwhile", {"ask": ask, "upto": upto, "count": count, "handle": handle})
        return str(told["code"])

    def record(self) -> None:
        """Keep what a rollback needs."""
        self._ask("record")

    def rollback(self, count: int) -> None:
        """Take the last tokens back."""
        self._ask("rollback", {"count": count})

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of a live part."""
        self._ask("corrupt", {"part": part, "byte": byte, "mask": mask})

    def synchronize(self) -> None:
        """An answer says that the work is done: nothing is left to wait for."""

    def reset(self) -> None:
        """Back to a new session."""
        self._ask("reset")

    def close(self) -> None:
        """Free everything."""
        if self._driver.lost is None:
            self._ask("close_session")

    def _ask(
        self, operation: str, fields: Mapping[str, Scalar] | None = None, data: Buffer | None = None
    ) -> Mapping[str, object]:
        return self._driver.ask(operation, {"session": self._number, **(fields or {})}, data)


def _started(options: Options) -> Driver:
    build, patience = options.get(BUILD_OPTION, "own"), options.get(PATIENCE, PATIENCE_S)
    if build not in ("own", "other"):
        raise RefusedError(RefusalCode.UNSUPPORTED, f"{BUILD_OPTION} is {build!r}; allowed are own and other")
    command = options.get(OTHER_COMMAND if build == "other" else COMMAND, "")
    if not isinstance(command, str) or not command:
        raise RefusedError(
            RefusalCode.UNSUPPORTED, "no command; say --option command=./driver (to conform also --command ./driver)"
        )
    if isinstance(patience, bool) or not isinstance(patience, int) or patience < 1:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"{PATIENCE} is {patience!r}; allowed are whole seconds from 1")
    return Driver(command, patience)


def _list(told: Mapping[str, object], name: str) -> Sequence[object]:
    found = told.get(name, [])
    return found if isinstance(found, list) else []


def _count(told: Mapping[str, object], name: str) -> int:
    return int(str(told[name]))


def _begun(told: Mapping[str, object]) -> Begun:
    return Begun(
        cached=_count(told, "cached"),
        restored_bytes=_count(told, "restored_bytes"),
        schedule=cast("Sequence[int]", told["schedule"]),
        disk_bytes=int(str(told.get("disk_bytes", 0))),
    )


def _ids(tokens: Sequence[int]) -> bytes:
    return array("I", tokens).tobytes()
