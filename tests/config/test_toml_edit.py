"""One value of a text is changed where it stands, and the rest of the text stays as it is."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.config.catalogue import TABLES
from handrail.config.load import _TABLES
from handrail.config.toml_edit import set_toml_value
from handrail.core.errors import UsageError
from tests.examples import examples

TEXT = """\
# The house.

# How far.
[limits]
cost = 0.5   # dollars

[models.fast]  # of the year
provider = 'openai'
tools = [
  "io:read",
  "io:list",
]
fallback = ["slow", # while it lasts
]

[services]
market = false
trans = { model = "local" }
stt = {}
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("limits.cost", 2, "cost = 0.5 ", "cost = 2 "),
        ("limits.cost", None, "cost = 0.5   # dollars\n", ""),
        ("limits.tokens", 7, "# dollars\n", "# dollars\ntokens = 7\n"),
        ("default_model", 'a "b"\n\x7f', "house.\n", 'house.\n\ndefault_model = "a \\"b\\"\\n\\u007f"\n'),
        ("models.fast.provider", "ollama", "'openai'", '"ollama"'),
        ("models.fast.tools", ["x"], '  "io:read",\n  "io:list",\n', '  "x",\n'),
        ("models.fast.tools", [], '[\n  "io:read",\n  "io:list",\n]', "[]"),
        ("services.trans.model", "b", '"local"', '"b"'),
        ("services.trans.model", None, ' model = "local"', ""),
        ("services.trans.url", "b", '"local" }', '"local", url = "b" }'),
        ("services.stt.url", "b", "stt = {}", 'stt = { url = "b" }'),
        ("services.market", True, "market = false", "market = true"),
        ("llm.tools_enabled", False, "stt = {}\n", "stt = {}\n\n[llm]\ntools_enabled = false\n"),
        ("services.img.model", "b", "stt = {}\n", 'stt = {}\n\n[services.img]\nmodel = "b"\n'),
        ("limits.cost", 0.5, "", ""),
        ("limits.tokens", None, "", ""),
    ],
)
def test_a_value_is_changed_where_it_stands_or_could_stand(path: str, value: Any, old: str, new: str) -> None:
    assert set_toml_value(TEXT, tuple(path.split(".")), value) == TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        (TEXT, "models.fast.fallback", ["fast"]),  # a comment between its items
        (TEXT, "services.market.model", "b"),  # no table
        ("a.b = 1", "a.b", None),  # the table would go with it
        ("[[llm]]\nx = 1", "llm.y", 1),
        ("x = [[1]]", "x.y", 1),
    ],
)
def test_what_cannot_be_changed_alone_is_refused(text: str, path: str, value: Any) -> None:
    with pytest.raises(UsageError, match="change it there"):
        set_toml_value(text, tuple(path.split(".")), value)


def test_a_table_of_dotted_keys_grows_beside_them_and_a_text_without_an_end_of_line_gets_one() -> None:
    assert set_toml_value("llm.x = 1 # one", ("llm", "y"), 1.5) == "llm.x = 1 # one\nllm.y = 1.5\n"
    assert set_toml_value("[a]\nb.c = 1\n[d]\n", ("a", "b", "e"), True) == "[a]\nb.c = 1\nb.e = true\n[d]\n"
    assert set_toml_value("", ("llm", "x"), 1) == "[llm]\nx = 1\n"
    assert set_toml_value("", ("x",), []) == "x = []\n"
    assert set_toml_value("[a]", ("a", "odd key"), "x") == '[a]\n"odd key" = "x"\n'


LINES = st.sampled_from(
    [
        *("# words\n", "\n", "  # [llm] x = 1\n", "[llm]\n", "[policy] # here\n", "[a.b]\n", "[[c]]\n"),
        *("x = 1 # one\n", "y = [ 'p', \"q\" ] # two\n", "z.w = '''\n[llm]\n# no\n''' # three\n", 'llm.x = "#"\n'),
        *("t = { u = 1, v = [1,\n 2] }\n", '"x" = true # four\n', "e = [\n  # five\n  'a',\n]\n", "  w = 1979-05-27\n"),
    ]
)
PATHS = st.sampled_from(
    ["x", "llm.x", "llm.y", "policy.x", "a.b.y", "c.x", "z.w", "t.u", "t.n", "llm.e", "new.table.k"]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=4), max_size=3),
)


@settings(max_examples=examples(300))
@given(st.lists(LINES, max_size=8, unique=True).map("".join), PATHS, VALUES)
def test_whatever_the_text_only_that_value_changes_and_no_comment_is_lost(text: str, path: str, value: Any) -> None:
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    steps = tuple(path.split("."))
    try:
        after = set_toml_value(text, steps, value)
    except UsageError:
        return

    found: Any = tomllib.loads(after)
    *tables, key = steps
    for step in tables:
        found = found.get(step, {}) if value is None else found[step]
    assert repr(found.get(key)) == repr(value)
    if value is not None:
        comments = [line for line in text.splitlines() if line.lstrip().startswith("#") and line != "# no"]  # a text
        assert all(line in after.splitlines() for line in comments)
        assert all(f"# {word}" in after for word in ("one", "two", "three", "four", "five") if f"# {word}" in text)
    assert {name: each for name, each in tomllib.loads(after).items() if name != steps[0]} == {
        name: each for name, each in before.items() if name != steps[0]
    }


def test_every_table_that_a_file_may_have_is_in_the_catalogue() -> None:
    assert {table.path[0] for table in TABLES if table.path} == set(_TABLES)
