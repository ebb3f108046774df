"""One entry in the place of a client's servers, text in and text out: nothing else changes, and back."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from handrail.config.client_files import plain_json
from handrail.config.client_rewrite import ProxyEntry, replace_entries, restore_entries
from handrail.config.toml_edit import toml_key, toml_literal
from handrail.core.errors import UsageError

OURS = ProxyEntry("handrail", {"command": "handrail", "args": ["mcp", "serve"]})


def loaded(text: str, *, toml: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(text) if toml else json.loads(plain_json(text.removeprefix("\ufeff")))
    return found


def test_comments_order_and_spelling_of_everything_else_stay() -> None:
    text = """\
// mine
{
  "inputs": [ ],   // none
  "servers": {
    /* kept */ "old": { "type": "sse" },
    // the first
    "a": { "command": "x" }, // of two
    "b": { "command": "y" }
  },
  "last": 1.0
}
"""
    done = replace_entries(text, ["servers"], {"a", "b"}, OURS, toml=False)

    assert done.text == snapshot("""\
// mine
{
  "inputs": [ ],   // none
  "servers": {
    /* kept */ "old": { "type": "sse" },
    // the first
    "handrail": {
      "command": "handrail",
      "args": [
        "mcp",
        "serve"
      ]
    } // of two
  },
  "last": 1.0
}
""")


def test_tables_of_codex_are_replaced_with_their_subtables_and_no_others() -> None:
    text = """\
model = "o9"  # mine

[mcp_servers.a]
command = "x"

[mcp_servers.a.env]
TOKEN = "t"

# about the tui
[tui]
theme = "dark"

[mcp_servers."b c"]
url = "https://example.org/mcp"
"""
    done = replace_entries(text, ["mcp_servers"], {"a", "b c"}, OURS, toml=True)

    assert done.text == snapshot("""\
model = "o9"  # mine

[mcp_servers.handrail]
command = "handrail"
args = ["mcp", "serve"]

# about the tui
[tui]
theme = "dark"

""")
    restored = restore_entries(done.text, ["mcp_servers"], done.removed, OURS, keep=False, toml=True)
    assert loaded(restored, toml=True) == loaded(text, toml=True)


@pytest.mark.parametrize(
    ("text", "toml"),
    [
        ('{"servers": {"a": {}, "a": {"command": "x"}}}', False),
        ('mcp_servers = { a = { command = "x" } }\n', True),
        ('[mcp_servers]\na.command = "x"\n', True),
        ('[mcp_servers]\na = { command = "x" }\n', True),
    ],
)
def test_what_cannot_be_cut_out_cleanly_is_refused(text: str, toml: bool) -> None:
    with pytest.raises(UsageError):
        replace_entries(text, ["mcp_servers" if toml else "servers"], {"a"}, OURS, toml=toml)


words = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
entries = st.dictionaries(words.filter(lambda name: name != "handrail"), values, min_size=1, max_size=4)
LAYOUTS = (
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", ' // a "comment", {\n/* and */ '),
)


@given(st.data(), st.dictionaries(words, values, max_size=3), entries, st.sampled_from([None, 1, 2, 4, "\t"]))
def test_any_json_says_the_same_but_for_those_entries_and_again_after_they_are_back(
    data: st.DataObject, others: dict[str, Any], servers: dict[str, Any], indent: Any
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(servers)), min_size=1, unique=True))
    document = {**others, "mcpServers": servers, "end": "}"}
    text = data.draw(st.sampled_from(LAYOUTS))(json.dumps(document, indent=indent, ensure_ascii=False))
    if loaded(text) != document:
        return  # a line break inside a string became another one
    left = {name: value for name, value in servers.items() if name not in names}

    done = replace_entries(text, ["mcpServers"], names, OURS, toml=False)
    changed = done.text.replace('"end"', '"new": 1, "end"') if '"end"' not in str(document) else done.text
    back = restore_entries(changed, ["mcpServers"], done.removed, OURS, keep=False, toml=False)
    second = replace_entries(text, ["mcpServers"], names, None, toml=False)

    assert loaded(done.text) == {**document, "mcpServers": {**left, "handrail": dict(OURS.value)}}
    assert loaded(back)["mcpServers"] == servers
    assert {**loaded(back), "new": 1} == {**document, "new": 1}
    assert loaded(second.text) == {**document, "mcpServers": left}


toml_values = st.recursive(
    st.booleans() | st.integers(-9, 9) | words, lambda inner: st.lists(inner, max_size=3), max_leaves=4
)
tables = st.dictionaries(words, st.dictionaries(words, toml_values, max_size=3), min_size=1, max_size=4)


@given(st.data(), tables, tables)
def test_any_toml_says_the_same_but_for_those_tables_and_again_after_they_are_back(
    data: st.DataObject, others: dict[str, Any], servers: dict[str, Any]
) -> None:
    servers = {name: table for name, table in servers.items() if name != "handrail"} or {"a": {}}
    others = {name: table for name, table in others.items() if name != "mcp_servers"}
    names = data.draw(st.lists(st.sampled_from(sorted(servers)), min_size=1, unique=True))
    named = [(f"mcp_servers.{toml_key(name)}", table) for name, table in servers.items()]
    written = [
        f"# about {toml_key(name)!r}\n[{name}]  # here\n"
        + "".join(f"{toml_key(key)} = {toml_literal(value)}\n" for key, value in table.items())
        for name, table in data.draw(st.permutations([*named, *((toml_key(name), t) for name, t in others.items())]))
    ]
    text = data.draw(st.sampled_from(["", "\n", "\n\n"])).join(written)
    document = loaded(text, toml=True)
    left = {name: value for name, value in servers.items() if name not in names}

    done = replace_entries(text, ["mcp_servers"], names, OURS, toml=True)
    back = restore_entries(done.text, ["mcp_servers"], done.removed, OURS, keep=False, toml=True)

    assert loaded(done.text, toml=True) == {**document, "mcp_servers": {**left, "handrail": dict(OURS.value)}}
    assert loaded(back, toml=True) == document
