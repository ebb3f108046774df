"""The lines that are nearest to a question, and what a model makes of the best of them."""

from __future__ import annotations

import re
from typing import Any

from handrail.rlm.lines.cell.terms import Given, Groups, Hit, Looks, Texts, compiled, first_places, has
from handrail.rlm.lines.cell.wording import cited, filled

Ask = Any
"""Asks a model."""


def places(text: Any, term: Given) -> list[list[int]]:
    """Where a term stands, and in which line, at most 400 times."""
    if not isinstance(text, str):
        return [[hit["at"], hit["line"]] for hit in text.search(term["pattern"]["regex"], 400, 0)]
    found, line, reached = [], 0, 0
    for at in first_places(compiled(term), text, 400):
        line = line + text[reached:at].count("\n")
        reached = at
        found.append([at, line])
    return found


def passages(texts: Texts, terms: list[Given], piece: int, most: int) -> list[Hit]:
    """The pieces where the rarest terms meet: name, text, and the number of its first line."""
    scores: Given = {}
    for term in terms:
        hits: list[list[int]] = []
        for number, (_, text) in enumerate(texts):
            hits = hits + [[number, *place] for place in places(text, term)]
        for number, at, line in hits:
            key = str(number) + ":" + str(at // piece)
            there = scores.get(key) or {"score": 0, "number": number, "at": at, "line": line, "terms": []}
            if term["term"] not in there["terms"]:
                there["terms"].append(term["term"])
                there["score"] = there["score"] + 1 / len(hits)
            scores[key] = there
    best = sorted([[-there["score"], there["number"], there["at"], there["line"]] for there in scores.values()])
    found = []
    for _, number, at, line in best[:most]:
        name, text = texts[number]
        start = max(at - piece // 2, 0)
        part = text[start : start + piece] if isinstance(text, str) else text.read(start, piece)
        found.append([name, part, line + 1 - part[: at - start].count("\n")])
    return found


def best_line(passage: Hit, looks: Looks) -> Hit:
    """The line of a passage that has most of the terms."""
    name, text, number = passage
    lines = text.split("\n")
    scored = [[-len([1 for look in looks if has(look, line)]), at] for at, line in enumerate(lines) if line.strip()]
    at = sorted(scored)[0][1] if scored else 0
    return [name, number + at, lines[at]]


def beginning(texts: Texts) -> list[Hit]:
    """The first lines that say anything."""
    for name, text in texts:
        start = text[:2000] if isinstance(text, str) else text.read(0, 2000)
        found = [[name, at + 1, line] for at, line in enumerate(start.split("\n")) if line.strip()]
        if found:
            return found[:3]
    return []


def nearest(search: Given, texts: Texts, groups: Groups, ask: Ask) -> str:
    """The lines with most of the question's words, and what the model makes of the best of them."""
    say = search["say"]
    terms = [term for group in groups for term in group if term["is"]]
    looks = [compiled(term) for term in terms]
    found = passages(texts, terms, search["piece"], search["passages"])
    hits = []
    for passage in found:
        hit = best_line(passage, looks)
        if hit not in hits:
            hits.append(hit)
    lines = cited(say, hits or beginning(texts), looks)
    heading = say["text"] if hits else say["begins"]
    shown = [heading + "\n" + "\n".join(lines)] if lines else []
    if search["operation"] == "compare":
        return "\n\n".join([say["compare"], *shown])
    if search["is_bound"]:
        reply = asked(ask, search, found[0][1]) if hits else ""
        said = grounded(reply, [hit[2] for hit in hits], search["language"])
    else:
        reply = asked(ask, search, found[0][1] if hits else "\n".join(lines))
        said = once(reply) if hits else filled(say["model"], {"reply": reply.strip()})
    opening = ([] if hits else [say["nothing"]]) + ([said] if said else [])
    return "\n\n".join(opening + shown)


def asked(ask: Ask, search: Given, passage: str) -> str:
    reply: str = ask("Text:\n" + passage + "\n\nQuestion: " + search["text"] + "\nAnswer:")
    if reply.startswith("__LLM_ERROR__"):
        raise RuntimeError(reply)
    return reply


def once(reply: str) -> str:
    said = []
    for line in reply.strip().split("\n"):
        if line.strip() and line not in said:
            said.append(line)
    return "\n".join(said)


WORD = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+")
LITTLE = {
    "en": "a an the of in on at to by is are was were it that this and",
    "de": "der die das den dem des ein eine einen und im in von zu ist sind war waren es",
}
NEGATIONS = "not no never none nobody nothing without t nicht nie kein keine keinen keiner niemand nichts ohne"


def words_of(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def grounded(reply: str, lines: list[str], language: str) -> str:
    """The first line of a reply, if it says no more than one of the lines says, in the order in which it says it."""
    little = LITTLE[language].split()
    said = [line.strip() for line in reply.split("\n") if line.strip()]
    words = words_of(said[0]) if said else []
    if not [word for word in words if word not in little]:
        return ""
    for line in lines:
        there = words_of(line)
        at = 0
        for word in there:
            while at < len(words) and words[at] in little and words[at] != word:
                at = at + 1
            if at < len(words) and words[at] == word:
                at = at + 1
        while at < len(words) and words[at] in little:
            at = at + 1
        denied = [word for word in there if word in NEGATIONS.split() and word not in words]
        if at == len(words) and not denied:
            return said[0]
    return ""
