"""The program that answers a question about lines in a REPL: Python that CPython and Monty both run.

It is sent to the REPL as text, so it imports nothing of ours. Every number that it says was counted here, or stands in
a line that is shown.
"""

from __future__ import annotations

import re
from typing import Any

Given = dict[str, Any]
Say = dict[str, str]
Texts = list[Any]
"""Of each text its name, and the text itself or what stands for a held one."""
Groups = list[list[Given]]
Hit = list[Any]
"""The name of a text, the number of a line, and the line."""
Looks = list[Given]
Ask = Any
"""Asks a model."""

SHOWN = 10
"""Lines that are shown of many."""
WIDE = 400
"""Characters that are shown of one line."""
BLOCK = 1000000
"""Characters of a held text that are read at once."""
STAMP = re.compile(r"^\W{0,3}(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d+)?)\s?(Z|[+-]\d\d:?\d\d)?")
SMALL = "abcdefghijklmnopqrstuvwxyzäöüß"
LARGE = "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ"
POINTS = {
    "date": r"(\d{4}-\d\d-\d\d)",
    "time": r"(?:^|\D)(\d\d:\d\d(?::\d\d)?)",
    "datetime": r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)",
}


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
    if line[end - 1].isalnum() and end < len(line) and line[end].isalnum():
        return False
    if not line[start].isalnum() or start == 0 or not line[start - 1].isalnum():
        return True
    return look["humps"] and line[start - 1] in SMALL and line[start] in LARGE


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


# ── counting ─────────────────────────────────────────────────────────────────────────────


def tallied(texts: Texts, wanted: Given) -> Given:
    """Look at each line of all texts once."""
    tally: Given = {"lines": 0, "words": 0, "characters": 0, "found": 0, "times": 0, "files": 0, "forms": {}}
    tally["each"] = [0 for _ in wanted["looks"]]
    tally["first"], tally["last"] = [], []
    tally["stamps"], tally["stamped"], tally["zones"] = 0, [], {}
    for name, text in texts:
        before = tally["found"]
        at, carried, number, whole = 0, "", 1, isinstance(text, str)
        while True:
            block = text if whole else text.read(at, BLOCK)
            at = at + len(block)
            lines = (carried + block).split("\n")
            is_last = whole or block == "" or at >= text.size
            if not is_last:
                carried = lines.pop()
            elif lines[-1] == "":
                lines.pop()
            tally["characters"] = tally["characters"] + len(block)
            tally["lines"] = tally["lines"] + len(lines)
            look_at(tally, name, number, lines, wanted)
            number = number + len(lines)
            if is_last:
                break
        if tally["found"] > before:
            tally["files"] = tally["files"] + 1
    return tally


def look_at(tally: Given, name: str, number: int, lines: list[str], wanted: Given) -> None:
    """The lines of one block, of which the first has this number."""
    if wanted["unit"] == "words":
        tally["words"] = tally["words"] + sum([len(line.split()) for line in lines])
    matched = spanned(lines, number, wanted["between"])
    hits = [[at for at in matched if has(look, lines[at])] for look in wanted["looks"]]
    for at, found in enumerate(hits):
        tally["each"][at] = tally["each"][at] + len(found)
    at = 0
    for size in wanted["sizes"]:
        either = set()
        for found in hits[at : at + size]:
            either.update(found)
        at = at + size
        matched = [each for each in matched if each in either]
    for look in wanted["without"]:
        matched = [each for each in matched if not has(look, lines[each])]
    tally["found"] = tally["found"] + len(matched)
    for each in matched:
        note(tally, [name, number + each, lines[each]], wanted)


def spanned(lines: list[str], number: int, between: Given | None) -> list[int]:
    """The lines that lie in a span, by their places here."""
    if between is None:
        return list(range(len(lines)))
    start, end = between["start"], between["end"]
    if between["kind"] == "line":
        return [at for at in range(len(lines)) if int(start) <= number + at <= int(end)]
    point = re.compile(POINTS[between["kind"]])
    found = []
    for at, line in enumerate(lines):
        match = point.search(line)
        if match:
            said = match.group(1).replace("T", " ")
            if start <= said[: len(start)] and said[: len(end)] <= end:
                found.append(at)
    return found


def note(tally: Given, hit: Hit, wanted: Given) -> None:
    """Keep what is shown of a line that was found."""
    most = wanted["most"]
    for look in wanted["looks"]:
        found = spelled(look, hit[2])
        tally["times"] = tally["times"] + len(found)
        for form in set(found):
            tally["forms"][form] = tally["forms"].get(form, 0) + 1
    if len(tally["first"]) < most:
        tally["first"].append(hit)
    if not wanted["ordered"]:
        return
    tally["last"].append(hit)
    if len(tally["last"]) > 2 * most:
        tally["last"] = tally["last"][-most:]
    stamp = STAMP.search(hit[2])
    if stamp:
        tally["stamps"] = tally["stamps"] + 1
        tally["zones"][str(stamp.group(3))] = True
        tally["stamped"].append([stamp.group(1) + " " + stamp.group(2), hit])
        if len(tally["stamped"]) > 2000 + 4 * most:
            ordered = by_stamp(tally)
            tally["stamped"] = ordered[:most] + ordered[-most:]


