"""What a gate keeps of each certificate after its rules ran: a few bytes, since there may be very many.

Digests lie as bytes in one row, words are kept once, and the path is the one of the listing. The facts of a certificate
are made when somebody asks, and go when he is done.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, overload

if TYPE_CHECKING:
    from harness.model.certificate import Event

_SHA256: Final = 32
_RUN_ID: Final = 16


class CertificateFacts(NamedTuple):
    """What is kept of a certificate after its rules ran."""

    path: str
    id: str
    run_id: str
    created: str
    evidence: str
    """Digest of the evidence that it names."""
    claim_key: str
    machine: str
    state: str
    """What the ledger says of it."""
    overall: str
    record: str = ""
    """Digest of the published record that it is about; only of kind ``foreign``."""


class Known(Sequence[CertificateFacts]):
    """Facts of the certificates of one folder, in the order in which they were read."""

    __slots__ = (
        "_created",
        "_evidence",
        "_ids",
        "_machines",
        "_paths",
        "_places",
        "_records",
        "_runs",
        "_shared",
        "_words",
    )

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._ids, self._evidence, self._machines, self._runs = bytearray(), bytearray(), bytearray(), bytearray()
        self._created: list[bytes] = []
        self._words: list[tuple[str, str, str]] = []
        self._places: dict[tuple[str, str, str], int] = {}
        self._shared = array("L")
        self._records: dict[int, str] = {}

    def append(self, one: CertificateFacts) -> None:
        """Keep the facts of one more; its digests fit the schema of a certificate."""
        if one.record:
            self._records[len(self._paths)] = one.record
        self._paths.append(one.path)
        self._ids += bytes.fromhex(one.id)
        self._evidence += bytes.fromhex(one.evidence)
        self._machines += bytes.fromhex(one.machine)
        self._runs += bytes.fromhex(one.run_id)
        self._created.append(one.created.encode())
        words = (one.claim_key, one.state, one.overall)
        if words not in self._places:
            self._places[words] = len(self._words)
            self._words.append(words)
        self._shared.append(self._places[words])

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, place: int) -> CertificateFacts: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[CertificateFacts]: ...
    def __getitem__(self, place: int | slice) -> CertificateFacts | Sequence[CertificateFacts]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        path = self._paths[place]
        place %= len(self._paths)
        claim_key, state, overall = self._words[self._shared[place]]
        digest = slice(place * _SHA256, (place + 1) * _SHA256)
        return CertificateFacts(
            path=path,
            id=self._ids[digest].hex(),
            run_id=self._runs[place * _RUN_ID : (place + 1) * _RUN_ID].hex(),
            created=self._created[place].decode(),
            evidence=self._evidence[digest].hex(),
            claim_key=claim_key,
            machine=self._machines[digest].hex(),
            state=state,
            overall=overall,
            record=self._records.get(place, ""),
        )

    def runs(self) -> Iterator[bytes]:
        """The run id of each, without the rest: what is asked of all of them is asked of columns."""
        return _pieces(self._runs, _RUN_ID)

    def evidence(self) -> Iterator[bytes]:
        """The digest of the evidence of each."""
        return _pieces(self._evidence, _SHA256)

    def claim_keys(self) -> Iterator[str]:
        """The claim key of each."""
        keys = [claim_key for claim_key, _, _ in self._words]
        return (keys[place] for place in self._shared)

    def current(self) -> Iterator[tuple[str, bytes]]:
        """Claim key and machine of each that the ledger says is current."""
        keys = [claim_key if state == "current" else "" for claim_key, state, _ in self._words]
        machines = _pieces(self._machines, _SHA256)
        return ((keys[place], machine) for place, machine in zip(self._shared, machines, strict=True) if keys[place])

    def of_id(self, certificate: str) -> CertificateFacts | None:
        """Return the facts of one certificate by its id; None: it is not among them."""
        try:
            wanted = bytes.fromhex(certificate)
        except ValueError:
            return None
        found = self._ids.find(wanted) if len(wanted) == _SHA256 else -1
        while found >= 0 and found % _SHA256:
            found = self._ids.find(wanted, found + 1)
        return self[found // _SHA256] if found >= 0 else None


class Judged(Iterable[str]):
    """One line for each certificate (with its state) and event that was judged, sorted; made when somebody asks."""

    def __init__(self) -> None:
        self._folders: list[tuple[Known, Sequence[Event]]] = []

    def add(self, certificates: Known, events: Sequence[Event]) -> None:
        """Add what one folder holds."""
        self._folders.append((certificates, events))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Judged) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[str]:
        lines = [f"certificate {one.id} {one.state}" for known, _ in self._folders for one in known]
        yield from sorted([*lines, *(f"event {event.id}" for _, events in self._folders for event in events)])


def _pieces(row: bytearray, size: int) -> Iterator[bytes]:
    whole = bytes(row)
    return (whole[at : at + size] for at in range(0, len(whole), size))


def repeated(values: Iterable[Hashable]) -> frozenset[int]:
    """Return hashes of values that occur more than once, and perhaps of a few that do not.

    A first look that holds no value: where it finds nothing, and that is nearly always, there is nothing to find.
    """
    seen: set[int] = set()
    again: set[int] = set()
    for value in values:
        mark = hash(value)
        (again if mark in seen else seen).add(mark)
    return frozenset(again)
