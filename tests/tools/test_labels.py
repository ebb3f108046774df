"""What a tool declares about its results and arguments, in code, in definitions, in files and for MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail import Tool, ToolDefinition, tool
from handrail.config.load import load_config
from handrail.core.calls import ResultLabels
from handrail.core.errors import ConfigError, InvalidDefinition
from handrail.mcp.client.tool_listing import McpToolTerms, definition_of
from handrail.mcp.values import RemoteTool
from handrail.tools.argument_roles import argument_roles
from handrail.tools.effect_kinds import effect_kind
from handrail.tools.files.load import load_tool
from handrail.tools.result_fields import fields_of
from tests.cli.journal_fixtures import run

MAILS = {"mails": [{"id": "m1", "from": "a@x.org", "body": "hi", "meta": {"id": "evil"}}], "count": 1}


def outside(content: Any, **labels: Any) -> set[str]:
    return {each.words for each in fields_of(content, ResultLabels(**labels), untrusted=False) if each.outside}


def test_a_field_is_untrusted_wherever_its_path_ends_so_and_with_everything_below_it() -> None:
    assert outside(MAILS, untrusted=("body",)) == {"mails[0].body"}
    assert outside(MAILS, untrusted=("mails[].meta",)) == {"mails[0].meta.id"}
    assert outside([{"body": {"a": ["x", "y"]}}], untrusted=("body",)) == {"[0].body.a[0]", "[0].body.a[1]"}
    assert outside('{"comments": [{"text": "x", "by": "y"}]}', untrusted=("comments[].text",)) == {"comments[0].text"}


def test_an_own_field_is_own_at_the_top_and_in_items_of_lists_and_not_where_an_outsider_may_nest_it() -> None:
    assert outside(MAILS, untrusted=True, own=("id",)) == {
        "mails[0].from", "mails[0].body", "mails[0].meta.id", "count",
    }  # fmt: skip
    assert outside([{"id": 1, "x": {"id": 2}}], untrusted=True, own=("id",)) == {"[0].x.id"}
    assert outside({"id": 1, "x": 2}, untrusted=True, own=("id",)) == {"x"}


def test_private_fields_are_told_apart() -> None:
    found = fields_of({"balance": 5, "name": "x"}, ResultLabels(private=("balance",)), untrusted=False)

    assert [(each.words, each.private) for each in found] == [("balance", True), ("name", False)]


@pytest.mark.parametrize("label", ["", ".", "a..b", "a[", "a[0]", "a.[]", 5])
def test_a_label_that_is_no_path_is_refused(label: Any) -> None:
    with pytest.raises(InvalidDefinition, match="names no field"):
        ToolDefinition("read", untrusted=(label,))


def test_labels_of_arguments_that_there_are_not_are_refused() -> None:
    def send(to: str, body: str) -> None:
        raise NotImplementedError

    with pytest.raises(InvalidDefinition, match="directs of 'send' names 'too'"):
        tool(send, directs=("too",))
    with pytest.raises(InvalidDefinition, match="both directs and carries"):
        tool(send, directs=("to",), carries=("to",))


def test_labels_change_the_digest_only_where_they_are_set() -> None:
    plain = ToolDefinition("read")
    labelled = ToolDefinition("read", untrusted=("body",), private=("x",), own=("id",), sends_out=True)

    assert plain.to_dict().keys() & {"untrusted", "private", "own", "directs", "carries", "sends_out"} == set()
    assert ToolDefinition.from_dict(labelled.to_dict()) == labelled
    assert Tool(plain, lambda: None).digest != Tool(labelled, lambda: None).digest


def test_mcp_says_open_world_and_a_definition_that_says_something_itself_counts() -> None:
    def read(**keys: Any) -> Any:
        return ToolDefinition.from_dict({"name": "read", **keys}).untrusted

    hint = {"annotations": {"readOnlyHint": True, "openWorldHint": True}}
    assert (read(**hint), read(**hint, untrusted=False), read(untrusted=["body"], **hint)) == (True, False, ("body",))
    assert read(annotations={"readOnlyHint": True}) is False


def roles(name: str, *, sends_out: bool = False, **properties: Any) -> dict[str, str]:
    schema = {"type": "object", "properties": properties}
    definition = ToolDefinition(name, input_schema=schema, side_effects=not sends_out, sends_out=sends_out)
    return {**argument_roles(definition)}


TEXT = {"type": "string"}


def test_what_is_only_content_goes_by_its_name_and_what_is_unclear_directs() -> None:
    assert roles("send_mail", to=TEXT, subject=TEXT, mailBody=TEXT, cc={"type": "array"}) == {
        "to": "directs", "subject": "carries", "mailBody": "carries", "cc": "directs",
    }  # fmt: skip
    assert roles("save", content={"type": "string", "format": "uri"}, text={"enum": ["a"]}, body={}, thing=TEXT) == {
        "content": "directs", "text": "directs", "body": "directs", "thing": "directs",
    }  # fmt: skip
    assert roles("delete_event", title=TEXT, reason=TEXT) == {"title": "directs", "reason": "carries"}
    assert roles("search", sends_out=True, text=TEXT) == {"text": "directs"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("send_mail", "send"), ("deleteMail", "delete"), ("make_payment", "pay"), ("create_event", "create"),
     ("add_label", "label"), ("place_order", "buy"), ("merge_pull_request", "merge"), ("frob-it", "frob")],
)  # fmt: skip
def test_a_name_tells_the_kind_of_effect(name: str, kind: str) -> None:
    assert effect_kind(name) == kind


TOML = """
[invoker]
name = "read_mail"
command = ["true"]
side_effects = false
untrusted = ["body", "comments[].text"]
private = ["balance"]
own = ["id"]
sends_out = true
"""


def test_a_file_declares_labels_as_code_does_and_tools_show_shows_them(tmp_path: Path) -> None:
    (tmp_path / "read.toml").write_text(TOML, encoding="utf-8")

    definition = load_tool(tmp_path / "read.toml").definition
    shown = run("tools", "show", "read_mail", "--tools", str(tmp_path / "read.toml")).stdout

    assert definition.labels == ResultLabels(("body", "comments[].text"), ("balance",), ("id",))
    assert definition.sends_out
    assert "from outside: body, comments[].text, except id" in " ".join(shown.split())
    assert "leaves for a foreign place" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("line", "key"),
    [('untrusted = "body"', "untrusted"), ('private = ["a..b"]', "private"), ('directs = ["to"]', "directs")],
)
def test_a_wrong_label_in_a_file_is_named_with_its_key(tmp_path: Path, line: str, key: str) -> None:
    (tmp_path / "read.toml").write_text(f'[invoker]\nname = "x"\ncommand = ["true"]\n{line}\n', encoding="utf-8")

    with pytest.raises(ConfigError, match=key):
        load_tool(tmp_path / "read.toml")


def test_the_file_of_a_user_labels_tools_of_servers(tmp_path: Path) -> None:
    file = tmp_path / "handrail.toml"
    file.write_text(
        '[mcp.shop]\ncommand = "shop"\n[mcp.shop.tools.list_orders]\nuntrusted = ["note"]\nprivate = ["price"]\n',
        encoding="utf-8",
    )
    labels = load_config(file).mcp["shop"].labels
    remote = RemoteTool(name="list_orders", input_schema={"type": "object"}, open_world=True)

    definition = definition_of(remote, McpToolTerms(labels=labels))

    assert definition.labels == ResultLabels(("note",), ("price",))
    assert definition_of(remote, McpToolTerms()).untrusted is True
