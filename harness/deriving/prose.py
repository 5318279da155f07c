"""What a text says of certificates: generated blocks, citations, and sentences that could need one.

A text is Markdown that anybody may have sent. It is read once, line by line, by expressions that take linear time; code
is left out. Nothing here looks at a certificate.

- A **block** lies between ``<!-- statecert:begin view=matrix claim=A01/torch-tiny/cpu-* -->`` and
  ``<!-- statecert:end -->``.
- A **citation** is a link to ``cert:``: ``[142 of 142 cells](cert:3f9a01c2d4e5#cells)``, by the first digits of an id
  or by a claim key, then what of it is meant.
- A **sentence** is one of a paragraph, an item, or a row of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

MAX_BYTES: Final = 2 * 1024 * 1024

_BEGIN: Final = re.compile(r"<!-- statecert:begin((?: [a-z]+=[A-Za-z0-9_./*-]{1,300}){0,4}) -->")
_END: Final = "<!-- statecert:end -->"
_CITATION: Final = re.compile(r"\[([^\[\]\n]{1,300})\]\(cert:([A-Za-z0-9_./-]{1,400})(?:#([^()\s]{0,300}))?\)")
_LEFT: Final = re.compile(r"\bcert:")
"""What is left of a citation in a form that is not read."""
_MARKS: Final = re.compile(r"\s*$|\s{0,3}#{1,6}\s|\s*<!-- statecert:")
_ITEMS: Final = frozenset("|-*+")
_HEADING: Final = re.compile(r"\s{0,3}(#{1,6})\s+(\S.*)")
_FENCE: Final = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)")
"""As forges take it: what opens one may say a language, what closes it is as long at least, and stands alone."""
_END_OF_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[*_A-Z0-9])")
_CODE: Final = re.compile(r"`[^`\n]{0,300}`")
_NUMBER: Final = re.compile(
    r"(?P<word>at least|at most|more than|less than|over|under|[<>]=?|\u2265|\u2264)?\s{0,2}"
    r"(?P<digits>\d[\d,_]{0,30}(?:\.\d{1,12})?)\s{0,2}"
    r"(?P<unit>ns|us|\u00b5s|ms|s|min|KiB|MiB|GiB|kB|KB|MB|GB|B|bytes|%|ppm)?(?![A-Za-z0-9_])"
)
_COUNT: Final = re.compile(r"(?P<some>\d[\d,]{0,12})\s{0,2}(?:of|/)\s{0,2}(?P<all>\d[\d,]{0,12})")
_ALL: Final = re.compile(
    r"\ball(?:\s+of)?(?:\s+the)?\s+(?P<count>\d[\d,]{0,12}|two|three|four|five|six|seven|eight|nine|ten|twelve)\b", re.I
)
_WORDS: Final = {
    word: number
    for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 2)
} | {"twelve": 12}
_SCALE: Final = {
    "ns": 1,
    "us": 1000,
    "\u00b5s": 1000,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "B": 1,
    "bytes": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "%": 10**4,
    "ppm": 1,
    "": 1,
}
_KINDS: Final = {
    **dict.fromkeys(("ns", "us", "\u00b5s", "ms", "s", "min"), "ns"),
    **dict.fromkeys(("B", "bytes", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB"), "bytes"),
    **dict.fromkeys(("%", "ppm"), "ppm"),
}
_AT_LEAST: Final = frozenset({"at least", "more than", "over", ">", ">=", "\u2265"})
_AT_MOST: Final = frozenset({"at most", "less than", "under", "<", "<=", "\u2264"})

_TYPES: Final = r"(?:f32|f16|bf16|fp16|fp32|int8|q[2-8]_[01k](?:_[sml])?|turboquant\w{0,8})"
PAIR: Final = re.compile(
    rf"(?<![A-Za-z0-9_])(?P<k>{_TYPES})\s{{0,2}}[/|]\s{{0,2}}(?P<v>{_TYPES})(?![A-Za-z0-9_])", re.I
)
DEVICE: Final = re.compile(
    r"\b(?:metal|cuda|rocm|hip|vulkan|mps|gfx\d{3,4}|sm_\d{2,3}|h100|h200|a100|mi300x?|apple m\d)\b", re.I
)
_VERDICT: Final = re.compile(
    r"\b(?:pass(?:es|ed)?|fail(?:s|ed)?|stop(?:s|ped)?|qualif(?:y|ies|ied)|certified|lossless|bit[- ]exact|bit for bit"
    r"|identical|verified)\b",
    re.I,
)
_MEASURED: Final = re.compile(
    r"\d(?:\.\d{1,6})?\s{0,2}"
    r"(?:ns|us|\u00b5s|ms|GB/s|MB/s|tok/s|tokens/s|tokens per second|x|\u00d7|%|/\s{0,2}\d{1,6})(?![A-Za-z0-9_])"
)
_PASS: Final = re.compile(r"\b(?:pass(?:es|ed)?|qualif(?:y|ies|ied)|certified|verified|ok)\b", re.I)
_STOP: Final = re.compile(r"\b(?:fail(?:s|ed)?|stop(?:s|ped)?)\b", re.I)
_OTHERS: Final = re.compile(r"\b(?:published|recorded|foreign|imported|reported)\b", re.I)
_NEGATED: Final = re.compile(r"\b(?:not|never|no|none|nothing|without|non|neither|nor|un[- ]?\w{0,20})\b|n't\b", re.I)
_OTHER_VERDICTS: Final = (
    ("error", re.compile(r"\berrors?\b", re.I)),
    ("inconclusive", re.compile(r"\binconclusive\b", re.I)),
    ("not_run", re.compile(r"\bnot[ _]run\b", re.I)),
    ("not_supported", re.compile(r"\bnot[ _]supported\b", re.I)),
    ("not_evaluated", re.compile(r"\bnot[ _]evaluated\b", re.I)),
    ("excluded", re.compile(r"\bexcluded\b", re.I)),
    ("mixed", re.compile(r"\bmixed\b", re.I)),
)
VERDICTS: Final = frozenset({"pass", "fail", "stop", *(word for word, _ in _OTHER_VERDICTS)})
"""Words of decisions and outcomes."""
_HISTORICAL: Final = re.compile(r"\bhistorical\b", re.I)
_CONTESTED: Final = re.compile(r"\bcontested\b", re.I)
_STRICT: Final = re.compile(r"\b(?:qualification|certification|claims?)\b", re.I)


class Citation(NamedTuple):
    """A place where a text names a certificate for what it says."""

    line: int
    text: str
    """What is said."""
    target: str
    """First digits of an id, or a claim key."""
    pointer: str
    """What of it; empty: its decision."""
    historical: bool
    """Whether its sentence says so."""
    of_others: bool = False
    """Whether its sentence says that others published it."""
    contested: bool = False
    """Whether its sentence says that another machine contradicts."""


class Block(NamedTuple):
    """A generated part of a text."""

    line: int
    """Of its first line."""
    settings: dict[str, str]
    held: str
    """What lies between its two lines."""


class Sentence(NamedTuple):
    """One sentence, item or row without code."""

    line: int
    text: str
    cited: bool
    strict: bool
    """Whether it stands under a heading about qualification."""
    whole: str = ""
    """With the words of its citations."""
    citations: Sequence[Citation] = ()


class Prose(NamedTuple):
    """A text, read."""

    path: str
    blocks: Sequence[Block]
    citations: Sequence[Citation]
    sentences: Sequence[Sentence]
    faults: Sequence[tuple[int, str]]
    """Lines at which a block begins without an end, or ends without a beginning."""


class Said(NamedTuple):
    """A number of a text, with what it may be."""

    least: Fraction
    most: Fraction
    kind: str
    """``ns``, ``bytes``, ``ppm``, or empty: a number without a unit."""
    shown: str


def read_prose(path: str, data: bytes) -> Prose:
    """Return what a text says. Bytes that are no UTF-8 stand as replacement characters; nothing raises."""
    text = data[:MAX_BYTES].decode("utf-8", "replace")
    citations: list[Citation] = []
    sentences: list[Sentence] = []
    reader = _Reader()
    for line, paragraph, strict in reader.paragraphs(text):
        for offset, whole in _sentences(paragraph):
            sentence = _CODE.sub(lambda code: " " if "](cert:" in code[0] else code[0], whole)
            found = list(_CITATION.finditer(sentence))
            said = [one.search(sentence) is not None for one in (_HISTORICAL, _OTHERS, _CONTESTED)]
            number = line + offset
            own = [Citation(number, one[1], one[2], one[3] or "", *said) for one in found]
            citations += own
            bare = _CODE.sub(" ", _CITATION.sub(" ", sentence))
            full = _CODE.sub(" ", _CITATION.sub(r"\1", sentence))
            sentences.append(Sentence(number, bare, bool(found), strict, full, own))
            if _LEFT.search(bare):
                reader.faults.append((number, "cites in a form that is not read; a citation is [words](cert:...)"))
    if len(data) > MAX_BYTES:
        reader.faults.append((1, f"has {len(data)} bytes; read are the first {MAX_BYTES}"))
    return Prose(path, reader.blocks, citations, sentences, reader.faults)


class _Reader:
    """Goes through a text line by line: paragraphs come out, blocks are collected on the way."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.faults: list[tuple[int, str]] = []
        self._fence = ""
        self._strict = False
        self._block: tuple[int, dict[str, str]] | None = None
        self._held: list[str] = []
        self._lines: list[str] = []
        self._first = 1

    def paragraphs(self, text: str) -> Iterator[tuple[int, str, bool]]:
        """Yield first line, text and strictness of what is neither code nor block; a heading is one by itself."""
        for number, raw in enumerate([*text.split("\n"), ""], start=1):
            line = raw.removesuffix("\r")
            if self._block is not None:
                self._in_block(line)
                continue
            plain = not self._fence and _FENCE.fullmatch(line) is None and _MARKS.match(line) is None
            if self._lines and (not plain or line.lstrip()[:1] in _ITEMS):
                yield self._first, "\n".join(self._lines), self._strict
                self._lines = []
            if plain:
                self._first = self._first if self._lines else number
                self._lines.append(line)
            elif heading := self._mark(line, number):
                yield number, heading, self._strict
        if self._block is not None:
            self.faults.append((self._block[0], "begins a block that does not end"))

    def _in_block(self, line: str) -> None:
        if line.strip() != _END or self._block is None:
            self._held.append(line)
            return
        self.blocks.append(Block(*self._block, "".join(f"{one}\n" for one in self._held)))
        self._block, self._held = None, []

    def _mark(self, line: str, number: int) -> str:
        """Take a line that is no text: a fence, something inside one, a heading, an end or a beginning of a block.

        Returns:
            What a heading says; empty: it is none.
        """
        fence, heading, begin = _FENCE.fullmatch(line), _HEADING.match(line), _BEGIN.fullmatch(line.strip())
        if self._fence:
            closes = line.strip()
            if fence and set(closes) == set(self._fence) and len(closes) >= len(self._fence):
                self._fence = ""
        elif fence:
            self._fence = fence[1] or fence[2]
        elif begin:
            self._block = (number, dict(one.split("=", 1) for one in begin[1].split()))
        elif heading:
            self._strict = _STRICT.search(heading[2]) is not None
            return heading[2]
        elif line.strip() == _END:
            self.faults.append((number, "ends a block that does not begin"))
        elif line.strip():
            self.faults.append((number, "begins a block in a form that is not known"))
        return ""


