"""What a person has approved of the MCP servers that files name: commands that may start, tools as they were described.

It is a file of the user, never one beside a project's configuration, which anybody who
can change a project could change too. An approval is for one server of one
configuration file: for exactly that program with those arguments and names of variables,
or that address; and for the tools that the server had, word for word. Programs that make
an `McpEnsemble` themselves need none: their code is their word.

The first connection of an approved server fixes its tools. What changes after that is
held back until somebody has looked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from handrail.core.canonical import digest
from handrail.core.errors import UsageError
from handrail.core.ports import Clock, SystemClock
from handrail.execute.changes import changes
from handrail.mcp.values import Endpoint, Http, RemoteTool, Stdio
from handrail.store.content import make_folder, write_whole

FILE = "approvals.json"


class Approval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's word on one server."""

    binds: str
    """What it is good for: the digest of the command, or of the address."""
    at: int = 0
    """Milliseconds since 1970."""
    by: str = ""
    tools: dict[str, dict[str, Any]] | None = None
    """Its tools as they were described; None until it was first connected."""


class _Book(Struct, frozen=True, omit_defaults=True):
    version: int = 1
    servers: dict[str, dict[str, Approval]] = field(default_factory=dict)
    """By the path of the configuration file, then by the name of the server."""


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the user's programs keep what they must remember."""
    stated = environ.get("XDG_STATE_HOME", "")
    base = Path(stated) if stated.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return base / "handrail"


def binding(endpoint: Endpoint) -> str:
    """What an approval of this endpoint is good for."""
    match endpoint:
        case Stdio():
            return endpoint.approval
        case Http(url=url, headers=headers):
            return digest({"url": url, "headers": sorted(headers)})


class Approvals:
    """The file. Several processes may use it at once; each change reads it anew under a lock."""

    def __init__(self, folder: Path, *, clock: Clock = SystemClock()) -> None:
        self.path = folder / FILE
        self._clock = clock

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Approvals:
        """Those of the user."""
        return cls(state_folder(environ))

    def of(self, config: Path, server: str) -> Approval | None:
        """What was approved of a server, if anything was."""
        return self._read().servers.get(_key(config), {}).get(server)

    def approve(self, config: Path, server: str, endpoint: Endpoint, *, by: str) -> None:
        """Let it be used. The tools that are fixed stay so, unless it is another program or address."""
        before = self.of(config, server)
        kept = before.tools if before is not None and before.binds == binding(endpoint) else None
        self._put(config, server, Approval(binds=binding(endpoint), at=self._clock.now(), by=by, tools=kept))

    def pin(self, config: Path, server: str, endpoint: Endpoint, tools: Mapping[str, RemoteTool], *, by: str) -> None:
        """Take its tools as they are now for those that are approved."""
        described = {name: described_tool(tool) for name, tool in tools.items()}
        approval = Approval(binds=binding(endpoint), at=self._clock.now(), by=by, tools=described)
        self._put(config, server, approval)

    def revoke(self, config: Path, server: str) -> bool:
        """Take the word back; whether there was one."""
        with self._locked():
            book = self._read()
            there = dict(book.servers.get(_key(config), {}))
            was = there.pop(server, None)
            if was is not None:
                self._write({**book.servers, _key(config): there})
        return was is not None

    def _put(self, config: Path, server: str, approval: Approval) -> None:
        with self._locked():
            servers = self._read().servers
            there = servers.get(_key(config), {})
            self._write({**servers, _key(config): {**there, server: approval}})

    def _write(self, servers: dict[str, dict[str, Approval]]) -> None:
        kept = {file: named for file, named in servers.items() if named}
        write_whole(self.path, msgspec.json.format(msgspec.json.encode(_Book(servers=kept)), indent=1) + b"\n")

    def _read(self) -> _Book:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return _Book()
        except OSError as error:
            raise UsageError(f"the approvals at {str(self.path)!r} cannot be read: {error.strerror}") from error
        try:
            book = msgspec.json.decode(data, type=_Book)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"the approvals at {str(self.path)!r} are damaged ({error}); move the file away and approve again"
            ) from error
        if book.version != 1:
            raise UsageError(f"the approvals at {str(self.path)!r} were written by a newer handrail; use that one")
        return book

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_folder(self.path.parent)
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def described_tool(tool: RemoteTool) -> dict[str, Any]:
    """What a person approves of a tool: every word that a model or the executor goes by."""
    described: dict[str, Any] = msgspec.to_builtins(tool)
    return {key: value for key, value in described.items() if value not in (None, "")}


def unapproved(approvals: Approvals, config: Path, server: str, endpoint: Endpoint) -> str | None:
    """Why a server may not be used yet, in words; None if it may. An address that was never used may be."""
    known = approvals.of(config, server)
    if known is None:
        return "it was never approved" if isinstance(endpoint, Stdio) else None
    if known.binds == binding(endpoint):
        return None
    what = "its command, arguments, folder or names of variables" if isinstance(endpoint, Stdio) else "its address"
    return f"{what} changed since it was approved"


class FilePins:
    """Holds back what is not as it was approved. It implements the client's `Pins` for the servers of one file."""

    def __init__(
        self,
        approvals: Approvals,
        config: Path,
        endpoints: Mapping[str, Endpoint],
        *,
        allow_new: frozenset[str] = frozenset(),
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._approvals = approvals
        self._config = config
        self._endpoints = endpoints
        self._allow_new = allow_new
        """Servers whose new tools need no look."""
        self._tell = tell

    def held(self, server: str, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        """Tools that may not be offered, and why. The first time, all are taken as they are, and that is told."""
        known = self._approvals.of(self._config, server)
        if known is None or known.tools is None:
            self._approvals.pin(self._config, server, self._endpoints[server], tools, by="first use")
            self._tell(
                f"MCP server {server!r} is used for the first time: its {len(tools)} tools are taken as they are now;"
                " what it changes later is held back until you have looked"
            )
            return {}
        return differences(known.tools, tools, server, allow_new=server in self._allow_new)


def differences(
    before: Mapping[str, dict[str, Any]], tools: Mapping[str, RemoteTool], server: str, *, allow_new: bool = False
) -> dict[str, str]:
    """The tools that are not what they were, each with what is different in words."""
    how = f"look and accept with: handrail mcp approve {server}"
    found: dict[str, str] = {}
    for name, tool in tools.items():
        now = described_tool(tool)
        if name not in before:
            if not allow_new:
                found[name] = f"new since you approved the server; {how}"
        elif before[name] != now:
            found[name] = f"changed since you approved it ({'; '.join(changes(before[name], now))}); {how}"
    return found


def _key(config: Path) -> str:
    return str(config.resolve())
