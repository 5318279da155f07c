"""The fuzzer of coded rows: two readers agree, all paths agree, and what is planted is found."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from harness.cli import main
from harness.codec import blocks
from harness.codec.archive import decode_page, read_archive
from harness.codec.errors import CodecError
from harness.codec.paths import coder, quantised_blocks
from harness.selfcheck import codecs
from harness.selfcheck.fuzz import CODEC, SUBJECTS, Walk
from harness.torch_engine.coded import restoring
from harness.torch_engine.kv.elements import element
from harness.wire.campaign_doc import read_campaign

TARGETS = {one.name: one for one in codecs.targets()}


def test_a_short_walk_over_all_readers_of_codes_finds_nothing_wrong(tmp_path: Path) -> None:
    walk = Walk(11, tmp_path, of=CODEC)

    found = walk.round(0, 500)

    assert [(one.target, one.number, one.wrong, one.signature) for one in walk.crashers] == []
    assert set(found.by_target) == set(SUBJECTS[CODEC])
    assert found.accepted
    assert found.refused


def test_every_seed_is_valid_to_both_readers() -> None:
    for target in TARGETS.values():
        for seed in target.seeds:
            assert target.judge(seed).signature == "accepted"
            assert not target.judge(seed).wrong
    assert all(codecs.plain_archive(seed) for seed in TARGETS["archive"].seeds)


def test_a_campaign_about_codes_finds_every_planted_hole_and_is_filed_beside_the_one_about_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Walk.round, "__defaults__", (50,))  # cases after the controls; another test walks on
    assert main(["fuzz", "--of", "codec", "--seconds", "0", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.rglob("fuzz.json")
    assert json.loads(path.read_text())["claim_key"].startswith("fuzz/statecert-codec/")
    evidence = path.with_suffix(".jsonl")
    records = read_campaign(evidence.read_bytes(), evidence.name).records
    planted = {str(one["name"]): one["found"] for one in records if one["type"] == "control"}
    assert planted == dict.fromkeys(codecs.HOLES, True)


@pytest.mark.parametrize("kind", ["q4_0", "q8_0"])
def test_a_zero_row_of_either_sign_is_one_block_by_every_path(kind: str) -> None:
    """Found by the fuzzer: the scale of a zero block took the sign of its first zero."""
    plain, signed = np.zeros((1, 32), np.float32), np.full((1, 32), -0.0, np.float32)
    found = {blocks.quantise(kind, values).tobytes() for values in (plain, signed)}
    found |= {quantised_blocks(kind, values, path=coder("compiled")).tobytes() for values in (plain, signed)}
    found |= {element(kind).encode(torch.from_numpy(values))[0].numpy().tobytes() for values in (plain, signed)}
    assert len(found) == 1
    assert found.pop()[:2] == (b"\x00\x80" if kind == "q4_0" else b"\x00\x00")


def test_a_damaged_archive_never_writes_into_resident_rows_before_it_is_whole() -> None:
    """Every field of the head and of each record's head, at edges; every cut: refused with the rows untouched."""
    rng, seeds = Random(3), TARGETS["archive"].seeds
    rows = torch.full((3, 3), 7.0, dtype=torch.float16), torch.full((3, 2), 7.0)
    data = next(one for one in seeds if codecs.plain_archive(one) and read_archive(one).raw == 3 * 3 * 2 + 3 * 2 * 4)
    assert restoring.import_page(data, rows) == read_archive(data).raw
    made = [data[:end] for end in range(len(data))]
    fields = ((0, 1), (1, 1), (2, 2), (4, 8), (12, 8), (20, 8), (28, 8), (36, 8), (44, 8))
    for at, width in [(0, 4), (4, 8), (12, 4), *((16 + field, size) for field, size in fields)]:
        values = (0, 1, 2, 255, 256, (1 << 8 * width) - 1, (1 << 8 * width - 1))
        numbers = [(value % (1 << 8 * width)).to_bytes(width, "little") for value in values]
        made += [data[:at] + number + data[at + width :] for number in numbers]
    change = TARGETS["archive"].change
    assert change is not None
    made += [change(rng, data, rng.choice(seeds)) for _ in range(400)]
    refused = 0
    for one in made:
        for row in rows:
            row.fill_(7.0)
        try:
            restoring.import_page(one, rows, limit=codecs.LIMIT)
        except CodecError as error:
            refused += 1
            partly = "symbols up to" in str(error) or "range of f16" in str(error)  # only a tile shows these
            assert partly or all(bool((row == 7.0).all()) for row in rows)
        else:
            assert codecs.plain_archive(one)
            page_of = decode_page(one, path=coder("numpy"), limit=codecs.LIMIT)
            assert b"".join(row.numpy().tobytes() for row in rows) == bytes(page_of)
    assert refused > 500


def test_a_head_that_promises_a_page_of_exabytes_allocates_nothing() -> None:
    data = TARGETS["archive"].seeds[0]
    huge = data[:4] + struct.pack("<Q", 1 << 62) + data[12:]
    tracemalloc.start()
    with pytest.raises(CodecError, match="page of at most"):
        decode_page(huge, path=coder("numpy"), limit=codecs.LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
