"""The programs of the docs, with handrail and with pydantic-ai: both do the same, and ours is shorter."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import IncompleteRead
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from bench.turns.homes import python
from tests.cli.terminal_fixtures import program_dialogue
from tests.docs.model_service import local_model_service, reply
from tests.docs.pages import ROOT, read_page
from tests.polling import blocking_until
from tests.wires.wire_dialogue import ScriptedReply, UnderstoodRequest, WireCall

PROGRAMS = ROOT / "docs" / "examples" / "programs"
BOTH = ("handrail", "pydantic_ai")
COUNTED = runpy.run_path(str(PROGRAMS / "count_lines.py"))
"""The script that prints how long each program is."""
PATIENCE = 120.0


def command(library: str, program: str, address: str, *arguments: str) -> list[str]:
    """How a program is started so that it asks the service at an address."""
    return launched(library, address, str(PROGRAMS / f"{program}_{library}.py"), *arguments)


def launched(library: str, address: str, *program: str) -> list[str]:
    here = Path(__file__).parent
    if library == "handrail":
        return [sys.executable, "-W", "error", str(here / "launch_with_service.py"), address, *program]
    return [str(python("pydantic_ai_programs")), str(here / "launch_with_patience.py"), *program]


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


def test_a_note_that_does_not_exist_ends_their_program_and_not_ours(tmp_path: Path) -> None:
    read = ("> ", "Read nothing.\n")

    with local_model_service(note_keeper) as url:
        address = f"{url}/openai/v1"
        ours, theirs = (command(library, "terminal", address, str(tmp_path)) for library in BOTH)
        went_on, _ = program_dialogue(ours, read, ("> ", "\n"), **variables(address))
        ended, shown = program_dialogue(theirs, read, **variables(address))

    assert (went_on, ended, "FileNotFoundError" in shown) == (0, 1, True)


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


# ── a web application ────────────────────────────────────────────────────────────────


def help_desk(heard: UnderstoodRequest, id: str) -> ScriptedReply:
    """A clerk who counts, too, what was said in a conversation."""
    if heard.words.splitlines()[-1].startswith("How many"):
        return ScriptedReply(f"You have asked {len(heard.words.splitlines()) - 1} things in this conversation.")
    return reply(heard, id)


@contextmanager
def served(library: str, url: str) -> Iterator[Browser]:
    """The web application of a library, in a process of its own."""
    address = f"{url}/openai/v1"
    server = str((Path(sys.executable) if library == "handrail" else python("pydantic_ai_programs")).parent / "uvicorn")
    how = ("--app-dir", str(PROGRAMS), "--port", "0", "--timeout-graceful-shutdown", "2")
    with subprocess.Popen(
        launched(library, address, server, f"web_{library}:app", *how),
        env={**os.environ, **variables(address)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        while (found := re.search(r"running on (http://127\.0\.0\.1:\d+)", said)) is None:
            line = process.stderr.readline()
            assert line, said
            said += line
        drained = Thread(target=process.stderr.read)
        drained.start()
        try:
            yield Browser(found[1])
        finally:
            process.terminate()
            process.wait(PATIENCE)
            drained.join()


@dataclass(frozen=True)
class Browser:
    """What a browser does: it posts, and reads server-sent events."""

    address: str

    def post(self, user: str, path: str, **body: object) -> Generator[dict[str, Any]]:
        asked = Request(f"{self.address}/{path}", json.dumps(body).encode(), {"x-user": user})
        with urlopen(asked, timeout=PATIENCE) as response:
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def told(self, user: str, path: str, **body: object) -> dict[str, Any]:
        """The last event of the response."""
        return list(self.post(user, path, **body))[-1]

    def told_when_free(self, user: str, path: str, **body: object) -> dict[str, Any]:
        """The same, again and again as long as the answer is that another turn is under way."""

        told: list[dict[str, Any]] = []

        def is_told() -> bool:
            try:
                told.append(self.told(user, path, **body))
            except HTTPError as refused:
                assert refused.code == 409
            return bool(told)

        assert blocking_until(is_told)
        return told[0]


@pytest.mark.parametrize("library", BOTH)
def test_the_web_application_keeps_a_session_for_each_user_and_asks_them_before_a_refund(library: str) -> None:
    with local_model_service(help_desk) as url, served(library, url) as browser:
        found = browser.told("ada", "ask", prompt="Where is order 17?")
        asked = browser.told("ada", "ask", prompt="Refund 17 with 2450 cents.")
        counted = browser.told("eve", "ask", prompt="How many things did I ask?")
        (question,) = asked["questions"]
        paid = browser.told("ada", "answer", question=question["id"], allow=True)
        again = browser.told("ada", "ask", prompt="Refund 18 with 100 cents.")
        denied = browser.told("ada", "answer", question=again["questions"][0]["id"], allow=False)
        all_of_it = browser.told("ada", "ask", prompt="How many things did I ask?")

    assert found == {"type": "done", "text": "Order 17 is on its way."}
    assert (asked["type"], question["tool"]) == ("waiting", "refund")
    assert question["arguments"] == {"number": 17, "cents": 2450}
    assert counted["text"] == "You have asked 1 things in this conversation."
    assert paid == {"type": "done", "text": "Refunded 2450 cents of order 17."}
    assert (denied["type"], "denied" in denied["text"]) == ("done", True)
    assert all_of_it["text"] == "You have asked 4 things in this conversation."


@pytest.mark.parametrize("library", BOTH)
def test_the_web_application_sends_an_answer_while_it_is_written(library: str) -> None:
    seen = Event()

    with (
        local_model_service(help_desk, midway=lambda: seen.wait(PATIENCE)) as url,
        served(library, url) as browser,
        closing(browser.post("ada", "ask", prompt="How many things did I ask?")) as events,
    ):
        first = next(event for event in events if event["type"] == "text")
        seen.set()
        *_, last = events

    assert "You have asked 1 things".startswith(first["text"])
    assert last == {"type": "done", "text": "You have asked 1 things in this conversation."}


class FirstWaits:
    """Holds the first streamed answer in its middle until it may go on, and no other."""

    def __init__(self) -> None:
        self.may_go_on = Event()
        self._waits = iter((True,))

    def __call__(self) -> None:
        if next(self._waits, False):
            self.may_go_on.wait(PATIENCE)


@pytest.mark.parametrize(("library", "things"), [("handrail", 2), ("pydantic_ai", 1)])
def test_a_turn_goes_on_when_the_browser_leaves_with_handrail_and_is_forgotten_with_pydantic_ai(
    library: str, things: int
) -> None:
    held = FirstWaits()

    with local_model_service(help_desk, held) as url, served(library, url) as browser:
        with closing(browser.post("ada", "ask", prompt="How many things did I ask?")) as events:
            next(event for event in events if event["type"] == "text")
        if library == "handrail":
            held.may_go_on.set()
        asked_again = browser.told_when_free("ada", "ask", prompt="How many things did I ask?")
        held.may_go_on.set()

    assert asked_again["text"] == f"You have asked {things} things in this conversation."


@pytest.mark.parametrize(("library", "outcomes"), [("handrail", (409, "done")), ("pydantic_ai", (200, "lost"))])
def test_of_two_prompts_at_once_one_is_refused_with_handrail_and_one_is_lost_with_pydantic_ai(
    library: str, outcomes: tuple[int, str]
) -> None:
    held = FirstWaits()

    with (
        local_model_service(help_desk, held) as url,
        served(library, url) as browser,
        closing(browser.post("ada", "ask", prompt="How many things did I ask?")) as events,
    ):
        next(event for event in events if event["type"] == "text")
        try:
            browser.told("ada", "ask", prompt="How many things did I ask?")
            second = 200
        except HTTPError as refused:
            second = refused.code
        held.may_go_on.set()
        try:
            first = "done" if list(events)[-1]["type"] == "done" else "lost"
        except IncompleteRead:
            first = "lost"

    assert (second, first) == outcomes


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


def test_the_comparison_says_how_long_the_programs_are() -> None:
    lines = {
        library: [COUNTED["code_lines"](PROGRAMS / f"{program}_{library}.py") for program in COUNTED["PROGRAMS"]]
        for library in BOTH
    }
    (ours, theirs) = ("{}, {} and {}".format(*lines[library]) for library in BOTH)

    assert f"{ours} lines here, {theirs} there." in (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
