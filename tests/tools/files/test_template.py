"""Places for arguments in texts: what is put in, what drops out, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import ConfigError, InvalidArguments
from handrail.tools.files.request_templates import read_json_template
from handrail.tools.files.template import ArgumentTemplate, TemplateReader
from handrail.tools.files.toml_table import TomlKeyPath
from tests.tools.files.tool_file_calls import texts

PLACE = TomlKeyPath("tool.toml")
SCHEMA = texts("name", properties={"name": {}, "unit": {}, "tags": {"type": "array"}, "size": {"default": 3}})


def read(text: str) -> ArgumentTemplate:
    return TemplateReader(SCHEMA).read(text, PLACE)


@pytest.mark.parametrize(
    ("text", "arguments", "elements"),
    [
        ("plain", {}, ["plain"]),
        ("{name}", {"name": "x"}, ["x"]),
        ("--n={name}!", {"name": "x"}, ["--n=x!"]),
        ("{{name}} {{{name}}}", {"name": "x"}, ["{name} {x}"]),
        ("{unit?}", {}, []),
        ("--unit={unit?}", {"unit": None}, []),
        ("--unit={unit?}", {"unit": "m"}, ["--unit=m"]),
        ("{tags...}", {"tags": ["a", "b c"]}, ["a", "b c"]),
        ("{tags...}", {}, []),
        ("{size}", {"size": 2.5}, ["2.5"]),
        ("{name}", {"name": True}, ["true"]),
        ("{name}", {"name": {"a": [1]}}, ['{"a":[1]}']),
    ],
)
def test_a_template_gives_its_elements(text: str, arguments: dict[str, Any], elements: list[str]) -> None:
    assert list(read(text).elements(arguments)) == elements


@pytest.mark.parametrize(
    "text", ["{nome}", "{", "}", "{name", "{}", "{unit}", "a{tags...}", "{name }", "{name!r}", "{name.__class__}"]
)
def test_a_template_that_cannot_work_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(ConfigError):
        read(text)


@pytest.mark.parametrize("value", ["a\0b", "\ud800", None])
def test_a_value_that_cannot_be_put_in_is_refused_by_name(value: str | None) -> None:
    with pytest.raises(InvalidArguments, match="name"):
        read("{name}").render({"name": value})


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_is_put_in_as_it_is_and_never_read_for_places(text: str) -> None:
    assert read("<{name}>").render({"name": text}) == f"<{text}>"


@given(st.text())
def test_any_text_with_its_braces_doubled_stands_for_itself(text: str) -> None:
    assert read(text.replace("{", "{{").replace("}", "}}")).render({}) == text


def test_json_takes_values_whole_and_drops_what_is_absent() -> None:
    written = {"n": "{size}", "t": "size {size}", "u": "{unit?}", "list": ["{tags...}", "{unit?}", 1], "on": True}
    body = read_json_template(written, TemplateReader(SCHEMA), PLACE)
    assert body.fill({"size": 3, "tags": ["a", "b"]}) == {"n": 3, "t": "size 3", "list": ["a", "b", 1], "on": True}


def test_a_list_is_spread_only_inside_a_list() -> None:
    with pytest.raises(ConfigError):
        read_json_template({"tags": "{tags...}"}, TemplateReader(SCHEMA), PLACE)
