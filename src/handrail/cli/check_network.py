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

from handrail.cli.checks import Check
from handrail.cli.config_approval import is_approved
from handrail.cli.groups import one_line
from handrail.cli.text import count
from handrail.config.network import ServiceSettings
from handrail.config.values import Config
from handrail.core.errors import HandrailError
from handrail.core.installation import install_command
from handrail.http.guard import bracketed

_CONNECT = 3.0
"""Seconds within which a NATS server has greeted us."""
_PORT = 4222


def check_network(config: Config, journal: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Nothing is started, and nobody is asked but the NATS server, for its greeting."""
    node = config.node
    yield Check("ok", "node", f"{node.name} of {node.community}, to serve at {bracketed(node.host)}:{node.port}")
    if find_spec("joserfc") is None:
        return  # the extras have said so
    yield from _identity(config, journal)
    yield from _tokens(journal)
    for name, peer in node.peers.items():
        yield _key(f"peer {name}", peer.url, peer.token, environ)
    if node.nats and not is_approved(config):
        yield Check("warn", "nats", "not looked for, because the configuration is not approved")
    else:
        for url in node.nats or ():
            yield _nats(url)
    yield from _services(config.services, environ)


def _identity(config: Config, journal: Path) -> Iterator[Check]:
    from handrail.app.network import KEY
    from handrail.bus.tokens.identity import Identity

    path = config.node.identity or journal.parent / KEY
    if not path.exists():
        yield Check("ok", "identity", f"none yet; it will be {path}")
        return
    try:
        yield Check("ok", "identity", Identity.load(path).node_id)
    except HandrailError as error:
        yield Check("fail", "identity", one_line(error))


def _tokens(journal: Path) -> Iterator[Check]:
    from handrail.app.network import TOKENS
    from handrail.bus.tokens.store import TokenStore

    path = journal.parent / TOKENS
    if not path.exists():
        yield Check("ok", "tokens", f"none were issued; they will be remembered in {path}")
        return
    try:
        with closing(TokenStore(path)) as store:
            yield Check("ok", "tokens", f"{count(len(store.issued()), 'token')} in {path}")
    except HandrailError as error:
        yield Check("fail", "tokens", one_line(error))


def _key(what: str, where: str, key: str | None, environ: Mapping[str, str]) -> Check:
    """Another server, and whether the secret for it is set."""
    if key is None:
        return Check("ok", what, f"{where}; without a secret")
    variable = key.removeprefix("env:")
    if environ.get(variable, "").strip():
        return Check("ok", what, f"{where}; its secret is in {variable}")
    return Check("fail", what, f"{where}; no secret", f"set the environment variable {variable}")


def _nats(url: str) -> Check:
    """Whether a NATS server greets us there. What the address says before an @ is not shown."""
    if find_spec("nats") is None:
        return Check("fail", "nats", "nats-py is missing", install_command("nats"))
    do = "start it, or mend nats under [node]"
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "127.0.0.1", parts.port or _PORT
    except ValueError:
        return Check("fail", "nats", "its address cannot be read", do)
    where = f"{bracketed(host)}:{port}"
    try:
        with socket.create_connection((host, port), timeout=_CONNECT) as connection:
            greeted = connection.recv(4) == b"INFO"
    except OSError as error:
        return Check("fail", "nats", f"no server at {where}: {error.strerror or 'it says nothing'}", do)
    if not greeted:
        return Check("fail", "nats", f"what answers at {where} is no NATS server", do)
    return Check("ok", "nats", f"there is a server at {where}")


def _services(services: ServiceSettings, environ: Mapping[str, str]) -> Iterator[Check]:
    from handrail.services.img.ocr import PictureReader
    from handrail.services.stt.sphinx import SphinxRecogniser

    if services.has("page"):
        served = all(find_spec(name) is not None for name in ("starlette", "uvicorn", "websockets"))
        opens = "any browser, at the address that handrail serve prints" if served else None
        yield _service("page", opens, "nothing that serves it", "server")
    if services.has("rag"):
        missing = [name for name in ("pypdf", "wordllama") if find_spec(name) is None]
        yield _service("rag", None if missing else "words and meaning, and PDF", "words alone, or no PDF", "rag")
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


def _service(name: str, engine: str | None, lacks: str, extra: str | None, setting: str = "") -> Check:
    if engine is not None:
        return Check("ok", f"service {name}", engine)
    ways = [install_command(extra)] if extra else []
    ways += [f"write {setting} under [services]"] if setting else []
    return Check("warn", f"service {name}", lacks, ", or ".join(ways))
