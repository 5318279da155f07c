"""Copies ``schemas/``, ``scenarios/``, ``examples/`` and specimens into the wheel; they exist once in the tree."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
KINDS = ("schemas", "scenarios", "examples")
SPECIMENS = ("tests/__init__.py", "tests/fakes/*.py", "tests/gating/__init__.py", "tests/gating/*fixtures.py")
"""Recorded runs and broken folders, which `statecert selftest` asks its questions about."""


class BuildWithData(build_py):
    """``build_py``, then the data folders under ``harness/_data``."""

    def run(self) -> None:
        """Build the modules and copy the data beside them."""
        super().run()
        if self.editable_mode:
            return
        for kind in KINDS:
            target = Path(self.build_lib) / "harness" / "_data" / kind
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / kind, target)
        target = Path(self.build_lib) / "harness" / "_data" / "specimens"
        shutil.rmtree(target, ignore_errors=True)
        for source in (path for pattern in SPECIMENS for path in sorted(ROOT.glob(pattern))):
            place = target / source.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)


setup(cmdclass={"build_py": BuildWithData})
