"""One look at every line: how many have the terms, which come first and last, and in which forms."""

from __future__ import annotations

import re
from typing import Any

from handrail.rlm.lines.cell.terms import Given, Hit, Texts, has, spelled, stands

BLOCK = 1000000
"""Characters of a held text that are read at once."""
STAMP = re.compile(r"^\W{0,3}(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d+)?)\s?(Z|[+-]\d\d:?\d\d)?")
POINTS = {
    "date": r"(\d{4}-\d\d-\d\d)",
    "time": r"(?:^|\D)(\d\d:\d\d(?::\d\d)?)",
    "datetime": r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)",
}


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
    block, scope = "\n".join(lines), set(matched)
    hits = [[at for at in lines_with(look, block) if at in scope] for look in wanted["looks"]]
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


def lines_with(look: Given, block: str) -> list[int]:
    """The lines of a block that have a term, by their places. It takes long only where there are many."""
    found: list[int] = []
    line, reached = 0, 0
    for match in look["plain"].finditer(block):
        start = match.start()
        if stands(look, block, start, match.end()):
            line = line + block[reached:start].count("\n")
            reached = start
            if not found or found[-1] != line:
                found.append(line)
    return found


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
