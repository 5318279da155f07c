"""What commands share: options, printing, and the scenarios that a caller names."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.commands.meant import meant
from harness.errors import NothingToDoError, RefusedError, StorageError, UsageError

if TYPE_CHECKING:
    from harness.model.scenario import Plan, Scenario
    from harness.model.target import Target
    from harness.pipeline import Bench
    from harness.reporting.tables import Table

LAB: Final = "lab.yaml"
"""Lab file that is read where none is named."""
MOST_NAMED: Final = 6
"""Ids that a line of refusal holds."""
SCENARIOS: Final = "scenarios"
"""Where a repository of an engine keeps its own scenarios; pytest finds them there, commands are told."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``: every table of the command as JSON on standard output."""
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, *, does: str, examples: str
) -> argparse.ArgumentParser:
    """One action of a command that has several; its own help shows its examples.

    Args:
        actions: Of the command.
        name: Of the action, as it is typed.
        does: What it does, in a line.
        examples: Of the whole command, one a line; those of this action are shown.
    """
    lines = [line.removeprefix("example: ").strip() for line in examples.splitlines()]
    own = [line for line in lines if line.split()[2:3] == [name]]
    return actions.add_parser(
        name,
        help=does,
        description=does,
        epilog="example: " + "\n         ".join(own),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_scenarios(parser: argparse.ArgumentParser) -> None:
    """Scenario names, the suite and the scale."""
    parser.add_argument(
        "scenario", nargs="*", help="ids like A01, cells like 'A01[scale=16,arch=hybrid]', or YAML files"
    )
    parser.add_argument(
        "--suite",
        help="default, more, full, hw, engines or quality: which scenarios, at which scales (default: default; a"
        " scenario that is named and not in it: more)",
    )
    parser.add_argument("--scale", type=int, help="run at this scale instead of the suite's")
    parser.add_argument(
        "--scenarios",
        type=Path,
        metavar="DIR",
        help="take scenarios from this folder (default: those that come with statecert)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Engine or target of the lab, preset and device."""
    parser.add_argument("--target", default="torch", help="engine, or target of the lab file (default: %(default)s)")
    add_lab(parser)
    parser.add_argument("--preset", help="model preset of the engine (default: the lab's, or tiny)")
    parser.add_argument("--device", help="best, cpu, cuda, cuda:1, mps (default: the lab's, or best)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="engine option; may be repeated"
    )


def add_lab(parser: argparse.ArgumentParser) -> None:
    """The file that names targets."""
    parser.add_argument(
        "--lab", type=Path, metavar="FILE", help="file of named targets (default: lab.yaml, where there is one)"
    )


def chosen_target(name: str, args: argparse.Namespace) -> Target:
    """Return the target of a name: one of the lab file, or an engine; options of the command line win.

    Args:
        name: Of the target, or entry-point name of an engine.
        args: With ``lab``, ``device``, ``preset`` and ``option``.

    Raises:
        UsageError: The lab file that was named is not there; or the name is one of no target and of no engine.
        InvalidScenarioError: It is no lab file.
    """
    from harness.model.target import Target

    lab = lab_targets(args.lab)
    named = lab.get(name)
    _require_known(named.adapter if named is not None else name, lab)
    _require_own_name(name, named)
    given = {**({"preset": args.preset} if args.preset else {}), **parse_options(args.option)}
    if named is not None:
        device = args.device or named.device
        return Target(name=name, adapter=named.adapter, device=device, options={**named.options, **given})
    device = args.device or "best"
    return Target(name=f"{name}-{device}", adapter=name, device=device, options={"preset": "tiny", **given})


def _require_known(adapter: str, lab: Mapping[str, Target]) -> None:
    """Refuse what names neither an engine nor a target, before a run folder is made or anything is loaded."""
    from harness.engines import registry

    engines = registry.names()
    if engines and adapter not in engines:
        targets = f"; targets of the lab file: {', '.join(lab)}" if lab else ""
        raise UsageError(
            f"no engine {adapter!r}{meant(adapter, [*engines, *lab])}; engines are: {', '.join(engines)}{targets}"
        )


def _require_own_name(name: str, named: Target | None) -> None:
    """Refuse a target that bears the name of one engine and runs another: records would seem to be of the former."""
    from harness.engines import registry

    if named is not None and named.adapter != name and name in registry.names():
        raise UsageError(f"target {name!r} of the lab file runs {named.adapter!r}; {name!r} is an engine: rename it")


@contextmanager
def opened(target: Target, folder: Path, *, jobs: int = 1, forked: bool = False) -> Iterator[Bench]:
    """Start a target in a new run folder. What does not come to a run leaves no folder behind.

    That is what the engine refuses of the caller's words (a mistake in them), and an interruption while it starts.

    Raises:
        UsageError: Adapter, device, preset or an option is not one that the engine knows.
        EngineError: The engine does not start; its output lies in the folder.
        KeyboardInterrupt: Nothing was written.
    """
    from harness.pipeline import bench

    with ExitStack() as stack:
        try:
            up = stack.enter_context(bench(target, folder, jobs=jobs, forked=forked))
        except RefusedError as refusal:
            shutil.rmtree(folder, ignore_errors=True)
            raise UsageError(f"{target.adapter} refuses these options: {refusal.message or refusal.code}") from refusal
        except UsageError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise KeyboardInterrupt("nothing had run, and nothing was written") from None
        yield up


def lab_targets(path: Path | None) -> Mapping[str, Target]:
    """Return the targets of a lab file by name; none where no file was named and there is no ``lab.yaml``.

    Raises:
        UsageError: The file that was named is not there.
        InvalidScenarioError: It is no lab file.
    """
    from harness.pipeline import read_bytes
    from harness.wire.lab_doc import parse_lab

    found = path or Path(LAB)
    if not found.is_file():
        if path is not None:
            raise UsageError(f"no lab file {path}; statecert doctor --write makes one")
        return {}
    return parse_lab(read_bytes(found), found.name)


def require_folder(path: Path, option: str) -> None:
    """Refuse a place for a folder where a file lies, before any work.

    Raises:
        UsageError: The path, or a folder above it, is a file.
    """
    for step in (path, *path.parents):
        if step.exists():
            if not step.is_dir():
                raise UsageError(f"{option} wants a folder; {step} is a file")
            return


def require_writable(path: Path, option: str) -> None:
    """Refuse a folder, or one in it, that takes no files, before any work; one that is not there: the one above it.

    Raises:
        StorageError: The system would refuse.
    """
    there = next((step for step in (path, *path.absolute().parents) if step.exists()), path)
    inner = (
        sorted(one for one in there.iterdir() if one.is_dir()) if there == path and os.access(there, os.R_OK) else []
    )
    for folder in (there, *inner):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StorageError(f"{folder} takes no files (read-only), so nothing was run; choose another with {option}")


def require_evidence(path: Path, command: str) -> None:
    """Refuse what is no evidence file, with the way to one.

    Raises:
        UsageError: There is nothing, a folder, or a certificate.
    """
    if path.is_dir():
        found = next((one for one in sorted(path.glob("evidence/*.jsonl"))), None) or next(
            (one for one in sorted(path.glob("*.jsonl"))), None
        )
        hint = f"; try: statecert {command} {found}" if found else "; evidence lies in evidence/ of a run folder"
        more = " (a folder of certificates: judge --check)" if command == "judge" and not found else ""
        raise UsageError(f"{path} is a folder, {command} wants evidence files (*.jsonl){hint}{more}")
    if not path.is_file():
        raise UsageError(f"no evidence file {path}")
    if path.suffix == ".json":
        raise UsageError(
            f"{path} is no evidence file (*.jsonl); to read a certificate: statecert report FOLDER --certificate ID"
        )


_MOST_WHOLE: Final = 8
"""Columns up to which a table on a pipe keeps the names of its rows in one piece."""


def show(table: Table, *, as_json: bool) -> None:
    """Print a table to standard output."""
    from harness.reporting.tables import render_json, render_terminal

    if as_json:
        sys.stdout.buffer.write(render_json(table))
        return
    whole = () if sys.stdout.isatty() or len(table.columns) > _MOST_WHOLE else ("cell", "mutant")
    sys.stdout.write(render_terminal(table, colour=use_colour(), width=width(), whole=whole))


def typed() -> str:
    """How this command is typed here: its name where the shell finds it, else the path that it was started by."""
    started = sys.argv[0]
    return started if Path(started).name == "statecert" and shutil.which("statecert") is None else "statecert"


def use_colour() -> bool:
    """Whether standard output is a terminal that wants colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def reason_text(check: Mapping[str, object]) -> str:
    """What a check that did not pass comes to: ``cached: 256 tokens, demanded 384 (other_count)``."""
    observed, limit = check.get("observed", ""), check.get("limit", "")
    unit = f" {check['unit']}" if check.get("unit") else ""
    reason = f" ({check['reason']})" if check.get("reason") else ""
    compares = str(check.get("code", "")).startswith("EXACT.") and not unit
    if observed in ("", None) or (compares and observed == limit):
        return f"{check['id']}: {check.get('reason', '')}".rstrip(": ")
    if compares:
        return f"{check['id']}: {observed} differing, demanded {limit}{reason}"
    found = f"{observed}{unit if isinstance(observed, int) else ''}"
    same_length = check.get("reason") == "other_image" and observed == limit
    demanded = "as demanded, and yet another content" if same_length else f"demanded {limit}"
    return f"{check['id']}: {found}, {demanded}{reason}"


def why(cell: Mapping[str, object]) -> str:
    """Why a cell did not pass, by its first check that did not; empty: it passed."""
    checks = cell.get("checks")
    results = [check for check in checks if isinstance(check, Mapping)] if isinstance(checks, list) else []
    worst = next((check for check in results if check["outcome"] != "pass"), None)
    return reason_text(worst) if worst else str(cell.get("reason", ""))


def reason_words(code: str) -> str:
    """Why a cell did not run, as a line of a table has it."""
    from harness.reporting.reasons import reason_sentence

    words = reason_sentence(code).partition(". ")[0].removesuffix(".")
    return f"{words[:1].lower()}{words[1:]}"


def width() -> int:
    """Columns of the terminal, or as many as ``COLUMNS`` says; 100 where neither does."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def parse_options(words: Sequence[str]) -> dict[str, str | int | bool]:
    """``KEY=VALUE`` words as engine options: integers and true/false are read as such."""
    options: dict[str, str | int | bool] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--option wants KEY=VALUE, found {word!r}")
        options[key] = read_value(value)
    return options


def read_value(text: str) -> str | int | bool:
    """An option's value: integer, true, false, or text."""
    if text in {"true", "false"}:
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def chosen_scenarios(names: Sequence[str], folder: Path | None) -> list[tuple[Scenario, list[str]]]:
    """Scenarios that the names ask for, each with the ids of the cells that were named (empty: all)."""
    from harness.pipeline import read_scenario

    paths = [name for name in names if name.endswith((".yaml", ".yml"))]
    ids = [name.partition("[")[0] for name in names if name not in paths]
    known = _known(ids, folder) if ids or not names else {}
    chosen: dict[str, tuple[Scenario, list[str]]] = {}
    for path in paths:
        scenario = read_scenario(Path(path))
        chosen[scenario.id] = (scenario, [])
    for name in names or known:
        if name in paths:
            continue
        identity, bracket, rest = name.partition("[")
        if identity not in known:
            identity = identity.upper()
        if identity not in known:
            raise UsageError(_unknown(name.partition("[")[0], known, folder))
        entry = chosen.setdefault(identity, (known[identity], []))
        if bracket:
            entry[1].append(f"{identity}{bracket}{rest}")
    if not chosen:
        raise NothingToDoError(f"no scenario in {folder or 'the package'}")
    return list(chosen.values())


def _known(ids: Sequence[str], folder: Path | None) -> Mapping[str, Scenario]:
    """The scenarios that may be asked for: of the package those of these ids alone, where it has them all."""
    from harness.pipeline import available_scenarios, shipped_scenarios

    wanted = {one.upper() for one in ids}
    found = shipped_scenarios(wanted) if folder is None and wanted else {}
    return found if found and found.keys() == wanted else available_scenarios(folder)


def _require_suite(suite: str, chosen: Sequence[tuple[Scenario, Sequence[str]]], *, named: bool) -> None:
    """Refuse a suite that no scenario of these knows; where they were named, others may know it."""
    known = sorted({name for scenario, _ in chosen for name in scenario.suites})
    if suite not in known:
        ids = [str(scenario.id) for scenario, _ in chosen]
        whose = f" of {', '.join(ids)}" if named and len(ids) <= MOST_NAMED else " of these scenarios" if named else ""
        raise UsageError(
            f"no scenario here belongs to suite {suite!r}{meant(suite, known)}; suites{whose} are: {', '.join(known)}"
        )


def chosen_plans(args: argparse.Namespace) -> list[Plan]:
    """Plans of what the options of `add_scenarios` ask for.

    Raises:
        UsageError: There is no such scenario or cell, or it does not belong to the suite.
    """
    from harness.pipeline import SCALED, make_plans, own_scenarios

    own = 0 if args.scenario or args.scenarios else own_scenarios(Path(SCENARIOS))
    if own:
        sys.stderr.write(
            f"the scenarios that come with statecert; not the {own} of your own in {SCENARIOS}/:"
            f" for those say --scenarios {SCENARIOS}\n"
        )
    chosen = chosen_scenarios(args.scenario, args.scenarios)
    if args.suite and args.scale is None:
        _require_suite(args.suite, chosen, named=bool(args.scenario))
    if args.suite or args.scale is not None or not args.scenario:
        return make_plans(chosen, args.suite or SCALED[0], args.scale)
    return [
        plan
        for one in chosen
        for plan in make_plans([one], next((name for name in SCALED if name in one[0].suites), SCALED[0]))
    ]


def _unknown(identity: str, known: Mapping[str, object], folder: Path | None) -> str:
    """Say that there is no such scenario, and which one may have been meant: one of the caller's own, or one alike."""
    if Path(identity).is_dir():
        return f"{identity} is a folder; to take scenarios from a folder say --scenarios {identity}"
    if Path(identity).is_file():
        return f"{identity} is no scenario; a scenario file ends in .yaml"
    if folder is None and _own(identity):
        return (
            f"no scenario {identity!r} comes with statecert; {SCENARIOS}/ has one: say --scenarios {SCENARIOS}, or name"
            f" its file: {_own(identity)}"
        )
    guess = meant(identity, known)
    all_of_them = f"statecert plan{f' --scenarios {folder}' if folder else ''} lists all"
    return f"there is no scenario {identity!r}{guess}; {all_of_them if guess else f'there are: {_listed(known)}'}"


def _own(identity: str) -> str:
    """The file of a scenario of this id among the caller's own; empty: there is none."""
    found = sorted(Path(SCENARIOS).rglob(f"{identity.upper()}-*.yaml"))
    return str(found[0]) if found else ""


def _listed(known: Mapping[str, object]) -> str:
    return ", ".join(known) or "none"
