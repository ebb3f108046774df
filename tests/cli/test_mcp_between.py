"""`handrail mcp add`, `import --replace`, `--undo` and `status`: between a client and its servers, with real files."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from handrail.config.load import load_config
from tests.cli.journal_fixtures import environment, lines, run
from tests.mcp.servers.described_server import command, describe, starts, tool

READ: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
SECRETS = ("opensesame-1", "opensesame-2", "opensesame-3")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; the current folder is a project below it."""
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    for name in ("HANDRAIL_JOURNAL", "HANDRAIL_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder.parent))
    return folder.parent


def program(home: Path, name: str, *tools: str) -> list[str]:
    return command(describe(home / f"{name}.json", *(tool(each, **READ) for each in tools)))


def entry(words: list[str], **more: Any) -> dict[str, Any]:
    return {"command": words[0], "args": words[1:], **more}


def claude(home: Path) -> tuple[Path, bytes]:
    """The file of Claude Code with two servers of the user, secrets among them, and one that cannot be taken."""
    file = home / ".claude.json"
    servers = {
        "one": entry(program(home, "one", "search"), env={"ONE_TOKEN": SECRETS[0], "LEVEL": "debug"}),
        "two": entry([*program(home, "two", "search", "find"), "--api-key", SECRETS[1]], type="stdio"),
        "old": {"type": "sse", "url": "https://example.org/sse", "headers": {"Authorization": f"Bearer {SECRETS[2]}"}},
    }
    file.write_text(json.dumps({"numStartups": 7, "mcpServers": servers, "tips": {}}, indent=2), encoding="utf-8")
    file.chmod(0o640)
    return file, file.read_bytes()


async def tools_of(entry: dict[str, Any], folder: Path) -> list[str]:
    """What a client gets that starts an entry of its file in some folder."""
    start = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment(), cwd=str(folder))
    async with stdio_client(start) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        return sorted(each.name for each in (await session.list_tools()).tools)


async def test_a_clients_file_is_left_with_one_entry_through_which_it_has_all_tools_and_undo_gives_the_bytes_back(
    home: Path, tmp_path: Path
) -> None:
    file, before = claude(home)

    refused = run("mcp", "import", "claude", "--replace", text="n\n")
    unchanged = file.read_bytes()
    done = run("mcp", "import", "claude", "--replace", text="y\n")
    after = json.loads(file.read_bytes())
    config = home / ".config" / "handrail" / "handrail.toml"
    again = run("mcp", "import", "claude", "--replace", "--yes")

    assert (refused.exit_code, unchanged == before, done.exit_code, again.exit_code) == (1, True, 0, 0), done.stderr
    assert list(after["mcpServers"]) == ["handrail", "old"]
    assert {**after, "mcpServers": {}} == {**json.loads(before), "mcpServers": {}}
    assert "old stays where it is" in done.stderr
    said = "".join(each.stdout + each.stderr for each in (refused, done, again))
    assert not any(secret in said + config.read_text() for secret in SECRETS)
    kept = home / ".local" / "state" / "handrail" / "secrets.json"
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o600, 0o640)
    resolved: Any = load_config(config).mcp["two"].resolved()
    assert resolved.args[-2:] == ("--api-key", SECRETS[1])
    assert starts(home / "one.json") == 0
    assert await tools_of(after["mcpServers"]["handrail"], tmp_path) == ["one_search", "two_find", "two_search"]

    undone = run("mcp", "import", "claude", "--undo")
    assert (undone.exit_code, file.read_bytes() == before) == (0, True)
    assert run("mcp", "import", "claude", "--undo").exit_code == 1


def test_what_a_client_writes_meanwhile_survives_the_undo(home: Path) -> None:
    file, before = claude(home)
    run("mcp", "import", "claude", "--replace", "--yes")
    changed = json.loads(file.read_bytes())
    changed["numStartups"] = 8
    changed["mcpServers"]["new"] = {"command": "new"}
    file.write_text(json.dumps(changed), encoding="utf-8")

    undone = run("mcp", "import", "claude", "--undo")

    original = json.loads(before)
    restored = {**original["mcpServers"], "new": {"command": "new"}}
    assert undone.exit_code == 0
    assert json.loads(file.read_bytes()) == {**original, "numStartups": 8, "mcpServers": restored}


def test_an_entry_that_was_changed_is_not_undone_by_guessing(home: Path) -> None:
    file, _ = claude(home)
    run("mcp", "import", "claude", "--replace", "--yes")
    file.write_text(file.read_text().replace('"serve"', '"serve", "--http"'), encoding="utf-8")
    changed = file.read_bytes()

    undone = run("mcp", "import", "claude", "--undo")

    assert (undone.exit_code, file.read_bytes() == changed) == (1, True)
    assert "no longer what handrail wrote" in undone.stderr


