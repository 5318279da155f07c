"""Arguments to commands, results to exit codes; no arithmetic, no verdicts.

Each command is one module in :mod:`harness.commands`, imported only when it is asked for, so that ``--help`` and
``gate`` start fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from harness import __version__
from harness.errors import ExitCode, StatecertError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

COMMANDS = {
    "run": "run scenarios on an engine of this machine, judge them, write certificates",
    "plan": "show the cells that a run would have",
    "judge": "derive decisions from evidence files, on any machine",
    "gate": "check certificates: validity, and what a policy requires",
    "claims": "check texts against the certificates that they speak of",
    "report": "render certificates for reviewers (terminal, Markdown, HTML)",
    "explain": "say where two states first differ, in words",
    "history": "what replaced a certificate, what it replaced, and why",
    "supersede": "let one certificate replace another",
    "withdraw": "take a certificate back",
    "reinstate": "make a certificate current again",
    "waive": "record that a finding on a certificate is accepted",
    "annotate": "put a note beside a certificate",
    "sign": "sign certificates and ledger events",
    "verify": "check all signatures of a folder",
    "trust": "say whose signatures count",
    "pack": "put evidence together in packs, so that the folder stays small",
    "export": "write a certificate as an in-toto statement, or its signed bytes",
    "conform": "what every engine must show before any scenario runs on it",
    "mutants": "run engines with one planted fault each; all must be stopped",
    "faults": "flip single bits all over the state; all must be located",
    "matrix": "which scenario stops which engine with a planted fault",
    "kv": "K/V element types side by side: exact pages and CacheGen archives, measured",
    "soak": "let conversations grow for hundreds of turns; memory and budget must hold",
    "kill": "kill the engine inside a publish; the next process must open what is left",
    "fuzz": "give the readers and the gate inputs that nobody thought of",
    "selftest": "hold the harness to its own standard: rules, references, judging, mutants",
    "import": "read records that others published: what adds up, and what it comes to",
    "new": "write a filled-in start of a scenario or an adapter",
    "doctor": "what this machine has, and what is missing",
}

MODULES = {"import": "import_"}
"""Commands whose name no module can have."""

EXITS = "exit codes: 0 good, 1 findings, 2 evidence invalid, 3 the harness broke, 4 usage, 5 nothing to check"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in {"-h", "--help", "help"}:
        return _said(overview(), ExitCode.GOOD if words else ExitCode.USAGE)
    if words[0] in {"-V", "--version"}:
        return _said(f"statecert {__version__}\n", ExitCode.GOOD)
    name = words[0]
    if name not in COMMANDS:
        from harness.commands.meant import meant

        known = ", ".join(COMMANDS)
        sys.stderr.write(f"statecert: there is no command {name!r}{meant(name, COMMANDS)}; there are: {known}\n")
        return int(ExitCode.USAGE)
    return guarded(name, words[1:])


def script() -> None:
    """The ``statecert`` command: :func:`main`, then leave.

    Where only this thread is left, the interpreter is not taken apart object by object: that would take a good part of
    the time of a quick command, and nothing here waits for it.
    """
    whole_streams()
    code = main()
    threads = sys.modules.get("threading")
    if threads is None or threads.active_count() == 1:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            sys.exit(code)
        os._exit(code)
    sys.exit(code)


def whole_streams() -> None:
    """Make sure that there are three streams, and that no letter is too many for those that are written to.

    A caller may have closed one: what is opened next would take its place, a pipe to a child among others. A locale
    may have fewer letters than a table; a run that is done must not end in the letters of its table.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and stream.encoding.lower().replace("-", "") != "utf8":
            reconfigure(errors="replace")


def overview() -> str:
    """The text of ``statecert --help``."""
    lines = [f"  {name:<9} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: statecert COMMAND ...",
            "",
            "Qualifies the session state of LLM inference engines, bit for bit.",
            "",
            *lines,
            "",
            "statecert COMMAND --help shows its options and an example.",
            EXITS,
            "",
        ]
    )


def _said(text: str, code: ExitCode) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        return _broken(problem)
    return int(code)


def guarded(name: str, words: Sequence[str]) -> int:
    """Run a command; turn every ending into its exit code."""
    try:
        module = __import__(f"harness.commands.{MODULES.get(name, name)}", fromlist=["run"])
        plain: Callable[[Sequence[str]], ExitCode] | None = getattr(module, "run_plain", None)
        has_options = any(word.startswith("-") for word in words)
        code = int(_run_parsed(module, name, words) if plain is None or has_options else plain(words))
        sys.stdout.flush()
    except StatecertError as problem:
        sys.stderr.write(f"statecert: {_harmless(problem)}\n")
        return int(problem.exit_code)
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"statecert: interrupted; {str(stop) or 'what was written before is intact'}\n")
        return int(ExitCode.BROKEN)
    except ModuleNotFoundError as problem:
        return _lacking(name, problem)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.BROKEN)
    except Exception as problem:  # noqa: BLE001 # whatever it is, it is told in one line and ends in one code
        return _broken(problem)
    return code


def _harmless(text: object) -> str:
    """What went wrong may name a file that a stranger named: nothing of it acts on a terminal or a log."""
    from harness.reporting.escape import lines

    return lines(text)


def _lacking(name: str, problem: ModuleNotFoundError) -> int:
    """Say which package is missing: a gate is installed with few of them, and other commands need more."""
    from importlib.metadata import PackageNotFoundError, requires

    module = (problem.name or "").partition(".")[0]
    package = {"yaml": "pyyaml", "nacl": "pynacl"}.get(module, module.replace("_", "-"))
    try:
        needed = [one for one in requires("statecert") or () if "extra ==" not in one]
    except PackageNotFoundError:
        return _broken(problem)
    if not any(one.startswith(package) and not one[len(package) :][:1].isalnum() for one in needed):
        return _broken(problem)
    sys.stderr.write(
        f"statecert: {name} needs the package {package}, which is not installed here: pip install {package}\n"
    )
    return int(ExitCode.USAGE)


def _broken(problem: Exception) -> int:
    """Say what broke in one line; a bug, and nothing that the system refused, is followed by where it happened."""
    try:
        sys.stdout.flush()
    except OSError:
        _close(sys.stdout)
    if isinstance(problem, OSError) and problem.strerror:
        what = f" {problem.filename}" if problem.filename else ""
        sys.stderr.write(f"statecert: the system refused{what}: {problem.strerror}; choose another place\n")
        return int(ExitCode.BROKEN)
    sys.stderr.write(
        f"statecert: internal error: {type(problem).__name__}: {_harmless(' '.join(str(problem).split()))}\n"
    )
    if not isinstance(problem, OSError):
        import traceback

        traceback.print_exception(problem)
    return int(ExitCode.BROKEN)


def _close(stream: TextIO) -> None:
    """Give up a stream that nobody reads any more: what it still holds cannot be written."""
    try:
        stream.close()
    except OSError:
        return


def _run_parsed(module: ModuleType, name: str, words: Sequence[str]) -> ExitCode:
    """Parse the arguments of a command and run it."""
    import argparse

    from harness.commands.parser import Parser
    from harness.stopping import ended_by_sigterm

    parser = Parser(
        prog=f"statecert {name}",
        description=module.__doc__,
        epilog=f"{module.EXAMPLE}\n\n{EXITS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    asked = parser.parse_args(words)
    with ended_by_sigterm():
        code: ExitCode = module.run(asked)
    return code