def _sentences(paragraph: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence with the count of lines before it; a row of a table stays whole."""
    if paragraph.lstrip().startswith("|"):
        yield 0, paragraph
        return
    start = lines = 0
    for end in [*(one.start() for one in _END_OF_SENTENCE.finditer(paragraph)), len(paragraph)]:
        yield lines, paragraph[start:end].replace("\n", " ").strip()
        lines += paragraph.count("\n", start, end + 1)
        start = end + 1


def numbers(text: str) -> Sequence[Said]:
    """Return the numbers of a text in their order, each as the span of values that are rounded to its last digit."""
    found = []
    for one in _NUMBER.finditer(text):
        digits = one["digits"].replace(",", "").replace("_", "")
        unit = one["unit"] or ""
        scale = _SCALE[unit]
        value = Fraction(digits) * scale
        step = Fraction(scale, 10 ** len(digits.partition(".")[2])) if unit or "." in digits else Fraction(0)
        least, most = value - step / 2, value + step / 2
        word = (one["word"] or "").lower()
        if word in _AT_LEAST:
            least, most = value, Fraction(10) ** 30
        elif word in _AT_MOST:
            least, most = Fraction(-1), value
        found.append(Said(least, most, _KINDS.get(unit, ""), one[0].strip()))
    return found


def counted(text: str) -> tuple[int, int] | None:
    """Return what a text counts: ``28 of 30``, ``28/30``, ``all seven``; None: nothing."""
    if found := _COUNT.search(text):
        return int(found["some"].replace(",", "")), int(found["all"].replace(",", ""))
    if found := _ALL.search(text):
        word = found["count"].lower().replace(",", "")
        number = _WORDS[word] if word in _WORDS else int(word)
        return number, number
    return None


def claims_something(sentence: Sentence) -> bool:
    """Tell whether a sentence says how a pair of types, or a kind of device, fared."""
    text = sentence.text
    about = PAIR.search(text) is not None or DEVICE.search(text) is not None
    return about and tells(text)


def tells(text: str) -> bool:
    """Tell whether a text holds a verdict or something measured."""
    return _VERDICT.search(text) is not None or _MEASURED.search(text) is not None


def verdict_of(text: str) -> str:
    """Return ``pass`` or ``stop`` where a text says one of them; empty: neither, or both."""
    passes, stops = _PASS.search(text) is not None, _STOP.search(text) is not None
    return "pass" if passes and not stops else "stop" if stops and not passes else ""


def verdicts_of(text: str) -> frozenset[str]:
    """Return every verdict that a text says; a stop and a fail are one. What it says with a *not* is ``negated``."""
    found = set()
    for word, pattern in _OTHER_VERDICTS:
        text, count = pattern.subn(" ", text)
        found |= {word} if count else set()
    found |= {word for word, pattern in (("pass", _PASS), ("stop", _STOP)) if pattern.search(text)}
    return frozenset(found | ({"negated"} if _NEGATED.search(text) else set()))
