"""A valid matrix of element types in memory, and the same with one thing changed. No engine runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.deriving.kv_entries import KNOWN, asked_of
from harness.deriving.kv_figures import lcg2_bytes
from harness.deriving.kv_plan import arms_of, order_of, plan_groups
from harness.wire.records import record_to_mapping
from tests.fakes.campaign import TRUST, Flown, Line, digest, header_line

PROCEDURE: Mapping[str, Any] = {
    "models": {"wide": {"preset": "tiny", "arch": "attention"}},
    "prefixes": [300],
    "scale": 16,
    "types": ["f32", "f16", "bf16"],
    "coded": ["f16"],
    "versions": [1, 2],
    "processes": 2,
    "rounds": 5,
    "warmups": 1,
    "steps": 64,
    "path": "compiled",
    "restore": "compiled",
    "version": 3,
    "limits": {
        "size_ppm": 1_000_000,
        "restore_ppm": 1_000_000,
        "import_ppm": 2_000_000,
        "total_ppm": 1_000_000,
        "host_kib": 64,
        "pairs": 10,
        "noise_ppm": 100_000,
        "spread_ppm": 250_000,
        "implausible_ppm": 20_000,
    },
}
COMPONENT: Mapping[str, Any] = {
    "layers": 4,
    "tokens": 300,
    "k_element": "f16",
    "v_element": "f16",
    "k_channels": 64,
    "v_channels": 64,
    "transposed_v": False,
    "exact_bytes": 100,
}
TIMES: Mapping[str, Mapping[str, int]] = {
    "exact": {"encode": 500, "write": 4000, "read": 1000, "import": 300, "first_token": 900},
    "exact_again": {"encode": 500, "write": 4000, "read": 1000, "import": 300, "first_token": 900},
    "lossy_lcg1": {"encode": 900, "write": 1500, "read": 400, "import": 500, "first_token": 900},
    "lossy_lcg2": {"encode": 700, "write": 1500, "read": 400, "import": 400, "first_token": 900},
}
"""Nanoseconds of each span; the lossy arms win everything but encode and import."""


def measured(times: Mapping[str, Mapping[str, int]] = TIMES, *, run: int = 3, day: int = 1) -> Flown:
    """A matrix of one group whose lossy forms lie within every limit; times grow a little from round to round."""
    (group,) = plan_groups(PROCEDURE)
    lines: list[Line] = [header_line("kv", PROCEDURE, run=run, day=day)]
    for process in range(2):
        start = 1_000_000 * (process + 1)
        for number in range(5):
            arms: dict[str, object] = {}
            for arm in order_of(PROCEDURE, number):
                spans, start = _spans(times[arm], start, number)
                arms[arm] = {"spans": spans, "decode_ns": [800, 810, 790]}
            lines.append(_line("kv_round", process, group.id, number=number, order=list(arms), arms=arms))
            start += 50_000
        lines += [_line("kv_memory", process, group.id, arm=a, host_kib=40, device_bytes=0) for a in arms_of(PROCEDURE)]
        lines.append(_line("kv_memory", process, group.id, arm="planted", host_kib=400, device_bytes=0))
        archives = {
            f"lossy_lcg{n}": {
                "bytes": lcg2_bytes([COMPONENT]) - (2 - n) * 5000,
                "sha256": digest(f"archive{n}"),
                "path": "compiled",
                "restored": "compiled",
                "bins": [32],
                "state": digest("lossy"),
            }
            for n in (1, 2)
        }
        lines.append(
            _line(
                "kv_page",
                process,
                group.id,
                raw=307_300,
                state=digest("exact"),
                back=digest("exact"),
                archives=archives,
                components=[COMPONENT],
            )
        )
        lines.append({"type": "kv_oracle", "process": process, "spans": {"oracle": [start + 10, start + 5000]}})
    lines += [_walk(group.id, version) for version in (1, 2)]
    for entry, names in asked_of(3).items():
        for name in names:
            known = KNOWN.get(entry, {}).get(name, "as it is")
            expected = "" if name in KNOWN.get(entry, {}) else known
            lines.append({"type": "kv_probe", "entry": entry, "name": name, "observed": known, "expected": expected})
    lines.append(record_to_mapping(TRUST))
    return Flown(lines=lines)


def timed(arm: str, **changes: int) -> Flown:
    """The same with other times of one arm."""
    return measured({**TIMES, arm: {**TIMES[arm], **changes}})


def _line(kind: str, process: int, group: str, **more: object) -> Line:
    return {"type": kind, "process": process, "group": group, **more}


def _spans(times: Mapping[str, int], start: int, number: int) -> tuple[dict[str, list[int]], int]:
    spans = {}
    for name, length in times.items():
        spans[name] = [start, start + length + number]
        start += length + number + 7
    return spans, start


def _walk(group: str, version: int) -> Line:
    return {
        "type": "kv_walk",
        "group": group,
        "version": version,
        "steps": 64,
        "agreed": 61,
        "first_mismatch": 7,
        "free_first_mismatch": 7,
        "entropy_mean_nano": 1,
        "entropy_most_nano": 2,
        "top_mean_nano": 3,
        "top_most_nano": 4,
    }


def altered(found: Flown, pick: Callable[[Line], bool], change: Callable[[dict[str, Any]], None]) -> Flown:
    """The same with every picked record changed; a copy, which the change may write to."""
    lines: list[Line] = []
    for line in found.lines:
        copy: dict[str, Any] = json.loads(json.dumps(line))
        if pick(line):
            change(copy)
        lines.append(copy)
    return Flown(lines=lines)


def of_version(version: int) -> Flown:
    """The same matrix as a procedure of an older version has it."""
    asked = {name for names in asked_of(version).values() for name in names}
    older = measured().without(lambda line: line["type"] == "kv_probe" and line["name"] not in asked)
    found = altered(older, lambda one: one["type"] == "kv_page", _tells_no_path)
    found.lines[0]["procedure"] = {name: one for name, one in PROCEDURE.items() if name not in ("version", "restore")}
    if version == 2:
        found.lines[0]["procedure"]["version"] = 2
    return found


def _tells_no_path(line: dict[str, Any]) -> None:
    for one in line["archives"].values():
        del one["restored"]
