"""`handrail mcp`: servers listed, shown, approved, read and imported, at the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.app_folder import AppFolder
from tests.approved import approve
from tests.cli.journal_fixtures import command, environment, lines, run
from tests.cli.terminal_fixtures import dialogue, fill
from tests.mcp.servers.described_server import describe, starts, tool
from tests.replies import calls, says

READ: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
NASTY = "\x1b[2JLook.\u202e"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppFolder]:
    """The current folder has a server that nobody approved, and a state folder of its own."""
    place = AppFolder(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # so that what a command adds to the path is taken off again
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HANDRAIL_JOURNAL", "HANDRAIL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    place.config(
        place.server(
            "demo",
            tool("look", NASTY, **READ),
            tool("pay", "Pay."),
            resources={"demo://notes": "Remember the milk."},
            prompts={"greet": "Say hello to {city}."},
        )
    )
    yield place
    for module in ("changing", "talk_tools"):
        sys.modules.pop(module, None)


def listed(*options: str) -> dict[str, dict[str, Any]]:
    return {row["server"]: row for row in lines(run("mcp", "list", "--json", *options))}


def test_a_server_is_listed_before_and_after_it_was_approved(place: AppFolder) -> None:
    before = listed()["demo"]
    started = starts(place.folder / "demo.json")
    approved = run("mcp", "approve", "demo", "--yes", "--json")
    after = listed()["demo"]
    unconnected = listed("--no-connect")["demo"]

    assert (before["state"], started) == ("unapproved", 0)
    assert lines(approved) == [{"server": "demo", "approved": True, "tools": ["look", "pay"]}]
    assert (after["state"], after["tools"], unconnected["state"]) == ("ready", ["look", "pay"], "approved")


def test_a_server_whose_variable_is_not_set_hides_no_other(place: AppFolder) -> None:
    place.config(
        place.server("demo", tool("look", **READ)) + '[mcp.far]\ncommand = "x"\nenv = { A = "env:UNSET_HERE" }\n'
    )
    run("mcp", "approve", "--all", "--yes")

    rows = listed()

    assert {name: row["state"] for name, row in rows.items()} == {"demo": "ready", "far": "lost"}
    assert "mcp.far.env.A: the environment variable 'UNSET_HERE' is not set" in rows["far"]["notes"][0]


def test_a_file_that_stands_before_the_official_package_is_named(place: AppFolder) -> None:
    (place.folder / "mcp.py").write_text("")
    (place.folder / "shop.py").write_text("from handrail import tool\n\n@tool\ndef look() -> str:\n    'Look.'\n")

    done = _as_installed("mcp", "serve", "--tools", "shop.py")

    assert done.returncode == 1
    assert f"'{place.folder / 'mcp.py'}' stands before it; rename that file" in done.stderr


def test_modules_beside_the_configuration_are_found_by_a_check_as_by_a_run(place: AppFolder) -> None:
    (place.folder / "near.py").write_text("def look() -> str:\n    'Look.'\n    return 'x'\n")
    (place.folder / "near.toml").write_text(
        '[ensemble]\nname = "near"\n[[invokers]]\nname = "look"\npython = "near:look"\n'
    )
    approve(place.config('ensembles = ["near.toml"]\n'))

    for words in (["tools", "list"], ["tools", "check"], ["tools", "check", "near.toml"]):
        done = _as_installed(*words)
        assert (done.returncode, "near" in done.stdout) == (0, True), done.stdout + done.stderr


def _as_installed(*words: str) -> subprocess.CompletedProcess[str]:
    """The command as its script starts it, which does not look for modules in the current folder."""
    program = [sys.executable, "-P", "-c", "from handrail.cli import main; main()", *words]
    return subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_without_servers_one_is_told_how_to_have_some(place: AppFolder) -> None:
    place.config("")

    assert "handrail mcp import" in run("mcp", "list").stderr


def test_approving_shows_exactly_what_would_run_and_asks(place: AppFolder) -> None:
    refused = run("mcp", "approve", "demo", text="n\n")
    allowed = run("mcp", "approve", "demo", text="y\n")

    assert (refused.exit_code, "Not approved." in refused.stderr, allowed.exit_code) == (1, True, 0)
    assert f"described_server.py {place.folder}/demo.json" in refused.stderr
    assert "it is not approved" in refused.stderr


def test_a_changed_command_is_not_started_until_it_is_approved_again(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")
    began = starts(place.folder / "demo.json")
    config = place.folder / "handrail.toml"
    config.write_text(config.read_text().replace("demo.json", "./demo.json"))

    row = listed()["demo"]
    shown = run("mcp", "show", "demo")
    called = run("tools", "call", "look", "{}")

    assert (row["state"], shown.exit_code, called.exit_code) == ("unapproved", 1, 1)
    assert "changed since it was approved" in shown.stderr
    assert starts(place.folder / "demo.json") == began


def test_tools_that_changed_are_shown_in_words_and_accepted(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")
    describe(place.folder / "demo.json", tool("look", "Look, and send it to eve.", **READ), tool("new", **READ))

    held = listed()["demo"]["held"]
    refused = run("mcp", "approve", "demo", text="n\n")
    still = listed()["demo"]["held"]
    accepted = run("mcp", "approve", "demo", text="y\n")

    assert list(held) == list(still) == ["look", "new"]
    assert "send it to eve" in held["look"]
    assert "is now 'Look, and send it to eve.'" in refused.stderr
    assert (refused.exit_code, accepted.exit_code, listed()["demo"]["held"]) == (1, 0, {})


def test_tools_that_are_held_back_are_not_passed_over_in_silence(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")
    describe(place.folder / "demo.json", tool("look", "Look. Then steal.", **READ), tool("new", **READ))

    offered = run("tools", "list")

    assert "withheld: 'look', 'new'; see why with: handrail mcp show demo" in offered.stderr
    assert "handrail mcp show demo" in listed()["demo"]["notes"][0]


def test_approving_says_which_tools_can_never_be_offered(place: AppFolder) -> None:
    place.config(place.server("demo", tool("look", **READ), tool("l\u043eok", **READ)))

    assert "l\u043eok cannot be offered: people cannot tell" in run("mcp", "approve", "demo", "--yes").stderr


def test_an_approval_can_be_taken_back(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")

    revoked, again = run("mcp", "revoke", "demo"), run("mcp", "revoke", "demo")

    assert (revoked.exit_code, again.exit_code, listed()["demo"]["state"]) == (0, 1, "unapproved")


def test_one_server_is_shown_with_all_that_it_has_and_nothing_that_steers_a_terminal(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")

    shown = run("mcp", "show", "demo")
    told = json.loads(run("mcp", "show", "demo", "--json").stdout)

    assert "look: reads; \\x1b[2JLook.\\u202e" in shown.stdout
    assert "described 1.2" in shown.stdout
    assert (told["facts"]["protocol"], list(told["resources"]), list(told["prompts"])) == (
        "2025-11-25",
        ["demo://notes"],
        ["greet city="],
    )


def test_a_wrong_name_is_answered_with_a_near_one(place: AppFolder) -> None:
    assert "did you mean 'demo'?" in run("mcp", "show", "dmeo").stderr


def test_resources_and_prompts_are_read(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")

    read, absent = run("mcp", "read", "demo://notes"), run("mcp", "read", "demo://nothing")
    prompt = run("mcp", "prompt", "greet", "city=Lisbon")
    wrong = [run("mcp", "prompt", *words) for words in (["greet"], ["greet", "town=x"], ["great"], ["greet", "x"])]

    assert read.stdout == "Remember the milk.\n"
    assert (absent.exit_code, "no server has anything at 'demo://nothing'" in absent.stderr) == (1, True)
    assert prompt.stdout == "user\nSay hello to Lisbon.\n"
    assert [each.exit_code for each in wrong] == [1, 1, 1, 1]
    assert ["needs city=" in wrong[0].stderr, "takes no town" in wrong[1].stderr] == [True, True]
    assert "there are demo:greet" in wrong[2].stderr


def test_tools_of_servers_are_listed_shown_and_called_like_any_other(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")

    names = [each["scoped_name"] for each in lines(run("tools", "list", "--json"))]
    shown = run("tools", "show", "demo:pay")
    called = run("tools", "call", "look", '{"word": "hi"}')

    assert names == ["demo:look", "demo:pay"]
    assert "writes" in shown.stdout
    assert json.loads(called.stdout)["word"] == "hi"


def test_servers_of_another_program_are_taken_over_without_its_secrets(place: AppFolder) -> None:
    foreign = {
        "mcpServers": {
            "github": {"command": "gh-mcp", "env": {"GITHUB_TOKEN": "opensesame"}},
            "old": {"url": "https://example.org/sse"},
            "demo": {"command": "other"},
        }
    }
    (place.folder / ".mcp.json").write_text(json.dumps(foreign))
    before = (place.folder / "handrail.toml").read_text()

    taken = run("mcp", "import", "claude")
    dry = run("mcp", "import", "claude", "--only", "github", "--dry-run")
    only = run("mcp", "import", ".mcp.json", "--only", "github")
    again = run("mcp", "import", ".mcp.json", "--only", "github")

    after = (place.folder / "handrail.toml").read_text()
    assert (taken.exit_code, "mcp.demo: is there already" in taken.stderr) == (1, True)
    assert 'env = { GITHUB_TOKEN = "env:GITHUB_TOKEN" }' in dry.stdout
    assert (only.exit_code, again.exit_code) == (0, 1)
    assert "set the environment variable GITHUB_TOKEN" in only.stderr
    assert after.startswith(before)
    assert "[mcp.github]" in after
    assert "opensesame" not in after + only.stdout + only.stderr
    assert "old was not imported" in run("mcp", "import", ".mcp.json", "--only", "old").stderr


def test_on_a_terminal_one_is_asked_right_there(place: AppFolder) -> None:
    code, shown = dialogue(
        ["tools", "call", "demo:look", '{"word": "hi"}'],
        ("now and later? [y/N]", "y\n"),
        XDG_STATE_HOME=str(place.folder / "home"),
    )

    assert (code, '"word": "hi"' in shown.replace('\\"', '"')) == (0, True)
    assert "It can do anything on this machine that you can." in shown
    assert listed()["demo"]["state"] == "ready"


def test_ctrl_c_ends_a_command_of_a_chat_and_not_the_chat(place: AppFolder) -> None:
    head = '[models.demo]\nprovider = "scripted"\nmodel = "script.toml"\n'
    (place.folder / "script.toml").write_text('[[reply]]\ntext = "Hello!"\n')
    place.config(head + place.server("demo", tool("look", **READ)))
    code, shown = dialogue(
        ["chat"],
        ("now and later? [y/N]", "n\n"),
        ("> ", "/reload\n"),
        ("now and later? [y/N]", "^C"),
        ("(stopped)", ""),
        ("> ", "hello\n"),
        ("Hello!", ""),
        ("> ", "/quit\n"),
        XDG_STATE_HOME=str(place.folder / "home"),
    )

    assert (code, starts(place.folder / "demo.json")) == (0, 0)
    assert "run run_" in shown


def test_what_was_typed_before_a_question_was_there_does_not_answer_it(place: AppFolder) -> None:
    place.config(place.server("demo", tool("look", **READ)) + place.server("other", tool("peek", **READ)))
    code, shown = dialogue(
        ["mcp", "approve", "--all"],
        ("now and later? [y/N]", "y\ny\n"),
        ("'other' wants to run", ""),
        ("now and later? [y/N]", "n\n"),
        XDG_STATE_HOME=str(place.folder / "home"),
    )

    assert (code, "Not approved." in shown) == (1, True)
    assert listed()["other"]["state"] == "unapproved"


def test_in_a_chat_servers_are_listed_read_and_asked_for_prompts(place: AppFolder) -> None:
    fill(place.folder)
    config = place.folder / "handrail.toml"
    config.write_text(
        'default_model = "demo"\n[models.demo]\nprovider = "scripted"\nmodel = "script.toml"\n' + config.read_text()
    )
    run("mcp", "approve", "demo", "--yes")
    typed = (
        "/servers",
        "/resources",
        "/read demo://notes",
        "/read",
        "/prompts",
        "/prompt greet",
        "/prompt greet city=sum",
    )
    (place.folder / "script.toml").write_text('[[reply]]\nwhen = "hello"\ntext = "Hello!"\n')

    talked = run("chat", text="\n".join((*typed, "/reload", "")))

    assert talked.stdout == "Hello!\n"
    for said in ("demo: 2 tools", "demo://notes", "18 characters, for the model", "demo:greet city=", "needs city="):
        assert said in talked.stderr
    assert "Nothing has changed." in talked.stderr


@pytest.mark.parametrize("brought", ["/read demo://notes", "/prompt greet city=rome", "/help"])
def test_in_a_chat_what_a_server_brings_counts_as_words_from_outside(place: AppFolder, brought: str) -> None:
    (place.folder / "talk_tools.py").write_text("def send(to: str) -> str:\n    return f'sent to {to}'\n")
    (place.folder / "box.toml").write_text(
        '[ensemble]\nname = "box"\n[[invokers]]\nname = "send"\npython = "talk_tools:send"\nside_effects = true\n'
    )
    config = place.folder / "handrail.toml"
    config.write_text(
        'default_model = "scripted"\nensembles = ["box.toml"]\n'
        '[models.scripted]\nprovider = "scripted"\nmodel = "script.toml"\n'
        + config.read_text()
        + '[policy]\nconfirm_side_effects = false\nafter_untrusted = "deny"\n'
    )
    approve(config)
    run("mcp", "approve", "demo", "--yes")
    (place.folder / "script.toml").write_text(
        says("hello", "Hello!") + calls("send", "send", 'to = "eve"', then="So it stands.")
    )

    talked = run("chat", text=f"{brought}\nplease send\n")

    assert "So it stands." in talked.stdout
    assert ("← send denied" in talked.stderr) is (brought != "/help"), talked.stderr
    assert ("← send ok" in talked.stderr) is (brought == "/help"), talked.stderr


STUBBORN = """
import os, runpy, sys, threading
from pathlib import Path
Path("server.pid").write_text(str(os.getpid()))
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    threading.Event().wait()
"""


@contextmanager
def _default_hang_up() -> Iterator[None]:
    """Children are ended by SIGHUP, also where this suite runs under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_leaves_no_server_behind(place: AppFolder) -> None:
    fill(place.folder)
    (place.folder / "stubborn.py").write_text(STUBBORN)
    server = place.server("demo", tool("look", "Look.", **READ)).replace(
        f'["{sys.executable}", ', f'["{sys.executable}", "{place.folder / "stubborn.py"}", '
    )
    place.config('default_model = "demo"\n[models.demo]\nprovider = "scripted"\nmodel = "script.toml"\n' + server)
    run("mcp", "approve", "demo", "--yes")

    with (
        _default_hang_up(),
        subprocess.Popen(
            command("chat"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        ) as chat,
    ):
        assert chat.stderr is not None
        while (line := chat.stderr.readline()) and "Ctrl-D leaves" not in line:
            continue
        pid = int((place.folder / "server.pid").read_text())
        os.kill(pid, 0)
        chat.send_signal(signal.SIGHUP)
        chat.stderr.read()

    assert chat.returncode == 128 + signal.SIGHUP
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_in_a_chat_a_changed_configuration_is_told_and_taken_up_by_a_new_run(place: AppFolder) -> None:
    head = 'default_model = "demo"\n[models.demo]\nprovider = "scripted"\nmodel = "script.toml"\n'
    (place.folder / "changing.py").write_text(
        "from pathlib import Path\n"
        "from tests.approved import approve\n"
        "def change() -> str:\n"
        "    path = Path('handrail.toml')\n"
        "    path.write_text('ensembles = [\"box.toml\", \"more.toml\"]\\n' + path.read_text().partition('\\n')[2])\n"
        "    approve(path)\n"
        "    return 'changed'\n"
    )
    box = '[ensemble]\nname = "{0}"\n[[invokers]]\nname = "{1}"\npython = "{2}"\nside_effects = false\n'
    (place.folder / "box.toml").write_text(box.format("box", "change", "changing:change"))
    (place.folder / "more.toml").write_text(box.format("more", "dedent", "textwrap:dedent") + TEXT)
    (place.folder / "script.toml").write_text(
        '[[reply]]\nwhen = "change"\ncalls = [{ name = "change" }]\n[[reply]]\nwhen = "change"\ntext = "Done."\n'
        '[[reply]]\nwhen = "hello"\ntext = "Hello!"\n'
    )
    approve(place.config('ensembles = ["box.toml"]\n' + head))

    talked = run("chat", text="please change\n/tools\nhello\n/tools\n/reload\nhello\n/reload\n")

    told = talked.stderr
    assert talked.stdout == "Done.\nHello!\nHello!\n"
    assert told.index("The configuration has changed") < told.index("3 tools from now on, in run run_")
    assert "more:dedent" in told
    assert told.rindex("Nothing has changed.") > told.index("from now on")
    assert [each["state"] for each in lines(run("proof", "list", "--json"))] == ["forked", "done"]


TEXT = 'arguments = { text = { type = "string" } }\n'


def test_names_of_models_and_tools_that_nothing_has_are_told_with_their_place(place: AppFolder) -> None:
    place.config(
        'ensembles = ["box.toml"]\n[models.a]\nprovider = "opnai"\n[models.b]\nprovider = "scripted"\n'
        'model = "none.toml"\ntools = ["box:*", "nothing"]\n[llm]\ntools_default_set = ["dedent", "dedentt"]\n'
        '[serve]\ntools = ["box:x*"]\nconverse = { tools = ["read_output", "nobody"] }\n'
    )
    (place.folder / "box.toml").write_text(
        '[ensemble]\nname = "box"\n[[invokers]]\nname = "dedent"\npython = "textwrap:dedent"\n' + TEXT
    )

    checked = run("tools", "check", "--json")

    assert {(row["state"], row["line"], row["key"]) for row in lines(checked) if row["file"] == "handrail.toml"} == {
        ("wrong", 3, "models.a.provider"),
        ("wrong", 6, "models.b.model"),
        ("wrong", 7, "models.b.tools[1]"),
        ("wrong", 9, "llm.tools_default_set[1]"),
        ("wrong", 11, "serve.tools[0]"),
        ("wrong", 12, "serve.converse.tools[1]"),
    }


def test_what_is_wrong_is_told_all_at_once_with_its_place(place: AppFolder) -> None:
    good = place.server("demo", tool("look"))
    place.config(
        'ensembles = ["box.toml"]\n[llm]\ntools_enabled = 1\n[mcp.far]\nurl = "x"\n'
        + good
        + '[mcp.lost]\ncommand = "no-such-program-anywhere"\nenv = { A = "env:NOT_SET_ANYWHERE" }\n'
        + '[mcp.loose]\ncommand = "sh"\n[mcp.npm]\ncommand = "npx"\nargs = ["-y", "some-server"]\n'
    )
    (place.folder / "box.toml").write_text(
        '[ensemble]\nname = "box"\n[[invokers]]\nname = "a"\npyhton = "x:y"\n[[invokers]]\nname = "b"\ncolour = 1\n'
    )

    checked = run("tools", "check", "--json")
    found = {(row["file"], row["state"], row["line"], row["key"]) for row in lines(checked)}

    assert checked.exit_code == 1
    assert {
        ("handrail.toml", "wrong", 3, "llm.tools_enabled"),
        ("handrail.toml", "wrong", 5, "mcp.far.url"),
        ("box.toml", "wrong", 5, "invokers[0].pyhton"),
        ("box.toml", "wrong", 8, "invokers[1].colour"),
        ("mcp.lost", "wrong", 10, "mcp.lost.env.A"),
        ("mcp.lost", "wrong", None, None),
        ("mcp.demo", "warn", None, None),
    } <= found
    assert "some-server" in checked.stdout
    assert starts(place.folder / "demo.json") == 0


def test_with_connect_servers_are_asked_and_clashes_are_found(place: AppFolder) -> None:
    place.config(
        place.server("a", tool("look"), tool("look")) + place.server("b", tool("pay")) + place.server("c", tool("pay"))
    )
    run("mcp", "approve", "--all", "--yes")

    alone, checked = run("tools", "check"), run("tools", "check", "--connect", "--json")

    rows = lines(checked)
    assert (alone.exit_code, checked.exit_code) == (0, 1)
    assert [row["tools"] for row in rows if row["file"] == "mcp.b"] == [1]
    assert any("look is withheld" in (row["problem"] or "") for row in rows)
    assert any('under [mcp.c], write prefix = "c_"' in (row["problem"] or "") for row in rows)


def test_a_pattern_of_a_model_that_no_tool_fits_is_told(place: AppFolder) -> None:
    (place.folder / "box.toml").write_text(
        '[ensemble]\nname = "box"\n[[invokers]]\nname = "dedent"\npython = "textwrap:dedent"\n'
        'arguments = { text = { type = "string" } }\n'
    )
    place.config('ensembles = ["box.toml"]\n[models.a]\nprovider = "local"\ntools = ["box:*", "serach"]\n')

    checked = run("tools", "check", "--json")

    (wrong,) = [row for row in lines(checked) if not row["ok"]]
    assert (wrong["line"], wrong["key"]) == (4, "models.a.tools[1]")


def test_secrets_that_a_form_asks_for_are_not_shown_and_fields_are_asked_until_they_fit(place: AppFolder) -> None:
    script = place.folder / "asks.py"
    script.write_text(ASKS)
    place.config(f"[mcp.asks]\ncommand = {json.dumps([sys.executable, str(script)])}\n")
    code, shown = dialogue(
        ["tools", "call", "asks:ask", "{}", "--rule", "allow asks:ask"],
        ("now and later? [y/N]", "y\n"),
        ("Fill it in?", "y\n"),
        ("count: ", "many\n"),
        ("expected integer", "3\n"),
        ("secret: ", "opensesame\n"),
        ("size: ", "\n"),
        XDG_STATE_HOME=str(place.folder / "home"),
    )

    assert code == 0, shown
    assert '"count": 3' in shown.replace('\\"', '"')
    assert '"size": "small"' in shown.replace('\\"', '"')
    assert shown.count("opensesame") == 1  # in the result, which the server gave


ASKS = """
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

FORM = {"type": "object", "required": ["count", "secret"], "properties": {
    "count": {"type": "integer", "title": "How many"},
    "secret": {"type": "string", "format": "password"},
    "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
}}
waiting = None
for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            say(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "asks", "version": "1"}})
        case "tools/list":
            say(id=message["id"], result={"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            waiting = message["id"]
            say(id="q", method="elicitation/create", params={"message": "Tell me.", "requestedSchema": FORM})
        case None if message.get("id") == "q":
            say(id=waiting, result={"content": [{"type": "text", "text": json.dumps(message["result"])}]})
        case _ if "id" in message:
            say(id=message["id"], error={"code": -32601, "message": "no"})
"""


def test_whoever_serves_by_hand_is_told_what_to_write_into_a_clients_file(place: AppFolder) -> None:
    code, shown = dialogue(["mcp", "serve"], ("over HTTP instead.", "\x04"), XDG_STATE_HOME=str(place.folder / "home"))

    entry = json.loads(shown.partition('"mcpServers": ')[2].partition("\n")[0])["handrail"]
    assert code == 0
    assert [entry["command"], *entry["args"]] == [
        *(sys.executable, "-P", "-m", "handrail", "mcp", "serve"),
        "--config",
        str(place.folder / "handrail.toml"),
    ]


def test_a_pipe_gets_what_a_resource_holds(place: AppFolder) -> None:
    run("mcp", "approve", "demo", "--yes")
    home = {"XDG_STATE_HOME": str(place.folder / "home"), "HOME": str(place.folder / "home")}

    done = subprocess.run(
        command("mcp", "read", "demo://notes"), capture_output=True, env=environment(**home), check=True
    )

    assert done.stdout == b"Remember the milk.\n"
