"""The steps on session images: ``export``, ``import`` and ``alter``. The harness keeps the bytes, not the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from harness.errors import RefusedError
from harness.model.scenario import Scalar, Step
from harness.model.values import Capability, Phase, RefusalCode
from harness.running.arms import ArmImage, ArmRun


def export_image(arm: ArmRun, step: Step) -> None:
    """Export a session under a name; a refused export leaves no image of that name.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.IMAGE)
    name, session = step.image or "", arm.session(step)
    arm.images.pop(name, None)
    room = {key: int(value) for key, value in step.target.items()}
    taken = session.remote.export_image(**room)
    arm.images[name] = ArmImage(data=taken.value, prompt=session.prompt)
    arm.done(step, {**_described(name, taken.value), "export_ns": taken.ns})


def import_image(arm: ArmRun, step: Step) -> None:
    """Import an image into a session, and look before anything else runs, unless the step is to be unseen.

    Raises:
        EngineError: The engine refused or failed, or there is no such image.
    """
    arm.require(Capability.IMAGE)
    name, session = step.image or "", arm.session(step)
    image = image_of(arm, name)
    found = session.remote.import_image(image.data, unseen=step.unseen)
    session.prompt, session.schedule = image.prompt, found.value.schedule
    session.position, session.caching = found.value.cached, False
    if not step.unseen:
        arm.look(step.session, step.label, Phase.RESTORED)
    arm.done(
        step,
        {
            **_described(name, image.data),
            "cached": found.value.cached,
            "restored_bytes": found.value.restored_bytes,
            "import_ns": found.ns,
        },
    )


def alter(arm: ArmRun, step: Step) -> None:
    """Change an image, or a copy of it under another name.

    Raises:
        EngineError: There is no such image or no such byte, nothing would change, or the engine refused to forge.
    """
    image, target = image_of(arm, step.image or ""), step.target
    how, name = str(target["how"]), str(target["to"])
    changed = _forged(arm, image.data, target) if how == "forge" else _ALTERATIONS[how](arm, image.data, target)
    if changed == image.data:
        raise RefusedError(RefusalCode.MISSING, f"{how} would change nothing in this image")
    arm.images[name] = ArmImage(data=changed, prompt=image.prompt)
    arm.done(step, {**target, **_described(name, changed)})


def image_of(arm: ArmRun, name: str) -> ArmImage:
    """Return an image.

    Raises:
        RefusedError: There is none of that name.
    """
    if name not in arm.images:
        raise RefusedError(RefusalCode.MISSING, f"no image {name!r}")
    return arm.images[name]


def _described(name: str, data: bytes) -> dict[str, str | int]:
    return {"image": name, "bytes": len(data), "sha256": sha256(data).hexdigest()}


def _flip(_: ArmRun, data: bytes, target: Mapping[str, Scalar]) -> bytes:
    """Flip bits of a byte; of the middle one where so few bytes lie before the end: an engine may be that small."""
    wanted = int(target["at"])
    at = len(data) // 2 if data and wanted < -len(data) else _byte(data, wanted)
    return b"".join((data[:at], bytes([data[at] ^ int(target["mask"])]), data[at + 1 :]))


def _splice(arm: ArmRun, data: bytes, target: Mapping[str, Scalar]) -> bytes:
    other, at = image_of(arm, str(target["of"])).data, _byte(data, int(target["at"]))
    return data[:at] + other[at:]


def _byte(data: bytes, at: int) -> int:
    """Return an offset from the start."""
    place = at + len(data) if at < 0 else at
    if not 0 <= place < len(data):
        raise RefusedError(RefusalCode.MISSING, f"no byte {at} in an image of {len(data)}")
    return place


def _forged(arm: ArmRun, data: bytes, target: Mapping[str, Scalar]) -> bytes:
    arm.require(Capability.CORRUPT)
    return arm.engine.forge_image(data, str(target["what"]))


_ALTERATIONS: Final[Mapping[str, Callable[[ArmRun, bytes, Mapping[str, Scalar]], bytes]]] = {
    "truncate": lambda _, data, target: data[: max(0, len(data) - int(target["count"]))],
    "extend": lambda _, data, target: data + bytes(int(target["count"])),
    "fragment": lambda _, data, target: data[: int(target["count"])],
    "flip": _flip,
    "splice": _splice,
}
"""Changes that need no engine."""
