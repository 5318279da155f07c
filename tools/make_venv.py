"""Makes or refreshes ``.venv`` for this checkout. Standard library only; run by ``make``.

``--extras a,b`` adds extras of ``pyproject.toml``, in the same go where the environment is new; what is there already
is left alone.

A torch that the calling Python already has, and that is in range, is reused, so that ROCm, CUDA and Mac users keep
theirs: through system site packages, or, where that Python is one of a virtual environment, through a path to its
packages. Otherwise the pinned one of ``constraints.txt`` is installed.

Called from inside that very environment (it is activated, so that ``python3`` is its own), it goes by the Python that
the environment was made of, and never empties what it runs in.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv"
STAMP = HOME / "statecert-stamp"
EXTRAS = HOME / "statecert-extras"
BASE = "statecert-base"
"""File beside the stamp: the Python that the environment was made of, and the version of the torch seen in it."""
SELDOM = r"[/\\](tests?|transformers[/\\]models|_inductor|_dynamo|sympy|networkx|lexers)[/\\]"
"""Paths of modules of which hardly one is ever imported, half of all code: byte code of that one is written then."""
LOWEST, BEYOND = (2, 6), (2, 15)
PYTHONS = ((3, 11), (3, 14))


def main(extras: str = "") -> int:
    """Make the environment if it is missing or older than what it is made from.

    Args:
        extras: Names with commas between them: installed in the same go, if all can be; if not, they are left out.
    """
    if not PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]:
        found = ".".join(map(str, sys.version_info[:3]))
        say(f"Python 3.11, 3.12 or 3.13 is needed; this is {found}. Try: make PYTHON=python3.12 ...")
        return 4
    wanted = stamp()
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return 0
    python, own = origin()
    base, made = STAMP.with_name(BASE), f"{python}\n{own}"
    if runs_inside():
        seen = torch_of(HOME / "bin" / "python")
        own = seen if seen == own or not recorded()[0] else ""  # one that was installed by hand stays
        base.write_text(made)
    elif not (base.is_file() and base.read_text() == made):
        source = f"the torch {own} of {sys.executable}" if own else "the pinned torch (CPU build)"
        say(f"making .venv with {source}")
        make_home(HOME, own)
        if own and torch_of(HOME / "bin" / "python") != own:
            say(f"a new environment does not see the torch of {sys.executable}; making .venv with the pinned one")
            own = ""
            make_home(HOME, own)
        base.write_text(made)
    elif own and torch_of(HOME / "bin" / "python") != own:
        own = ""  # as found out when it was made
    constraints = HOME / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    constraints.write_text("\n".join(x for x in lines if not (own and x.startswith(("torch==", "numpy==")))) + "\n")
    say("installing (about a minute) ...")
    if extras and installed(constraints, f"{ROOT}[dev,{extras}]"):
        STAMP.write_text(wanted)
        EXTRAS.write_text("\n".join(f"{name} {wanted}" for name in extras.split(",")))
        return 0
    if not installed(constraints, f"{ROOT}[dev]"):
        say("pip could not install what pyproject.toml asks for; its last lines above say why")
        return 3
    STAMP.write_text(wanted)
    return 0


def add_extras(names: str) -> int:
    """Install extras into the environment that is there, if they are missing or older than what they are made from."""
    known = EXTRAS.read_text().split("\n") if EXTRAS.is_file() else []
    wanted = stamp()
    missing = [name for name in names.split(",") if f"{name} {wanted}" not in known]
    if not missing:
        return 0
    say(f"installing {', '.join(missing)} (about a minute) ...")
    if not installed(HOME / "constraints.txt", f"{ROOT}[{','.join(missing)}]"):
        say("pip could not install the extras; its last lines above say why")
        return 3
    EXTRAS.write_text("\n".join([*known, *(f"{name} {wanted}" for name in missing)]))
    return 0


def installed(constraints: Path, spec: str) -> bool:
    """Install into the environment, byte code included; whether pip could.

    pip would compile everything on one processor, which takes longer than all the rest; here all of them compile what
    is likely to be imported.
    """
    python = str(HOME / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    if subprocess.run([*pip, "-c", str(constraints), "-e", spec], check=False).returncode:
        return False
    # a package may bring a file that this Python cannot read; who imports it says so
    compiling = [python, "-m", "compileall", "-qq", "-j", "0", "-x", SELDOM]
    subprocess.run([*compiling, *map(str, HOME.glob("lib/*/site-packages"))], check=False)
    return True


def runs_inside() -> bool:
    """Whether this Python is the one of the environment itself."""
    return Path(sys.prefix).resolve() == HOME.resolve()


def recorded() -> tuple[str, str]:
    """The Python that the environment was made of, and the torch seen in it; empty: nobody wrote it down."""
    base = STAMP.with_name(BASE)
    python, _, own = base.read_text().partition("\n") if base.is_file() else ("", "", "")
    return ("", "") if Path(python).is_relative_to(HOME) else (python, own)


def maker() -> str:
    """The Python that the environment is made of: the calling one, from inside the one that is written down.

    A Python of several names (``python3``, ``python3.11``) in one folder is the same one.
    """
    python, _ = recorded()
    if runs_inside():
        return python or sys._base_executable  # noqa: SLF001 - pyvenv.cfg says it no better, and not in every version
    return python if same_python(python, sys.executable) else sys.executable


def same_python(one: str, other: str) -> bool:
    """Whether two paths in one folder lead to one Python; another folder may be another virtual environment."""
    return Path(one).parent == Path(other).parent and Path(one).resolve() == Path(other).resolve()


def origin() -> tuple[str, str]:
    """The Python that the environment is made of, and the version of the torch there that is to be seen."""
    python = maker()
    if not runs_inside():
        return python, torch_of_caller()
    return recorded() if recorded()[0] else (python, torch_of(Path(python)))


def stamp() -> str:
    """Digest of everything that the environment is made from."""
    parts = [maker(), str(ROOT)]
    parts += [(ROOT / name).read_text() for name in ("pyproject.toml", "constraints.txt", "setup.py")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def make_home(home: Path, own: str, *, with_pip: bool = True) -> None:
    """Make an environment that sees the packages of the calling Python, or none.

    Args:
        home: Where; emptied first.
        own: Version of the torch to be seen; empty: none, so that only what is installed counts.
        with_pip: Whether packages can be installed into it.
    """
    inside = sys.prefix != sys.base_prefix
    shared = bool(own) and (not inside or shares_system_packages())
    venv.EnvBuilder(with_pip=with_pip, system_site_packages=shared, clear=True, symlinks=os.name != "nt").create(home)
    if own and inside:
        paths = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
        (packages,) = home.glob("lib/python*/site-packages")
        (packages / "statecert-caller.pth").write_text("".join(f"{path}\n" for path in paths))


def shares_system_packages() -> bool:
    """Whether the virtual environment of this Python shows the packages of the Python that it was made from."""
    told = (Path(sys.prefix) / "pyvenv.cfg").read_text()
    return re.search(r"^include-system-site-packages\s*=\s*true", told, re.MULTILINE | re.IGNORECASE) is not None


def torch_of_caller() -> str:
    """Version of the torch that this Python has, if it is in range; else empty."""
    return torch_of(Path(sys.executable))


def torch_of(python: Path) -> str:
    """Version of the torch that a Python has, if it is in range; else empty."""
    code = "import importlib.metadata as m; print(m.version('torch'))"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    match = re.match(r"(\d+)\.(\d+)", found.stdout)
    if found.returncode or match is None:
        return ""
    version = (int(match[1]), int(match[2]))
    return found.stdout.strip() if LOWEST <= version < BEYOND else ""


def say(text: str) -> None:
    """One line to standard error."""
    print(f"statecert: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    asked = sys.argv[2] if sys.argv[1:2] == ["--extras"] else ""
    code = main(asked)
    if not code and asked:
        code = add_extras(asked)
    raise SystemExit(code)
