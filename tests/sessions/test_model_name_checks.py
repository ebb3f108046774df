"""What people give in the wrong place is refused when it is given, with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from handrail import RLM, Conversation, Ensemble, Executor, Runner, Session, create_llm, tool
from handrail.core.errors import UsageError
from handrail.sessions.llm import LLM
from handrail.testing.model import ScriptedModel, text

MODEL = ScriptedModel([text("hi")])
LLM_OF = LLM(MODEL)
FILES = Ensemble("files", [])


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def plain(a: int) -> int:
    """Give it back."""
    return a


class Thing:
    pass


def of(make: Any, *given: Any, **named: Any) -> Callable[[], Any]:
    return lambda: make(*given, **named)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "an LLM for a runner": (of(Runner, LLM_OF, Executor([])), "give llm.model"),
    "an LLM of an LLM": (of(LLM, LLM_OF), "give llm.model"),
    "a name for a runner": (of(Runner, "openai:gpt-5", Executor([])), "create_llm('openai:gpt-5')"),
    "a class for a model": (of(Session, ScriptedModel), "'ScriptedModel' is not a model"),
    "a thing for a model": (of(Runner, Thing(), Executor([])), "'Thing' is not a model"),
    "tools for an executor": (of(Runner, MODEL, [add]), "Runner(model, Executor(tools))"),
    "a file for a journal": (of(Executor, [add], journal="calls.db"), "await SqliteJournal.open('calls.db')"),
    "one tool": (of(Executor, add), "write [add]"),
    "one function": (of(Session, MODEL, tools=plain), "write [plain]"),
    "one ensemble": (of(Executor, FILES), "write [files]"),
    "a dict of tools": (of(Executor, {"add": add}), "list(tools.values())"),
    "a file of tools": (of(Executor, "tools.py"), "give a list of functions"),
    "no tools at all": (of(Executor, None), "'NoneType' is not a list of tools"),
    "one tool for an LLM": (of(LLM_OF.generate, "hi", tools=add), "write [add]"),
    "a lambda": (of(tool, lambda x: x), "write a function with def"),
    "a class for a tool": (of(tool, Thing), "'Thing' is a class"),
    "a tool of a tool": (of(tool, add), "use it as it is"),
    "a name for a tool": (of(tool, "add"), "'add' is not a function"),
    "a model alone": (of(create_llm, "gpt-5"), "as openai:gpt-5"),
    "a model with a slash": (of(create_llm, "openai/gpt-5"), "write openai:gpt-5"),
    "a service misspelt": (of(create_llm, "antropic"), "did you mean 'anthropic'?"),
    "a model for a name": (of(create_llm, MODEL), "not of 'ScriptedModel'"),
    "tools for create_llm": (of(create_llm, "ollama:m", tools=[add]), "go to a Session or Executor"),
    "api_key": (of(create_llm, "openai:m", key="k", api_key="sk-secret"), "key='env:NAME'"),
    "one fallback": (of(create_llm, "ollama:m", fallback="ollama:n"), "fallback=['ollama:n']"),
    "a model alone for an RLM": (of(RLM, "gpt-5"), "as openai:gpt-5"),
    "a list for an RLM": (of(RLM, backend=LLM_OF, custom_tools=[add]), "custom_tools={'add': add}"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_stands_in_the_wrong_place_is_refused_with_what_to_write(what: str) -> None:
    make, words = WRONG[what]
    with pytest.raises(UsageError, match=re.escape(words)) as refused:
        make()
    assert "sk-secret" not in str(refused.value)


async def test_a_run_of_a_text_says_how_to_make_a_conversation() -> None:
    question: Any = "hello"
    async with Executor([]) as executor:
        with pytest.raises(UsageError, match=re.escape("Conversation().say('...')")):
            await Runner(MODEL, executor).run(question)
        assert (await Runner(MODEL, executor).run(Conversation().say("hello"))).text == "hi"


def test_a_lambda_with_a_name_and_a_model_by_any_shape_are_taken() -> None:
    class Shaped:
        name = "mine"
        model = "what it is made around"

        def generate(self) -> str:
            return "its own affair"

        def stream(self, request: Any) -> Any:
            raise NotImplementedError

    assert tool(lambda: 3, name="three", schema={"type": "object"}).name == "three"
    assert LLM(Shaped()).name == "mine"
