"""The argument parser of all commands, imported only where arguments are to be parsed."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Final, NoReturn

from harness.errors import ExitCode

_STRANGE: Final = re.compile(r"unrecognized arguments: (?:.* )?(--?[A-Za-z][^ =]*)")
_CHOICE: Final = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors end in exit code 4 and say what to type."""

    def error(self, message: str) -> NoReturn:
        """Print the message with the way to help, and leave with the usage code."""
        from harness.reporting.escape import lines

        sys.stderr.write(f"statecert: {lines(message + self._meant(message))}\ntry: {self.prog} --help\n")
        raise SystemExit(int(ExitCode.USAGE))

    def _meant(self, message: str) -> str:
        """Which option, or which value of one, may have been meant."""
        from harness.commands.meant import meant

        if strange := _STRANGE.match(message):
            return meant(strange[1], self._option_string_actions)
        if choice := _CHOICE.search(message):
            return meant(choice[1], re.findall(r"'([^']*)'", choice[2]))
        return ""
