"""The programs of the docs, with handrail and with pydantic-ai: both do the same, and ours is shorter."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from bench.turns.homes import python
from tests.cli.terminal_fixtures import program_dialogue
from tests.docs.model_service import local_model_service
from tests.docs.pages import ROOT, read_page
from tests.wires.wire_dialogue import ScriptedReply, UnderstoodRequest, WireCall

PROGRAMS = ROOT / "docs" / "examples" / "programs"
BOTH = ("handrail", "pydantic_ai")
COUNTED = runpy.run_path(str(PROGRAMS / "count_lines.py"))
"""The script that prints how long each program is."""
PATIENCE = 120.0


def command(library: str, program: str, address: str, *arguments: str) -> list[str]:
    """How a program is started so that it asks the service at an address."""
    path = str(PROGRAMS / f"{program}_{library}.py")
    here = Path(__file__).parent
    if library == "handrail":
        return [sys.executable, "-W", "error", str(here / "launch_with_service.py"), address, path, *arguments]
    return [str(python("pydantic_ai_programs")), str(here / "launch_with_patience.py"), path, *arguments]


def variables(address: str) -> dict[str, str]:
    """With the servers of MCP that this environment has, for both."""
    return {
        "OPENAI_BASE_URL": address,
        "OPENAI_API_KEY": "the-key",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


# ── a command-line agent ─────────────────────────────────────────────────────────────


def note_keeper(heard: UnderstoodRequest, id: str) -> ScriptedReply:
    """A model that keeps notes."""
    asked = heard.words.splitlines()[-1]
    if heard.results:
        return ScriptedReply(" ".join(f"[{result.content}]" for result in heard.results))
    match asked.rstrip("?.").split():
        case ["Which", "notes", "mention", words]:
            return ScriptedReply("Let me look. ", (WireCall(id, "search_notes", {"words": words}),))
        case ["Read", name]:
            return ScriptedReply(calls=(WireCall(id, "read_note", {"name": name}),))
        case ["List", *_]:
            return ScriptedReply(calls=(WireCall(id, "list_notes", {}),))
        case ["Delete", name]:
            return ScriptedReply(calls=(WireCall(id, "delete_note", {"name": name}),))
        case ["Write", name, content]:
            return ScriptedReply(calls=(WireCall(id, "write_note", {"name": name, "content": content}),))
    return ScriptedReply(f"Once upon a time there were {len(heard.words.splitlines())} lines in this conversation.")


@pytest.mark.parametrize("library", BOTH)
def test_the_agent_at_the_terminal_uses_five_tools_and_asks_before_it_changes_a_note(
    library: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, content in {"trip": "Take the umbrella: rain.", "shopping": "boots"}.items():
        (notes / f"{name}.md").write_text(content)
    why = [("Why? ", "\n")] if library == "handrail" else []

    with local_model_service(note_keeper) as url:
        address = f"{url}/openai/v1"
        code, shown = program_dialogue(
            command(library, "terminal", address, str(notes)),
            ("> ", "Which notes mention rain?\n"),
            ("Let me look. ", ""),
            ("> ", "Read trip.\n"),
            ("> ", "Delete trip.\n"),
            ("Allow it? ", "n\n"),
            *why,
            ("> ", "Delete shopping.\n"),
            ("Allow it? ", "y\n"),
            ("> ", "Write ideas tea.\n"),
            ("Allow it? ", "y\n"),
            ("> ", "List them.\n"),
            ("> ", "\n"),
            **variables(address),
        )

    assert code == 0, shown
    assert {path.stem: path.read_text() for path in notes.iterdir()} == {
        "trip": "Take the umbrella: rain.",
        "ideas": "tea",
    }
    answers = [
        '["trip"]',
        "Take the umbrella: rain.",
        "denied",
        "Deleted shopping.",
        "Wrote ideas.",
        '["ideas","trip"]',
    ]
    places = [shown.find(answer) for answer in answers]
    assert -1 not in places and places == sorted(places), shown


@pytest.mark.parametrize("library", BOTH)
def test_the_agent_at_the_terminal_shows_an_answer_while_it_is_written_and_remembers_what_was_said(
    library: str, tmp_path: Path
) -> None:
    seen = Event()

    with local_model_service(note_keeper, midway=lambda: seen.wait(PATIENCE)) as url:
        address = f"{url}/openai/v1"
        code, shown = program_dialogue(
            command(library, "terminal", address, str(tmp_path)),
            ("> ", "Tell me a story.\n"),
            ("Once upon a time", seen.set),
            ("> ", "Another one.\n"),
            ("there were 3 lines", ""),
            ("> ", "\n"),
            **variables(address),
        )

    assert (code, seen.is_set()) == (0, True), shown


# ── an agent over two MCP servers ────────────────────────────────────────────────────


def reporter(heard: UnderstoodRequest, id: str) -> ScriptedReply:
    """A model that asks both servers, and answers with what they said, the first time without a branch."""
    repository = next(word for word in heard.words.split() if word.startswith("/"))
    if not heard.calls:
        return ScriptedReply(
            calls=(
                WireCall(f"{id}a", "git_status", {"repo_path": repository}),
                WireCall(f"{id}b", "git_log", {"repo_path": repository, "max_count": 1}),
                WireCall(f"{id}c", "get_current_time", {"timezone": "Asia/Tokyo"}),
            )
        )
    status, log, time = (str(result.content) for result in heard.results)
    answer = {
        "branch": status.split("On branch ")[1].split()[0].split("\\n")[0],
        "last_change": log.split("Message: ")[1].strip().splitlines()[0].strip("'\"").split("\\n")[0],
        "clean": "nothing to commit" in status,
        "time_in_tokyo": json.loads(time)["datetime"] if time.startswith("{") else time,
    }
    if any(offer.name == "final_result" for offer in heard.offers):
        return ScriptedReply(calls=(WireCall(id, "final_result", answer),))
    return ScriptedReply(json.dumps(answer))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(place)]
    subprocess.run(["git", "init", "-q", "-b", "harvest", str(place)], check=True)
    (place / "plan.txt").write_text("wheat")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "Plan the harvest"], check=True)
    return place


@pytest.mark.parametrize("library", BOTH)
def test_the_agent_over_two_servers_answers_with_a_value(library: str, repository: Path) -> None:
    with local_model_service(reporter) as url:
        address = f"{url}/openai/v1"
        done = subprocess.run(
            command(library, "mcp", address, str(repository)),
            env={**os.environ, **variables(address)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "Handover(branch='harvest', last_change='Plan the harvest', clean=True, time_in_tokyo=datetime.datetime("
    )
    assert "32400" in done.stdout  # nine hours east of Greenwich


# ── what the page says ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", COUNTED["PROGRAMS"])
@pytest.mark.parametrize("library", BOTH)
def test_the_page_shows_the_programs_as_they_are(program: str, library: str) -> None:
    path = PROGRAMS / f"{program}_{library}.py"
    page = read_page(ROOT / "docs" / "migrating" / "programs.md")

    (shown,) = [block.text for block in page.blocks if block.file == path.name]

    assert shown == f"# {path.name}\n{path.read_text(encoding='utf-8')}"


@pytest.mark.parametrize("program", COUNTED["PROGRAMS"])
def test_our_program_is_shorter(program: str) -> None:
    ours, theirs = (COUNTED["code_lines"](PROGRAMS / f"{program}_{library}.py") for library in BOTH)

    assert ours < theirs
