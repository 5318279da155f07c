"""The steps on archives of K/V rows: ``encode`` (the harness makes one) and ``bring`` (the engine decodes it)."""

from __future__ import annotations

from hashlib import sha256

from harness.model.scenario import Step
from harness.model.values import Capability, Phase
from harness.running.arms import ArmImage, ArmRun
from harness.running.steps.images import image_of


def encode(arm: ArmRun, step: Step) -> None:
    """Make an archive of a session's K/V rows; what the session has to be after it was decoded is filed as a look.

    Raises:
        EngineError: The rows cannot be coded, or the engine failed.
    """
    arm.require(Capability.ARCHIVE)
    name, session = step.image or "", arm.session(step)
    arm.images.pop(name, None)
    codec, version = str(step.target["codec"]), int(step.target["version"])
    found = arm.encode(step.session, step.label, Phase.SEEN, codec, version)
    arm.images[name] = ArmImage(data=found.archive, prompt=session.prompt)
    arm.done(
        step, {**step.target, **_described(name, found.archive), "page_bytes": found.page_bytes, "path": found.path}
    )


def bring(arm: ArmRun, step: Step) -> None:
    """Let the engine decode an archive into a session's K/V rows; look before anything else runs, unless unseen.

    Raises:
        EngineError: The engine refused or failed, or there is no such archive.
    """
    arm.require(Capability.ARCHIVE)
    name, session = step.image or "", arm.session(step)
    image = image_of(arm, name)
    codec, version = str(step.target["codec"]), int(step.target["version"])
    found = session.remote.import_archive(image.data, codec=codec, version=version, unseen=step.unseen)
    if not step.unseen:
        arm.look(step.session, step.label, Phase.SEEN)
    arm.done(
        step,
        {
            **step.target,
            **_described(name, image.data),
            "restored_bytes": found.value.restored_bytes,
            "import_ns": found.ns,
        },
    )


def _described(name: str, data: bytes) -> dict[str, str | int]:
    return {"image": name, "bytes": len(data), "sha256": sha256(data).hexdigest()}
