"""A walk over the steps of an arm: which session and handle holds what, and how long it gets.

The walk refuses steps that cannot mean anything (a restore of a handle that nobody took) unless they may be refused
by the engine, and gives the capacity that an engine needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

from harness.deriving.node import Node
from harness.model.scenario import Arm, PromptSpec, Step, StepKind

_Other = Literal[
    StepKind.RESTART,
    StepKind.EXPORT,
    StepKind.IMPORT,
    StepKind.ALTER,
    StepKind.OBSERVE,
    StepKind.STORE,
    StepKind.EVICT,
    StepKind.BUDGET,
    StepKind.PRESSURE,
    StepKind.SPOIL,
    StepKind.RIVAL,
    StepKind.MEANWHILE,
    StepKind.RECORD,
    StepKind.ROLLBACK,
    StepKind.ENCODE,
    StepKind.BRING,
]
"""Kinds that leave the length of their session alone, or make it another one's."""


class _Session:
    """What a session holds after a step."""

    __slots__ = ("length", "open", "prompt")

    def __init__(self, *, length: int = 0) -> None:
        self.length = length
        """Tokens that the state stands for."""
        self.prompt = 0
        """Length of the prompt of an open turn."""
        self.open = False
        """A turn stopped at ``until``."""

    def like(self) -> _Session:
        """Return another session that holds the same."""
        other = _Session(length=self.length)
        other.prompt, other.open = self.prompt, self.open
        return other


class Walk:
    """Walks one arm.

    Raises:
        InvalidScenarioError: A step refers to something that is not there yet.
    """

    def __init__(self, arm: Arm, prompts: Mapping[str, PromptSpec], where: str) -> None:
        self.longest = 0
        """Most tokens that a session of the arm ever holds."""
        self._prompts = prompts
        self._sessions: dict[str, _Session] = {}
        self._handles: dict[str, int] = {}
        self._images: dict[str, _Session] = {}
        for index, step in enumerate(arm.steps):
            self._take(step, Node(value=step, where=f"{where}/steps/{index}/{step.kind}"))

    def _take(self, step: Step, node: Node) -> None:
        session = self._sessions.setdefault(step.session, _Session())
        match step.kind:
            case StepKind.RUN:
                self._run(step, session, node)
            case StepKind.RESUME:
                self._resume(step, session, node)
            case StepKind.EXTEND | StepKind.DECODE:
                self._extend(step, session, node)
            case StepKind.SNAPSHOT:
                self._handles[step.handle or ""] = session.length
            case StepKind.RESTORE:
                if step.handle in self._handles or not step.may_refuse:
                    self._sessions[step.session] = _Session(length=self._handle(step, node))
            case StepKind.RESET | StepKind.CLOSE | StepKind.CANCEL:
                del self._sessions[step.session]
            case StepKind.CORRUPT:
                if step.target["where"] == "handle":
                    self._handle(step, node)
            case _:
                self._take_other(step, step.kind, session, node)

    def _take_other(self, step: Step, kind: _Other, session: _Session, node: Node) -> None:
        """Take a step on images, processes or the store."""
        match kind:
            case StepKind.RESTART:
                self._sessions.clear()
                self._handles.clear()
            case StepKind.EXPORT | StepKind.ENCODE:
                self._images[step.image or ""] = session.like()
            case StepKind.BRING:
                self._brought(step, session, node)
            case StepKind.IMPORT | StepKind.ALTER:
                self._image(step, node)
            case StepKind.OBSERVE | StepKind.STORE | StepKind.EVICT | StepKind.BUDGET | StepKind.PRESSURE:
                pass
            case StepKind.SPOIL | StepKind.RIVAL | StepKind.RECORD:
                pass
            case StepKind.ROLLBACK:
                self._roll_back(step, session, node)
            case StepKind.MEANWHILE:
                self._meanwhile(step, session, node)
            case _:
                assert_never(kind)

    def _run(self, step: Step, session: _Session, node: Node) -> None:
        prompt = self._prompt(step, node)
        if step.until is not None and not 0 < step.until < prompt:
            node.fail(f"found until {step.until}; allowed is more than 0 and less than the prompt's {prompt} tokens")
        if step.until is not None and step.decode:
            node.fail("found decode beside until; the turn is open then, decode in its resume step")
        self._decode(step, node)
        session.open, session.prompt = step.until is not None, prompt
        session.length = prompt + step.decode if step.until is None else step.until
        self.longest = max(self.longest, prompt, session.length)

    def _resume(self, step: Step, session: _Session, node: Node) -> None:
        if not session.open:
            if step.may_refuse:
                return
            node.fail(f"found no open turn in session {step.session!r}; a run with until leaves one")
        self._decode(step, node)
        session.open, session.length = False, session.prompt + step.decode
        self.longest = max(self.longest, session.length)

    def _extend(self, step: Step, session: _Session, node: Node) -> None:
        if session.open or not session.length:
            if step.may_refuse:
                return
            node.fail(f"found session {step.session!r} empty or in an open turn; run or restore something first")
        self._decode(step, node)
        more = self._prompt(step, node) if step.kind is StepKind.EXTEND else 0
        session.length += more + step.decode
        self.longest = max(self.longest, session.length)

    def _meanwhile(self, step: Step, session: _Session, node: Node) -> None:
        if "restore" in step.target.values():
            self._handle(step, node)
        if step.count and (session.open or not session.length):
            node.fail(f"found session {step.session!r} empty or in an open turn; run or restore something first")
        if not step.count and not session.open:
            node.fail(f"found no open turn in session {step.session!r}; a run with until leaves one")
        session.length += step.count
        self.longest = max(self.longest, session.length)

    def _roll_back(self, step: Step, session: _Session, node: Node) -> None:
        if step.count >= session.length and not step.may_refuse:
            node.fail(f"found a rollback of {step.count} tokens; session {step.session!r} has {session.length}")
        session.length = max(0, session.length - step.count)

    def _decode(self, step: Step, node: Node) -> None:
        if step.cancel_after > step.decode:
            node.fail(f"found cancel_after {step.cancel_after}; the step decodes {step.decode} tokens")
        if step.stop and not step.decode:
            node.fail("found a stop_token and nothing to decode")

    def _image(self, step: Step, node: Node) -> None:
        names = [step.image or "", *([str(step.target["of"])] if "of" in step.target else [])]
        for name in names:
            if name not in self._images and not step.may_refuse:
                node.fail(f"found image {name!r}; made before this step: {', '.join(self._images) or 'none'}")
        known = self._images.get(step.image or "", _Session())
        if step.kind is StepKind.ALTER:
            self._images[str(step.target["to"])] = known.like()
        elif step.image in self._images:
            self._sessions[step.session] = known.like()

    def _brought(self, step: Step, session: _Session, node: Node) -> None:
        """An archive goes into rows that are there: as many as it was made of."""
        known = self._images.get(step.image or "")
        if known is None and not step.may_refuse:
            node.fail(f"found archive {step.image!r}; made before this step: {', '.join(self._images) or 'none'}")
        if known is not None and known.length != session.length and not step.may_refuse:
            node.fail(f"found an archive of {known.length} tokens for a session of {session.length}")

    def _prompt(self, step: Step, node: Node) -> int:
        if step.prompt not in self._prompts:
            node.fail(f"found prompt {step.prompt!r}; there are {', '.join(self._prompts)}")
        return self._prompts[step.prompt or ""].length

    def _handle(self, step: Step, node: Node) -> int:
        if step.handle not in self._handles:
            node.fail(f"found handle {step.handle!r}; taken before this step: {', '.join(self._handles) or 'none'}")
        return self._handles[step.handle or ""]
