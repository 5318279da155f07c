"""Copies ``schemas/``, ``scenarios/`` and ``examples/`` into the wheel as package data: they exist once in the tree."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
KINDS = ("schemas", "scenarios", "examples")


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


setup(cmdclass={"build_py": BuildWithData})
