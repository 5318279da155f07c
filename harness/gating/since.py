"""What a change did, told from git objects: the records that were there before it, and the files that it touches.

The base is where the change left the branch that it goes into (the merge base), so that what others did there meanwhile
is not laid at its door. Policy and keys are taken from the named base itself: what holds now, not what held then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.errors import InvalidDocumentError, StatecertError, UsageError
from harness.gating.folder import Kind, classify
from harness.gating.freshness import steps_of

if TYPE_CHECKING:
    from harness.wire.gitobjects import Gone, Repository

KEPT: Final = (Kind.CERTIFICATE, Kind.EVENT, Kind.EVIDENCE, Kind.RECORD, Kind.SIGNATURE)
"""Kinds of files that are only ever added."""


class Held(NamedTuple):
    """A record of the base."""

    path: str
    """Below the certificates folder."""
    kind: Kind
    mode: str
    data: bytes


class Covered(NamedTuple):
    """A changed file, and who speaks of it."""

    path: str
    certificates: Sequence[str]
    """Ids of current certificates whose path sets name it; none: nobody does."""


class Since:
    """A change, from its base to the work tree.

    Args:
        repository: Where it is.
        base: Commit, branch or tag that it goes into.
        descends: Whether the base must be an ancestor, as it is after a push without force.

    Raises:
        UsageError: There is no such commit, or too little of the history is at hand.
    """

    def __init__(self, repository: Repository, base: str, *, descends: bool = False) -> None:
        self.repository = repository
        self.named = base
        self.base = repository.commit(base)
        self.head = repository.commit("HEAD")
        self.merge_base = repository.merge_base(self.base, self.head)
        self.settings: list[str] = []
        """Files of policy and keys that this change edits."""
        self.rewritten = descends and not repository.is_ancestor(self.base, self.head)

    def file(self, path: Path) -> bytes:
        """Return a file of policy or keys as the base has it, and note whether the change edits it.

        Where only the change has it, its own is returned: somebody must bring it in. Then it counts as edited.

        Raises:
            UsageError: Neither has it.
        """
        name = self._below_root(path)
        held = self.repository.blob(self.base, name)
        now = path.read_bytes() if path.is_file() else None
        if held is None and now is None:
            raise UsageError(f"neither {self.named[:80]!a} nor the work tree has a file {name}")
        if held != now:
            self.settings.append(name)
        return held if held is not None else now or b""

    def below(self, folder: str) -> str:
        """Return the path of a certificates folder below the root of the repository.

        Raises:
            UsageError: It lies elsewhere.
        """
        return self._below_root(Path(folder))

    def records(self, folder: str) -> Iterator[Held]:
        """Yield what the merge base has in a certificates folder and what may not change, by path."""
        if not self.merge_base:
            return
        top = self.below(folder)
        found = sorted(self.repository.tree(self.merge_base, top).items())
        cut = len(top) + 1 if top else 0
        kept = [(path[cut:], classify(path[cut:]), blob) for path, blob in found]
        kept = [one for one in kept if one[1] in (*KEPT, Kind.PACK) and one[2].mode != "160000"]
        contents = self.repository.contents(blob.name for _, _, blob in kept)
        for (path, kind, blob), data in zip(kept, contents, strict=True):
            if kind is Kind.PACK:
                yield from _members(path, data)
            else:
                yield Held(path=path, kind=kind, mode=blob.mode, data=data)

    def paths(self, folder: str) -> set[str]:
        """Return the paths that the merge base has in a certificates folder, below it."""
        if not self.merge_base:
            return set()
        top = self.below(folder)
        cut = len(top) + 1 if top else 0
        return {path[cut:] for path in self.repository.tree(self.merge_base, top)}

    def taken_away(self, folder: str) -> Sequence[Gone]:
        """Return records that a commit of this change took away, also such as it had brought itself."""
        if not self.merge_base:
            return ()
        top = self.below(folder)
        cut = len(top) + 1 if top else 0
        gone = self.repository.taken_away(self.merge_base, self.head, top)
        return [one._replace(path=one.path[cut:]) for one in gone if classify(one.path[cut:]) in KEPT]

    @cached_property
    def changed(self) -> Sequence[str]:
        """Paths below the root that differ from the merge base; from the base, where they have nothing in common."""
        return self.repository.changed(self.merge_base or self.base)

    def coverage(
        self, folders: Iterable[str], roots: Iterable[str], patterns: Mapping[tuple[str, ...], Sequence[str]]
    ) -> Sequence[Covered]:
        """Say for each changed path which certificates speak of it.

        Args:
            folders: Certificates folders; what lies in them speaks and is not spoken of.
            roots: Trees that packages lie below.
            patterns: Patterns of a path set to the ids of the certificates that have it.
        """
        own = [self.below(folder) + "/" for folder in folders]
        tops = [self._below_root(Path(root)) for root in roots]
        known = [(_matcher(tops, several), ids) for several, ids in patterns.items()]
        return [
            Covered(path=path, certificates=tuple(sorted({one for fits, ids in known if fits(path) for one in ids})))
            for path in self.changed
            if not any(path.startswith(folder) for folder in own)
        ]

    def _below_root(self, path: Path) -> str:
        # the folder may be a link of the change's making; what counts is the name under which git has it
        whole = (
            Path(os.path.normpath(path.parent.resolve() / path.name)) if path.name not in ("", "..") else path.resolve()
        )
        try:
            name = whole.relative_to(self.repository.root).as_posix()
        except ValueError:
            raise UsageError(f"{path} lies outside of the repository {self.repository.root.name}") from None
        return "" if name == "." else name


def _members(path: str, data: bytes) -> Iterator[Held]:
    """Yield the files of a pack of the base: these count, wherever they lie now, and not the pack."""
    from harness.wire.packs import unpack

    try:
        pack = unpack(data, path)
    except InvalidDocumentError:
        yield Held(path=path, kind=Kind.PACK, mode="100644", data=data)
        return
    for name in pack.members:
        yield Held(path=name, kind=Kind.EVIDENCE, mode="100644", data=pack.read(name))


class _matcher:  # noqa: N801 - a function with a memory
    """Tell whether a path fits one of several patterns of path sets below one of several roots."""

    def __init__(self, tops: Sequence[str], patterns: Iterable[str]) -> None:
        words = []
        for pattern in patterns:
            try:
                package, glob = steps_of(pattern)
            except StatecertError:
                continue  # CG601 says so
            words += [regex("/".join(step for step in (top, package, glob) if step)) for top in tops]
        self._fits = re.compile("|".join(words) or r"(?!)")

    def __call__(self, path: str) -> bool:
        return self._fits.fullmatch(path) is not None and "__pycache__" not in path


def regex(glob: str) -> str:
    """Return a regular expression that takes linear time for a glob: ``**`` any steps, ``*`` and ``?`` inside one."""
    out: list[str] = []
    for step in glob.split("/"):
        if step == "**":
            out.append(r"(?:[^/]+/)*")
        else:
            star = re.sub(r"\*+", "*", step)
            out.append(
                "".join("[^/]*" if one == "*" else "[^/]" if one == "?" else re.escape(one) for one in star) + "/"
            )
    return "".join(out).removesuffix("/")