def test_the_servers_of_a_project_and_those_of_its_user_are_replaced_and_given_back_one_after_the_other(
    home: Path,
) -> None:
    file, project = home / ".claude.json", str(home / "project")
    mine, ours = entry(program(home, "one", "search")), entry(program(home, "two", "find"))
    file.write_text(json.dumps({"projects": {project: {"mcpServers": {"two": ours}}}, "mcpServers": {"one": mine}}))
    before = file.read_bytes()

    first = run("mcp", "import", "claude", "--replace", "--yes")
    second = run("mcp", "import", "claude", "--replace", "--yes")
    third = run("mcp", "import", "claude", "--replace", "--yes")
    after = json.loads(file.read_bytes())
    (home / "project" / ".mcp.json").write_text(json.dumps({"mcpServers": {"new": {"command": "new"}}}))
    undone = [run("mcp", "import", "claude", "--undo") for _ in range(2)]

    assert [each.exit_code for each in (first, second, third, *undone)] == [0] * 5, second.stderr
    assert list(after["mcpServers"]) == ["handrail"] == list(after["projects"][project]["mcpServers"])
    assert (" has two again" in undone[0].stdout, " has one again" in undone[1].stdout) == (True, True)
    assert json.loads(file.read_bytes()) == json.loads(before)
    assert run("mcp", "import", "claude", "--undo").exit_code == 1


@pytest.mark.parametrize("broken", ["{", "", '{"mcpServers": []}', '{"mcpServers": {}}', "[]"])
def test_an_undo_refuses_a_file_that_was_broken_meanwhile_and_keeps_what_it_had(home: Path, broken: str) -> None:
    file, before = claude(home)
    run("mcp", "import", "claude", "--replace", "--yes")
    file.write_text(broken)

    undone = run("mcp", "import", "claude", "--undo")
    file.write_bytes(before)

    assert (undone.exit_code, "Traceback" in undone.stderr) == (1, False), undone.stderr
    assert "stands in Base64" in undone.stderr
    assert run("mcp", "import", "claude", "--undo").exit_code == 0


def test_servers_that_a_client_adds_later_join_the_entry_that_is_there(home: Path) -> None:
    file, before = claude(home)
    run("mcp", "import", "claude", "--replace", "--yes")
    first = file.read_bytes()
    added = json.loads(first)
    added["mcpServers"]["three"] = entry(program(home, "three", "look"))
    file.write_text(json.dumps(added, indent=2), encoding="utf-8")
    second = file.read_bytes()

    done = run("mcp", "import", "claude", "--replace", "--yes", "--json")

    assert (done.exit_code, json.loads(done.stdout)["replaced"]) == (0, ["three"])
    assert json.loads(file.read_bytes())["mcpServers"] == json.loads(first)["mcpServers"]
    assert run("mcp", "import", "claude", "--undo").exit_code == 0
    assert file.read_bytes() == second
    assert run("mcp", "import", "claude", "--undo").exit_code == 0
    assert json.loads(file.read_bytes())["mcpServers"].keys() == {*json.loads(before)["mcpServers"], "three"}


@pytest.mark.parametrize(
    ("client", "name", "text", "wanted"),
    [
        (
            "vscode",
            "project/.vscode/mcp.json",
            """{
  // Shared
  "inputs": [{"id": "api-key", "type": "promptString", "password": true}],
  "servers": {
    "far": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${input:api-key}"}},
    "local": {"command": "${workspaceFolder}/bin/x", "envFile": "${workspaceFolder}/.env"}, // stays
  },
}
""",
            {"env": {"API_KEY": "${input:api-key}"}, "type": "stdio"},
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            '{"mcpServers": {"far": {"url": "https://example.org/mcp", "headers": {"X": "1"}}}}',
            {},
        ),
        (
            "codex",
            ".codex/config.toml",
            '# mine\nmodel = "o9"\n\n[mcp_servers.far]\nurl = "https://example.org/mcp"\n'
            'bearer_token_env_var = "FAR_TOKEN"\nenabled_tools = ["look"]\n\n[tui]\ntheme = "dark"\n',
            {"env_vars": ["FAR_TOKEN"]},
        ),
        (
            "claude",
            ".claude.json",
            '{"mcpServers": {}, "projects": {"FOLDER": {"mcpServers": {"far": {"url": "https://example.org/mcp"}}}}}',
            {},
        ),
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            '{"mcpServers": {"far": {"url": "https://example.org/mcp"}}}',
            {},
        ),
    ],
)
def test_each_client_has_its_own_form_and_gets_its_bytes_back(
    home: Path, monkeypatch: pytest.MonkeyPatch, client: str, name: str, text: str, wanted: dict[str, Any]
) -> None:
    for variable in ("API_KEY", "FAR_TOKEN"):
        monkeypatch.setenv(variable, "x")
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.replace("FOLDER", str(home / "project")), encoding="utf-8")
    before = file.read_bytes()

    done = run("mcp", "import", client, "--replace", "--yes", "--json")
    rows = lines(run("mcp", "status", "--json", "--no-connect"))
    after = file.read_text()

    assert (done.exit_code, json.loads(done.stdout)["replaced"]) == (0, ["far"]), done.stderr
    assert [(row["client"], row["through"], row["state"]) for row in rows if row["server"] == "far"] == [
        (client, "handrail", "approved")
    ]
    assert all(
        json.dumps(value) in after or f"{key} = {json.dumps(value)}" in after
        for key, value in wanted.items()
        if key != "env"
    )
    assert "API_KEY" in after or "env" not in wanted
    assert ("// Shared" in after, "// stays" in after) == (client == "vscode", client == "vscode")
    assert run("mcp", "import", client, "--undo").exit_code == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", ['{"mcpServers": {"a": {"command": "x"}', "[mcp", '{"mcpServers": 3}'])
def test_a_file_that_cannot_be_read_is_refused_with_why_and_untouched(home: Path, text: str) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")

    done = run("mcp", "import", "cursor", "--replace", "--yes")

    assert (done.exit_code, file.read_text()) == (1, text)
    assert str(file) in done.stderr
    assert not (home / ".config").exists()


def test_the_same_server_of_two_clients_is_there_once_and_another_of_its_name_stays(home: Path) -> None:
    words = program(home, "one", "look")
    for client, name, secret in (("cursor", ".cursor/mcp.json", "a"), ("claude", ".claude.json", "a")):
        file = home / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"mcpServers": {"one": entry(words, env={"TOKEN": secret})}}), encoding="utf-8")
        assert run("mcp", "import", client, "--replace", "--yes").exit_code == 0
    codex = home / ".codex" / "config.toml"
    codex.parent.mkdir()
    started = f"command = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"
    codex.write_text(f'[mcp_servers.one]\n{started}env = {{ TOKEN = "b" }}\n')

    other = run("mcp", "import", "codex", "--replace", "--yes")

    config = home / ".config" / "handrail" / "handrail.toml"
    assert list(load_config(config).mcp) == ["one"]
    assert (other.exit_code, "is different" in other.stderr) == (1, True)