def by_stamp(tally: Given) -> list[Any]:
    found: list[Any] = sorted(tally["stamped"], key=lambda each: each[0])
    return found


def ends(tally: Given, which: str, most: int) -> tuple[list[Hit], bool]:
    """The first or last lines that were found: by their timestamps if every one has one, or as they stand."""
    by_time = tally["stamps"] == tally["found"] > 0 and len(tally["zones"]) == 1
    if by_time:
        ordered = [each[1] for each in by_stamp(tally)]
    else:
        ordered = tally["first"] if which == "first" else tally["last"]
    return (ordered[:most] if which == "first" else ordered[-most:]), by_time


# ── saying it ────────────────────────────────────────────────────────────────────────────


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
        said = said + filled(say["between " + search["between"]["kind"]], {"a": start, "b": end})
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
        said.append(filled(say["files found"], {"n": tally["files"], "of": len(texts)}))
    return said


def in_other_forms(say: Say, texts: Texts, groups: Groups, wanted: Given, tally: Given) -> list[str]:
    """Of one word that was counted as it is written: how many more lines have it in another case or form."""
    if len(wanted["looks"]) != 1 or not groups[0][0]["wider"]:
        return []
    wider = {**wanted, "looks": [compiled(groups[0][0]["wider"][0])], "most": 0, "ordered": False}
    more = tallied(texts, wider)["found"] - tally["found"]
    return [several(say, "wider", more)] if more > 0 else []


def name_of(term: Given) -> str:
    """What was looked for."""
    name: str = term["shown"] if term["how"] == "related" else term["term"]
    return name


def counted(search: Given, texts: Texts, groups: Groups, without: list[Given], named: list[str]) -> str:
    """What was counted, how, and the lines."""
    say, operation = search["say"], search["operation"]
    looks = [compiled(term) for group in groups for term in group]
    most = search["most"] or (1 if operation in ("first", "last") else 2 * SHOWN if operation == "list" else SHOWN)
    wanted = {
        "looks": looks,
        "sizes": [len(group) for group in groups],
        "without": [compiled(term) for term in without],
        "between": search["between"],
        "unit": search["unit"],
        "most": most,
        "ordered": operation in ("first", "last"),
    }
    tally = tallied(texts, wanted)
    if operation == "size" and not search["between"]:
        number = len(texts) if search["unit"] == "files" else tally[search["unit"]]
        where = filled(say["in"], {"names": ", ".join(named)}) if named else ""
        return filled(say["size"], {"what": several(say, search["unit"], number), "in": where})
    hits, by_time = ends(tally, operation, most) if wanted["ordered"] else (tally["first"], False)
    kind = "not contain" if without and not groups else "contain" if groups else "lie"
    what = conditions(say, search, groups, without, named) + (say["by time"] if by_time else "")
    opening = [verdict(say, operation, kind, tally, what, len(hits))]
    if not hits or not wanted["ordered"]:
        opening = opening + remarks(say, tally, groups, texts) + in_other_forms(say, texts, groups, wanted, tally)
    lines = cited(say, hits, looks)
    if not wanted["ordered"] and tally["found"] > len(hits):
        lines.append(several(say, "more", tally["found"] - len(hits)))
    return "\n\n".join([" ".join(opening)] + (["\n".join(lines)] if lines else []))


def verdict(say: Say, operation: str, kind: str, tally: Given, what: str, shown: int) -> str:
    """The first sentence."""
    found = tally["found"]
    if operation in ("first", "last") and found:
        which = filled(say[kind + " which"], {"what": what})
        return several(say, operation, shown) + (which if kind != "lie" or what[:1] in ("", ",") else " " + which) + ":"
    if operation == "times":
        return filled(several(say, "times", tally["times"]), {"what": what, "lines": several(say, "lines", found)})
    return filled(several(say, kind, found), {"what": what})


# ── finding ──────────────────────────────────────────────────────────────────────────────


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


def answered(search: Given, context: Any, ask: Ask) -> str:
    """The answer to a question, of which `search` says what to look for."""
    texts, groups, named = in_scope(search, sources(context, search["name"]))
    groups = [[chosen(texts, term) for term in group] for group in groups]
    without = [chosen(texts, term) for term in search["without"]]
    if search["operation"] in ("find", "compare"):
        return nearest(search, texts, groups, ask)
    if named and not groups and not without and search["operation"] == "count":
        search["operation"] = "size"
    return counted(search, texts, groups, without, named)
