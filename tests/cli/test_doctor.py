"""`handrail doctor` and `handrail local status`: what is in order, what is not, and what to do."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import pytest

from handrail.core.installation import install_command
from tests.cli.journal_fixtures import Journal, lines, run
from tests.cli.terminal_fixtures import CONFIG, configure

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"
NODE = """
    [node]
    nats = "nats://me:${{PASSWORD}}@127.0.0.1:{port}"

    [node.peers.attic]
    url = "http://192.0.2.7:8420"
    token = "env:ATTIC_TOKEN"

    [services]
    stt = {{ url = "http://127.0.0.1:9/v1", key = "env:SPEECH" }}
"""


def states(*arguments: str, **env: str) -> dict[str, dict[str, str]]:
    return {each["what"]: each for each in lines(run("doctor", "--json", *arguments, env=env))}


def test_a_folder_without_anything_is_in_order(folder: Path) -> None:
    result = run("doctor")

    assert result.exit_code == 0
    assert "no handrail.toml here or above: the defaults apply" in result.stdout
    assert "none yet; it will be" in result.stdout


def test_every_line_says_ok_warn_or_fail(folder: Path) -> None:
    assert {line.split()[0] for line in run("doctor").stdout.splitlines()} <= {"ok", "warn", "fail"}


def test_a_journal_is_verified(journal: Journal) -> None:
    good = states()["journal"]
    journal.change("UPDATE entry SET at = at + 1 WHERE seq = 2")
    bad = states()["journal"]

    assert (good["state"], bad["state"], bad["do"]) == ("ok", "fail", "run: handrail proof verify")


def test_a_shared_state_is_looked_for_and_what_is_in_files_beside_it_is_not(folder: Path, postgres_url: str) -> None:
    there = states(HANDRAIL_STATE=postgres_url)
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    gone = states(HANDRAIL_STATE=f"postgresql://node:{KEY}@127.0.0.1:{port}/node")["state"]

    assert there["state"]["state"] == "ok" and "no node has used it yet" in there["state"]["found"]
    assert not {"journal", "tokens", "identity"} & there.keys()
    assert gone["state"] == "fail" and "check that PostgreSQL runs there" in gone["found"] and KEY not in str(gone)


def test_keys_are_looked_for_and_never_shown(folder: Path) -> None:
    configure(folder, CONFIG + '[models.big]\nprovider = "openai"\nmodel = "gpt-5"\nkey = "env:BIG_KEY"\n')

    missing = run("doctor", env={"BIG_KEY": ""})
    there = run("doctor", env={"BIG_KEY": KEY})

    assert (missing.exit_code, there.exit_code) == (1, 0)
    assert "fail  model big: openai; no key; set the environment variable BIG_KEY" in missing.stdout
    assert "ok    model big: openai; its key is in BIG_KEY" in there.stdout
    assert KEY not in there.stdout + there.stderr


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai-responses", "OPENAI_API_KEY"),
        ("gemini-interactions", "GEMINI_API_KEY"),
        ("azure-responses", "AZURE_OPENAI_API_KEY"),
        ("cohere", "CO_API_KEY"),
    ],
)
def test_a_key_is_looked_for_under_the_name_that_its_service_reads(folder: Path, provider: str, variable: str) -> None:
    configure(folder, CONFIG + f'[models.big]\nprovider = "{provider}"\nmodel = "m"\n')

    there = run("doctor", env={variable: KEY})

    assert f"ok    model big: {provider}; its key is in {variable}" in there.stdout


def test_a_wrong_configuration_and_wrong_tools_are_named_with_their_place(folder: Path) -> None:
    configure(folder, CONFIG + "[llm]\ntools_max_parallel = 0\n")
    wrong = states()["configuration"]
    configure(folder)
    (folder / "box.toml").write_text("[ensemble]\n")

    assert wrong["state"] == "fail"
    assert "handrail.toml:9: llm.tools_max_parallel: must be 1 or more" in wrong["found"]
    assert states()["tools box.toml"]["state"] == "fail"


def test_servers_are_told_of_and_not_started(folder: Path) -> None:
    servers = """
        [mcp.new]
        command = "touch"
        args = ["started"]

        [mcp.gone]
        command = "no-such-program"

        [mcp.poor]
        command = "touch"
        env = { A = "env:NOT_SET_HERE" }

        [mcp.off]
        url = "https://example.org/mcp"
        enabled = false
    """
    configure(folder, CONFIG + servers)
    new = states()["server new"]
    run("mcp", "approve", "new", "--yes", "--no-connect")

    found = states()

    assert (new["state"], "handrail mcp approve new" in new["found"]) == ("warn", True)
    assert {name: found[f"server {name}"]["state"] for name in ("new", "gone", "poor", "off")} == {
        "new": "ok",
        "gone": "fail",
        "poor": "fail",
        "off": "ok",
    }
    assert "NOT_SET_HERE" in found["server poor"]["found"]
    assert not (folder / "started").exists()


def greet(server: socket.socket) -> None:
    """As a NATS server does, once."""
    server.settimeout(10)
    with server.accept()[0] as connection:
        connection.sendall(b"INFO {}")


def test_a_node_is_looked_at_without_being_started(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        configure(folder, CONFIG + NODE.format(port=port), PASSWORD=KEY)
        greeting = threading.Thread(target=greet, args=(server,))
        greeting.start()
        good = states(PASSWORD=KEY, ATTIC_TOKEN=KEY, SPEECH=KEY)
        greeting.join()
    key = folder / ".handrail" / "identity.key"
    created = key.exists()
    run("identity", "new", env={"PASSWORD": KEY})
    key.chmod(0o644)
    bad = states(PASSWORD=KEY)

    nodes = ("node", "identity", "tokens", "peer attic", "nats", "service rag", "service stt")
    assert {name: good[name]["state"] for name in nodes} == dict.fromkeys(nodes, "ok")
    assert good["nats"]["found"] == f"a server answers at 127.0.0.1:{port}"
    assert not created
    assert [name for name in nodes if bad[name]["state"] == "fail"] == ["identity", "peer attic", "nats", "service stt"]
    assert f"no server at 127.0.0.1:{port}" in bad["nats"]["found"]
    assert bad["peer attic"]["do"] == "set the environment variable ATTIC_TOKEN"
    assert KEY not in str([good, bad])


def test_what_a_service_lacks_is_told_with_how_to_add_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))

    found = states()["service trans"]

    assert (found["state"], found["do"]) == ("warn", 'write trans = { model = "…" } under [services]')


def test_whether_the_page_and_the_terminal_program_can_run_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = states()
    configure(folder, "[services]\npage = false\n")
    without = states()
    configure(folder, "")
    for module in ("uvicorn", "textual"):
        monkeypatch.setitem(sys.modules, module, None)
    bad = states()

    assert (good["service page"]["state"], good["extra tui"]["state"]) == ("ok", "ok")
    assert "service page" not in without
    assert [bad[name]["do"] for name in ("service page", "extra tui")] == [
        install_command("server"),
        install_command("tui"),
    ]


def test_a_place_that_cannot_be_written_to_is_a_failure(folder: Path) -> None:
    (folder / "file").touch()

    assert states("--journal", "file/journal.db")["writing"]["state"] == "fail"


def test_local_status_fails_where_the_weights_are_missing(folder: Path) -> None:
    result = run("local", "status", "--json", env={"HANDRAIL_CACHE": str(folder / "empty")})

    weights = next(each for each in map(json.loads, result.stdout.splitlines()) if each["what"] == "local weights")
    assert (result.exit_code, weights["do"]) == (1, "run: handrail local setup")


def test_doctor_and_local_status_say_the_same_line_for_the_missing_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    status = {each["what"]: each for each in map(json.loads, run("local", "status", "--json").stdout.splitlines())}
    told = states()

    line = install_command("local")
    assert "./packages/handrail-local" in line
    assert {each["do"] for each in (status["local model"], told["local model"], told["extra local"])} == {line}


def test_what_rlm_needs_is_looked_at(folder: Path) -> None:
    plain = states()["rlm"]
    configure(folder, CONFIG + '[rlm]\nmodel = "openai:gpt-5"\nenvironment = "process"\n')
    chosen = states(OPENAI_API_KEY="")

    assert (plain["state"], plain["found"]) == ("ok", "code of models runs in 'monty'")
    assert chosen["rlm"]["found"] == "code of models runs in 'process'"
    assert (chosen["model openai:gpt-5"]["state"], "OPENAI_API_KEY" in chosen["model openai:gpt-5"]["do"]) == (
        "fail",
        True,
    )
