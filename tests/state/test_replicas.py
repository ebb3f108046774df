"""Two replicas of one node, as processes in folders of their own over one database: each knows what the other does."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from handrail.app.node_state import NodeState
from handrail.config.approvals import Approvals
from handrail.journal.approval_links import ApprovalLink, ApprovalLinks
from handrail.journal.waiting_questions import find_waiting
from handrail.state import StateDatabase
from handrail.state.url import StateUrl
from tests.approved import approve
from tests.cli.test_serve import CONFIG, TOOLS, asked, handrail, running
from tests.polling import blocking_until

REPLIES = """
[[reply]]
text = "The tram goes at nine."
[[reply]]
text = "And at ten."
"""


LINKS = """
[approvals]
webhook = "http://127.0.0.1:1/"
address = "http://127.0.0.1:1"
"""


class Replica:
    """A process that serves, and its folder."""

    def __init__(self, folder: Path, url: str, state: str) -> None:
        self.folder = folder
        self.url = url
        self.state = state

    @property
    def token(self) -> Path:
        return self.folder / "token"

    def call(self, capability: str, body: dict[str, Any], token: Path | None = None) -> Any:
        """What it answers; the words of its refusal where it does not."""
        words = ("call", capability, json.dumps({"input": body}), "--at", self.url, "--token-file")
        told = asked(self.folder, "bus", *words, str(token or self.token))
        return json.loads(told.stdout)["output"] if told.exit_code == 0 else told.stderr

    def desk(self, capability: str, body: dict[str, Any], token: Path) -> Any:
        """What the desk answers, which it does as a page reads it: in a frame."""
        words = (
            "call",
            capability if "." in capability else f"desk.{capability}",
            json.dumps({"input": body}),
            "--at",
            self.url,
            "--token-file",
        )
        told = asked(self.folder, "bus", *words, str(token), "--stream")
        assert told.exit_code == 0, told.stderr
        return next(frame["data"] for frame in map(json.loads, told.stdout.splitlines()) if frame["event"] == "answer")

    def command(self, *words: str) -> str:
        """What a command says in its folder."""
        told = asked(self.folder, *words, HANDRAIL_STATE=self.state)
        assert told.exit_code == 0, told.stderr
        return told.stdout


@pytest.fixture(scope="module")
def replicas(postgres_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Replica, Replica]]:
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server.database())
        first, second = (stack.enter_context(replica(tmp_path_factory.mktemp(name), url)) for name in ("one", "two"))
        yield first, second


@contextmanager
def replica(folder: Path, state: str) -> Iterator[Replica]:
    files = {"tools.py": TOOLS, "handrail.toml": CONFIG + LINKS, "replies.toml": REPLIES}
    with serving(folder, state, files) as (found, _):
        yield found


@contextmanager
def serving(
    folder: Path, state: str, files: Mapping[str, str], *words: str, forked: bool = True
) -> Iterator[tuple[Replica, subprocess.Popen[str]]]:
    for name, text in files.items():
        (folder / name).write_text(text)
    serve = ("serve", "--listen", "127.0.0.1:0", "--tools", "tools.py", "--token-file", "token", *words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANDRAIL_STATE", state)
        approve(folder / "handrail.toml")  # it may post to a webhook
        with running(folder, *serve, forked=forked) as (process, said):
            at = next(line for line in said if line.startswith("Serving at "))
            yield Replica(folder, at.removeprefix("Serving at "), state), process


def test_they_are_one_node_and_no_key_lies_in_their_folders(replicas: tuple[Replica, Replica]) -> None:
    ids = {each.command("identity", "show").strip() for each in replicas}

    assert len(ids) == 1
    for each in replicas:
        assert not list(each.folder.rglob("identity.key")) + list(each.folder.rglob("tokens.db"))


def test_a_token_of_one_is_good_at_the_other_until_it_is_revoked_anywhere(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    token = first.folder / "adds"
    token.write_text(second.command("token", "issue", "--can", "tool.add@1.*"))
    (issued,) = [line for line in first.command("token", "list").splitlines() if "tool.add" in line]

    for each in replicas:
        assert each.call("tool.add", {"a": 1, "b": 2}, token) == {"content": 3}
        assert "token_scope_insufficient" in each.call("tool.note", {"text": "x"}, token)
    first.command("token", "revoke", issued.split()[0])
    for each in replicas:
        assert "token_revoked" in each.call("tool.add", {"a": 1, "b": 2}, token)


def test_the_calls_of_a_token_are_counted_together(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    token = first.folder / "few"
    token.write_text(first.command("token", "issue", "--can", "tool.add@1.*", "--calls", "2"))

    said = [each.call("tool.add", {"a": 1, "b": 1}, token) for each in (first, second, first)]

    assert said[:2] == [{"content": 2}] * 2
    assert "used up" in said[2]


def test_a_conversation_begun_at_one_is_read_and_gone_on_with_at_the_other(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    id = first.desk("begin", {}, first.token)["id"]
    first.desk("say", {"id": id, "text": "When does the tram go?"}, first.token)

    def said_at(replica: Replica) -> list[str]:
        items = replica.desk("items", {"id": id, "before": 99}, first.token)["items"]
        return [item["text"]["text"] for item in items if item.get("text")]

    def until(replica: Replica, words: str) -> list[str]:
        for _ in range(200):
            if words in (said := said_at(replica)):
                return said
        raise AssertionError(f"{words!r} is not said: {said}")

    assert until(first, "The tram goes at nine.")
    assert until(second, "The tram goes at nine.") == ["When does the tram go?", "The tram goes at nine."]
    listed = second.desk("talks", {"search": "TRAM goes"}, first.token)["talks"]
    assert [(each["id"], each["title"]) for each in listed] == [(id, "When does the tram go?")]
    second.desk("say", {"id": id, "text": "And then?"}, first.token)
    assert until(second, "The tram goes at nine.")
    assert until(first, "And then?")[:3] == ["When does the tram go?", "The tram goes at nine.", "And then?"]


def posted(replica: Replica, path: str, body: dict[str, Any], **headers: str) -> tuple[int, Any]:
    """What the node answers to a client that brings the token of the first one."""
    said = {"authorization": f"Bearer {replica.token.read_text().strip()}", "content-type": "application/json"}
    sent = {**said, **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = Request(replica.url + path, json.dumps(body).encode(), sent)
    try:
        with urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def notes(*replicas: Replica) -> list[str]:
    """What the tool has written, in whichever folder."""
    found = (each.folder / "notes.txt" for each in replicas)
    return [line for path in found if path.exists() for line in path.read_text().splitlines()]


def test_a_call_that_comes_again_at_the_other_is_answered_from_the_record(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    call = {"capability": "tool.note", "version": "1.0", "body": {"input": {"text": "one tea"}}, "request_id": "c-1"}

    began = posted(first, "/bus/v1/call", call)
    again = [posted(second, "/bus/v1/call", {**call, "attempt": 2}, authorization=f"Bearer {first_token(first)}")]
    again.append(posted(second, "/bus/v1/call", {**call, "attempt": 3}, authorization=f"Bearer {first_token(first)}"))
    other = {**call, "attempt": 4, "body": {"input": {"text": "two teas"}}}
    status, refused = posted(second, "/bus/v1/call", other, authorization=f"Bearer {first_token(first)}")

    assert began[0] == 200
    assert [status for status, _ in again] == [200, 200], again
    assert [(status, said["output"]) for status, said in again] == [(200, began[1]["output"])] * 2
    assert notes(*replicas).count("one tea") == 1
    assert status >= 400, refused
    assert "two teas" not in notes(*replicas)


def test_a_request_with_a_key_that_comes_again_at_the_other_gets_the_first_answer(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Which tram?"}]}

    def asked_at(replica: Replica, body: dict[str, Any] = body) -> tuple[int, Any]:
        token = f"Bearer {first_token(first)}"
        return posted(replica, "/v1/chat/completions", body, authorization=token, idempotency_key="tram-1")

    one, other = asked_at(first), asked_at(second)
    status, refused = asked_at(second, {**body, "messages": [{"role": "user", "content": "Which bus?"}]})

    assert (one[0], other[0]) == (200, 200), (one, other)
    assert one[1]["choices"] == other[1]["choices"]
    assert status == 422, refused


def first_token(replica: Replica) -> str:
    return replica.token.read_text().strip()


def test_a_blob_put_at_one_is_read_at_the_other(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    data = base64.urlsafe_b64encode(b"tea" * 1_000).decode()
    cid = first.call("blob.put", {"data": data, "media_type": "text/plain"})["cid"]

    assert second.call("blob.get", {"cid": cid}, first.token)["data"] == data
    assert "not_found" in second.call("blob.get", {"cid": cid})


def tried(replica: Replica, token: Path, text: str, said: str | None = None) -> list[tuple[str, Any]]:
    """What the page is told of a call of `note` that a person tries there; a question gets the first rule it offers."""
    body = {"input": {"name": "note", "arguments": {"text": text}}}
    head = {"authorization": f"Bearer {token.read_text().strip()}", "accept": "text/event-stream"}
    sent = json.dumps({"capability": "desk.try", "version": "1.0", "body": body}).encode()
    request = Request(replica.url + "/bus/v1/call", sent, {**head, "content-type": "application/json"})
    found: list[tuple[str, Any]] = []
    event = ""
    with urlopen(request, timeout=60) as response:
        for line in map(bytes.decode, response):
            if line.startswith("event:"):
                event = line.removeprefix("event:").strip()
            elif line.startswith("data:"):
                data = json.loads(line.removeprefix("data:"))
                found.append((event, data))
                if event == "question":
                    decided = {"decision": "always", "rule": data["rules"][0]} if said is None else {"decision": said}
                    replica.desk("decide", {"request": data["request"], **decided}, token)
    return found


def test_a_rule_that_a_person_sets_at_one_holds_at_the_other_until_it_is_taken_back_anywhere(
    replicas: tuple[Replica, Replica],
) -> None:
    first, second = replicas
    asked_at_first = tried(first, first.token, "green tea")
    unasked = tried(second, second.token, "green tea")
    listed = [each.command("confirm", "rules").splitlines() for each in replicas]
    shown = [each.desk("settings.show", {}, each.token)["rules"] for each in replicas]
    in_files = [Approvals.here().rules(each.folder / "handrail.toml") for each in replicas]
    (rule,) = listed[0]
    told = second.command("confirm", "forget", rule)
    asked_again = tried(first, first.token, "green tea", "deny")

    assert ("question" in dict(asked_at_first), "question" in dict(unasked)) == (True, False)
    assert notes(*replicas).count("green tea") == 2
    assert listed == shown == [[rule], [rule]] and rule.startswith("allow ")
    assert told == f"forgotten: {rule}\n"
    assert "question" in dict(asked_again)
    assert in_files == [(), ()]


def test_a_link_that_one_signs_answers_its_question_at_the_other(replicas: tuple[Replica, Replica]) -> None:
    first, second = replicas
    call = ("tools", "call", "note", '{"text": "mint tea"}', "--tools", "tools.py", "--json")
    waits = asked(first.folder, *call, HANDRAIL_STATE=first.state)
    found = [json.loads(line) for line in second.command("confirm", "list", "--json").splitlines()]
    (question,) = [each for each in found if "mint tea" in json.dumps(each)]
    waiting = find_waiting(StateUrl(first.state), question["run"], question["request"])
    assert waiting is not None
    expires = int(time.time() * 1000) + 600_000
    link = ApprovalLink(run=question["run"], request=question["request"], binds=waiting.asked.binds, expires=expires)
    with closing(StateDatabase.open(first.state)) as database:
        links = NodeState(first.folder, database).approval_links()
    token, forged = links.token(link), ApprovalLinks(b"another key").token(link)

    assert waits.exit_code != 0 and not list(second.folder.rglob("approvals.key"))
    with pytest.raises(HTTPError, match="403") as refused:
        urlopen(f"{second.url}/approvals/{forged}", timeout=60)
    refused.value.close()
    with urlopen(f"{second.url}/approvals/{token}", timeout=60) as page:
        assert "mint tea" in page.read().decode()
    form = Request(f"{second.url}/approvals/{token}", b"decision=allow", {"origin": second.url})
    with urlopen(form, timeout=60) as page:
        assert "Allowed" in page.read().decode()
    assert "mint tea" not in notes(*replicas)
    ran = handrail(first.folder, *call, "--run", question["run"], HANDRAIL_STATE=first.state)
    assert ran.returncode == 0, ran.stderr
    assert notes(*replicas).count("mint tea") == 1


def test_the_password_of_the_state_is_told_to_nobody(replicas: tuple[Replica, Replica]) -> None:
    first, _ = replicas
    url = StateUrl(first.state)
    shown = first.command("identity", "show", "--json")

    assert str(url) in shown
    assert url.dsn not in shown


def test_what_each_of_them_did_is_in_one_record_that_either_proves(replicas: tuple[Replica, Replica]) -> None:
    for number, each in enumerate(replicas):
        assert each.call("tool.add", {"a": number, "b": 40}) == {"content": number + 40}
    seen: list[list[Any]] = []

    def see() -> bool:
        seen[:] = [
            [json.loads(line) for line in each.command("proof", "list", "--json").splitlines()] for each in replicas
        ]
        return seen[0] == seen[1]  # a run of the tests before may end between the two looks

    assert blocking_until(see)
    report = json.loads(replicas[1].command("proof", "verify", "--json"))
    last = [run["run"] for run in seen[0][-2:]]
    for run, other in zip(last, reversed(replicas), strict=True):
        other.command("proof", "export", run, str(other.folder / "bundle"))

    assert len(last) == 2
    assert report["ok"] and report["entries"] >= 4
    assert not [file for each in replicas for file in each.folder.rglob("journal.db")]
