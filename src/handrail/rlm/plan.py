"""A root that is no model: it always writes the same program, for those whose model is too small to write code.

The program looks for the words of the question, has the sub-model read the pieces
where the rarest of them meet, and answers with what it makes of the best one and with
the lines themselves. It knows nothing else: a question that needs counting or comparing
needs a model that can write code.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from string import Template

from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage
from handrail.core.model import ModelRequest

NAME = "plan"
_SHORTEST = 3
_PIECE = 600
"""Small models are lost in more."""
_LARGEST = 6_000
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for are was were who whom what which when where why how does did has have had with from that this"
        " these those there their they them then than its into about not you your can could would should will may"
        " is der die das und ein eine einen wer wie was wann welche welcher welches warum ist sind war waren hat haben"
        " mit von aus auf für den dem des im in an zu",
    )
)

PROGRAM = Template('''\
question = $question
words = $words
piece = $piece
most = $most


def sources():
    if isinstance(context, str):
        return [["", context]]
    if isinstance(context, list):
        return [["item " + str(at), each if isinstance(each, str) else str(each)] for at, each in enumerate(context)]
    if isinstance(context, dict):
        return [[str(key), each if isinstance(each, str) else str(each)] for key, each in context.items()]
    if hasattr(context, "files"):
        return [[each["name"], context.open(each["name"])] for each in context.files]
    return [["", context]]


def places(text, word):
    """Where a word stands, at most 400 times."""
    if not isinstance(text, str):
        return [hit["at"] for hit in text.search("(?i)" + word, 400, 0)]
    found = []
    small = text.lower()
    at = small.find(word)
    while at >= 0 and len(found) < 400:
        found.append(at)
        at = small.find(word, at + 1)
    return found


def part(text, start):
    return text[start : start + piece] if isinstance(text, str) else text.read(start, piece)


texts = sources()
scores = {}
for word in words:
    hits = []
    for number, (name, text) in enumerate(texts):
        hits = hits + [[number, at] for at in places(text, word)]
    for number, at in hits:
        place = str(number) + ":" + str(at // piece)
        there = scores.get(place) or {"score": 0, "number": number, "at": at, "words": []}
        if word not in there["words"]:
            there["words"].append(word)
            there["score"] = there["score"] + 1 / len(hits)
        scores[place] = there
ranked = sorted([[-there["score"], place] for place, there in scores.items()])[:most]
chosen = [[scores[place]["number"], scores[place]["at"]] for _, place in ranked]
passages = []
for number, at in chosen or [[number, 0] for number in range(len(texts))][:most]:
    name, text = texts[number]
    passages.append([name, part(text, max(at - piece // 2, 0))])
asked = "\\n\\nQuestion: " + question + "\\nAnswer:"
replies = llm_query_batched(["Text:\\n" + passage + asked for _, passage in passages])
broken = [reply for reply in replies if reply.startswith("__LLM_ERROR__")]
print(len(scores), "places have words of the question;", len(passages), "were read")
if broken:
    raise RuntimeError(broken[0])


def told(name, passage):
    """The line of a passage that has most of the words."""
    lines = [[-len([word for word in words if word in line.lower()]), line.strip()] for line in passage.split("\\n")]
    best = sorted(lines, key=lambda each: each[0])[0][1]
    return "- " + (name + ": " if name else "") + best[:400]


if chosen:
    found = []
    for name, passage in passages:
        line = told(name, passage)
        if line not in found:
            found.append(line)
    said = []
    for line in replies[0].strip().split("\\n"):
        if line.strip() and line not in said:
            said.append(line)
    answer["content"] = "\\n".join(said) + "\\n\\nWhat the text says:\\n" + "\\n".join(found)
else:
    answer["content"] = "No word of the question is in the context. The model says: " + (replies + [""])[0].strip()
answer["ready"] = True
''')


class Plan:
    """A `Model`. It says its program once; asked again, because that failed, it has nothing better."""

    name = NAME

    def __init__(self, question: str, *, reads: int = 0, most: int = 3) -> None:
        """`reads` is how many characters the sub-model can be given at once; by default it is a small one."""
        self._question = question
        self._piece = min(max(reads // 40, _PIECE), _LARGEST)
        """Characters of the passages that it reads, one at a time."""
        self._most = most

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        again = any(isinstance(message, AssistantMessage) for message in request.messages)
        yield TextDelta(text=_GIVE_UP if again else f"```repl\n{self.program}```\n")
        yield ReplyFinished(stop="end", model=self.name)

    @property
    def program(self) -> str:
        """What it has run."""
        return PROGRAM.substitute(
            question=json.dumps(self._question),
            words=json.dumps(_words(self._question)),
            piece=self._piece,
            most=self._most,
        )


_GIVE_UP = "The plan's program failed, as the output of the REPL shows. Give a model that can write code."


def _words(question: str) -> list[str]:
    """What to look for: the words of a question that are not in every text, each once, in order."""
    found = (word for word in re.findall(r"\w+", question.lower()) if len(word) >= _SHORTEST or word.isdigit())
    return list(dict.fromkeys(word for word in found if word not in _COMMON))
