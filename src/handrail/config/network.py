"""The tables `[node]` and `[services]` of a file: a node of the network, and what it does for others.

[node]                 name, community, host, port, hosts, origins, token_required, tools, metrics, nats, identity,
                       nats_cert, nats_key, nats_ca
[node.peers.NAME]      another node: url, and token = "env:NAME"
[node.trust]           how far other nodes are trusted, by their ids
[node.issuers.NAME]    whose tokens are taken beside our own: id, and what they can be good for
[services]             which services there are: name = false leaves one out, a table says more
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from handrail.config.setting_kinds import FLAG, SECRET, TEXT, TEXTS, Kinds, SettingKind, choice, stated
from handrail.config.variables import expanded_path, secret_variable
from handrail.node.nats.server_addresses import split_addresses
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_NODE_ID = re.compile(r"ed25519:[A-Za-z0-9_-]{43}")
_TRUST = ("unknown", "federated", "member", "trusted", "anchor")
SERVICES = ("llm", "blobs", "rag", "trans", "market", "chat", "img", "stt", "page")
"""The services that a file can leave out. Tokens and peers are always there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """Another node, under the name that people give it."""

    url: str
    token: str | None = None
    """`env:NAME`: where the token is. Never the token."""
    believed: bool = False
    """Whether it is believed about who wrote what it answers; else all of that counts as written by outsiders."""

    def secret(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The token itself.

        Raises:
            ConfigError: Its variable is not set.
        """
        return secret_variable(self.token, "node.peers token", environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerSettings:
    """A node whose tokens are taken, as far as this says."""

    id: str
    can: tuple[str, ...] = ()
    """Patterns of `name@version`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    name: str = "node"
    community: str = "home"
    identity: Path | None = None
    """The file of its key; by default `identity.key` beside the journal."""
    host: str = "127.0.0.1"
    port: int = 8420
    hosts: tuple[str, ...] = ()
    """Names beside the address by which it may be called."""
    origins: tuple[str, ...] = ()
    """Pages of others that may talk to it."""
    token_required: bool = True
    tools: tuple[str, ...] | None = None
    """Which tools others may be given, by names or patterns; None is all."""
    metrics: tuple[str, int] | None = None
    """The address at which metrics and probes are answered without a token; None answers them only at the node's own
    address, with one."""
    log: Literal["text", "json"] = "text"
    """What it writes on stderr: lines for people, or an object of JSON a line."""
    nats: tuple[str, ...] | None = None
    """The NATS servers, as `nats://127.0.0.1:4222`: one of them is used, and another when it is lost."""
    nats_cert: Path | None = None
    """The file of the certificate that is shown there, for a server that asks for one."""
    nats_key: Path | None = None
    """The file of its key; None if that is in the same file."""
    nats_ca: Path | None = None
    """The file of the authority that signed the server's certificate; None is those that the machine knows."""
    peers: Mapping[str, PeerSettings] = field(default_factory=lambda: MappingProxyType({}))
    trust: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    issuers: Mapping[str, IssuerSettings] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def near(self) -> str:
        """Its host as this machine calls it: what stands for every address is the name of none."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What a node does for others."""

    off: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    """The services that a file configures, other than by leaving them out. Models are offered their tools."""
    folder: Path | None = None
    """The folder of the services' data; by default beside the journal."""
    models: tuple[str, ...] | None = None
    """The models that others may ask, by name; None is all that are configured."""
    translator: str | None = None
    """The model that translates; None leaves it to apertium, where that is installed."""
    describer: str | None = None
    """The model that looks at pictures; None reads only what is written in them."""
    transcriber: str | None = None
    """The address of an OpenAI-compatible service for speech; None is the small recogniser of this machine."""
    transcriber_key: str | None = None

    def has(self, name: str) -> bool:
        return name not in self.off


def read_node(top: TomlTable, folder: Path) -> NodeSettings:
    """Reads the section `[node]`.

    Raises:
        ConfigError: Something is wrong.
    """
    facts = top.table("node")
    if facts is None:
        return NodeSettings()
    facts.only((*NODE, *NODE_TABLES))
    said = stated(facts, NODE)
    if "nats_key" in said and "nats_cert" not in said:
        raise facts.error("nats_key", "is of no certificate; write nats_cert too")
    said |= {key: folder / expanded_path(said[key]) for key in _FILES if key in said}
    return NodeSettings(
        **said,
        peers={name: _peer(table) for name, table in facts.tables("peers").items()},
        trust=_trust(facts),
        issuers={name: _issuer(table) for name, table in facts.tables("issuers").items()},
    )


def read_services(top: TomlTable, folder: Path, is_model: Callable[[str], bool]) -> ServiceSettings:
    """Reads the section `[services]`.

    Raises:
        ConfigError: Something is wrong.
    """
    facts = top.table("services")
    if facts is None:
        return ServiceSettings()
    facts.only((*SERVICES, *SERVICE))
    kept = facts.text("folder")
    inner = {name: _options(facts, name) for name in SERVICES}
    model_of = {name: _model(table, is_model) for name, table in inner.items() if name in ("trans", "img")}
    for name, table in inner.items():
        table.only(OPTIONS.get(name, ()))
    return ServiceSettings(
        off=frozenset(name for name in SERVICES if facts.values.get(name) is False),
        named=frozenset(name for name in SERVICES if facts.values.get(name, False) is not False),
        folder=None if kept is None else folder / expanded_path(kept),
        models=_models(inner["llm"], is_model),
        translator=model_of["trans"],
        describer=model_of["img"],
        transcriber=inner["stt"].text("url"),
        transcriber_key=SECRET(inner["stt"], "key"),
    )


def _options(facts: TomlTable, name: str) -> TomlTable:
    """What is said of a service; `name = true` and `name = false` say nothing more."""
    if isinstance(facts.values.get(name), bool):
        return TomlTable({}, facts.at(name))
    return facts.table(name) or TomlTable({}, facts.at(name))


def _model(table: TomlTable, is_model: Callable[[str], bool]) -> str | None:
    name = table.text("model")
    if name is not None and not is_model(name):
        raise table.error("model", f"there is no [models.{name}]")
    return name


def _models(table: TomlTable, is_model: Callable[[str], bool]) -> tuple[str, ...] | None:
    names = table.texts("models")
    for index, name in enumerate(names or ()):
        if not is_model(name):
            raise table.at("models").at(index).error(f"there is no [models.{name}]")
    return names


def _name(facts: TomlTable, key: str) -> str | None:
    name = facts.text(key)
    if name is not None and not _NAME.fullmatch(name):
        raise facts.error(key, "take 1 to 63 of a-z 0-9 - and begin with a letter or digit")
    return name


def _port(facts: TomlTable, key: str) -> int | None:
    port = facts.count(key, 0)
    if port is not None and port > 65_535:
        raise facts.error(key, f"must be 65535 or less, not {port}")
    return port


def _host_and_port(facts: TomlTable, key: str) -> tuple[str, int] | None:
    written = facts.text(key)
    if written is None:
        return None
    host, colon, port = written.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise facts.error(key, 'is not an address and port; write them as "127.0.0.1:9464"')
    return host.strip("[]"), int(port)


def _addresses(facts: TomlTable, key: str) -> tuple[str, ...] | None:
    """One address, several with commas between them, or a list."""
    if isinstance(facts.values.get(key), list):
        found = facts.texts(key)
        if not found:
            raise facts.error(key, "is empty; name a server, or leave it out")
        return found
    text = facts.text(key)
    return None if text is None else split_addresses(text)


_NAMED = SettingKind("text", _name)
NODE: Kinds = {
    "name": _NAMED,
    "community": _NAMED,
    "identity": TEXT,
    "host": TEXT,
    "port": SettingKind("count", _port, least=0),
    "hosts": TEXTS,
    "origins": TEXTS,
    "token_required": FLAG,
    "tools": TEXTS,
    "metrics": SettingKind("text", _host_and_port),
    "log": choice("text", "json"),
    "nats": SettingKind("text", _addresses),
    "nats_cert": TEXT,
    "nats_key": TEXT,
    "nats_ca": TEXT,
}
_FILES = ("identity", "nats_cert", "nats_key", "nats_ca")
NODE_TABLES = ("peers", "trust", "issuers")
SERVICE: Kinds = {"folder": TEXT}
OPTIONS: Mapping[str, Kinds] = {
    "llm": {"models": TEXTS},
    "trans": {"model": TEXT},
    "img": {"model": TEXT},
    "stt": {"url": TEXT, "key": SECRET},
}
"""What can be said of a service beside that it is there."""


def _peer(facts: TomlTable) -> PeerSettings:
    facts.only(("url", "token", "believed"))
    url = facts.text("url")
    if not url or not re.match(r"https?://", url):
        raise facts.place.error('a node is reached at an address: url = "http://127.0.0.1:8420"')
    return PeerSettings(url=url, token=SECRET(facts, "token"), believed=facts.flag("believed") or False)


def _issuer(facts: TomlTable) -> IssuerSettings:
    facts.only(("id", "can"))
    return IssuerSettings(id=_node_id(facts.text("id") or "", facts.at("id")), can=facts.texts("can") or ())


def _trust(facts: TomlTable) -> dict[str, str]:
    table = facts.table("trust") or TomlTable({}, facts.place)
    return {_node_id(id, table.at(id)): table.choice(id, _TRUST) or "unknown" for id in table.values}


def _node_id(written: str, place: TomlKeyPath) -> str:
    if not _NODE_ID.fullmatch(written):
        raise place.error("a node is named by its id, ed25519:…, which `handrail identity` shows there")
    return written
