"""Check certificates on any machine: parse, schema, digests, every derived field again from the evidence, the ledger.

Without ``--require-pass`` honest stops are listed and do not fail the gate; with it every cell of every current
certificate must have passed. With ``--signers`` each signature that is there must count; with ``--require-signatures``
each certificate and event must have one. With ``--fresh`` the files of engine and harness must be those that current
certificates were measured on. ``--fix`` first writes anew what is generated from the ledger: the status
member of each certificate, and the pages.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from harness.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import argparse

    from harness.gating.since import Since
    from harness.model.certificate import GateReport
    from harness.model.policy import Policy

DEFAULT = "certificates"
SIGNERS = "trust/allowed_signers"
_TOLD_S, _LOGGED_S = 2.0, 15.0
EXAMPLE = (
    "example: statecert gate certificates\n"
    "         statecert gate --signers trust/allowed_signers --require-signatures --github\n"
    "         statecert gate --since origin/main --policy trust/policy.yaml --signers trust/allowed_signers\n"
    "         statecert gate --explain CG301"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Folders, what is required, how to print."""
    parser.add_argument("folder", nargs="*", help="certificate folders (default: certificates)")
    parser.add_argument("--require-pass", action="store_true", help="every cell of every current certificate must pass")
    parser.add_argument("--signers", metavar="FILE", help="allowed signers: each signature that is there must count")
    parser.add_argument("--revoked", metavar="FILE", help="revoked public keys, one a line; with --signers")
    parser.add_argument("--require-signatures", action="store_true", help="each document must have a signature")
    parser.add_argument("--policy", metavar="FILE", help="what is demanded beyond validity, as YAML")
    parser.add_argument("--since", metavar="BASE", help="judge a change: nothing of BASE was edited or taken away")
    parser.add_argument(
        "--descends", action="store_true", help="with --since: BASE must be an ancestor, as after a push"
    )
    parser.add_argument("--fresh", action="store_true", help="files of current certificates must be what they were")
    parser.add_argument(
        "--root",
        action="append",
        metavar="DIR",
        help="tree that packages lie below; with --fresh or --since (default: .)",
    )
    parser.add_argument("--at", default="", metavar="TIME", help="when keys and waivers must hold (default: now)")
    parser.add_argument(
        "--claims",
        action="append",
        type=str,
        metavar="FILE",
        help="a text, or a folder of them (*.md), that speaks of the certificates",
    )
    parser.add_argument("--fix", action="store_true", help="first write anew what is generated, and nothing else")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--record", metavar="DIR", help="also file the run as a record, under its own digest")
    parser.add_argument(
        "--junit", metavar="FILE", help="also write the verdict as JUnit XML, a test case for each rule"
    )
    parser.add_argument("--github", action="store_true", help="also print annotations for a GitHub workflow")
    parser.add_argument("--summary", metavar="FILE", help="also append a Markdown page, like $GITHUB_STEP_SUMMARY")
    parser.add_argument("--list-rules", action="store_true", help="list the rules and stop")
    parser.add_argument("--explain", metavar="CGnnn", help="explain one rule and stop")


def run(args: argparse.Namespace) -> ExitCode:
    """Gate the folders, or speak about the rules."""
    from harness.gating import outputs

    if args.explain:
        sys.stdout.write(outputs.explain(args.explain))
        return ExitCode.GOOD
    if args.list_rules:
        _bytes(outputs.rules_json()) if args.json else sys.stdout.write(outputs.rules_table())
        return ExitCode.GOOD
    if args.json and args.github:
        raise UsageError("--json and --github both speak on standard output; leave one out")
    asked = _asked(args)
    if args.fix:
        _fix(args.folder or [DEFAULT])
    report = _gate(args.folder, **asked)
    _bytes(outputs.to_json(report)) if args.json else sys.stdout.write(outputs.text(report))
    _file(args, report)
    _for_a_forge(args, report)
    return report.exit_code


