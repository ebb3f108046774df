"""What is known of each service, and from where: the table in `docs/models.md`.

A cell is what the tests have, never what somebody remembers. `python -m tests.wires.service_evidence` rewrites it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from handrail.models.services import SERVICES
from tests.wires.recording_player import FOLDER, Recording, recordings
from tests.wires.wire_table import WIRES

PARTS = ("text", "stream", "calls", "parallel", "thoughts", "usage", "errors", "built-in tools", "citations")
SERVER, RECORDED, DOCUMENTED, TYPED, SHARED, NOTHING = "S", "R", "D", "T", "w", "–"
IN_SUITE = ("text", "stream", "calls", "parallel", "usage")
"""What the common suite plays over each of its wires, judged by the types of the service's own package."""
_OWN = {
    "openai_responses": "openai-responses",
    "gemini_interactions": "gemini-interactions",
}
"""Folders of recordings that belong to one service under another name; those of Chat Completions name theirs."""
REAL_SERVERS = {"llamacpp": ("tests/models/local/test_llama_server.py", ("text", "stream", "calls"))}
"""Services of which the tests start a real one, by the test that asks it."""
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "models.md"
_TABLE = re.compile(r"\| service \|.*?(?=\n\n)", re.DOTALL)
_SEEN = ("cassettes", "__fixtures__")
"""What the source of a recording names if a service was seen to send it."""


def service_of(recording: Recording) -> str:
    if recording.wire == "openai_chat":
        return "azure" if recording.path.name.startswith("azure-") else str(recording.expected["server"])
    return _OWN.get(recording.wire, recording.wire)


def shown_by(recording: Recording) -> set[str]:
    """The parts that a recording shows."""
    expected = recording.expected
    if "error" in expected:
        return {"errors"}
    usage = expected.get("usage") or {}
    facts = {
        "text": expected.get("text"),
        "stream": recording.streamed,
        "calls": expected.get("calls"),
        "parallel": len(expected.get("calls", ())) > 1,
        "thoughts": expected.get("thoughts"),
        "usage": usage.get("output_tokens"),
        "built-in tools": expected.get("service_calls"),
        "citations": expected.get("citations"),
    }
    return {part for part, found in facts.items() if found}


@cache
def sources() -> dict[str, str]:
    """Where the form of each recording was seen, by its wire and name."""
    lines = (FOLDER / "SOURCES.md").read_text("utf-8")
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", lines, re.MULTILINE))


def was_seen(recording: Recording) -> bool:
    """Whether a service was seen to send it; if not, it is written after a reference or after types."""
    source = sources().get(f"{recording.wire}/{recording.path.name}", "")
    return any(word in source for word in _SEEN)


@cache
def _by_service() -> dict[str, list[Recording]]:
    found: dict[str, list[Recording]] = {}
    for each in recordings():
        found.setdefault(service_of(each), []).append(each)
    return found


def cells(service: str) -> dict[str, str]:
    own = _by_service().get(service, [])
    seen = {part for each in own if was_seen(each) for part in shown_by(each)}
    written = {part for each in own for part in shown_by(each)}
    in_suite = any(wire.service == service and not wire.prompted for wire in WIRES.values())
    asked = REAL_SERVERS.get(service, ("", ()))[1]

    def cell(part: str) -> str:
        if part in asked:
            return SERVER
        if part in written:
            return RECORDED if part in seen else DOCUMENTED
        if part in IN_SUITE:
            return TYPED if in_suite else SHARED
        return SHARED if part == "errors" else NOTHING

    return {part: cell(part) for part in PARTS}


def table() -> str:
    rows = [f"| service | {' | '.join(PARTS)} |", "|---|" + ":-:|" * len(PARTS)]
    rows += [f"| `{service}` | {' | '.join(cells(service).values())} |" for service in SERVICES]
    return "\n".join(rows)


def table_of_page() -> str:
    found = _TABLE.search(PAGE.read_text("utf-8"))
    assert found is not None, f"{PAGE.name} has no table of services"
    return found[0]


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(lambda _: table(), PAGE.read_text("utf-8")), "utf-8")
