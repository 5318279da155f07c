"""Where a server comes from: one that runs already, one of the installed package, or one of a command."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from harness.adapters.server_http import Client
from harness.adapters.server_options import CHAT, OTHER, TYPES
from harness.adapters.server_process import OwnServer
from harness.adapters.vocabulary import vocabulary_digest
from harness.engines.interface import Options
from harness.errors import EngineError, RefusedError
from harness.model.values import RefusalCode

GGUF: Final = ".gguf"
PACKAGE: Final = "xllamacpp"
SPELLED: Final = 2
"""Times that a chat has more tokens than words, at most, on a tiny model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """A server that answers, and what is known of it."""

    client: Client
    own: OwnServer | None
    """None: it ran already, and is not ended."""
    model_digest: str
    model_digest_of: str
    """``file``, ``name`` (of a model that is no file) or ``what_the_server_tells``."""
    slug: str
    vocabulary: str
    """Digest of the vocabulary; empty: not known."""
    version: str
    build: str
    """SHA-256 of what was really loaded; empty: out of reach."""


def origin_of(options: Options) -> Origin:
    """Find the server that is meant, or start it.

    Args:
        options: All of them.

    Raises:
        RefusedError: ``identity``: another model runs there; ``unsupported``: there is no such model.
        EngineError: It does not start or does not answer.
    """
    return _found(options) if options["url"] else _started(options)


def command_of(options: Options) -> str:
    """Return the command that starts the server which the options mean; empty: that of the package."""
    return str(options["other_command" if options["build"] == OTHER else "command"])


def package_of(options: Options) -> str:
    """Return the folder of the package whose server the options mean; empty: the installed one, or a command's."""
    return str(options["other_package" if options["build"] == OTHER else "package"])


def _started(options: Options) -> Origin:
    with _model(options) as (path, slug, named):
        command, package = command_of(options), package_of(options)
        how = {"command": command} if command else {"package": str(Path(package).absolute())} if package else {}
        version = "" if command else installed(package)
        own = OwnServer({**_settings(options, path), **how}, int(options["patience_s"]))
        try:
            return Origin(
                client=own.client,
                own=own,
                model_digest=_digest(path) if path.is_file() else hashlib.sha256(str(path).encode()).hexdigest(),
                model_digest_of="file" if path.is_file() else "name",
                slug=slug,
                vocabulary=vocabulary_digest(path) if named and path.suffix == GGUF and path.is_file() else "",
                version=version or _told_version(own.client),
                build=own.build if command else library_digest(package),
            )
        except BaseException:
            own.close()
            raise


@contextmanager
def _model(options: Options) -> Iterator[tuple[Path, str, bool]]:
    """Yield path and slug of the model that is meant, and whether it was named; one that is made goes afterwards."""
    from harness.adapters import tiny_gguf
    from harness.adapters.llama_model import packaged_model
    from harness.adapters.llama_options import ARCHITECTURES, SMOL

    named = str(options["model"]) or (packaged_model() if options["preset"] == SMOL else "")
    if named:
        if not Path(named).is_file() and not command_of(options):
            raise RefusedError(RefusalCode.UNSUPPORTED, "there is no model file of this name")
        yield Path(named), slug_of(Path(named).stem), True
        return
    arch = str(options["arch"])
    if arch not in ARCHITECTURES or options["preset"] != "tiny":
        raise RefusedError(RefusalCode.UNSUPPORTED, f"no tiny model {arch!r}; known are {sorted(ARCHITECTURES)}")
    spelled = options["endpoint"] == CHAT  # a chat is text: its model must know letters
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        tiny_gguf.write(ARCHITECTURES[arch], path, int(options["seed"]), spelled=spelled)
        yield path, "tiny", False


def _settings(options: Options, path: Path) -> Mapping[str, object]:
    slots = int(options["slots"])
    room = int(options["max_seq_len"]) * (SPELLED if options["endpoint"] == CHAT else 1)
    return {
        "model": str(path),
        "n_ctx": (room + 64) * slots,
        "slots": slots,
        "n_batch": 2048,
        "n_ubatch": 512,
        "unified": options["unified"],
        "threads": options["threads"],
        "cache_ram_mib": options["cache_ram_mib"],
        "aliased": options["dialect"] in ("llama", "llama_openai"),
        "more": {"cache_type_k": TYPES[str(options["k_type"])], "cache_type_v": TYPES[str(options["v_type"])]},
    }


def _found(options: Options) -> Origin:
    """Return a running server, with digest and slug of what it tells of the model that was asked for."""
    wanted = str(options["model"])
    if not wanted:
        raise RefusedError(RefusalCode.UNSUPPORTED, "say which model the running server must have: option model")
    client = Client(str(options["url"]), patience_s=int(options["patience_s"]), ended=lambda: None)
    told = client.get("/v1/models").get("data")
    models = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    found = next((one for one in models if one.get("id") == wanted), None)
    if found is None:
        raise RefusedError(RefusalCode.IDENTITY, f"the server has {[one.get('id') for one in models]}, not {wanted!r}")
    stable = {name: value for name, value in found.items() if name != "created"}
    return Origin(
        client=client,
        own=None,
        model_digest=hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest(),
        model_digest_of="what_the_server_tells",
        slug=slug_of(wanted),
        vocabulary="",
        version=_told_version(client),
        build="",
    )


def _told_version(client: Client) -> str:
    try:
        return str(client.get("/props").get("build_info") or "unknown")[:64]
    except EngineError:
        return "unknown"


def installed(package: str) -> str:
    """Return the version of the installed xllamacpp, or of the one in a folder.

    Args:
        package: The folder that it was unpacked into; empty: the installed one is meant.

    Raises:
        RefusedError: There is none in this folder (``unsupported``).
    """
    if not package:
        from harness.adapters.llama_engine import installed_version

        return installed_version()
    found = next(iter(metadata.distributions(name=PACKAGE, path=[package])), None)
    if found is None:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"there is no {PACKAGE} in the folder of the option package")
    return found.version


def slug_of(name: str) -> str:
    """Return a name as records have it."""
    plain = (letter if letter.isalnum() or letter in "._" else "_" for letter in Path(name).name.lower())
    return "".join(plain) or "unknown"


def library_digest(package: str = "") -> str:
    """Return the SHA-256 of the library of the installed package, or of the one in a folder; empty: there is none."""
    from harness.adapters.llama_library import packaged

    try:
        return _digest(packaged(package))
    except (ModuleNotFoundError, OSError):
        return ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
