"""Ten thousand certificates of about 29 KB, from disk to verdict, evidence and signatures apart.

No two certificates have a digest or a time in common, as no two runs have. Every file is listed, read, parsed strictly,
held to its one spelling and its schema, digested in canonical form, named by that digest, and judged by every rule that
asks about bodies, ledger and pages. Evidence is left out on both sides: it is `bench_gate`'s. Beside it: parsing the
same bytes with the fastest reader, and the usual three libraries.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import jsonschema
import orjson
import rfc8785
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from benchmarks.runner import Goal, Group, main, with_byte_code
from harness.certifying.regenerating import regenerate_all
from harness.certifying.store import certificate_path
from harness.deriving.ids import certificate_id
from harness.gating.gate import gate
from harness.gating.rule import Rule
from harness.gating.rules import asked_for
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.wire import resources
from harness.wire.certificate_doc import format_certificate
from tests.fakes.evidence import recorded, scenario
from tests.gating.fixtures import SCENARIO

PARSE = "orjson.loads of the same bytes"
USUAL = "json + jsonschema + rfc8785"
WANTED_BYTES = 29_000
_DIGEST = re.compile(r"(?<=\")[0-9a-f]{64}(?=\")")
OF_EVIDENCE = ("CG204",)
"""Asks whether evidence is there; here it is on neither side."""
PEAK = """
import sys
from harness.gating.gate import gate
from harness.gating.rules import RULES
report = gate([sys.argv[1]], rules=[rule for rule in RULES if rule.id not in sys.argv[2:]])
status = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(report.exit_code), status["VmHWM"].split()[0])
"""


def folder_of(count: int) -> Path:
    """A folder with this many certificates of as many machines, without their evidence, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="bench-many-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    text = json.dumps(_body(_cells()))
    for number in range(1, count + 1):
        body = json.loads(_DIGEST.sub(partial(_another, number), text))
        for cell in body["cells"]:
            for turn in cell["turns"]:
                _take_longer(turn, number)
        body["environment"]["machine"] = hashlib.sha256(b"machine %d" % number).hexdigest()
        body["run"]["run_id"] = f"{number:032x}"
        body["run"]["evidence"]["sha256"] = hashlib.sha256(b"evidence %d" % number).hexdigest()
        body["claim_key"] = f"T02/fake-digests{number % 50}/cpu-x86_64"
        body["subject"]["model"]["name"] = f"digests{number % 50}"
        one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
        path = folder / certificate_path(one)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(format_certificate(one))
    regenerate_all(folder)
    return folder


def _another(number: int, digest: re.Match[str]) -> str:
    """A digest of this certificate alone: no two runs see the same bytes."""
    return hashlib.sha256(f"{number} {digest[0]}".encode()).hexdigest()


def _take_longer(turn: dict[str, object], number: int) -> None:
    """No two runs take the same time; the composed one stays between its parts."""
    for name in ("begin_ns", "first_token_ns"):
        if turn[name]:
            turn[name] = int(str(turn[name])) + number


def _cells() -> int:
    """How many cells make a certificate of the wanted size."""
    small, large = (len(json.dumps(_body(count), indent=2)) for count in (1, 4))
    return max(1, 1 + round((WANTED_BYTES - small) * 3 / (large - small)))


def _body(cells: int) -> dict[str, object]:
    values = ", ".join(str(one) for one in range(1, cells + 1))
    text = SCENARIO.replace(b"axes: {at: [1, 2]}", f"axes: {{at: [{values}]}}".encode())
    text = text.replace(b"  exclude:\n    - {when: {at: 2}, reason: no_such_place}\n", b"").replace(
        b"seed: 1", b"seed: $at"
    )
    body: dict[str, object] = json.loads(json.dumps(recorded(scenario(text)).body()))
    return body


def rules(*, signed: bool = False) -> list[Rule]:
    """The rules that always run, without evidence's; with ``signed`` also the one that asks for signatures."""
    options = {"--signers"} if signed else set[str]()
    return [rule for rule in asked_for(options) if rule.id not in OF_EVIDENCE]


def judged(folder: Path) -> int:
    """Exit code of the gate; every certificate must be there and none found wanting."""
    return int(gate([folder], rules=rules()).exit_code)


def group_of(count: int) -> Group:
    folder = folder_of(count)
    texts = [path.read_bytes() for path in sorted(folder.rglob("*.json"))]
    size = sum(map(len, texts))
    print(f"{count} certificates of {size // count} bytes")
    return Group(
        title=f"{count} certificates of {size // count} bytes, from disk to verdict",
        cases={PARSE: lambda: [orjson.loads(text) for text in texts] and 0, "gate": lambda: judged(folder)},
        reference=PARSE,
        goals=(Goal(case="gate", time_at_most=4),),
        size=size,
        check=green,
    )


def usual_group(count: int) -> Group:
    folder = folder_of(count)
    paths = sorted(folder.rglob("*.json"))
    schemas = [json.loads(resources.resource_text("schemas", name)) for name in resources.resource_names("schemas")]
    registry = Registry().with_resources([(one["$id"], DRAFT202012.create_resource(one)) for one in schemas])
    whole = next(one for one in schemas if one["$id"].endswith("certificate.v1.json"))
    validator = jsonschema.Draft202012Validator(whole, registry=registry)

    def usual() -> int:
        bad = 0
        for path in paths:
            value = json.loads(path.read_bytes())
            bad += not validator.is_valid(value)
            bad += hashlib.sha256(rfc8785.dumps(value["body"])).hexdigest()[:12] != path.stem[-12:]
        return bad

    return Group(
        title=f"{count} certificates: parse, validate, canonical digest with the usual libraries",
        cases={USUAL: usual, "gate": lambda: judged(folder)},
        reference=USUAL,
        goals=(Goal(case="gate", speed_at_least=20),),
        check=green,
    )


def green(results: Mapping[str, object]) -> None:
    """What is measured must be good, or the figure is of another path through the code."""
    for case, code in results.items():
        if code != 0:
            raise AssertionError(f"{case} ended in {code}")


def memory_line(small: int, large: int) -> str:
    """Peak memory of a gate process over a small and a large folder; Linux only."""
    peaks = []
    for count in (small, large):
        command = [sys.executable, "-c", PEAK, str(folder_of(count)), *OF_EVIDENCE]
        code, peak = subprocess.run(
            command, capture_output=True, text=True, check=True, env=with_byte_code()
        ).stdout.split()
        if code != "0":
            raise AssertionError(f"the gate ended in {code}")
        peaks.append(int(peak))
    ratio = peaks[1] / peaks[0]
    told = f"{small} certificates {peaks[0] >> 10} MiB, {large} certificates {peaks[1] >> 10} MiB"
    return f"\npeak memory: {told}, ratio {ratio:.2f} (goal <= 1.5): {'met' if ratio <= 1.5 else 'missed'}"


def groups(*, quick: bool) -> Sequence[Group]:
    return [group_of(500 if quick else 10_000), usual_group(20 if quick else 100)]


if __name__ == "__main__":
    code = main(groups)
    print(memory_line(*((100, 1000) if "--quick" in sys.argv else (100, 10_000))))
    sys.exit(code)
