"""Where to look, and for what: the texts of a context, and the terms of a question in them."""

from __future__ import annotations

import re
from typing import Any

Given = dict[str, Any]
Texts = list[Any]
"""Of each text its name, and the text itself or what stands for a held one."""
Groups = list[list[Given]]
Hit = list[Any]
"""The name of a text, the number of a line, and the line."""
Looks = list[Given]

SMALL = "abcdefghijklmnopqrstuvwxyzäöüß"
LARGE = "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ"


def sources(context: Any, name: str) -> Texts:
    """The texts of a context, each with its name."""
    if isinstance(context, str):
        return [[name, context]]
    if isinstance(context, list):
        return [["item " + str(at), each if isinstance(each, str) else str(each)] for at, each in enumerate(context)]
    if isinstance(context, dict):
        return [[str(key), each if isinstance(each, str) else str(each)] for key, each in context.items()]
    if hasattr(context, "files"):
        return [[each["name"], context.open(each["name"])] for each in context.files]
    return [[name, context]]


def in_scope(search: Given, texts: Texts) -> tuple[Texts, list[Any], list[str]]:
    """The texts that the question names, and the groups of terms without those names."""
    named: Texts = []
    groups = []
    for group in search["groups"]:
        words = [term["shown"] for term in group]
        found = [each for each in texts if [word for word in words if is_name(word, each[0], search["names"])]]
        if found:
            named = named + [each for each in found if each not in named]
        else:
            groups.append(group)
    return named or texts, groups, [each[0] for each in named]


def is_name(word: str, name: str, names: list[str]) -> bool:
    return word in names and name != "" and (name == word or name.endswith("/" + word))


def compiled(term: Given) -> Given:
    """What looks for a term here."""
    pattern = term["pattern"]
    return {"plain": re.compile(pattern["plain"]), "whole": pattern["is_whole"], "humps": pattern["has_humps"]}


def spelled(look: Given, line: str) -> list[str]:
    """The forms of a term that stand in a line."""
    return [match.group(0) for match in look["plain"].finditer(line) if stands(look, line, match.start(), match.end())]


def has(look: Given, line: str) -> bool:
    return look["plain"].search(line) is not None and (not look["whole"] or bool(spelled(look, line)))


def stands(look: Given, line: str, start: int, end: int) -> bool:
    """Whether what was found is a whole word, if it must be one."""
    if not look["whole"]:
        return True
    return divides(look, line, start) and divides(look, line, end)


def divides(look: Given, line: str, at: int) -> bool:
    """Whether a word may begin or end here."""
    if at == 0 or at == len(line) or not line[at - 1].isalnum() or not line[at].isalnum():
        return True
    return look["humps"] and line[at - 1] in SMALL and line[at] in LARGE


def present(texts: Texts, term: Given) -> bool:
    look = compiled(term)
    for _, text in texts:
        if isinstance(text, str):
            if first_places(look, text, 1):
                return True
        elif text.search(term["pattern"]["regex"], 1, 0):
            return True
    return False


def first_places(look: Given, text: str, most: int) -> list[int]:
    """Where a term stands in a text."""
    found: list[int] = []
    for match in look["plain"].finditer(text):
        if stands(look, text, match.start(), match.end()):
            found.append(match.start())
            if len(found) == most:
                break
    return found


def chosen(texts: Texts, term: Given) -> Given:
    """The first way to find a term that finds anything, or the first of all; and whether it does."""
    for tier in term["tiers"]:
        if present(texts, tier):
            wider = [each for each in term["tiers"] if each["how"] == "forms"] if tier["how"] == "written" else []
            return {**tier, "term": term["shown"], "is": True, "wider": wider}
    return {**term["tiers"][0], "term": term["shown"], "is": False, "wider": []}
