"""Case 15 of the tool side, where its words are shown and sent: terminals cannot be steered, services take them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Executor, ToolCall, ToolResult, tool
from handrail.core.events import CallAsked
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import history as read_history
from handrail.models.anthropic import AnthropicCodec
from handrail.models.bedrock import BedrockCodec
from handrail.models.codec import Codec
from handrail.models.gemini import GeminiCodec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.prompted.codec import PromptedCodec
from handrail.models.prompted.formats import FORMATS
from tests.cli.journal_fixtures import run
from tests.cli.terminal_fixtures import run_of

ODD = "\x1b[2J\x1b]0;owned\x07 \u202egpj.exe\u202c \u200b\u2066hidden\u2069 nul\0 half\ud800 \x9b31m \x85 end"
"""Clears the screen, renames the window, turns writing around, hides letters; and is not even valid Unicode."""
STEERING = ("\x1b", "\x07", "\x9b", "\x85", "\u202e", "\u202c", "\u200b", "\u2066", "\u2069", "\0", "\ud800")

TOOLS = f"""
from handrail import tool


@tool
def odd() -> str:
    \"\"\"Say something odd.\"\"\"
    return {ODD!a}


@tool
def long() -> int:
    \"\"\"Give a number without an end.\"\"\"
    return 10**4200


@tool
def fail() -> str:
    \"\"\"Fail oddly.\"\"\"
    raise ValueError({ODD!a})
"""
SCRIPT = """
[[reply]]
when = "go"
calls = [{ name = "odd" }, { name = "long" }, { name = "fail" }]

[[reply]]
when = "go"
text = "Done."
"""
WITH = ("-m", "scripted:script.toml", "--tools", "odd_tools.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "odd_tools.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("HANDRAIL_JOURNAL", "HANDRAIL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    sys.modules.pop("odd_tools", None)


def harmless(shown: str) -> None:
    assert [letter for letter in STEERING if letter in shown] == []
    assert "end" in shown


def test_case_15_ask_shows_odd_words_harmlessly(folder: Path) -> None:
    result = run("ask", *WITH, "go")

    assert (result.exit_code, result.stdout) == (0, "Done.\n")
    harmless(result.stderr)


def test_case_15_ask_in_json_is_plain_ascii(folder: Path) -> None:
    result = run("ask", *WITH, "--json", "go")

    assert result.exit_code == 0
    assert result.stdout.isascii()
    harmless(result.stdout)


def test_case_15_chat_shows_odd_words_harmlessly(folder: Path) -> None:
    result = run("chat", *WITH, text="go\n/quit\n")

    assert result.exit_code == 0
    harmless(result.stdout + result.stderr)


@pytest.mark.parametrize("options", [("--full",), ("--full", "--json"), ("--json",)])
def test_case_15_proof_show_shows_odd_words_harmlessly_in_full(folder: Path, options: tuple[str, ...]) -> None:
    told = run("ask", *WITH, "go").stderr

    shown = run("proof", "show", run_of(told), *options)

    assert shown.exit_code == 0
    harmless(shown.stdout)


NATIVE: dict[str, Codec] = {
    "anthropic": AnthropicCodec(),
    "bedrock": BedrockCodec(),
    "gemini": GeminiCodec(),
    "ollama": OllamaCodec(),
    "openai-chat": OpenAIChatCodec(),
    "openai-responses": OpenAIResponsesCodec(),
}
CODECS = {**NATIVE, **{f"prompted-{name}": PromptedCodec(OpenAIChatCodec(), name) for name in FORMATS}}


def history(result: ToolResult, name: str) -> ModelRequest:
    """A request whose history has one call of this tool and its result."""
    call = InvocationMessage(ToolCall(result.tool_call_id, name, {}))
    said = Conversation().say("go").add(AssistantMessage(stop="tool_calls"), call, ResultMessage(result))
    return ModelRequest(messages=said.messages, tools=(ToolOffer(name, "It.", {"type": "object", "properties": {}}),))


@pytest.mark.parametrize("wire", CODECS)
@pytest.mark.parametrize("fails", [False, True])
async def test_case_15_every_service_is_sent_odd_words_as_json(wire: str, fails: bool) -> None:
    @tool
    async def odd() -> str:
        if fails:
            raise ValueError(ODD)
        return ODD

    async with Executor([odd]) as executor:
        result = await executor.invoke(ToolCall("call_1", "odd"))
    body = CODECS[wire].encode(history(result, "odd"), "some-model", stream=True).text()

    assert b"half\\\\ud800" in body.replace(b"\\\\\\\\", b"\\\\")


async def test_case_16_a_number_without_an_end_is_on_record_and_can_be_shown(tmp_path: Path) -> None:
    @tool
    async def take(x: int) -> str:
        return "taken"

    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal, Executor([take], journal=journal) as executor:
        await executor.invoke(ToolCall("1", "take", {"x": 10**5000}))
        number = executor.run

    asked = next(event for event in read_history(path, number) if isinstance(event, CallAsked))
    assert asked.arguments == {"x": 10**5000}
    for options in ((), ("--full",), ("--json",)):
        shown = await asyncio.to_thread(run, "proof", "show", number, "--journal", str(path), *options)
        assert shown.exit_code == 0
