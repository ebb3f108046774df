"""What `handrail doctor` looks at of a node: its key, its tokens, whom it talks to, and what its services have."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from handrail.cli.config.approval import is_approved
from handrail.cli.doctor.checks import DoctorCheck
from handrail.cli.lazy_groups import one_line
from handrail.cli.text import count_text
from handrail.config.network import ServiceSettings
from handrail.config.values import Config
from handrail.core.errors import HandrailError
from handrail.core.installation import install_command
from handrail.http.request_guard import bracket_ipv6

_CONNECT = 3.0
"""Seconds within which a NATS server has greeted us."""
_PORT = 4222


def check_network(config: Config, journal: Path, environ: Mapping[str, str] = os.environ) -> Iterator[DoctorCheck]:
    """Nothing is started, and nobody is asked but the NATS server, for its greeting."""
    node = config.node
    yield DoctorCheck(
        "ok", "node", f"{node.name} of {node.community}, to serve at {bracket_ipv6(node.host)}:{node.port}"
    )
    if find_spec("joserfc") is None:
        return  # the extras have said so
    if config.state.url is None:  # otherwise they are there
        yield from _identity(config, journal)
        yield from _tokens(journal)
    for name, peer in node.peers.items():
        yield _key(f"peer {name}", peer.url, peer.token, environ)
    if node.nats and not is_approved(config):
        yield DoctorCheck("warn", "nats", "not checked, because the configuration is not approved")
    else:
        for url in node.nats or ():
            yield _nats(url)
    yield from _services(config.services, environ)


def _identity(config: Config, journal: Path) -> Iterator[DoctorCheck]:
    from handrail.app.node_state import KEY
    from handrail.node.tokens.identity import Identity

    path = config.node.identity or journal.parent / KEY
    if not path.exists():
        yield DoctorCheck("ok", "identity", f"none yet; it will be {path}")
        return
    try:
        yield DoctorCheck("ok", "identity", Identity.load(path).node_id)
    except HandrailError as error:
        yield DoctorCheck("fail", "identity", one_line(error))


def _tokens(journal: Path) -> Iterator[DoctorCheck]:
    from handrail.app.node_state import TOKENS
    from handrail.node.tokens.token_store import TokenStore

    path = journal.parent / TOKENS
    if not path.exists():
        yield DoctorCheck("ok", "tokens", f"none were issued; they will be recorded in {path}")
        return
    try:
        with closing(TokenStore(path)) as store:
            yield DoctorCheck("ok", "tokens", f"{count_text(len(store.issued()), 'token')} in {path}")
    except HandrailError as error:
        yield DoctorCheck("fail", "tokens", one_line(error))


def _key(what: str, where: str, key: str | None, environ: Mapping[str, str]) -> DoctorCheck:
    """Another server, and whether the secret for it is set."""
    if key is None:
        return DoctorCheck("ok", what, f"{where}; without a secret")
    variable = key.removeprefix("env:")
    if environ.get(variable, "").strip():
        return DoctorCheck("ok", what, f"{where}; its secret is in {variable}")
    return DoctorCheck("fail", what, f"{where}; no secret", f"set the environment variable {variable}")


def _nats(url: str) -> DoctorCheck:
    """Whether a NATS server greets us there. What the address says before an @ is not shown."""
    if find_spec("nats") is None:
        return DoctorCheck("fail", "nats", "nats-py is missing", install_command("nats"))
    do = "start it, or correct nats under [node]"
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "127.0.0.1", parts.port or _PORT
    except ValueError:
        return DoctorCheck("fail", "nats", "its address cannot be read", do)
    where = f"{bracket_ipv6(host)}:{port}"
    try:
        with socket.create_connection((host, port), timeout=_CONNECT) as connection:
            greeted = connection.recv(4) == b"INFO"
    except OSError as error:
        return DoctorCheck("fail", "nats", f"no server at {where}: {error.strerror or 'it does not answer'}", do)
    if not greeted:
        return DoctorCheck("fail", "nats", f"what answers at {where} is not a NATS server", do)
    return DoctorCheck("ok", "nats", f"a server answers at {where}")


def _services(services: ServiceSettings, environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    from handrail.node.services.img.ocr import PictureReader
    from handrail.node.services.stt.sphinx import SphinxRecogniser

    if services.has("page"):
        served = all(find_spec(name) is not None for name in ("starlette", "uvicorn", "websockets"))
        opens = "any browser, at the address that handrail serve prints" if served else None
        yield _service("page", opens, "nothing that serves it", "server")
    if services.has("rag"):
        missing = [name for name in ("pypdf", "wordllama") if find_spec(name) is None]
        yield _service("rag", None if missing else "words and meaning, and PDF", "words only, or no PDF", "rag")
    if services.has("trans"):
        engine = services.translator or shutil.which("apertium")
        yield _service("trans", engine, "nothing that translates", None, 'trans = { model = "…" }')
    if services.has("img"):
        engine = services.describer or (None if PictureReader.missing() else "what is written in pictures, and colours")
        yield _service("img", engine, "nothing that reads pictures", "img", 'img = { model = "…" }')
    if services.has("stt"):
        if services.transcriber is not None:
            yield _key("service stt", services.transcriber, services.transcriber_key, environ)
            return
        engine = None if SphinxRecogniser.missing() else "a small recogniser for English"
        yield _service("stt", engine, "nothing that understands speech", "stt", 'stt = { url = "…" }')


def _service(name: str, engine: str | None, lacks: str, extra: str | None, setting: str = "") -> DoctorCheck:
    if engine is not None:
        return DoctorCheck("ok", f"service {name}", engine)
    ways = [install_command(extra)] if extra else []
    ways += [f"write {setting} under [services]"] if setting else []
    return DoctorCheck("warn", f"service {name}", lacks, ", or ".join(ways))
