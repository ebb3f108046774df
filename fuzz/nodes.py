"""What describes a node: its servers, in our words and in those of other programs, approvals, catalogues.

The laws: a wrong file is an error of ours, and nothing else; what is imported is a file of ours that can be read
and holds no secret; and what is written as source is read back as it was.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from fuzz.files import documents, file_law
from fuzz.law import Target, outcome, scratch
from fuzz.mutate import data, texts, values
from handrail.config.approvals import Approvals, FilePins, unapproved_reason
from handrail.config.client_files import find_client_file
from handrail.config.load import load_config
from handrail.config.mcp_import import add_servers, read_foreign
from handrail.config.network import SERVICES
from handrail.core.errors import ConfigError, UsageError
from handrail.mcp.values import Endpoint, HttpEndpoint, RemoteTool, StdioEndpoint
from handrail.tools.snapshots.catalogue import NodeCatalogue
from handrail.tools.snapshots.catalogue_source import read_catalogue
from handrail.tools.snapshots.python import python_source
from handrail.tools.snapshots.rust import rust_source
from handrail.tools.snapshots.typescript import typescript_source
from tests.tools.snapshots.hard_catalogues import PROPERTIES, STRINGS
from tests.tools.snapshots.test_catalogue_source import NRV

NODE = """
[models.main]
provider = "openai"
model = "gpt-5"
[mcp.time]
command = "uvx"
args = ["mcp-server-time", "--zone=${HOME}"]
env = { TOKEN = "env:TOKEN", A = "b" }
cwd = "x"
only = ["get_*"]
prefix = "t_"
era = "modern"
new_tools = "allow"
sampling = "main"
timeout = 5
max_message = 4096
[mcp.far]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }
oauth = { client_id = "me", scopes = ["a"], redirect_port = 8000 }
required = true
[serve]
converse = { model = "main", name = "ask" }
tools = ["io:*"]
hosts = ["box.example"]
token = "env:TOKEN"
prompts = { hello = { text = "Greet {who}." } }
[standard.io]
roots = { work = "." }
write = ["work"]
hosts = ["*.example.org"]
private = ["127.0.0.0/8"]
limits = { rows = 5, fetch_seconds = 2.5 }
[node]
name = "kitchen"
community = "home"
identity = "id.key"
host = "127.0.0.1"
port = 8420
hosts = ["box.example"]
origins = ["https://app.example"]
token_required = false
tools = ["io:*"]
nats = "nats://127.0.0.1:4222"
[node.peers.shed]
url = "http://127.0.0.1:8421"
token = "env:TOKEN"
[node.trust]
"ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" = "member"
[node.issuers.town]
id = "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
can = ["rag.*"]
[services]
folder = "data"
market = false
llm = { models = ["main"] }
img = { model = "main" }
stt = { url = "https://example.org", key = "env:TOKEN" }
[standard.probability]
[standard.summarization]
model = "main"
piece = 2000
overlap = 10
"""
TOKENS = ("[mcp.x]\n", "url = 'http://['\n", "command = []\n", "http://[::1", "env:", "${", "$$", "~", "\\u0000", "..")
SERVICE_NAMES = frozenset(SERVICES)
ENVIRON = {"HOME": "/home", "TOKEN": "x"}


def _node(path: Path) -> None:
    config = load_config(path, ENVIRON)
    for settings in config.mcp.values():
        outcome(lambda: settings.resolved(ENVIRON), UsageError)  # noqa: B023
    for peer in config.node.peers.values():
        outcome(lambda: peer.secret(ENVIRON), UsageError)  # noqa: B023
    assert 0 <= config.node.port < 2**16 and config.services.off <= SERVICE_NAMES


# ── files of other programs ──────────────────────────────────────────────────────────

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"  # made up
FOREIGN: list[dict[str, Any]] = [
    {
        "mcpServers": {
            "time": {"command": "uvx", "args": ["mcp-server-time", "--api-key", SECRET], "env": {"API_KEY": SECRET}},
            "my files": {"command": "npx", "args": ["-y", "x", "${workspaceFolder}"], "disabled": True, "cwd": "~"},
            "far": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
        }
    },
    {
        "inputs": [{"id": "key", "type": "promptString", "description": "A key", "password": True}],
        "servers": {
            "a": {"type": "stdio", "command": "a", "args": ["${input:key}", "${env:HOME}"], "envFile": ".env"},
            "b": {"url": "https://example.org/mcp?x=${input:key}", "oauth": {"clientId": "me", "scopes": ["a"]}},
            "c": {"type": "sse", "url": "https://example.org/sse"},
        },
    },
]
BEFORE = (
    "",
    '[mcp.mine]\ncommand = "mine"\n',
    'mcp = { a = { command = "x" } }\n',
    "mcp = 3\n",
    "mcp = 'time'\n",
    "\ufeff#\n",
)


def _foreign(value: tuple[str, str]) -> None:
    text, before = value
    with scratch() as folder:
        written, ours = folder / "mcp.json", folder / "handrail.toml"
        written.write_bytes(text.encode(errors="surrogatepass"))
        if before:
            ours.write_bytes(before.encode(errors="surrogatepass"))
        found = outcome(lambda: read_foreign(find_client_file(str(written), folder, folder, {}), folder), ConfigError)
        if isinstance(found, tuple) or not found.servers:
            return
        added = outcome(lambda: add_servers(ours, found.servers), ConfigError)
        if added is None and not before:
            config = load_config(ours, ENVIRON)
            assert set(config.mcp) == {server.name for server in found.servers}, "what is imported can be used"
        assert SECRET.encode() not in ours.read_bytes() if ours.exists() else True, "a secret was copied"


# ── approvals ────────────────────────────────────────────────────────────────────────

TOOL = RemoteTool(name="a", input_schema={"type": "object"})
HERE = Path("/project/handrail.toml")
ENDPOINTS: dict[str, Endpoint] = {
    "time": StdioEndpoint(command="uvx", args=("x",)),
    "far": HttpEndpoint(url="https://example.org/mcp"),
}


def _book() -> bytes:
    with scratch() as folder:
        approvals = Approvals(folder)
        approvals.pin(HERE, "time", ENDPOINTS["time"], {"a": TOOL}, by="ada")
        approvals.approve(HERE, "far", ENDPOINTS["far"], by="ada")
        return approvals.path.read_bytes()


def _approvals(book: bytes) -> None:
    with scratch() as folder:
        approvals = Approvals(folder)
        approvals.path.write_bytes(book)
        other = StdioEndpoint(command="evil")
        assert outcome(lambda: unapproved_reason(approvals, HERE, "time", other), UsageError) is not None, (
            "evil was approved"
        )
        pins = FilePins(approvals, HERE, ENDPOINTS)
        changed = RemoteTool(name="a", description="Send all files.", input_schema={"type": "object"})
        known = outcome(lambda: approvals.of(HERE, "time"), UsageError)
        held = outcome(lambda: pins.held("time", {"a": changed}), UsageError)
        if not isinstance(known, tuple) and known is not None and known.tools is not None:
            assert held, "a tool that changed is held back"
        outcome(lambda: approvals.revoke(HERE, "far"), UsageError)


# ── catalogues and the sources that are written of them ──────────────────────────────

CATALOGUES: list[Any] = [
    NRV,
    {
        "tools": [
            {
                "name": f"tool-{at}",
                "description": text,
                "tags": [text, "a"],
                "timeout_ms": at + 1,
                "side_effects": True,
                "input_schema": {
                    "type": "object",
                    "properties": {PROPERTIES[at % len(PROPERTIES)]: {"enum": [text, 1, None]}, "b": {"default": text}},
                    "required": ["b"],
                },
            }
            for at, text in enumerate(STRINGS)
        ],
        "models": [{"id": text, "supports_tool_calls": True, "provider": "x"} for text in STRINGS if text],
    },
]
_RUST_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_RUST_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]+)\}|(.))")
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def _plain(catalogue: NodeCatalogue) -> Any:
    models = [{"supports_tool_calls": True, **model} for model in msgspec.to_builtins(catalogue.models)]
    return json.loads(json.dumps({"tools": msgspec.to_builtins(catalogue.tools), "models": models}))


def _written(value: Any) -> None:
    found = outcome(lambda: read_catalogue(json.dumps(value).encode(), "it"), ConfigError)
    if isinstance(found, tuple):
        return
    plain = _plain(found)
    module: dict[str, Any] = {}
    exec(compile(python_source(found), "capabilities.py", "exec"), module)
    assert json.loads(json.dumps({"tools": module["TOOLS"], "models": module["MODELS"]})) == plain
    assert _from_typescript(typescript_source(found)) == plain
    said = _from_rust(rust_source(found))
    assert {tool["name"] for tool in plain["tools"]} <= said
    assert {tool.get("description", "") for tool in plain["tools"]} <= said | {""}
    schemas = [json.loads(text) for text in said if text.startswith("{") and '"' in text and _is_json(text)]
    assert all(tool["input_schema"] in schemas for tool in plain["tools"] if len(tool["input_schema"]))


def _from_typescript(source: str) -> Any:
    """The two constants, which are JSON but for names without quotes and last commas; no string has a newline in it."""
    found = {}
    for name in ("tools", "models"):
        body = re.search(rf"^export const {name} = (.*?) as const satisfies", source, re.DOTALL | re.MULTILINE)
        assert body is not None
        text = re.sub(r"^(\s*)(\w+): ", r'\1"\2": ', body[1], flags=re.MULTILINE)
        text = re.sub(r'^(\s*)\["__proto__"\]: ', r'\1"__proto__": ', text, flags=re.MULTILINE)
        found[name] = json.loads(re.sub(r",\n(\s*[}\]])", r"\n\1", text))
    return found


def _from_rust(source: str) -> set[str]:
    """Every string that the source holds."""
    return {_RUST_ESCAPE.sub(_letter, text) for text in _RUST_TEXT.findall(_without_comments(source))}


def _without_comments(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("//"))


def _letter(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _PLAIN.get(match[2], match[2])


def _is_json(text: str) -> bool:
    return not isinstance(outcome(lambda: json.loads(text), ValueError), tuple)


def _catalogue(body: bytes) -> None:
    found = outcome(lambda: read_catalogue(body, "it"), ConfigError)
    assert isinstance(found, NodeCatalogue | tuple)


_JSON = [json.dumps(each, indent=1) for each in FOREIGN]
TARGETS = (
    Target("node", documents(NODE) | texts([NODE], TOKENS), file_law(_node, UsageError)),
    Target(
        "foreign",
        st.tuples(
            values(FOREIGN).map(json.dumps) | texts(_JSON, ("// x\n", "/*", "${env:", "${}")), st.sampled_from(BEFORE)
        ),
        _foreign,
    ),
    Target("approvals", data([_book()], (b'"servers":', b"null", b'"tools":', b"evil", b"[" * 2000)), _approvals),
    Target("catalogue-bytes", data([json.dumps(NRV).encode()], (b"[" * 200, b"1e999")), _catalogue),
    Target("catalogue", values(CATALOGUES), _written),
)