def test_status_tells_every_client_what_stands_before_its_servers_and_whether_it_can_start(home: Path) -> None:
    claude(home)
    run("mcp", "import", "claude", "--replace", "--yes")
    cursor = home / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    cursor.write_text('{"mcpServers": {"gone": {"command": "no-such-program"}, "sh": {"command": "sh"}}}')

    well = run("mcp", "status", "--json")
    run("mcp", "revoke", "one", "--config", str(home / ".config" / "handrail" / "handrail.toml"))
    revoked = run("mcp", "status", "--json", "--no-connect")

    rows = {(row["client"], row["server"]): (row["through"], row["state"], row["tools"]) for row in lines(well)}
    assert rows == {
        ("claude", "one"): ("handrail", "ready", ["one_search"]),
        ("claude", "two"): ("handrail", "ready", ["two_search", "two_find"]),
        ("claude", "old"): ("direct", "direct", []),
        ("cursor", "gone"): ("direct", "lost", []),
        ("cursor", "sh"): ("direct", "direct", []),
    }
    states = {row["server"]: row["state"] for row in lines(revoked)}
    assert (well.exit_code, revoked.exit_code, states["one"]) == (0, 1, "unapproved")


def test_a_server_is_added_by_its_command_with_its_secrets_apart(home: Path) -> None:
    words = program(home, "one", "look")

    added = run("mcp", "add", "one", "--env", f"ONE_TOKEN={SECRETS[0]}", "--json", "--", *words)
    again = run("mcp", "add", "one", "--", *words)
    lost = run("mcp", "add", "lost", "--", "no-such-program")
    far = run(
        "mcp", "add", "far", "--url", "https://example.org/mcp", "--header", "Authorization: env:FAR", "--no-connect"
    )
    wrong = [run("mcp", "add", "x"), run("mcp", "add", "x", "--url", "ftp://x"), run("mcp", "add", "x y", "--", "z")]
    rows = run("mcp", "list", "--json")

    text = Path("handrail.toml").read_text()
    assert (added.exit_code, lines(added)) == (0, [{"server": "one", "approved": True, "tools": ["look"]}]), (
        added.stderr
    )
    assert (added.exit_code, again.exit_code, lost.exit_code, far.exit_code, [each.exit_code for each in wrong]) == (
        *(0, 1, 1, 0),
        [1, 1, 1],
    )
    assert 'ONE_TOKEN = "secret:ONE_TOKEN"' in text and SECRETS[0] not in text + added.stdout + added.stderr
    assert {row["server"]: row["state"] for row in lines(rows)} == {"one": "ready", "lost": "lost", "far": "lost"}
    assert rows.exit_code == 1
    assert run("mcp", "approve", "lost", "--yes").exit_code == 1


def test_what_cannot_be_in_the_file_is_not_added_and_a_linked_file_stays_linked(home: Path) -> None:
    real, link = home / "dotfiles.toml", Path("handrail.toml")
    real.write_text("# mine\n")
    link.symlink_to(real)

    wrong = run("mcp", "add", "one", "--prefix", "a b", "--no-connect", "--", "sh")
    untouched = real.read_text()
    added = run("mcp", "add", "one", "--prefix", "a_", "--no-connect", "--", "sh")

    assert (wrong.exit_code, "prefix" in wrong.stderr, untouched) == (1, True, "# mine\n")
    assert (added.exit_code, link.is_symlink(), load_config(real).mcp["one"].prefix) == (0, True, "a_"), added.stderr