def _file(args: argparse.Namespace, report: GateReport) -> None:
    """Keep the run as a record: the same run gives the same bytes under the same name."""
    if not args.record:
        return
    from pathlib import Path

    from harness.gating import outputs
    from harness.wire import files

    identity = outputs.record_id(report)
    path = Path(args.record) / f"gate-{identity[:12]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, outputs.to_json(report))
    sys.stderr.write(f"record {identity}\nwrote {path}\n")


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """What the options demand, as :func:`harness.gating.gate.gate` takes it."""
    from pathlib import Path

    from harness.commands import verify

    since = _since(args)
    policy = _policy(args, since)
    required = args.require_signatures or (policy is not None and policy.signatures)
    if not args.signers and (args.revoked or required):
        who = "--revoked needs" if args.revoked else "signatures are required, by the command line or the policy: add"
        raise UsageError(f"{who} --signers FILE: the allowed signers, like {SIGNERS}")
    if args.at:
        verify.moment(args.at)
    asked = {"require_pass": args.require_pass, "require_signatures": args.require_signatures, "day": args.at[:10]}
    asked["policy"], asked["since"] = policy, since
    if args.root and not (args.fresh or args.since):
        raise UsageError("--root says where --fresh and --since look; add one of them")
    asked["roots"] = args.root or ["."]
    if missing := next((root for root in args.root or () if not Path(root).is_dir()), ""):
        raise UsageError(f"no folder {missing!r} to look for files in")
    if args.claims:
        from harness.commands.texts import read_texts

        asked["prose"] = read_texts(args.claims)
    if args.fresh:
        asked["fresh_in"] = args.root or ["."]
    if args.signers:
        revoked = Path(args.revoked) if args.revoked else None
        read = verify.from_disk if since is None else since.file
        accepted = policy is None or policy.demonstration_keys
        asked["keyring"] = verify.keyring(Path(args.signers), revoked, args.at, read=read, demonstration=accepted)
    return asked


def _since(args: argparse.Namespace) -> Since | None:
    """The change that is judged, from the repository around the first folder."""
    if not args.since:
        if args.descends:
            raise UsageError("--descends says something about --since; add it")
        return None
    from pathlib import Path

    from harness.gating.since import Since
    from harness.wire.gitobjects import Repository

    folder = Path((args.folder or [DEFAULT])[0])
    if not folder.is_dir():
        raise UsageError(f"no folder {str(folder)!r}; name one that holds certificates")
    return Since(Repository(folder), args.since, descends=args.descends)


def _policy(args: argparse.Namespace, since: Since | None) -> Policy | None:
    """The policy; of a change, the one of its base."""
    if not args.policy:
        return None
    from pathlib import Path

    from harness.commands import verify
    from harness.wire.policy_doc import parse_policy

    path = Path(args.policy)
    if since is None:
        return parse_policy(verify.from_disk(path), args.policy)
    text = since.file(path)
    return parse_policy(text, f"{since.base[:12]}:{args.policy}")


def _fix(folders: Sequence[str]) -> None:
    """Write what is generated anew; where a record cannot be read, nothing is, and the gate says why."""
    from pathlib import Path

    from harness.certifying.regenerating import regenerate_all
    from harness.errors import InvalidDocumentError

    for folder in folders:
        if not Path(folder).is_dir():
            raise UsageError(f"no folder {folder!r}; name one that holds certificates")
        try:
            written = regenerate_all(Path(folder))
        except InvalidDocumentError as problem:
            from harness.reporting.escape import lines

            sys.stderr.write(f"statecert: nothing is fixed in {folder}: {lines(problem)}\n")
            continue
        for path in written:
            sys.stderr.write(f"fixed {path}\n")


def _for_a_forge(args: argparse.Namespace, report: GateReport) -> None:
    if not (args.junit or args.github or args.summary):
        return
    from pathlib import Path

    from harness.gating import forge
    from harness.wire import files

    if args.junit:
        files.replace(Path(args.junit), forge.junit(report))
    if args.summary:
        files.append(Path(args.summary), forge.summary(report))
    if args.github:
        sys.stdout.write(forge.workflow_commands(report))


def run_plain(folders: Sequence[str]) -> ExitCode:
    """Gate folders without any option: the argument parser takes as long to import as some records to judge."""
    from harness.gating import outputs

    report = _gate(folders)
    sys.stdout.write(outputs.text(report))
    return report.exit_code


def _gate(folders: Sequence[str], **asked: Any) -> GateReport:
    """Gate the folders. What was imported is there to stay, so that no collector need look at it."""
    for folder in folders:
        inside = os.path.join(folder, "certificates")  # noqa: PTH118 - pathlib is most of what a quick gate would import
        if os.path.isdir(inside) and os.path.isdir(os.path.join(folder, "evidence")):  # noqa: PTH112, PTH118
            raise UsageError(f"{folder} is the folder of a run; try: statecert gate {inside}")
    if sys.stderr.isatty():
        sys.stderr.write(f"judging the evidence of {', '.join(folders) or DEFAULT} again ...\n")
    gc.disable()
    try:
        from harness.gating.gate import gate

        gc.freeze()
    finally:
        gc.enable()
    return gate(folders or [DEFAULT], tell=teller(sys.stderr), **asked)


def teller(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Return what says how far a gate is: every two seconds on a terminal, in a log every fifteen."""
    between = _TOLD_S if stream.isatty() else _LOGGED_S
    due = clock() + between

    def tell(done: int, of: int) -> None:
        nonlocal due
        if clock() >= due and done < of:
            due = clock() + between
            stream.write(f"judged {done} of {of} certificates\n")
            stream.flush()

    return tell


def _bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
