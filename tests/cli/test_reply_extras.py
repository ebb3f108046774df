"""What a service adds to a reply, at the command line: sources below it, calls of the service, pictures and files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from handrail.core.display import safe_media_name
from tests.cli.journal_fixtures import NASTY, lines, run
from tests.cli.terminal_fixtures import dialogue, run_of

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
SAID = "Lisbon lies on hills. It is old."
REPLY: dict[str, Any] = {
    "text": SAID,
    "citations": [
        {"url": "https://geo.example/lisbon", "title": "Hills of Lisbon", "start": 0, "end": 20},
        {"url": "https://old.example/", "title": "Old cities", "start": 22, "end": len(SAID)},
    ],
    "service_calls": [
        {"id": "ws_1", "name": "web_search", "arguments": {"query": "Lisbon"}, "result": {"hits": 3}},
        {"id": "ci_1", "name": "code_interpreter", "failed": True},
    ],
    "media": [{"media_type": "image/png", "data": base64.b64encode(PICTURE).decode(), "name": "hills.png"}],
}


@pytest.fixture
def model(folder: Path) -> str:
    """A model that gives this reply."""
    return script(folder, REPLY)


def script(folder: Path, reply: dict[str, Any]) -> str:
    (folder / "extras.json").write_text(json.dumps({"reply": [reply]}), encoding="utf-8")
    return "scripted:extras.json"


def test_the_sources_stand_below_the_answer_and_calls_of_the_service_beside_it(folder: Path, model: str) -> None:
    result = run("ask", "-m", model, "how is Lisbon?")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Lisbon lies on hills. It is old.[2]",
        "",
        "[1] Hills of Lisbon <https://geo.example/lisbon>",
        "    for “Lisbon lies on hills”",
        "[2] Old cities <https://old.example/>",
    ]
    told = result.stderr.splitlines()
    assert told[0] == '⇢ web_search query="Lisbon" (done, run by the service)'
    assert told[1] == "⇢ code_interpreter (failed, run by the service)"
    assert told[2] == f"* hills.png (image/png, {len(PICTURE):,} bytes)"
    assert told[-1] == f"Save what the model made with: handrail replay {run_of(result.stderr)} --files FOLDER"


def test_in_json_citations_media_and_calls_of_the_service_are_events(folder: Path, model: str) -> None:
    events = lines(run("ask", "-m", model, "--json", "how is Lisbon?"))

    by_type = {event["type"]: event for event in events}
    assert by_type["citation.added"]["citation"]["url"] == "https://old.example/"
    assert by_type["service_call.made"]["call"] == {"id": "ci_1", "name": "code_interpreter", "failed": True}
    assert base64.b64decode(by_type["media.added"]["media"]["data"]) == PICTURE
    (said,) = by_type["reply.given"]["messages"]
    assert [len(said[name]) for name in ("citations", "media", "service_calls")] == [2, 1, 2]


def test_a_picture_is_saved_where_the_person_says_and_never_over_another_file(folder: Path, model: str) -> None:
    (folder / "made").mkdir()
    (folder / "made" / "hills.png").write_text("mine")

    result = run("ask", "-m", model, "--files", "made", "how is Lisbon?")

    assert result.exit_code == 0
    assert "saved as made/hills-2.png" in result.stderr
    assert (folder / "made" / "hills-2.png").read_bytes() == PICTURE
    assert (folder / "made" / "hills.png").read_text() == "mine"
    assert "handrail replay" not in result.stderr


def test_a_folder_that_cannot_be_written_to_does_not_end_the_run(folder: Path, model: str) -> None:
    (folder / "taken").write_text("a file")

    result = run("ask", "-m", model, "--files", "taken/below", "how is Lisbon?")

    assert result.exit_code == 0
    assert "cannot be saved in taken/below" in result.stderr


def test_a_run_told_again_has_its_sources_and_saves_its_pictures(folder: Path, model: str) -> None:
    before = run("ask", "-m", model, "how is Lisbon?")

    again = run("replay", run_of(before.stderr), "--files", "made")

    assert again.stdout == before.stdout
    assert (folder / "made" / "hills.png").read_bytes() == PICTURE


def test_the_record_shows_what_the_service_ran(folder: Path, model: str) -> None:
    told = run("ask", "-m", model, "how is Lisbon?")

    shown = run("proof", "show", run_of(told.stderr))

    assert "2 calls that the service ran, as it told:" in shown.stdout
    assert '⇢ web_search query="Lisbon" (done, run by the service)' in shown.stdout
    assert run("proof", "verify").exit_code == 0


def test_sources_and_names_cannot_steer_the_terminal(folder: Path) -> None:
    reply = {
        "text": "Hm.",
        "citations": [{"url": f"https://x.example/{NASTY}", "title": NASTY, "end": 1}],
        "service_calls": [{"id": "1", "name": NASTY, "arguments": {NASTY: NASTY}}],
        "media": [{"media_type": NASTY, "data": "AAAA", "name": f"../../{NASTY}.png"}],
    }
    result = run("ask", "-m", script(folder, reply), "--files", "made", "hm?")

    assert result.exit_code == 0
    assert not {"\x1b", "\u202e", "\u200b", "\x07"} & set(result.stdout + result.stderr)
    (saved,) = (folder / "made").iterdir()
    assert saved.name.isprintable() and "/" not in saved.name and not saved.name.startswith(".")


def test_a_conversation_at_the_terminal_shows_them_too(folder: Path, model: str) -> None:
    code, said = dialogue(
        ["chat", "-m", model, "--files", "made"],
        ("leaves.", "how is Lisbon?\n"),
        ("saved as", "/proof\n"),
        ("VERIFIED", "/quit\n"),
    )

    assert code == 0
    assert "[1] Hills of Lisbon <https://geo.example/lisbon>" in said
    assert said.count('⇢ web_search query="Lisbon" (done, run by the service)') == 2
    assert (folder / "made" / "hills.png").read_bytes() == PICTURE


@pytest.mark.parametrize(
    ("name", "media_type", "saved"),
    [
        ("cat.png", "image/png", "cat.png"),
        ("", "image/png", "file.png"),
        ("", "image/jpeg", "file.jpg"),
        ("", "x/unheard-of", "file"),
        ("../../.ssh/authorized_keys", "text/plain", "authorized_keys.txt"),
        ("C:\\windows\\a.dll", "", "a.dll"),
        ("..", "image/png", "file.png"),
        ("a\x00b\nc.png", "image/png", "a_b_c.png"),
        ("-rf.txt", "text/plain", "rf.txt"),
        ("x" * 400 + ".png", "image/png", "x" * 96 + ".png"),
    ],
)
def test_a_file_is_never_saved_under_a_path(name: str, media_type: str, saved: str) -> None:
    assert safe_media_name(name, media_type) == saved


@given(st.text(max_size=300), st.sampled_from(["image/png", "", "x/y"]))
@example("写" * 99, "image/png")
def test_every_name_of_a_file_is_one_that_a_file_system_takes(name: str, media_type: str) -> None:
    saved = safe_media_name(name, media_type)

    assert 0 < len(saved.encode()) <= 220
    assert saved.isprintable() and "/" not in saved and saved[0] not in ".-"
