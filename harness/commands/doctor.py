"""Tell what this machine has, and what is missing: Python, packages, engines, devices, where files go.

Where an engine says how memory would be divided, its plan is shown too: the workspace of a prefill first, snapshots get
the rest, and from which context on no prefix fits.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path

from harness.commands.common import LAB, add_json, show
from harness.errors import EngineError, ExitCode, RefusedError, StatecertError, UsageError
from harness.model.target import Target

EXAMPLE = "example: statecert doctor --engine torch --context 131072 --memory 8000000000"

CONTEXT = 65_536
"""Tokens of the sessions that memory is planned for, unless somebody says otherwise."""
PACKAGES = ("torch", "numpy", "orjson", "jsonschema", "jsonschema-rs", "pyyaml", "rich", "jinja2", "pandas", "pytest")


def configure(parser: argparse.ArgumentParser) -> None:
    """Which engines are asked, ``--write``, what memory is planned for, and ``--json``."""
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="NAME",
        help="ask this engine alone; may be repeated (default: all that are installed, which takes longer)",
    )
    parser.add_argument(
        "--write",
        type=Path,
        nargs="?",
        const=Path(LAB),
        metavar="FILE",
        help=f"write the targets that can run here to a lab file (default: {LAB})",
    )
    parser.add_argument(
        "--memory", type=int, default=0, metavar="BYTES", help="plan for so many bytes (default: what is free now)"
    )
    parser.add_argument(
        "--context",
        type=int,
        default=CONTEXT,
        metavar="TOKENS",
        help="plan for sessions of so many tokens (default: %(default)s)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Print one row per finding; 1 if no engine can run here."""
    from harness.reporting.tables import Column, Table

    if args.write is not None and args.write.exists():
        raise UsageError(f"{args.write} is there already; remove it, or name another file")
    if args.memory < 0 or args.context < 1:
        raise UsageError(
            f"found {args.memory} bytes and {args.context} tokens; allowed are bytes from 0, tokens from 1 on"
        )
    found: list[tuple[Target, str]] = []
    names = _chosen(args.engine)
    rows: list[Mapping[str, str | int]] = [*_base(), *_engines(names, found, args.memory, args.context)]
    if not (args.json or args.memory or args.context != CONTEXT):
        rows = list(in_brief(rows))
    if args.write is not None:
        rows.append(_written(args.write, found))
    columns = [Column(key=key, header=key) for key in ("what", "state", "detail")]
    if args.json:
        columns.append(Column(key="number", header="number"))
    show(Table(title="this machine", columns=columns, rows=rows), as_json=args.json)
    able = any(str(row["what"]).startswith("device ") and row["state"] == "pass" for row in rows)
    return ExitCode.GOOD if able else ExitCode.FINDINGS


