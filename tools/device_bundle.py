"""Prepares what a machine without registry and git history needs for ``pytest -m hw``: ``build/device/``.

The folder holds this project's wheel, wheels of the packages that such a machine may lack (for one Python version and
platform), the tests' configuration and ``run.sh``. There, one command runs the hardware suite with the torch that is
installed, and packs evidence, certificates and logs into one tar::

    bash build/device/run.sh OUT        # writes OUT/statecert-hw.tar.gz

Standard library only. ``--python 3.12 --platform manylinux_2_28_x86_64`` choose the other machine.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "device"
CARRIED = (
    "orjson",
    "jsonschema",
    "jsonschema-rs",
    "jsonschema-specifications",
    "referencing",
    "rpds-py",
    "attrs",
    "cryptography",
    "cffi",
    "pynacl",
    "pycparser",
)
"""Compiled or uncommon packages. The rest (torch, numpy, pandas, pytest, rich, jinja2, pyyaml) is expected there."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_5_x86_64")

RUN = """#!/usr/bin/env bash
# Runs the hardware suite with the torch of this machine; packs what came out into one tar.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/out}
work=$(mktemp -d)
mkdir -p "$out"
python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$work/site" "$here"/wheels/*.whl || exit 3
export PYTHONPATH="$work/site" PATH="$work/site/bin:$PATH" PYTHONUNBUFFERED=1
export CUBLAS_WORKSPACE_CONFIG=:4096:8
cd "$work" && cp -r "$here/scenarios" . && printf '[pytest]\\naddopts = -ra\\n' > pytest.ini
python3 -m harness doctor | tee "$work/doctor.txt"
python3 -m pytest -m hw scenarios --statecert-out "$work/runs" 2>&1 | tee "$work/pytest.txt"
code=${PIPESTATUS[0]}
tar -czf "$out/statecert-hw.tar.gz" -C "$work" doctor.txt pytest.txt runs
exit "$code"
"""


def main() -> int:
    """Build the wheel, fetch the carried wheels, write the script."""
    parser = argparse.ArgumentParser(description="prepare build/device/")
    parser.add_argument("--python", default="3.12", help="Python version there (default 3.12)")
    options = parser.parse_args()
    shutil.rmtree(TARGET, ignore_errors=True)
    wheels = TARGET / "wheels"
    wheels.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    pins = pinned()
    names = [f"{name}=={pins[name.lower()]}" for name in CARRIED if name.lower() in pins]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            *[*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--implementation", "cp"],
            *["--python-version", options.python, *platforms, "--dest", str(wheels), *names],
        ],
        check=True,
    )
    shutil.copytree(ROOT / "scenarios", TARGET / "scenarios")
    (TARGET / "run.sh").write_text(RUN)
    size = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    count = len(list(wheels.iterdir()))
    print(f"build/device: {count} wheels, {size / 1e6:.1f} MB; there: bash build/device/run.sh OUT")
    return 0


def pinned() -> dict[str, str]:
    """Versions from the constraints file, by lower-case name with dashes."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==", 1) for line in lines if "==" in line and not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, version in pairs}


if __name__ == "__main__":
    raise SystemExit(main())
