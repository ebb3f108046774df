"""`[node]` and `[services]`: what they say, and how their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.config.load import load_config
from handrail.config.network import IssuerSettings, NodeSettings, PeerSettings, ServiceSettings
from handrail.core.errors import ConfigError

ID = "ed25519:" + "A" * 43


def written(folder: Path, text: str) -> Path:
    path = folder / "handrail.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_everything_that_a_file_can_say_of_a_node(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            f"""
            [models.small]
            provider = "local"

            [node]
            name = "kitchen"
            community = "niederrhein"
            identity = "keys/kitchen.key"
            host = "0.0.0.0"
            port = 8421
            hosts = ["kitchen.example"]
            origins = ["https://app.example"]
            token_required = false
            tools = ["io:*"]
            metrics = "[::1]:9464"
            nats = "nats://me:${{PASSWORD}}@${{HOST}}:4222"
            nats_cert = "keys/nats.pem"
            nats_key = "keys/nats.key"
            nats_ca = "/etc/ca.pem"
            trust = {{ "{ID}" = "trusted" }}

            [node.peers.attic]
            url = "http://192.0.2.7:8420"
            token = "env:ATTIC_TOKEN"

            [node.issuers.uncle]
            id = "{ID}"
            can = ["rag.*@1.0"]

            [services]
            folder = "data"
            market = false
            rag = true
            llm = {{ models = ["small"] }}
            trans = {{ model = "small" }}
            img = {{ model = "openai:gpt-x" }}
            stt = {{ url = "http://127.0.0.1:9000/v1", key = "env:SPEECH" }}
            """,
        ),
        {"HOST": "127.0.0.1", "PASSWORD": "secret"},
    )

    peer = PeerSettings(url="http://192.0.2.7:8420", token="env:ATTIC_TOKEN")
    assert config.node == NodeSettings(
        name="kitchen",
        community="niederrhein",
        identity=tmp_path / "keys/kitchen.key",
        host="0.0.0.0",
        port=8421,
        hosts=("kitchen.example",),
        origins=("https://app.example",),
        token_required=False,
        tools=("io:*",),
        metrics=("::1", 9464),
        nats=("nats://me:secret@127.0.0.1:4222",),
        nats_cert=tmp_path / "keys" / "nats.pem",
        nats_key=tmp_path / "keys" / "nats.key",
        nats_ca=Path("/etc/ca.pem"),
        peers={"attic": peer},
        trust={ID: "trusted"},
        issuers={"uncle": IssuerSettings(id=ID, can=("rag.*@1.0",))},
    )
    assert config.node.near == "127.0.0.1"
    assert peer.secret({"ATTIC_TOKEN": "t"}) == "t"
    assert config.services == ServiceSettings(
        off=frozenset({"market"}),
        named=frozenset({"llm", "rag", "trans", "img", "stt"}),
        folder=tmp_path / "data",
        models=("small",),
        translator="small",
        describer="openai:gpt-x",
        transcriber="http://127.0.0.1:9000/v1",
        transcriber_key="env:SPEECH",
    )


def test_without_the_tables_a_node_keeps_to_itself_and_wants_a_token(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, ""))
    assert (config.node.host, config.node.token_required, config.services.off) == ("127.0.0.1", True, frozenset())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[node]\nnmae = 'x'", ":2: node.nmae: there is no such key; did you mean 'name'?"),
        ("[node]\nname = 'Küche'", ":2: node.name: take 1 to 63 of a-z 0-9 -"),
        ("[node]\nnats_key = 'node.key'", ":2: node.nats_key: is of no certificate; write nats_cert too"),
        ("[node]\nport = 70000", ":2: node.port: must be 65535 or less"),
        ("[node.peers.attic]\nurl = 'attic'", "node.peers.attic: a node is reached at an address"),
        ("[node.peers.attic]\nurl = 'http://a'\ntoken = 'abc'", ":3: node.peers.attic.token: a secret is not written"),
        ("[node.trust]\nattic = 'member'", ":2: node.trust.attic: a node is named by its id"),
        (f"[node.trust]\n'{ID}' = 'self'", "must be one of"),
        ("[node.issuers.uncle]\ncan = []", "node.issuers.uncle.id: a node is named by its id"),
        ("[services]\nmarked = true", ":2: services.marked: there is no such key; did you mean 'market'?"),
        ("[services]\nrag = { model = 'x' }", "services.rag.model: there is no such key"),
        ("[services]\ntrans = { model = 'x' }", "services.trans.model: there is no [models.x]"),
        ("[services]\nllm = { models = ['x'] }", "services.llm.models[0]: there is no [models.x]"),
        ("[services]\nstt = { url = 'http://a', key = 'abc' }", "services.stt.key: a secret is not written"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as seen:
        load_config(written(tmp_path, text))
    assert said in str(seen.value)


def test_a_token_whose_variable_is_not_set_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'ATTIC_TOKEN' is not set"):
        PeerSettings(url="http://a", token="env:ATTIC_TOKEN").secret({})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('"nats://a:4222"', ("nats://a:4222",)),
        ('"nats://a:4222, tls://b:4222,c"', ("nats://a:4222", "tls://b:4222", "c")),
        ('["nats://a:4222", "nats://b:4222"]', ("nats://a:4222", "nats://b:4222")),
        ('"nats://me:${PASSWORD}@a:4222"', ("nats://me:pass,word@a:4222",)),
    ],
)
def test_one_or_several_nats_servers_can_be_named(tmp_path: Path, written: str, read: tuple[str, ...]) -> None:
    file = tmp_path / "handrail.toml"
    file.write_text(f"[node]\nnats = {written}\n")
    assert load_config(file, environ={"PASSWORD": "pass,word"}).node.nats == read


@pytest.mark.parametrize("written", ["[]", "[1]", "1"])
def test_what_is_no_address_of_nats_is_refused(tmp_path: Path, written: str) -> None:
    file = tmp_path / "handrail.toml"
    file.write_text(f"[node]\nnats = {written}\n")
    with pytest.raises(ConfigError, match="nats"):
        load_config(file)
