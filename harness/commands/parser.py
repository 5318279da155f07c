"""The argument parser of all commands, imported only where arguments are to be parsed."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from harness.errors import ExitCode


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors end in exit code 4 and say what to type."""

    def error(self, message: str) -> NoReturn:
        """Print the message with the way to help, and leave with the usage code."""
        sys.stderr.write(f"statecert: {message}\ntry: {self.prog} --help\n")
        raise SystemExit(int(ExitCode.USAGE))
