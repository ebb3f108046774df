"""The real `rlms` package on the other side of the socket: its client and its REPL ask us, and we ask its handler."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rlm.clients.base_lm import BaseLM
from rlm.core import comms_utils as upstream
from rlm.core.lm_handler import LMHandler as UpstreamHandler
from rlm.core.rlm import RLM as UpstreamRLM
from rlm.core.types import ModelUsageSummary, UsageSummary
from rlm.environments.local_repl import LocalREPL
from rlm.logger import RLMLogger as UpstreamLogger

from handrail import RLM, Conversation, Executor, Runner, tool
from handrail.core.errors import RateLimited
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.rlm.query.queries import Queries
from handrail.rlm.record.trajectory import read
from handrail.rlm.report import from_trajectory, render
from handrail.rlm.socket.connection import HandlerLimits
from handrail.rlm.socket.handler import LMHandler
from handrail.rlm.socket.socket_model import SocketModel
from handrail.rlm.socket.wire import ask, send_lm_request
from handrail.rlm.values import LMRequest


class Echo:
    """A model of ours."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        [*_, last] = request.messages
        words = last.text if isinstance(last, UserMessage) else ""
        if words == "fail":
            raise RateLimited("slow down", status=429)
        yield TextDelta(text=f"{self.name}: {words}")
        yield ReplyFinished(stop="end", model=self.name, usage=Usage(input_tokens=3, output_tokens=2, cost=0.25))


class TheirLM(BaseLM):  # type: ignore[misc]  # it has no types
    """A model of theirs; it keeps what it was asked."""

    def __init__(self, model_name: str = "theirs", *said: str) -> None:
        super().__init__(model_name)
        self.asked: list[Any] = []
        self._said = list(said)

    def completion(self, prompt: Any) -> str:
        self.asked.append(prompt)
        if prompt == "fail":
            raise RuntimeError("boom")
        return self._said.pop(0) if self._said else f"{self.model_name}: {prompt}"

    async def acompletion(self, prompt: Any) -> str:
        return self.completion(prompt)

    def get_usage_summary(self) -> UsageSummary:
        return UsageSummary({self.model_name: self.get_last_usage()})

    def get_last_usage(self) -> ModelUsageSummary:
        return ModelUsageSummary(1, 11, 5, 0.5)


@pytest.fixture
def ours() -> Iterator[tuple[str, int]]:
    """Our handler in a thread, as a process of rlms would find it."""
    queries = Queries({"named": Echo("named")}, Echo("root"), sub=Echo("sub"))
    with LMHandler(queries) as handler:
        assert isinstance(handler.address, tuple)
        yield handler.address


@contextmanager
def theirs(model: TheirLM, **options: Any) -> Iterator[tuple[str, int]]:
    handler = UpstreamHandler(model, **options)
    handler.start()
    server, thread = handler._server, handler._thread
    try:
        yield handler.address
    finally:
        handler.stop()
        server.server_close()
        assert isinstance(thread, threading.Thread)
        thread.join()


@pytest.mark.requirement("rlm.socket")
def test_their_client_asks_our_handler(ours: tuple[str, int]) -> None:
    response = upstream.send_lm_request(ours, upstream.LMRequest(prompt="hello", depth=0), timeout=20)

    assert response.success
    found = response.chat_completion
    assert (found.root_model, found.prompt, found.response, found.error) == ("root", "hello", "root: hello", None)
    assert found.usage_summary.model_usage_summaries["root"] == ModelUsageSummary(1, 3, 2, 0.25)
    assert found.execution_time > 0


def test_their_client_chooses_among_our_models_by_name_and_depth(ours: tuple[str, int]) -> None:
    asked = [({"model": "named"}, 0), ({}, 1), ({}, 0)]
    found = [
        upstream.send_lm_request(ours, upstream.LMRequest(prompt="x", **fields), timeout=20, depth=depth)
        for fields, depth in asked
    ]
    assert [each.chat_completion.root_model for each in found] == ["named", "sub", "root"]


def test_their_client_hears_of_a_failure_and_of_a_request_that_cannot_be(ours: tuple[str, int]) -> None:
    failed = upstream.send_lm_request(ours, upstream.LMRequest(prompt="fail"), timeout=20)
    wrong = upstream.send_lm_request(ours, upstream.LMRequest(prompt={"no": "prompt"}), timeout=20)
    missing = upstream.send_lm_request(ours, upstream.LMRequest(), timeout=20)

    assert failed.error == "slow down"
    assert "Invalid prompt" in wrong.error
    assert "Missing 'prompt'" in missing.error


def test_their_client_hears_why_a_request_is_too_large() -> None:
    """It reads nothing before it has sent everything, so the rest is taken from it, and dropped."""
    with LMHandler(Queries({}, Echo("root")), limits=HandlerLimits(frame_bytes=1_000)) as handler:
        response = upstream.send_lm_request(handler.address, upstream.LMRequest(prompt="x" * 8_000_000), timeout=20)

    assert "at most 1000" in response.error


