"""Which known name somebody may have meant. Standard library, and imported only where a word was wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

MOST: Final = 3
"""Names that are offered at most."""
_NOUGHTS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")


def meant(word: str, known: Iterable[str]) -> str:
    """Return like `` (did you mean A01, A10 or A11?)``; empty where no name is near.

    The same name with other leading noughts comes first, then names that begin with the word; only where there is
    neither, the one that is spelt most alike. Capitals do not matter.
    """
    names = {name.lower(): name for name in known}
    asked = word.lower()
    alike = [name for name in names if _bare(name) == _bare(asked)]
    begun = [name for name in names if asked and name.startswith(asked) and name not in alike]
    near = [*alike, *begun][:MOST] or get_close_matches(asked, names, n=1)
    if not near:
        return ""
    *others, last = [names[name] for name in near]
    return f" (did you mean {', '.join(others)}{' or ' if others else ''}{last}?)"


def _bare(name: str) -> str:
    return _NOUGHTS.sub("", name)