def _base() -> Iterator[dict[str, str]]:
    yield _row("python", "pass", f"{platform.python_version()} ({platform.system()} {platform.machine()})")
    for name in PACKAGES:
        try:
            yield _row(f"package {name}", "pass", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield _row(f"package {name}", "error", "not installed")
    free = shutil.disk_usage(Path.cwd()).free
    yield _row("disk", "pass" if free > 1 << 30 else "error", f"{free / 1e9:.1f} GB free here")
    writable = os.access(Path.cwd(), os.W_OK)
    yield _row(
        "folder", "pass" if writable else "error", "runs/ can be written" if writable else "read-only: use --out"
    )


def _written(path: Path, found: Sequence[tuple[Target, str]]) -> dict[str, str]:
    """Write the targets that can run here to a file, and say so."""
    from harness.wire.files import write_new
    from harness.wire.lab_doc import lab_text

    text = lab_text([target for target, _ in found], {target.name: note for target, note in found if note})
    write_new(path, text.encode())
    return _row("lab", "pass", f"{len(found)} targets in {path}")


def _chosen(wanted: Sequence[str]) -> Sequence[str]:
    """Return the engines to ask: those that are wanted, or all.

    Raises:
        UsageError: One of them is not installed.
    """
    from harness.engines import registry

    names = registry.names()
    for one in wanted:
        if one not in names:
            raise UsageError(f"no engine {one!r}; installed are: {', '.join(names) or 'none'}")
    return tuple(dict.fromkeys(wanted)) or names


def _engines(
    names: Sequence[str], found: list[tuple[Target, str]], memory: int, context: int
) -> Iterator[Mapping[str, str | int]]:
    yield _row("engines", "pass" if names else "error", ", ".join(names) or "no entry point in harness.engines")
    for name in names:
        yield from _devices(name, found, memory, context)


def _devices(
    name: str, found: list[tuple[Target, str]], memory: int, context: int
) -> Iterator[Mapping[str, str | int]]:
    from harness.engines.host import EngineHost

    sys.stderr.write(f"asking {name} ...\n")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with EngineHost(Target(name=name, adapter=name), Path(folder)) as host:
                host.ensure()
                for device, reason in host.devices:
                    yield _row(f"device {name}:{device}", "not_run" if reason else "pass", reason or "can run")
                able = next((device for device, reason in host.devices if not reason), "")
                if able:
                    suggested = host.suggested or [(f"{name}-{able}", {}, "")]
                    found += [
                        (Target(name=one, adapter=name, device=able, options=options), note)
                        for one, options, note in suggested
                    ]
                    for one, options, _ in suggested:
                        yield from _planned(one, host.plan(options, memory=memory, context=context), context)
        except RefusedError as refusal:  # it wants to be told something first: nothing here is broken
            yield _row(f"engine {name}", "not_run", refusal.message or str(refusal))
        except (EngineError, StatecertError) as problem:
            yield _row(f"engine {name}", "error", str(problem).splitlines()[0])


def _planned(name: str, plan: Mapping[str, int], context: int) -> Iterator[Mapping[str, str | int]]:
    """Say who gets how many bytes; nothing where the engine does not plan."""
    if not plan:
        return
    fits, most = plan["prefixes"], plan["fits_up_to"]
    prefixes = (
        f"{fits:,} of {plan['prefix']:,} B each, the whole of {context:,} tokens"
        if fits
        else (f"none of {context:,} tokens fits ({plan['prefix']:,} B each): nothing this long is kept")
    )
    workspace = f"{plan['workspace_rows']:,} rows, measured at {plan['workspace_measured_at']:,} tokens"
    rows = (
        ("memory", f"{plan['total']:,} B", "total"),
        ("weights", f"{plan['weights']:,} B", "weights"),
        ("workspace", f"{plan['workspace']:,} B for a prefill of {workspace}", "workspace"),
        ("session", f"{plan['state']:,} B at {context:,} tokens", "state"),
        ("snapshots", f"{plan['snapshots']:,} B are left", "snapshots"),
        ("prefixes", prefixes, "prefixes"),
        (
            "longest",
            f"a prefix of up to {most:,} tokens fits" if most else "no prefix of any length fits",
            "fits_up_to",
        ),
    )
    for what, detail, key in rows:
        state = "not_run" if what in ("prefixes", "longest") and not plan[key] else "pass"
        yield {**_row(f"plan {name}: {what}", state, detail), "number": plan[key]}


def in_brief(rows: Sequence[Mapping[str, str | int]]) -> Iterator[Mapping[str, str | int]]:
    """Make one row of the plan of a target, where nothing of it lacks room; what lacks it stands as it is.

    Args:
        rows: As they were found; those of one plan follow each other and begin alike: ``plan NAME: PART``.
    """
    from harness.reporting.units import number, size

    for name, group in groupby(rows, key=lambda row: _plan_of(str(row["what"]))):
        parts = list(group)
        if not name or any(row["state"] != "pass" for row in parts):
            yield from parts
            continue
        counts = {str(row["what"]).partition(": ")[2]: int(row["number"]) for row in parts}
        shares = ", ".join(f"{part} {size(counts[part])}" for part in ("weights", "workspace", "session", "snapshots"))
        fits = f"{number(counts['prefixes'])} whole prefixes fit, or one of up to {number(counts['longest'])} tokens"
        detail = f"{size(counts['memory'])}: {shares}; {fits} (--context or --memory tells all)"
        yield _row(f"plan {name}", "pass", detail)


def _plan_of(what: str) -> str:
    """The target whose plan a row is of; empty: of none."""
    head, colon, _ = what.partition(": ")
    return head.removeprefix("plan ") if colon and head.startswith("plan ") else ""


def _row(what: str, state: str, detail: str) -> dict[str, str]:
    return {"what": what, "state": state, "detail": detail}
