"""The answer to a question: by counting, or by finding what is nearest."""

from __future__ import annotations

from typing import Any

from handrail.rlm.lines.cell.find import Ask, nearest
from handrail.rlm.lines.cell.tally import ends, tallied
from handrail.rlm.lines.cell.terms import Given, Groups, Texts, chosen, compiled, in_scope, sources
from handrail.rlm.lines.cell.wording import Say, cited, conditions, filled, remarks, several

SHOWN = 10
"""Lines that are shown of many."""


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


def in_other_forms(say: Say, texts: Texts, groups: Groups, wanted: Given, tally: Given) -> list[str]:
    """Of one word that was counted as it is written: how many more lines have it in another case or form."""
    if len(wanted["looks"]) != 1 or not groups[0][0]["wider"]:
        return []
    wider = {**wanted, "looks": [compiled(groups[0][0]["wider"][0])], "most": 0, "ordered": False}
    more = tallied(texts, wider)["found"] - tally["found"]
    return [several(say, "wider", more)] if more > 0 else []


def answered(search: Given, context: Any, ask: Ask) -> str:
    """The answer to a question, of which `search` says what to look for."""
    texts, groups, named = in_scope(search, sources(context, search["name"]))
    groups = [[chosen(texts, term) for term in group] for group in groups]
    without = [chosen(texts, term) for term in search["without"]]
    if search["operation"] in ("find", "compare"):
        return nearest(search, texts, groups, ask)
    if named and not groups and not without and search["operation"] == "count":
        search["operation"] = "size"
    said = counted(search, texts, groups, without, named)
    return said + "\n\n" + search["say"]["part"] if search["has_more"] else said
