"""The words of an answer: what was looked for, what was found, and the lines that are cited."""

from __future__ import annotations

from handrail.rlm.lines.cell.terms import Given, Groups, Hit, Looks, Texts, first_places

Say = dict[str, str]
WIDE = 400
"""Characters that are shown of one line."""


def filled(phrase: str, values: Given) -> str:
    for name, value in values.items():
        phrase = phrase.replace("{" + name + "}", str(value))
    return phrase


def several(say: Say, key: str, number: int) -> str:
    return filled(say[key + " one"] if number == 1 else say[key], {"n": number})


def quoted(text: str) -> str:
    return '"' + text + '"'


def described(say: Say, groups: Groups) -> str:
    """The terms, and what was looked for in their place."""
    said = []
    for group in groups:
        words = []
        for term in group:
            if term["how"] == "related":
                words.append(filled(say["instead"], {"a": quoted(term["shown"]), "b": quoted(term["term"])}))
            else:
                words.append(quoted(term["term"]))
        said.append(say["or"].join(words))
    return say["and"].join(said)


def cited(say: Say, hits: list[Hit], looks: Looks) -> list[str]:
    """Lines as they are shown: where each stands, and what it says."""
    shown = []
    for name, number, line in hits:
        place = filled(say["place"], {"n": number})
        shown.append("- " + (name + ", " if name else "") + place + ": " + around(line, looks))
    return shown


def around(line: str, looks: Looks) -> str:
    """A line, or of a long one what stands around the first thing that was found in it."""
    line = line.strip()
    if len(line) <= WIDE:
        return line
    found = [place for look in looks for place in first_places(look, line, 1)]
    start = max(min(found) - WIDE // 2, 0) if found else 0
    return ("…" if start else "") + line[start : start + WIDE] + ("…" if start + WIDE < len(line) else "")


def conditions(say: Say, search: Given, groups: Groups, without: list[Given], named: list[str]) -> str:
    """What a line had to have, in words: the terms, what it may not have, the span, the files."""
    said = described(say, groups)
    if without:
        said = said + (say["and not"] if groups else "") + say["or"].join([quoted(term["term"]) for term in without])
    if search["between"]:
        start, end = search["between"]["start"], search["between"]["end"]
        kind = search["between"]["kind"]
        span = "at line" if kind == "line" and start == end else "between " + kind
        said = said + filled(say[span], {"a": start, "b": end})
    if named:
        said = said + filled(say["in"], {"names": ", ".join(named)})
    return said.strip()


def remarks(say: Say, tally: Given, groups: Groups, texts: Texts) -> list[str]:
    """How the number came about, where that is not plain."""
    said = []
    terms = [term for group in groups for term in group]
    written = [term["term"] for term in terms]
    forms = [each for each in tally["forms"].items() if each[0] not in written]
    if forms:
        ordered = sorted(forms, key=lambda each: (-each[1], each[0]))[:8]
        listed = [quoted(form) + " " + several(say, "lines", number) for form, number in ordered]
        said.append(filled(say["forms"], {"forms": ", ".join(listed)}))
    if len(terms) > 1:
        each = [quoted(name_of(term)) + " " + several(say, "lines", tally["each"][at]) for at, term in enumerate(terms)]
        said.append(filled(say["each"], {"each": ", ".join(each)}))
    if len(texts) > 1 and tally["found"]:
        key = "files found one" if tally["found"] == 1 else "files found"
        said.append(filled(say[key], {"n": tally["files"], "of": len(texts)}))
    return said


def name_of(term: Given) -> str:
    """What was looked for."""
    name: str = term["shown"] if term["how"] == "related" else term["term"]
    return name
