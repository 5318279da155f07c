"""The gate: start-up beside `python -c pass`, many certificates beside parsing their bytes, and memory."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import orjson

from benchmarks.runner import Goal, Group, main, with_byte_code
from harness.certifying.ledger import regenerate
from harness.certifying.store import certificate_path, evidence_path
from harness.deriving.ids import certificate_id
from harness.gating.gate import gate
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.wire.certificate_doc import format_certificate
from tests.fakes.evidence import recorded
from tests.gating.fixtures import KEY, the_scenario

PASS = "python -c pass"
PARSE = "orjson.loads of the same bytes"
GATE = "from harness.cli import script; script()"
PEAK = """
import sys
from harness.gating.gate import gate
report = gate([sys.argv[1]])
status = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(report.exit_code), status["VmHWM"].split()[0])
"""
"""Peak of the process by the kernel's own count: ``getrusage`` hands a parent's peak down to its children."""


def folder_of(count: int) -> Path:
    """A valid folder with this many certificates of as many machines, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="bench-gate-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number in range(1, count + 1):
        machine = hashlib.sha256(b"machine %d" % number).hexdigest()
        run = recorded(the_scenario(), run=number, environment={"machine": machine, "facts": {"os": "linux"}})
        body = json.loads(json.dumps(run.body()))
        certificate = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
        for name, data in (
            (evidence_path(body["run"]["evidence"]["sha256"]), run.data()),
            (certificate_path(certificate), format_certificate(certificate)),
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    regenerate(folder, KEY)
    return folder


def start_group(python: str, where: str) -> Group:
    """Whole processes: the command line on one certificate."""
    folder = folder_of(1)
    run = partial(process, python)
    return Group(
        title=f"gate of one certificate and --help, whole processes, {where}",
        cases={
            PASS: partial(run, "pass"),
            "statecert gate": partial(run, GATE, "gate", str(folder)),
            "statecert --help": partial(run, GATE, "--help"),
        },
        reference=PASS,
        goals=(Goal(case="statecert gate", time_at_most=6), Goal(case="statecert --help", time_at_most=3)),
    )


@cache
def bare_python() -> str:
    """An interpreter whose start reads no ``.pth`` file, as in an environment that a wheel was installed into.

    The one of a checkout loads the finder of an editable installation first, which makes each ratio look better.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-gate-bare-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def process(python: str, code: str, *arguments: str) -> int:
    """Run a Python process, with byte code at hand as an installation has it, and return its exit status."""
    command = [python, "-P", "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, check=True, env=with_byte_code(PYTHONPATH=libraries())
    ).returncode


def libraries() -> str:
    """Where a bare interpreter finds this package and those that it needs."""
    return os.pathsep.join([str(Path(__file__).resolve().parents[1]), sysconfig.get_path("purelib")])


def many_group(count: int) -> Group:
    """Read to verdict, in one process; parsing alone is the floor."""
    folder = folder_of(count)
    texts = [path.read_bytes() for path in sorted(folder.rglob("*.json"))]
    lines = [line for path in sorted(folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()]

    def parse() -> list[object]:
        return [orjson.loads(text) for text in (*texts, *lines)]

    return Group(
        title=f"{count} certificates with their evidence, read to verdict",
        cases={PARSE: parse, "gate": lambda: gate([folder])},
        reference=PARSE,
        size=sum(map(len, texts)) + sum(map(len, lines)),
        check=green,
    )


def green(results: Mapping[str, object]) -> None:
    """The folder that is measured must be good, or the figure is of another path through the code."""
    code = getattr(results["gate"], "exit_code", None)
    if code != 0:
        raise AssertionError(f"the gate ended in {code}")


def memory_line(small: int, large: int) -> str:
    """Peak memory of a gate process over a small and a large folder; Linux only."""
    peaks = []
    for count in (small, large):
        command = [sys.executable, "-c", PEAK, str(folder_of(count))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=with_byte_code())
        code, peak = done.stdout.split()
        if code != "0":
            raise AssertionError(f"the gate ended in {code}")
        peaks.append(int(peak))
    ratio = peaks[1] / peaks[0]
    return (
        f"\npeak memory: {small} certificates {peaks[0] >> 10} MiB, {large} certificates {peaks[1] >> 10} MiB, "
        f"ratio {ratio:.2f} (goal <= 1.3): {'met' if ratio <= 1.3 else 'missed'}"
    )


def groups(*, quick: bool) -> Sequence[Group]:
    starts = [start_group(bare_python(), "environment of a wheel"), start_group(sys.executable, "of the checkout")]
    return [*starts, many_group(20 if quick else 300)]


if __name__ == "__main__":
    code = main(groups)
    print(memory_line(*((10, 50) if "--quick" in sys.argv else (100, 2000))))
    sys.exit(code)
