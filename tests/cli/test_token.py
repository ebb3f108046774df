"""`handrail identity` and `handrail token`: keys and tokens at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token import parse_token
from tests.approved import approve
from tests.cli.journal_fixtures import lines, run
from tests.node.tokens.signing_nodes import BOB


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    for name in ("HANDRAIL_JOURNAL", "HANDRAIL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def home(folder: Path) -> Path:
    """A folder whose node has a key."""
    run("identity", "new")
    return folder


def issue(file: str, *options: str) -> dict[str, Any]:
    """The claims of a token that is now in this file."""
    done = run("token", "issue", "--json", *options)
    assert done.exit_code == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    Path(file).write_text(told["token"] + "\n")
    claims: dict[str, Any] = told["claims"]
    return claims


def test_a_key_is_made_once_and_its_id_is_shown(folder: Path) -> None:
    before = run("identity", "show")
    made = run("identity", "new", "--json")
    again = run("identity", "new")

    key = folder / ".handrail" / "identity.key"
    assert (before.exit_code, before.stdout) == (1, "")
    assert "handrail identity new" in before.stderr
    assert lines(made) == [{"node_id": Identity.load(key).node_id, "key": str(key)}]
    assert (again.exit_code, "already" in again.stderr) == (1, True)
    assert run("identity", "show").stdout == Identity.load(key).node_id + "\n"


def test_the_configuration_says_where_the_key_is_and_which_community(folder: Path) -> None:
    (folder / "handrail.toml").write_text('[node]\nidentity = "my.key"\ncommunity = "street"\n')
    approve(folder / "handrail.toml")
    run("identity", "new")

    assert Identity.load(folder / "my.key")
    assert issue("a.token", "--can", "*")["aud"] == "street"


def test_a_token_is_printed_alone_and_what_it_is_for_beside(home: Path) -> None:
    done = run("token", "issue", "--can", "rag.*@1.*", "--param", "corpus=a,b,3,true", "--rate", "60", "--ttl", "10m")

    token = parse_token(done.stdout.strip())
    assert token.scope.to_dict() == {
        "capabilities": ["rag.*@1.*"],
        "params_constraints": {"corpus": ["a", "b", 3, True]},
        "rate_limit_per_minute": 60,
    }
    assert token.expires_at - token.issued_at == 600
    assert done.stdout.strip() not in done.stderr
    assert "may call rag.*@1.*" in done.stderr
    assert all(done.stdout.strip()[-40:].encode() not in each.read_bytes() for each in (home / ".handrail").iterdir())


def test_a_part_of_a_token_is_passed_on_and_never_more(home: Path) -> None:
    parent = issue("a.token", "--can", "rag.*@1.*", "--calls", "10")

    child = issue("b.token", "--from", "a.token", "--can", "rag.query@1.0", "--for", BOB.node_id, "--ttl", "1d")
    more = run("token", "issue", "--from", "a.token", "--can", "*")
    longer = run("token", "issue", "--from", "-", "--calls", "11", text=Path("a.token").read_text())

    assert (child["parent"], child["exp"], child["sub"]) == (parent["jti"], parent["exp"], BOB.node_id)
    assert child["scope"] == {"capabilities": ["rag.query@1.0"], "max_calls_total": 10}
    for refused in (more, longer):
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "token_scope_insufficient" in refused.stderr


def test_a_token_is_shown_and_judged(home: Path) -> None:
    claims = issue("a.token", "--can", "rag.*@1.*", "--for", BOB.node_id)

    good = run("token", "show", "a.token")
    as_json = lines(run("token", "show", "a.token", "--json"))
    run("token", "revoke", claims["jti"][:20])
    bad = run("token", "show", "a.token")

    assert (good.exit_code, good.stdout.splitlines()[0]) == (0, "good")
    assert BOB.node_id in good.stdout
    assert as_json == [{"good": True, "why": None, "calls": 0, "claims": claims}]
    assert (bad.exit_code, "revoked" in bad.stdout.splitlines()[0]) == (1, True)
    assert Path("a.token").read_text().strip() not in good.stdout + good.stderr + bad.stdout + bad.stderr


def test_tokens_are_listed_with_what_became_of_them(home: Path) -> None:
    none = run("token", "list")
    parent = issue("a.token", "--can", "*", "--calls", "3")
    child = issue("b.token", "--from", "a.token", "--can", "rag.*")
    other = issue("c.token", "--can", "llm.*")
    run("token", "revoke", parent["jti"])

    rows = {row["claims"]["jti"]: row["state"] for row in lines(run("token", "list", "--json"))}

    assert (none.exit_code, none.stdout) == (0, "")
    assert rows == {parent["jti"]: "revoked", child["jti"]: "revoked", other["jti"]: "good"}
    assert "0/3" in run("token", "list").stdout


def test_a_node_is_shut_out_by_its_id(home: Path) -> None:
    issue("a.token", "--can", "*")
    node = run("identity", "show").stdout.strip()

    assert lines(run("token", "revoke", node, "--json")) == [{"id": node, "revoked": True}]
    assert "shut out" in run("token", "show", "a.token").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["issue"], "--can"),
        (["issue", "--can", "A b"], "not a pattern"),
        (["issue", "--can", "*", "--ttl", "2d"], "at most a day"),
        (["issue", "--can", "*", "--ttl", "soon"], "at most a day"),
        (["issue", "--can", "*", "--param", "corpus"], "corpus=docs,faq"),
        (["issue", "--can", "*", "--for", "bob"], "ed25519"),
        (["issue", "--from", "none.token"], "cannot read"),
        (["show", "none.token"], "cannot read"),
        (["show", "-"], "hntoken"),
        (["revoke", "01ABC"], "no token"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(home: Path, arguments: list[str], says: str) -> None:
    done = run("token", *arguments)

    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert says in done.stderr
