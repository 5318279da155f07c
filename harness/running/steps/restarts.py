"""The steps on processes and their disk folders: ``restart``, ``rival`` and ``spoil``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.errors import RefusedError, StorageError
from harness.model.evidence import Facts
from harness.model.scenario import Scalar, Step
from harness.model.values import Capability, RefusalCode
from harness.running.arms import ArmRun
from harness.running.steps.stores import wanted

_DISK_BYTES: Final = "disk_bytes"
"""Engine option: bytes that the disk folder may hold."""


def restart(arm: ArmRun, step: Step) -> None:
    """End the engine's process and open the engine in a new one, with the same options and disk folder.

    Sessions and handles are gone; images stay, since the harness keeps them. A budget is then the disk folder's.

    Raises:
        EngineError: The engine could not be closed, or not be opened again; or a budget refers to what nobody saw.
    """
    host, how = arm.cell.host, str(step.target["how"])
    closing, before, build = arm.opened, host.children, host.build
    room = {_DISK_BYTES: wanted(arm, step)["bytes"]} if step.budget else {}
    arm.opened = None
    arm.sessions.clear()
    arm.handles.clear()
    if closing is not None and how == "stop":
        closing.close()
    host.restart(kill=how == "kill")
    arm.options.update({**step.options, **room})
    arm.opened = host.open_engine(arm.disks.placed(arm.options))
    builds = {"build_before": build, "build": host.build} if build and host.build else {}
    arm.done(step, {"how": how, "before": before, "process": host.children, **room, **builds})


def rival(arm: ArmRun, step: Step) -> None:
    """Let a second process open the same engine on the same folder while the first one has it.

    Raises:
        EngineError: It was refused, as it must be, or failed.
    """
    arm.require(Capability.DISK)
    options = arm.disks.placed(arm.options)
    with arm.cell.host.rival(arm.cell.folder / "rival") as other:
        other.open_engine(options).close()
    arm.done(step, {"opened": True})


def spoil(arm: ArmRun, step: Step) -> None:
    """Change the file of a link; the engine finds it when it next reads the file.

    Raises:
        EngineError: There is no such file, or no such byte in it.
        StorageError: The file cannot be changed.
    """
    arm.require(Capability.DISK)
    target = step.target
    found = _file(arm, int(target["boundary"]), target.get("index"))
    path = arm.disks.file(arm.options, str(found["file"]))
    try:
        if target["what"] == "short_key":
            path.write_bytes(arm.engine.forge_image(path.read_bytes(), "link_key"))
        else:
            _SPOILINGS[str(target["what"])](path, target, int(found.get("payload_at", 0)))
    except OSError as error:
        raise StorageError(f"a file of the disk tier could not be changed: {error.strerror}") from error
    arm.done(step, {**target, "file": str(found["file"])})


def _file(arm: ArmRun, boundary: int, index: Scalar | None) -> Facts:
    """The file of a link. Names are digests, so an index among several says only *one of them*, never whose."""
    files = sorted(arm.engine.disk_files(), key=lambda one: str(one.get("file")))
    here = [one for one in files if one.get("boundary") == boundary]
    if index is None and len(here) > 1:
        raise RefusedError(
            RefusalCode.STATE,
            f"{len(here)} files hold a link at {boundary} tokens; spoil one while it is alone, or give index",
        )
    if int(index or 0) >= len(here):
        raise RefusedError(RefusalCode.MISSING, f"{len(here)} files hold a link at {boundary} tokens")
    return here[int(index or 0)]


def _flip(path: Path, at: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    if at >= len(data):
        raise RefusedError(RefusalCode.MISSING, f"no byte {at} in a file of {len(data)}")
    data[at] ^= mask
    path.write_bytes(data)


def _header(path: Path, target: Mapping[str, Scalar], payload_at: int) -> None:
    if int(target["byte"]) >= payload_at:
        raise RefusedError(RefusalCode.MISSING, f"no byte {target['byte']} in a header of {payload_at}")
    _flip(path, int(target["byte"]), int(target["mask"]))


def _payload(path: Path, target: Mapping[str, Scalar], payload_at: int) -> None:
    _flip(path, payload_at + int(target["byte"]), int(target["mask"]))


def _truncate(path: Path, target: Mapping[str, Scalar], _: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - int(target["count"]))])


def _extend(path: Path, target: Mapping[str, Scalar], _: int) -> None:
    path.write_bytes(path.read_bytes() + bytes(int(target["count"])))


def _missing(path: Path, _: Mapping[str, Scalar], __: int) -> None:
    path.unlink()


def _symlink(path: Path, _: Mapping[str, Scalar], __: int) -> None:
    """Put the file outside its folder, and a symbolic link in its place."""
    outside = path.parent.parent / f"outside-{path.name}"
    path.rename(outside)
    path.symlink_to(outside)


def _rename(path: Path, _: Mapping[str, Scalar], __: int) -> None:
    """Give the file the name that another key would have."""
    first = "0" if path.name[0] != "0" else "1"
    path.rename(path.with_name(first + path.name[1:]))


_SPOILINGS: Final[Mapping[str, Callable[[Path, Mapping[str, Scalar], int], None]]] = {
    "header": _header,
    "payload": _payload,
    "truncate": _truncate,
    "extend": _extend,
    "missing": _missing,
    "symlink": _symlink,
    "rename": _rename,
}
