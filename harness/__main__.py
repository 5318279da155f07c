"""``python -m harness``: the same as the ``statecert`` command."""

from harness.cli import script

script()
