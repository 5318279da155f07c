"""``tools/make_venv.py``: whose torch the environment of a checkout sees."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from tests.commands.command_support import ROOT

MAKE = """\
import pathlib, sys
sys.path.insert(0, {tools!r})
import make_venv
home = pathlib.Path({home!r})
own = make_venv.torch_of_caller()
make_venv.make_home(home, own, with_pip=False)
print(own, make_venv.torch_of(home / "bin" / "python"))
"""


def caller(folder: Path, torch: str) -> Path:
    """The Python of a virtual environment that has a torch of a version, or none."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    if torch:
        about = packages / f"torch-{torch}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    ("torch", "told"),
    [("2.9.1+rocm6.4", "2.9.1+rocm6.4 2.9.1+rocm6.4"), ("2.5.0", ""), ("3.0.0", ""), ("", "")],
    ids=["in-range", "too-old", "too-new", "none"],
)
def test_a_torch_of_a_virtual_environment_is_seen_if_it_is_in_range(tmp_path: Path, torch: str, told: str) -> None:
    script = MAKE.format(tools=str(ROOT / "tools"), home=str(tmp_path / "home"))

    done = subprocess.run(
        [caller(tmp_path / "caller", torch), "-c", script], capture_output=True, text=True, timeout=600, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == told
