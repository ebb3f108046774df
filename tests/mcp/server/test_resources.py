"""What can be read, picked and heard of from a client: resources, prompts, completions, changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mcp_types as types
import pytest
from hypothesis import given, strategies as st
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged

from handrail.core.calls import Attachment
from handrail.core.context import Principal
from handrail.core.errors import UsageError
from handrail.mcp.server.definition import PromptArgument, PromptMessage, ServedPrompt
from handrail.mcp.server.sources import LARGEST, FolderSource, _walk
from handrail.mcp.values import RemoteResource, ResourceBody
from handrail.tools.tool import tool
from tests.mcp.server.server_setup import ERAS, LEGACY, MODERN, scene

era = pytest.mark.parametrize("era", ERAS)


@tool
def look() -> str:
    """Look around."""
    return "nothing"


class Notes:
    """A source in memory that says when it changes."""

    def __init__(self, **notes: str) -> None:
        self.notes = notes
        self._say: Callable[[str | None], None] = lambda uri: None

    async def list(self) -> Sequence[RemoteResource]:
        return [RemoteResource(uri=f"note://{name}", name=name, media_type="text/plain") for name in self.notes]

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        text = self.notes.get(uri.removeprefix("note://"))
        return None if text is None else [ResourceBody(uri=uri, media_type="text/plain", text=text)]

    def watch(self, changed: Callable[[str | None], None]) -> Callable[[], None]:
        self._say = changed
        return lambda: None

    def write(self, name: str, text: str) -> None:
        new = name not in self.notes
        self.notes[name] = text
        self._say(None if new else f"note://{name}")


class Broken:
    async def list(self) -> Sequence[RemoteResource]:
        raise UsageError("it is not there")

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        raise UsageError("it is not there") if uri == "broken://x" else OSError("worse")


class Pixel:
    async def list(self) -> Sequence[RemoteResource]:
        return []

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        return [ResourceBody(uri=uri, media_type="image/png", data=b"\x89P")] if uri == "pixel://1" else None


@era
@pytest.mark.requirement("converser.mcp-server")
async def test_resources_are_listed_and_read(era: str) -> None:
    async with scene(look, resources=(Notes(a="alpha", b="beta"), Pixel())).client(era) as client:
        listed = (await client.list_resources()).resources
        assert [(each.uri, each.name, each.mime_type) for each in listed] == [
            ("note://a", "a", "text/plain"),
            ("note://b", "b", "text/plain"),
        ]
        text = (await client.read_resource("note://b")).contents[0]
        blob = (await client.read_resource("pixel://1")).contents[0]
    assert isinstance(text, types.TextResourceContents) and text.text == "beta"
    assert isinstance(blob, types.BlobResourceContents) and (blob.mime_type, blob.blob) == ("image/png", "iVA=")


@pytest.mark.parametrize(("era", "code"), [(LEGACY, -32002), (MODERN, -32602)])
async def test_an_unknown_address_is_the_error_of_the_era(era: str, code: int) -> None:
    async with scene(look, resources=(Notes(),)).client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("note://nothing")
    assert (caught.value.code, caught.value.data) == (code, {"uri": "note://nothing"})


@era
async def test_a_source_that_fails_hides_no_other_and_says_why(era: str) -> None:
    async with scene(look, resources=(Notes(a="alpha"), Broken())).client(era) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == ["note://a"]
        for uri in ("broken://x", "broken://y"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == types.INTERNAL_ERROR and uri in caught.value.message


@era
async def test_a_principal_reads_what_its_scopes_cover(era: str) -> None:
    guest = Principal("guest", ("resource:note://a", "prompt:hello"))
    prompts = tuple(ServedPrompt(name=name, render=_said) for name in ("hello", "secret"))
    served = scene(look, resources=(Notes(a="alpha", b="beta"),), prompts=prompts, principal=lambda caller: guest)
    async with served.client(era) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == ["note://a"]
        assert (await client.read_resource("note://a")).contents
        with pytest.raises(MCPError):
            await client.read_resource("note://b")
        assert [each.name for each in (await client.list_prompts()).prompts] == ["hello"]
        with pytest.raises(MCPError):
            await client.get_prompt("secret")


@era
async def test_more_resources_than_a_page_holds_are_all_listed(era: str) -> None:
    notes = Notes(**{f"n{number}": "" for number in range(450)})
    async with scene(look, resources=(notes,)).client(era) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        third = await client.list_resources(cursor=second.next_cursor)
    assert third.next_cursor is None
    found = [each.name for page in (first, second, third) for each in page.resources]
    assert found == list(notes.notes)


async def _said(arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
    return (PromptMessage(f"Greet {arguments.get('who', 'everybody')}"), PromptMessage("Gladly", "assistant"))


async def _names(argument: str, value: str, others: Mapping[str, str]) -> Sequence[str]:
    return [f"{argument}-{value}{number:03}" for number in range(150)]


GREETING = ServedPrompt(
    name="greeting",
    render=_said,
    description="A greeting",
    arguments=(PromptArgument("who", "Whom to greet", required=True), PromptArgument("how")),
    complete=_names,
)


@era
async def test_prompts_are_listed_and_filled_in(era: str) -> None:
    async with scene(look, prompts=(GREETING,)).client(era) as client:
        listed = (await client.list_prompts()).prompts[0]
        got = await client.get_prompt("greeting", {"who": "Ada"})
    assert listed.arguments is not None
    assert [(each.name, each.required) for each in listed.arguments] == [("who", True), ("how", False)]
    words = [(each.role, each.content.text) for each in got.messages if isinstance(each.content, types.TextContent)]
    assert words == [("user", "Greet Ada"), ("assistant", "Gladly")]


@era
@pytest.mark.parametrize(
    ("name", "arguments", "names"),
    [("greeting", {}, "who"), ("greeting", {"who": "x", "why": "y"}, "why"), ("greting", {}, "greting")],
)
async def test_a_prompt_is_not_made_of_wrong_arguments(
    era: str, name: str, arguments: dict[str, str], names: str
) -> None:
    async with scene(look, prompts=(GREETING,)).client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)
    assert caught.value.code == types.INVALID_PARAMS and names in caught.value.message


@era
async def test_a_prompt_may_hold_pictures_and_documents(era: str) -> None:
    async def render(arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        return (
            PromptMessage(Attachment("a.png", "image/png", b"\x89P")),
            PromptMessage(Attachment("note://a", "text/plain", b"alpha")),
        )

    async with scene(look, prompts=(ServedPrompt(name="p", render=render),)).client(era) as client:
        picture, document = (each.content for each in (await client.get_prompt("p")).messages)
    assert isinstance(picture, types.ImageContent)
    assert isinstance(document, types.EmbeddedResource) and document.resource.uri == "note://a"


@era
async def test_arguments_of_prompts_and_templates_are_completed(era: str, tmp_path: Path) -> None:
    for name in ("one.txt", "only.txt", "two.txt"):
        (tmp_path / name).write_text("")
    served = scene(look, prompts=(GREETING,), resources=(Notes(), FolderSource("docs", tmp_path)))
    async with served.client(era) as client:
        names = await client.complete(types.PromptReference(name="greeting"), {"name": "who", "value": "a"})
        ref = types.ResourceTemplateReference(uri="corpus://docs/{+path}")
        paths = await client.complete(ref, {"name": "path", "value": "on"})
        nothing = await client.complete(types.ResourceTemplateReference(uri="x://{y}"), {"name": "y", "value": ""})
    assert (len(names.completion.values), names.completion.total, names.completion.has_more) == (100, 150, True)
    assert names.completion.values[0] == "who-a000"
    assert paths.completion.values == ["one.txt", "only.txt"]
    assert nothing.completion.values == []


async def test_a_modern_client_hears_of_what_it_listens_to() -> None:
    notes = Notes(a="alpha")
    served = scene(look, resources=(notes,))
    async with (
        served.client(MODERN) as client,
        client.listen(
            tools_list_changed=True, resources_list_changed=True, resource_subscriptions=["note://a"]
        ) as heard,
    ):
        served.renew(look, tool(name="other")(lambda: "x"))
        assert await _next(heard) == ToolsListChanged()
        notes.write("a", "omega")
        assert await _next(heard) == ResourceUpdated("note://a")
        notes.write("b", "new")
        assert await _next(heard) == ResourcesListChanged()
        served.notices.updated("note://other")
        served.notices.changed("tools")
        assert await _next(heard) == ToolsListChanged(), "what it did not ask for it does not hear"


async def test_nobody_hears_of_what_they_may_not_read() -> None:
    notes = Notes(a="alpha", b="beta")
    guest = Principal("guest", ("resource:note://a",))
    served = scene(look, resources=(notes,), principal=lambda caller: guest)
    async with (
        served.client(MODERN) as client,
        client.listen(resource_subscriptions=["note://b", "note://a"]) as heard,
    ):
        notes.write("b", "secret")
        notes.write("a", "omega")
        assert await _next(heard) == ResourceUpdated("note://a")


async def _next(heard: Any) -> Any:
    return await asyncio.wait_for(anext(aiter(heard)), 10)


@pytest.mark.filterwarnings("ignore:resources/:UserWarning")
async def test_what_may_not_be_read_cannot_be_subscribed_to() -> None:
    guest = Principal("guest", ("resource:note://a",))
    async with scene(look, resources=(Notes(),), principal=lambda caller: guest).client(LEGACY) as client:
        await client.subscribe_resource("note://a")
        with pytest.raises(MCPError, match="not found"):
            await client.subscribe_resource("note://b")


@pytest.mark.filterwarnings("ignore:resources/:UserWarning")
async def test_a_client_of_the_handshake_era_is_told_of_changes() -> None:
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def hear(message: Any) -> None:
        params = getattr(message, "params", None)
        await told.put((message.method, getattr(params, "uri", "")))

    notes = Notes(a="alpha", b="beta")
    served = scene(look, resources=(notes,))
    async with served.client(LEGACY, message_handler=hear) as client:
        await client.subscribe_resource("note://a")
        served.renew(look, tool(name="other")(lambda: "x"))
        assert await _told(told) == ("notifications/tools/list_changed", "")
        assert [each.name for each in (await client.list_tools()).tools] == ["look", "other"]
        notes.write("b", "not subscribed")
        notes.write("a", "omega")
        assert await _told(told) == ("notifications/resources/updated", "note://a")
        await client.unsubscribe_resource("note://a")
        notes.write("a", "psi")
        notes.write("c", "new")
        assert await _told(told) == ("notifications/resources/list_changed", "")
        served.notices.changed("prompts")
        assert await _told(told) == ("notifications/prompts/list_changed", "")


async def _told(told: asyncio.Queue[tuple[str, str]]) -> tuple[str, str]:
    return await asyncio.wait_for(told.get(), 10)


async def test_a_storm_of_changes_is_told_as_few() -> None:
    count = 0

    async def hear(message: Any) -> None:
        nonlocal count
        count += 1

    served = scene(look)
    async with served.client(LEGACY, message_handler=hear) as client:
        await client.list_tools()
        for _ in range(10_000):
            served.notices.changed("tools")
        await client.list_tools()
    assert 1 <= count <= 2


@pytest.mark.filterwarnings("ignore:The logging capability:UserWarning")
async def test_a_logging_level_is_taken() -> None:
    async with scene(look).client(LEGACY) as client:
        await client.set_logging_level("warning")


# ── folders ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "read me.md").write_text("# Read me\n")
    (root / "deep" / "er" / "data.json").write_text("{}")
    (root / "raw.bin").write_bytes(b"\xff\x00")
    (root / ".hidden").write_text("no")
    (tmp_path / "secret").write_text("no")
    (tmp_path / "corpus-2").mkdir()
    (tmp_path / "corpus-2" / "secret").write_text("no")
    return root


async def test_the_files_of_a_folder_are_listed_and_read(corpus: Path) -> None:
    source = FolderSource("docs", corpus)
    listed = await source.list()
    assert listed[0].template and listed[0].uri == "corpus://docs/{+path}"
    assert [each.uri for each in listed[1:]] == [
        "corpus://docs/deep/er/data.json",
        "corpus://docs/raw.bin",
        "corpus://docs/read%20me.md",
    ]
    bodies = [body for each in listed[1:] for body in await source.read(each.uri) or ()]
    assert [(body.text, body.data) for body in bodies] == [("{}", None), (None, b"\xff\x00"), ("# Read me\n", None)]


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "deep/../../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "../corpus-2/secret",
        ".hidden",
        "deep",
        "",
        "link",
        "inside",
        "linked/secret",
        "loop",
        "pipe",
        "read me.md%00",
        "read me.md/",
        "a" * 5_000,
        "a/" * 100,
        "%ff",
        "raw.bin/x",
    ],
)
async def test_nothing_outside_of_the_folder_can_be_read(corpus: Path, path: str) -> None:
    (corpus / "link").symlink_to(corpus.parent / "secret")
    (corpus / "inside").symlink_to(corpus / "read me.md")
    (corpus / "linked").symlink_to(corpus.parent)
    (corpus / "loop").symlink_to("loop")
    os.mkfifo(corpus / "pipe")
    source = FolderSource("docs", corpus)
    assert await source.read(f"corpus://docs/{path}") is None
    assert "no" not in [each.name for each in await source.list()]


def test_a_folder_that_becomes_a_link_while_it_is_listed_is_passed_over(corpus: Path) -> None:
    (corpus / "a").write_text("first")
    root = os.open(corpus, os.O_RDONLY)
    walking = _walk(root, (), 9)
    assert next(walking)[0] == ("a",)
    (corpus / "deep").rename(corpus / "x")
    (corpus / "deep").symlink_to(corpus.parent / "corpus-2")
    assert [path[-1] for path, _ in walking] == ["raw.bin", "read me.md"]
    os.close(root)


async def test_another_corpus_is_not_read_by_the_beginning_of_its_name(corpus: Path) -> None:
    source = FolderSource("docs", corpus)
    assert await source.read("corpus://docs-2/read%20me.md") is None
    assert await source.read("corpus://doc/read%20me.md") is None


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_whatever_path_is_asked_for_only_what_is_listed_is_read(path: str) -> None:
    here = Path(__file__).parent
    names = {file.name for file in here.iterdir() if file.is_file()}
    found = asyncio.run(FolderSource("x", here).read(f"corpus://x/{quote(path, errors='replace')}"))
    assert found is None or path in names


async def test_a_file_that_is_too_large_is_an_error_with_the_reason(corpus: Path) -> None:
    (corpus / "huge").write_bytes(bytes(LARGEST + 1))
    async with scene(look, resources=(FolderSource("docs", corpus),)).client(MODERN) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("corpus://docs/huge")
    assert "no more than" in caught.value.message


def test_a_corpus_without_its_folder_is_a_mistake_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        FolderSource("docs", tmp_path / "nothing")
