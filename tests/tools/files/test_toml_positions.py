"""Every key of a TOML document is found on the line that holds it."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given, settings, strategies as st

from handrail.tools.files.toml_positions import line_of_key, toml_layout
from tests.examples import examples

DOCUMENT = '''\
# a comment with key = 1
top = 1
"quoted key" = """
[decoy]
top = 2
"""   # after
dotted.inner.deep = 'x'

[table]
list = [
  1, # one ]
  { a = 1, "b.c" = [2,
    3] },
]
text = "}] # \\" no comment"

[[many]]
name = "first"

[[many.inside]]
here = 1

[[many.inside]]
here = 2

[[many]]
name = \'\'\'second
[[many]]\'\'\'

[[many.inside]]
here = 3
[many.table.below]
last = 1979-05-27 07:32:00
'''


def test_tables_arrays_strings_and_comments_do_not_mislead_it() -> None:
    assert tomllib.loads(DOCUMENT)["many"][1]["inside"][0]["here"] == 3
    found = {
        path: line_of_key(DOCUMENT, path)
        for path in [
            ("top",),
            ("quoted key",),
            ("dotted", "inner", "deep"),
            ("table",),
            ("table", "list", 0),
            ("table", "list", 1, "a"),
            ("table", "list", 1, "b.c", 1),
            ("table", "text"),
            ("many", 0, "name"),
            ("many", 0, "inside", 1, "here"),
            ("many", 1, "name"),
            ("many", 1, "inside", 0, "here"),
            ("many", 1, "table", "below", "last"),
        ]
    }
    assert list(found.values()) == [2, 3, 7, 9, 11, 12, 13, 15, 18, 24, 27, 31, 33]


def test_a_key_that_is_not_there_is_placed_at_the_nearest_table_around_it() -> None:
    assert line_of_key(DOCUMENT, ("many", 1, "absent")) == 26
    assert line_of_key(DOCUMENT, ("absent",)) is None


bare = st.text("abcxyz019_-", min_size=1, max_size=6)
odd = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
keys = st.one_of(bare, odd)
decoys = st.sampled_from(
    ["", "plain", "[a]", "a = 1", '"', "'", '"""', "'''", "# no", "]]", "}", "\\", "\n[[b]]\nb = 2\n"]
)
scalars = st.one_of(st.integers(-9, 9), st.booleans(), decoys, st.lists(st.integers(0, 9), max_size=3))
tables = st.recursive(
    st.dictionaries(keys, scalars, max_size=4),
    lambda inner: st.dictionaries(keys, st.one_of(scalars, inner, st.lists(inner, min_size=1, max_size=3)), max_size=4),
    max_leaves=8,
)


class Writer:
    """Writes a table as TOML in styles that it draws, and remembers on which line each key went."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[tuple[str | int, ...], int] = {}

    def note(self, *path: str | int) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def key(self, key: str) -> str:
        plain = bool(key) and all(letter in "abcxyz019_-" for letter in key)
        if plain and self.draw(st.booleans()):
            return key
        return "'" + key + "'" if "'" not in key and self.draw(st.booleans()) else self.basic(key)

    def basic(self, text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def string(self, text: str) -> str:
        match self.draw(st.sampled_from(["basic", "long", "literal"])):
            case "long":
                return '"""\n' + text.replace("\\", "\\\\").replace('"""', '""\\"') + '\\u0020"""'
            case "literal" if "'''" not in text and not text.endswith("'"):
                return "'''\n" + text + " '''"
        return self.basic(text + " ")

    def table(self, path: tuple[str | int, ...], header: str, table: dict[str, Any]) -> None:
        below = {key: value for key, value in table.items() if self.apart(value) and self.draw(st.booleans())}
        for key, value in table.items():
            if key not in below:
                self.note(*path, key)
                self.text += self.key(key) + self.draw(st.sampled_from(["=", " = "]))
                self.value((*path, key), value)
                self.text += self.draw(st.sampled_from(["\n", " # a = 1\n", "\n\n"]))
        for key, value in below.items():
            name = f"{header}.{self.key(key)}" if header else self.key(key)
            if isinstance(value, dict):
                self.note(*path, key)
                self.text += f"[{name}]\n"
                self.table((*path, key), name, value)
            else:
                for index, item in enumerate(value):
                    self.note(*path, key)
                    self.note(*path, key, index)
                    self.text += f"[[ {name} ]]\n"
                    self.table((*path, key, index), name, item)

    def apart(self, value: Any) -> bool:
        return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))

    def value(self, path: tuple[str | int, ...], value: Any) -> None:
        match value:
            case dict():
                self.text += "{"
                for index, (key, item) in enumerate(value.items()):
                    self.text += ", " if index else ""
                    self.note(*path, key)
                    self.text += self.key(key) + " = "
                    self.value((*path, key), item)
                self.text += "}"
            case list():
                self.text += "["
                for index, item in enumerate(value):
                    self.text += self.draw(st.sampled_from(["", "\n", " # ]\n "]))
                    self.note(*path, index)
                    self.value((*path, index), item)
                    self.text += ","
                self.text += "]"
            case str():
                self.text += self.string(value)
            case bool() | int():
                self.text += str(value).lower()


@settings(max_examples=examples(150), deadline=None)
@given(tables, st.data())
def test_the_line_found_holds_the_key_however_the_document_is_written(
    table: dict[str, Any], data: st.DataObject
) -> None:
    writer = Writer(data.draw)
    writer.table((), "", table)
    tomllib.loads(writer.text)
    assert toml_layout(writer.text).lines == writer.lines
