"""Importing MCP servers of other programs: their shapes, their variables, their secrets, and what cannot be taken."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from handrail.config.client_files import find_client_file, plain_json
from handrail.config.load import load_config
from handrail.config.mcp_import import ImportedServer, ServerImport, add_servers, read_foreign, to_toml
from handrail.core.errors import ConfigError, UsageError
from handrail.mcp.values import HttpEndpoint, OAuth, StdioEndpoint

HOME = Path("/home/ada")
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz"


def read(path: Path, text: str | dict[str, Any]) -> ServerImport:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return read_foreign(find_client_file(str(path), path.parent, HOME, {}), HOME)


def one(path: Path, entry: Any, **more: Any) -> ImportedServer:
    found = read(path, {"mcpServers": {"it": entry}, **more})
    assert found.refused == {}
    return found.servers[0]


def test_claude_desktop(tmp_path: Path) -> None:
    found = read(
        tmp_path / "claude_desktop_config.json",
        """
        {
          "mcpServers": {
            "filesystem": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"]
            },
            "github": {
              "command": "docker",
              "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
              "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "opensesame", "LOG": "debug" }
            }
          },
          "globalShortcut": ""
        }
        """,
    )

    assert "".join(map(to_toml, found.servers)) == snapshot(
        """\
[mcp.filesystem]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"]
[mcp.github]
command = "docker"
args = ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"]
env = { GITHUB_PERSONAL_ACCESS_TOKEN = "env:GITHUB_PERSONAL_ACCESS_TOKEN", LOG = "debug" }
"""
    )
    assert found.servers[1].variables == {
        "GITHUB_PERSONAL_ACCESS_TOKEN": "what stands under env.GITHUB_PERSONAL_ACCESS_TOKEN there"
    }


def test_vs_code_with_comments_inputs_and_folders(tmp_path: Path) -> None:
    found = read(
        tmp_path / ".vscode" / "mcp.json",
        """
        // Shared with the team
        {
          "inputs": [
            { "type": "promptString", "id": "api-token", "description": "The key of the API", "password": true },
          ],
          "servers": {
            /* local */
            "search": {
              "type": "stdio",
              "command": "${workspaceFolder}/bin/search",
              "args": ["--root", "${workspaceFolder}", "--note", "// no comment, /* nor this */"],
              "env": { "TOKEN": "${input:api-token}", "LEVEL": "${env:LEVEL}" },
              "envFile": "${workspaceFolder}/.env",
            },
            "far": {
              "type": "http",
              "url": "https://example.org/mcp",
              "headers": { "Authorization": "Bearer ${input:api-token}" },
              "oauth": { "clientId": "me" }
            },
            "old": { "type": "sse", "url": "https://example.org/sse" }
          }
        }
        """,
    )

    search, far = found.servers
    assert search.table == {
        "command": f"{tmp_path}/bin/search",
        "args": ["--root", str(tmp_path), "--note", "// no comment, /* nor this */"],
        "env": {"TOKEN": "env:API_TOKEN", "LEVEL": "env:LEVEL"},
    }
    assert search.variables["API_TOKEN"] == "The key of the API"
    assert search.notes == ("'envFile' was left out; there is no such thing here",)
    assert far.table == {
        "url": "https://example.org/mcp",
        "headers": {"Authorization": "Bearer ${API_TOKEN}"},
        "oauth": {"client_id": "me"},
    }
    assert "deprecated" in found.refused["old"]


def test_cursor(tmp_path: Path) -> None:
    found = read(
        tmp_path / ".cursor" / "mcp.json",
        {
            "mcpServers": {
                "My Server!": {"url": "https://example.org/mcp", "headers": {"X-Api-Key": "${env:MY_KEY}"}},
                "legacy": {"url": "https://example.org/sse"},
                "signed": {
                    "url": "https://example.org/mcp",
                    "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "opensesame", "scopes": ["read"]},
                },
                "off": {"command": "x", "disabled": True},
            }
        },
    )

    named, signed, off = found.servers
    assert (named.name, named.notes) == ("My-Server", ("it is called 'My-Server' here",))
    assert named.table["headers"] == {"X-Api-Key": "env:MY_KEY"}
    assert signed.table["oauth"] == {
        "client_id": "me",
        "client_secret": "env:SIGNED_CLIENT_SECRET",
        "scopes": ["read"],
    }
    assert off.table == {"command": "x", "enabled": False}
    assert "deprecated" in found.refused["legacy"]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "args": ["--api-key", "opensesame"]},
        {"command": "x", "args": ["--token=opensesame"]},
        {"command": "x", "args": [f"--header=Bearer {SECRET}"]},
        {"command": "x", "env": {"SERVICE_PASSWORD": "opensesame"}},
        {"command": "x", "env": {"HARMLESS": SECRET}},
        {"url": "https://ada:opensesame@example.org/mcp"},
        {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer opensesame"}},
        {"url": "https://example.org/mcp", "headers": {"Cookie": "opensesame"}},
    ],
)
def test_no_secret_is_copied_and_what_to_set_is_told(tmp_path: Path, entry: dict[str, Any]) -> None:
    found = one(tmp_path / "mcp.json", entry)

    assert SECRET not in to_toml(found)
    assert "opensesame" not in to_toml(found)
    assert found.variables


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("x", "not a JSON object"),
        ({}, "neither a command nor a url"),
        ({"command": 3.5, "args": "x"}, "args are not a list"),
        ({"command": None}, "command must be text"),
        ({"command": "x", "type": "http"}, "of the kind 'http'"),
        ({"url": "unix:///tmp/x.sock"}, "not an address"),
        ({"url": "https://example.org", "type": "carrier-pigeon"}, "carrier-pigeon"),
        ({"command": "${file:x}"}, "means nothing here"),
        ({"command": "${config:python.path}"}, "means nothing here"),
    ],
)
def test_what_cannot_be_used_is_refused_with_why(tmp_path: Path, entry: Any, said: str) -> None:
    found = read(tmp_path / "mcp.json", {"mcpServers": {"it": entry, "good": {"command": "x"}}})

    assert said in found.refused["it"]
    assert [each.name for each in found.servers] == ["good"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "x", "cwd": SECRET}, "cwd: this looks like a secret"),
        ({"command": SECRET}, "command: this looks like a secret"),
        ({"command": " "}, "command: must name a program"),
        ({"url": "${workspaceFolder}"}, "url: must be an address"),
        ({"url": "https://[x"}, "url: must be an address"),
    ],
)
def test_what_our_own_file_could_not_hold_is_refused_and_takes_no_other_with_it(
    tmp_path: Path, entry: Any, said: str
) -> None:
    found = read(tmp_path / "mcp.json", {"inputs": None, "mcpServers": {"it": entry, "good": {"command": "x"}}})

    assert said in found.refused["it"] and SECRET not in found.refused["it"]
    add_servers(tmp_path / "handrail.toml", found.servers)
    assert list(load_config(tmp_path / "handrail.toml").mcp) == ["good"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", ":1: is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "neither"),
        ('{"mcpServers": {"a": {"command": "\\ud800"}}}', "is not JSON that can be used"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"mcp\.json") as refused:
        read(tmp_path / "mcp.json", text)

    assert said in str(refused.value)


def test_a_file_or_the_name_of_a_program_finds_it(tmp_path: Path) -> None:
    user, project = tmp_path / "home" / ".cursor" / "mcp.json", tmp_path / "here" / ".cursor" / "mcp.json"
    read(user, {"mcpServers": {}})
    assert find_client_file("cursor", tmp_path / "here", tmp_path / "home").path == user
    read(project, {"mcpServers": {}})
    assert find_client_file("cursor", tmp_path / "here", tmp_path / "home").path == project
    assert find_client_file(str(user), tmp_path, tmp_path).path == user

    for written in ("claude", "nothing.json"):
        with pytest.raises(UsageError):
            find_client_file(written, tmp_path / "here", tmp_path / "home")


def test_tables_are_added_behind_what_is_there_and_load(tmp_path: Path) -> None:
    path = tmp_path / "handrail.toml"
    path.write_text('# mine\n[mcp.mine]\ncommand = "mine"  # keep\n', encoding="utf-8")
    path.chmod(0o640)
    servers = (
        ImportedServer("time", {"command": "uvx", "args": ["mcp-server-time"], "env": {"A b": 'say "hi"\n\x7f'}}),
        ImportedServer("far", {"url": "https://example.org/mcp", "oauth": {"client_id": "me"}}),
    )

    add_servers(path, servers)

    assert path.read_text(encoding="utf-8").startswith('# mine\n[mcp.mine]\ncommand = "mine"  # keep\n\n[mcp.time]')
    assert path.stat().st_mode & 0o777 == 0o640
    config = load_config(path)
    assert {name: settings.endpoint for name, settings in config.mcp.items()} == {
        "mine": StdioEndpoint(command="mine"),
        "time": StdioEndpoint(command="uvx", args=("mcp-server-time",), env={"A b": 'say "hi"\n\x7f'}),
        "far": HttpEndpoint(url="https://example.org/mcp", oauth=OAuth(client_id="me")),
    }


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    add_servers(tmp_path / "handrail.toml", (ImportedServer("a", {"command": "x"}),))

    assert list(load_config(tmp_path / "handrail.toml").mcp) == ["a"]


@pytest.mark.parametrize(
    "before",
    ['[mcp.time]\ncommand = "x"\n', 'mcp = { other = { command = "x" } }\n', "not toml", "mcp = 3\n", 'mcp = "time"\n'],
)
def test_nothing_changes_if_it_cannot_be_added(tmp_path: Path, before: str) -> None:
    path = tmp_path / "handrail.toml"
    path.write_text(before, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"handrail\.toml"):
        add_servers(path, (ImportedServer("time", {"command": "uvx"}),))

    assert path.read_text(encoding="utf-8") == before


texts = st.text(st.characters(codec="utf-8"), max_size=30)
tables = st.dictionaries(
    texts, st.one_of(texts, st.booleans(), st.lists(texts), st.dictionaries(texts, texts)), max_size=4
)


@given(tables)
def test_any_table_is_read_back_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(ImportedServer("x", table)))["mcp"]["x"] == table


@given(st.recursive(st.none() | st.booleans() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_json_stays_what_it_is_without_comments_and_with_them(value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    commented = text.replace("\n", ' // a "comment" {\n/* and */ ')

    assert json.loads(plain_json(text)) == value
    assert json.loads(plain_json(commented)) == value
