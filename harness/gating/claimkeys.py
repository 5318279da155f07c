"""Claim keys against the patterns of a policy."""

from __future__ import annotations

from fnmatch import fnmatchcase


def fits(pattern: str, claim_key: str) -> bool:
    """Tell whether a claim key fits a pattern; a star stays within its step."""
    steps, own = pattern.split("/"), claim_key.split("/")
    return len(steps) == len(own) and all(fnmatchcase(one, step) for step, one in zip(steps, own, strict=True))