def test_their_batches_keep_their_order_and_their_failures(ours: tuple[str, int]) -> None:
    prompts = [str(number) for number in range(40)]
    prompts[7] = "fail"
    found = upstream.send_lm_request_batched(ours, prompts, timeout=20, depth=1)

    assert [each.success for each in found] == [number != 7 for number in range(40)]
    assert found[7].error == "slow down"
    assert [each.chat_completion.response for each in found if each.success] == [
        f"sub: {number}" for number in range(40) if number != 7
    ]
    assert upstream.send_lm_request_batched(ours, [], timeout=20) == []


@pytest.mark.requirement("rlm.socket")
def test_their_repl_runs_llm_query_and_llm_query_batched_against_our_handler(ours: tuple[str, int]) -> None:
    code = """
one = llm_query("a")
many = llm_query_batched(["b", "fail", "c"])
other = llm_query("d", model="named")
print(one, many, other)
"""
    with LocalREPL(lm_handler_address=ours) as repl:
        result = repl.execute_code(code)
        found = {name: repl.locals.get(name) for name in ("one", "many", "other")}

    assert result.stderr == ""
    assert found == {"one": "sub: a", "many": ["sub: b", "Error: slow down", "sub: c"], "other": "named: d"}
    assert [each.response for each in result.rlm_calls] == ["sub: a", "sub: b", "sub: c", "named: d"]


async def test_our_client_asks_their_handler() -> None:
    with theirs(TheirLM()) as address:
        found = await ask(address, LMRequest(prompt="hi"), 20)
        failed = await ask(address, LMRequest(prompt="fail"), 20)
        nothing = await ask(address, LMRequest(), 20)

    assert found.chat_completion is not None
    assert (found.chat_completion.root_model, found.chat_completion.response) == ("theirs", "theirs: hi")
    usage = found.chat_completion.usage_summary
    assert (usage.total_calls, usage.total_input_tokens, usage.total_cost) == (1, 11, 0.5)
    assert failed.error == "boom" and not failed.success
    assert "Missing" in (nothing.error or "")


def test_our_blocking_client_asks_their_handler_for_one_and_for_many() -> None:
    with theirs(TheirLM(), other_backend_client=TheirLM("other")) as address:
        one = send_lm_request(address, LMRequest(prompt="hi"), 20, depth=1)
        many = send_lm_request(address, LMRequest(prompts=["a", "fail", "c"]), 20).chat_completions or []

    assert one.chat_completion is not None and one.chat_completion.response == "other: hi"
    assert [each.response for each in many] == ["theirs: a", "", "theirs: c"]
    assert "boom" in (many[1].error or "")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.requirement("rlm.socket")
async def test_our_runner_has_a_model_of_theirs() -> None:
    """Their handler takes no tools to its model, so the model calls none; the conversation reaches it whole."""
    model = TheirLM("theirs", "It is 3.")
    conversation = Conversation().supervised("Be brief.").say("1 + 2?")
    with theirs(model) as address:
        async with Executor([add]) as executor:
            done = await Runner(SocketModel(address), executor).run(conversation)

    assert done.text == "It is 3."
    assert (done.usage.input_tokens, done.usage.cost) == (11, 0.5)
    assert model.asked == [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 2?"}]]


class Elsewhere(UpstreamHandler):  # type: ignore[misc]  # it has no types
    """Their handler for the root model; what code asks goes to the address of ours."""

    def __init__(self, client: TheirLM, address: tuple[str, int]) -> None:
        super().__init__(client, *address)

    def start(self) -> tuple[str, int]:
        return self.host, self.port


CODE = """\
```repl
heard = [llm_query(context), *llm_query_batched(["b", "fail"], model="named")]
print(heard)
```"""
READY = '```repl\nanswer["content"] = heard[0]\nanswer["ready"] = True\n```'


@pytest.mark.requirement("rlm.socket")
def test_their_whole_rlm_works_on_our_handler_and_we_show_its_trajectory(
    ours: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = TheirLM("theirs", CODE, READY)
    monkeypatch.setattr("rlm.core.rlm.get_client", lambda *_: root)
    monkeypatch.setattr("rlm.core.rlm.LMHandler", lambda client, **_: Elsewhere(client, ours))
    logger = UpstreamLogger(str(tmp_path))

    done = UpstreamRLM(backend_kwargs={"model_name": "theirs"}, logger=logger).completion("a", root_prompt="Who?")

    assert done.response == "sub: a"
    run = from_trajectory(read(logger.log_file_path))
    assert (run.model, run.answer, run.notes) == ("theirs", "sub: a", ())
    (block,) = run.turns[0].blocks
    assert [(query.model, query.answer) for query in block.queries][:2] == [("sub", "sub: a"), ("named", "named: b")]
    assert "slow down" in block.stdout
    assert "sub: a" in render(run)


async def test_our_whole_rlm_has_a_root_model_of_theirs() -> None:
    with theirs(TheirLM("theirs", CODE.replace(', model="named"', ""), READY)) as address:
        async with RLM(SocketModel(address), other_backends=[Echo("sub")]) as rlm:
            done = await rlm.acompletion("a", "Who?")
    assert (done.response, done.partial) == ("sub: a", False)
    assert done.usage_summary.model_usage_summaries["theirs"].total_input_tokens == 22
