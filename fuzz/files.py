"""What people write and programs keep: tools in TOML, the configuration, saved conversations.

The law: a wrong file is a `ConfigError`, or a `ContentError` of the store, or a `UsageError`; nothing else.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.law import Target, outcome, scratch
from fuzz.mutate import data, texts, values
from handrail.config.load import journal_in, load_config
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.sessions.store.content import ContentError
from handrail.sessions.store.conversations import ConversationStore
from handrail.tools.files.load import load_ensemble, load_tool
from handrail.tools.files.toml_positions import toml_layout

ENSEMBLE = '''
[ensemble]
name = "text"
[defaults]
timeout = 30
max_retries = 3
[[invokers]]
name = "shorten"
description = "Cut a text."
python = "textwrap:shorten"
[invokers.arguments]
type = "object"
required = ["text"]
[invokers.arguments.properties]
text = { type = "string" }
width = { type = "integer", minimum = 5 }
[[invokers]]
name = 'fetch'
description = """
Fetch a page."""
idempotent = true
[invokers.http]
url = "https://example.org/{page}"
method = "GET"
headers = { Accept = "text/plain" }
[invokers.arguments]
properties = { page = { type = "string" } }
'''
INVOKER = """
[invoker]
name = "count_words"
description = "Count the words."
side_effects = false
tags = ["a", 'b']
[command]
run = ["wc", "-w", "{path}"]
stdin = "{text}"
[arguments]
type = "object"
required = ["text"]
[arguments.properties.text]
type = "string"
[arguments.properties.path]
type = "string"
default = "x"
"""
CONFIG = """
default_model = "main"
rules = ["allow read path=docs/**", "deny write"]
[models.main]
provider = "openai"
model = "gpt-5"
key = "env:OPENAI_API_KEY"
options = { temperature = 0.5 }
[llm]
tools_enabled = true
tools_max_iterations = 6
[policy]
max_output = 20000
deduplicator = "exact"
[limits]
seconds = 60
on_limit = "finalise"
[proof]
journal = "${HOME}/x.db"
"""
TOKENS = (
    "[[invokers]]\n", "[a]\n", "x = 1\n", "name = 2\n", '"""', "'''", "= ", "[", "]]", "1979-05-27T07:32:00Z", "inf",
    "nan", "0x10", "#", ".", "{", "}", 'type = "nothing"\n', "${X}", "$", "enabled = false\n", 'source = "x.toml"\n',
    "[[a.b]]\n",
)  # fmt: skip


def file_law(load: Callable[[Path], Any], *errors: type[Exception]) -> Callable[[str], None]:
    def law(text: str) -> None:
        with scratch() as folder:
            path = folder / "x.toml"
            path.write_bytes(text.encode(errors="surrogatepass"))
            outcome(lambda: load(path), *errors)

    return law


def documents(*seeds: str) -> st.SearchStrategy[str]:
    """TOML with a part of it that is something else, and texts that are hardly TOML."""
    return values([tomllib.loads(seed) for seed in seeds]).map(_toml) | texts(seeds, TOKENS)


def _toml(document: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in document.items())


def _inline(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_inline, value)) + "]"
        case None:
            return "1979-05-27"
        case bool():
            return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _lines(text: str) -> None:
    """Only texts that are TOML are ever given to it."""
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    last = text.count("\n") + 1
    assert all(1 <= line <= last for line in toml_layout(text).lines.values())


def _configured(path: Path) -> None:
    environ = {"HOME": "/home", "OPENAI_API_KEY": "x"}
    outcome(lambda: journal_in(path, environ), UsageError)
    config = load_config(path, environ)
    assert config.policy and config.limits


@cache
def _saved() -> dict[str, bytes]:
    """The files of a store with one conversation."""
    said = Conversation().supervised("Be brief.").say("Hello, wörld").add(AssistantMessage("Long: " + "é" * 1500))
    said = said.add(
        InvocationMessage(ToolCall("1", "search", {"q": "tea", "$text": "x"})),
        ResultMessage(ToolResult("1", "search", {"found": ["x" * 1200]})),
    )
    with scratch() as folder:
        ConversationStore(folder).save("one", said)
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _store(value: tuple[str, bytes]) -> None:
    name, changed = value
    with scratch() as folder:
        for each, content in _saved().items():
            path = folder / each
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(changed if each == name else content)
        for look in _LOOKS:
            _look(folder, look)


def _look(folder: Path, look: Callable[[ConversationStore], Any]) -> None:
    outcome(lambda: look(ConversationStore(folder)), ContentError, UsageError)


_LOOKS: tuple[Callable[[ConversationStore], Any], ...] = (
    lambda store: store.load("one"),
    lambda store: store.about("one"),
    lambda store: store.list(),
    lambda store: store.search("tea"),
    lambda store: store.fork("one"),
    lambda store: store.save("one", Conversation().say("Anew")),
    lambda store: store.sweep(),
)


@st.composite
def _changed_store(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from(sorted(_saved())))
    return name, draw(data([_saved()[name]], [token.encode() for token in TOKENS]))


TARGETS = (
    Target("toml-ensemble", documents(ENSEMBLE), file_law(load_ensemble, UsageError)),
    Target("toml-invoker", documents(INVOKER), file_law(load_tool, UsageError)),
    Target("toml-lines", documents(ENSEMBLE, INVOKER, CONFIG), _lines),
    Target("config", documents(CONFIG), file_law(_configured, UsageError)),
    Target("conversations", _changed_store(), _store, cost=4),
)
