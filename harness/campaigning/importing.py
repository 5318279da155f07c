"""Published records of others into files of observations, closed like those of a run. Nothing is measured here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from harness.deriving.campaign import derive_campaign
from harness.deriving.fields import text_at
from harness.deriving.foreign import FOREIGN, PROCEDURE, SCHEMA
from harness.deriving.foreign.facts import created_of, machine_of, target_of
from harness.deriving.foreign.shapes import read_record
from harness.deriving.ids import campaign_key
from harness.engines.subject import path_sets_of
from harness.errors import InvalidDocumentError, UsageError
from harness.model.certificate import Certificate
from harness.pipeline import plain, private_names, read_bytes
from harness.running.source import source_of
from harness.wire.campaign_doc import CampaignWriter, read_campaign
from harness.wire.published import MAX_BYTES, read_published

OWN_SETS: Final = {"foreign": ("harness:deriving/foreign/**/*.py", "harness:wire/published.py")}
"""Files that say what a published record comes to."""
_PIECE: Final = 8192
"""Characters of one piece of text."""


class Imported:
    """One record that was read and can be written.

    Args:
        path: The file, as it was published.
        told: What its importer says of it: ``engine``, perhaps ``published``, ``model``, ``hardware`` …
        source: Where it was published: ``repository``, ``path``, ``commit``, ``license``, as far as known.

    Raises:
        InvalidDocumentError: It is no record of a known shape, or says too little or something else than was told.
        StorageError: It cannot be read.
    """

    def __init__(self, path: Path, told: Mapping[str, str], source: Mapping[str, str]) -> None:
        data = read_bytes(path)
        if not data or len(data) > MAX_BYTES:
            raise InvalidDocumentError(f"found {len(data)} bytes; allowed are 1 to {MAX_BYTES}", where=path.name)
        self.name = path.name
        self.sha256 = hashlib.sha256(data).hexdigest()
        record = read_record(read_published(data, path.name), path.name)
        self._data, self._told, self._source = data, dict(told), dict(source)
        self.created = created_of(record, told)
        self.target = target_of(record, told)
        words = (str(self.target[name]) for name in ("engine", "model", "hw_class"))
        self.claim_key = campaign_key(FOREIGN, *words)

    def write(self, path: Path, known: Sequence[Certificate]) -> Mapping[str, object]:
        """Write the file of observations, and return the body that follows.

        Args:
            path: The file to write; it must not exist.
            known: Certificates that are there; those of this claim key with another digest of the model are noted.

        Raises:
            InvalidDocumentError: The record holds something private, or contradicts what was told.
            StorageError: The disk refuses.
        """
        writer = CampaignWriter(path, names=private_names())
        try:
            writer.write(self._header(known))
            text = self._data.decode("utf-8")
            for number, start in enumerate(range(0, len(text), _PIECE)):
                writer.write({"type": "text", "number": number, "text": text[start : start + _PIECE]})
            writer.close(finished=self.created, elapsed_ns=0)
        except BaseException:
            writer.abandon()
            raise
        return derive_campaign(read_campaign(read_bytes(path), path.name), path.name)

    def _header(self, known: Sequence[Certificate]) -> Mapping[str, object]:
        others = [one for one in known if one.body.get("claim_key") == self.claim_key]
        noted = [
            {"certificate": one.id, "digest": digest}
            for one in others
            if (digest := text_at(one.body, "subject", "model", "digest")) != self.target["model_digest"]
        ]
        return {
            "type": "header",
            "schema": SCHEMA,
            "campaign": FOREIGN,
            "run_id": self.sha256[:32],
            "created": self.created,
            "procedure": PROCEDURE,
            "target": {**self.target, "path_sets": [plain(one) for one in path_sets_of(OWN_SETS)]},
            "environment": {"machine": machine_of(self.target), "facts": {}},
            "source": plain(source_of(OWN_SETS)),
            "record": {"sha256": self.sha256, "bytes": len(self._data), **self._source},
            "told": self._told,
            "known_models": noted,
        }


def in_order(records: Sequence[Imported]) -> Sequence[Imported]:
    """Return records in the order in which they were published.

    Raises:
        UsageError: One is there twice, or two of one claim key are of the same moment, so nobody can tell which holds.
    """
    found = sorted(records, key=lambda one: (one.created, one.sha256))
    for first, second in pairwise(found):
        if first.sha256 == second.sha256:
            raise UsageError(f"{second.name} is the same record as {first.name}")
        if (first.created, first.claim_key) == (second.created, second.claim_key):
            raise UsageError(
                f"{first.name} and {second.name} are of {first.created}; import them one by one, with --published"
            )
    return found
