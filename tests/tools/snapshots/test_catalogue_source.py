"""Where a catalogue comes from: a file, a node that is asked, our own tools. What is wrong is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail import Ensemble, tool
from handrail.core.errors import ConfigError, HandrailError, InvalidDefinition, UsageError
from handrail.tools.registry import registered
from handrail.tools.snapshots.catalogue import CatalogueModel, CatalogueTool, NodeCatalogue, catalogue_of, pascal_case
from handrail.tools.snapshots.catalogue_source import read_catalogue, read_source

OBJECT: dict[str, Any] = {"type": "object"}
NRV = {
    "metadata": {"engine": "nrv", "version": "2025.11"},
    "limits": {"ctx_max": 8192},
    "workloads": [],
    "models": [
        {
            "id": "big",
            "modality": "text",
            "ctx_max": 8192,
            "supports_tool_calls": True,
            "supports_parallel_functions": True,
        },
        {"id": "ear", "modality": "audio", "ctx_max": 8192, "supports_tool_calls": False},
    ],
    "hardware": {"gpus": []},
    "tools": [
        {
            "name": "write-file",
            "input_schema": '{"type": "object"}',
            "returns_schema": '{"type": "null"}',
            "timeout_ms": 5,
        },
        {"name": "read-file", "description": "Read.", "input_schema": OBJECT, "returns": {"type": "string"}},
    ],
    "captured_at": "2025-11-01T00:00:00Z",
}


def read(value: Any) -> NodeCatalogue:
    return read_catalogue(json.dumps(value).encode(), "node.json")


def refused(value: Any) -> str:
    with pytest.raises(ConfigError) as error:
        read(value)
    return str(error.value)


def with_tool(**changes: Any) -> dict[str, Any]:
    return {"tools": [{"name": "a", "input_schema": OBJECT, **changes}]}


def test_nrvs_own_shape_is_read() -> None:
    assert read(NRV) == NodeCatalogue(
        tools=(
            CatalogueTool(
                name="read-file", description="Read.", input_schema=OBJECT, returns_schema={"type": "string"}
            ),
            CatalogueTool(name="write-file", input_schema=OBJECT, returns_schema={"type": "null"}, timeout_ms=5),
        ),
        models=(
            CatalogueModel(id="big", tools=("read-file", "write-file")),
            CatalogueModel(id="ear", supports_tool_calls=False, tools=()),
        ),
    )


def test_a_catalogue_that_we_write_as_json_is_read_as_it_was() -> None:
    catalogue = read(NRV)
    data = {
        "tools": catalogue.tools,
        "models": [{"supports_tool_calls": True, **m} for m in msgspec.to_builtins(catalogue.models)],
    }

    assert read_catalogue(msgspec.json.encode(data), "ours.json") == catalogue


@pytest.mark.requirement("nrv.model-tools")
def test_a_model_declares_the_tools_that_are_valid_for_it() -> None:
    @tool(side_effects=False, models=("gpt",))
    def only_big(text: str) -> str:
        """For one model."""
        return text

    @tool(side_effects=True, timeout=2.5, tags=("z", "a"))
    def write(text: str) -> None:
        """For all."""

    catalogue = catalogue_of(
        registered(Ensemble("box", [only_big, write])),
        [
            CatalogueModel(id="small"),
            CatalogueModel(id="big", provider="openai", model="gpt"),
            CatalogueModel(id="deaf", supports_tool_calls=False),
        ],
    )

    assert {model.id: model.tools for model in catalogue.models} == {
        "big": ("only_big", "write"),
        "deaf": (),
        "small": ("write",),
    }
    assert [(each.scoped_name, each.side_effects, each.timeout_ms, each.tags) for each in catalogue.tools] == [
        ("box:only_big", False, None, None),
        ("box:write", True, 2500, ("a", "z")),
    ]


WRONG: list[tuple[Any, str]] = [
    ([], "is not a catalogue"),
    ({}, "is not a catalogue"),
    ({"code": "E_TRANSPORT", "message": "busy"}, "is not a catalogue"),
    ({"tools": {}}, "tools: expected an array, got object"),
    ({"tools": ["add"]}, "tools[0]: expected an object, got string"),
    ({"tools": [], "tolls": []}, "tolls: there is no such key"),
    ({"tools": [{"input_schema": OBJECT}]}, "needs a name"),
    (with_tool(name="a b"), "cannot be used"),
    (with_tool(name="päth"), "cannot be used"),
    (with_tool(name=3), "tools[0]"),
    (with_tool(description=3), "tools[0]"),
    (with_tool(timeout_ms=-1), "timeout"),
    (with_tool(timeout_ms="5"), "milliseconds is a number"),
    (with_tool(side_effect=True), "unknown key 'side_effect'; did you mean 'side_effects'?"),
    (with_tool(input_schema="{"), "not JSON"),
    (with_tool(input_schema={"type": "string"}), "must describe an object"),
    (with_tool(input_schema={"type": "object", "properties": 3}), "cannot be used"),
    (with_tool(input_schema={"type": "object", "$ref": "http://127.0.0.1/x"}), "cannot be used"),
    (with_tool(returns_schema={"type": "nothing"}), "cannot be used"),
    (with_tool(returns_schema={"maximum": 10**390}), "too large"),
    ({"tools": [{"name": "a", "input_schema": OBJECT}] * 2}, "two tools are called 'a'"),
    (
        {"tools": [{"name": name, "input_schema": OBJECT} for name in ("read-file", "read_file")]},
        "both be called ReadFile",
    ),
    ({"models": [{"id": "m"}]}, "supports_tool_calls"),
    ({"models": [{"id": "m", "supports_tool_calls": "yes"}]}, "supports_tool_calls"),
    ({"models": [{"supports_tool_calls": True}]}, "models[0]"),
    ({"models": [{"id": "", "supports_tool_calls": True}]}, "cannot be written down"),
    ({"models": [{"id": "m", "supports_tool_calls": True, "tool": []}]}, "a model has no 'tool'"),
    ({"models": [{"id": "m", "supports_tool_calls": True}] * 2}, "two models have the id 'm'"),
    ({"models": [{"id": "m", "supports_tool_calls": True, "tools": ["a"]}]}, "names the tool 'a', which is not there"),
    (
        {**with_tool(models=["x"]), "models": [{"id": "m", "supports_tool_calls": True, "tools": ["a"]}]},
        "names the tool 'a', which is not for it",
    ),
    ({**with_tool(), "models": [{"id": "m", "supports_tool_calls": False, "tools": ["a"]}]}, "which is not for it"),
]


@pytest.mark.requirement("nrv.snapshot")
@pytest.mark.parametrize(("value", "said"), WRONG)
def test_what_is_no_catalogue_is_refused_with_the_place(value: Any, said: str) -> None:
    told = refused(value)

    assert told.startswith("node.json: ") and said in told


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"tools": [], "tools": []}', b'\xef\xbb\xbf{"tools": []}', b'{"tools": "\\ud800"}', b"[" * 10_000],
)
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        read_catalogue(data, "node.json")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda v: (
            st.lists(v)
            | st.dictionaries(
                st.sampled_from(
                    ["tools", "models", "name", "id", "input_schema", "supports_tool_calls", "tags", "models"]
                ),
                v,
            )
        ),
    )
)
def test_any_json_is_a_catalogue_or_an_error_of_ours(value: Any) -> None:
    try:
        assert isinstance(read(value), NodeCatalogue)
    except HandrailError as error:
        assert "node.json" in str(error)


def test_a_surrogate_in_our_own_tools_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="surrogate"):
        NodeCatalogue.of([CatalogueTool(name="a", description="\ud800", input_schema=OBJECT)])


@given(st.text(st.sampled_from("abAB019_.-"), min_size=1, max_size=12))
def test_every_name_has_an_identifier(name: str) -> None:
    made = pascal_case(name)

    assert made.isidentifier() and made.isascii() and made[0].isupper()


def test_names_that_differ_in_digits_stay_apart() -> None:
    assert [pascal_case(name) for name in ("v1.2", "v12", "read-file", "3d", "self", "_", "HTTP_GET")] == [
        "V1_2",
        "V12",
        "ReadFile",
        "N3d",
        "SelfTool",
        "Underscore1",
        "HTTPGET",
    ]


# ── where it comes from ─────────────────────────────────────────────────────────────


async def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text(json.dumps(NRV))

    assert await read_source(str(tmp_path / "node.json")) == read(NRV)


async def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json cannot be read: No such file"):
        await read_source(str(tmp_path / "none.json"))


@contextmanager
def node(status: int, body: bytes, length: int | None = None) -> Iterator[str]:
    """A node on loopback that answers everything so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body) if length is None else length))
            self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quietly."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://ada:secret@127.0.0.1:{server.server_port}/capabilities?key=secret"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_a_node_is_asked_over_http() -> None:
    with node(200, json.dumps(NRV).encode()) as url:
        assert await read_source(url) == read(NRV)


@pytest.mark.parametrize("status", [204, 302, 404, 500])
async def test_every_other_answer_is_refused_without_the_secrets_of_the_address(status: int) -> None:
    with node(status, b"") as url, pytest.raises(UsageError) as error:
        await read_source(url)

    assert f"/capabilities answered {status}" in str(error.value) and "secret" not in str(error.value)


async def test_an_answer_that_breaks_off_or_is_too_long_or_is_no_json_is_refused() -> None:
    with node(200, b'{"tools": [', length=5000) as url, pytest.raises(UsageError, match="cannot be read"):
        await read_source(url, timeout=5)
    with node(200, b" " * (9 * 1024 * 1024)) as url, pytest.raises(UsageError, match="more than"):
        await read_source(url)
    with node(200, b"<html>") as url, pytest.raises(ConfigError, match="is not JSON") as error:
        await read_source(url)
    assert "secret" not in str(error.value)


async def test_a_node_that_is_not_there_is_refused() -> None:
    with node(200, b"") as url:
        pass
    with pytest.raises(UsageError, match="cannot be read"):
        await read_source(url)
