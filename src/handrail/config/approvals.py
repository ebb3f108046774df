"""What a person has approved: MCP servers that files name, with their tools as they were described, and standing rules.

It is a file of the user, never one beside a project's configuration, which anybody who
can change a project could change too. An approval is for one server of one
configuration file: for exactly that program with those arguments and names of variables,
and the values of those variables that decide which code it runs, as PATH; or that
address; and for the tools that the server had, word for word. Programs that make
an `McpEnsemble` themselves need none: their code is their word.

The first connection of an approved server fixes its tools. What changes after that is
held back until somebody has looked.

A standing rule is what somebody said when a call waited for their word: always for
this. It holds for one configuration file too, and for a tool as it was defined then.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from handrail.core.canonical import digest
from handrail.core.errors import UsageError
from handrail.core.ports import Clock, SystemClock
from handrail.execute.changes import changes
from handrail.execute.rules import Rule
from handrail.mcp.values import Endpoint, Http, RemoteTool, Stdio
from handrail.store.content import make_folder, write_whole

FILE = "approvals.json"
_HERE = Path("handrail.toml")
"""Stands for the folder where there is no configuration."""
_DECIDES = re.compile(
    r"PATH|LD_.*|DYLD_.*|PYTHON.*|NODE_.*|NPM_CONFIG_.*|UV_.*|PIP_.*|PERL5.*|RUBY.*|GEM_.*|JAVA_TOOL_OPTIONS"
    r"|JDK_JAVA_OPTIONS|BASH_ENV|ENV|GIT_.*|.*_PROXY|.*_REGISTRY|.*_INDEX_URL",
    re.IGNORECASE,
)
"""Variables whose values say which code a program runs, or where it fetches it from."""


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
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the path of the configuration file: standing rules, the newest first."""


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the user's programs keep what they must remember.

    Raises:
        UsageError: The user has no home.
    """
    stated = environ.get("XDG_STATE_HOME", "")
    if stated.startswith("/"):
        return Path(stated) / "handrail"
    try:
        home = Path(environ.get("HOME") or Path.home())
    except RuntimeError as error:
        raise UsageError("nobody knows where you keep things: set HOME, or XDG_STATE_HOME to a folder") from error
    return home / ".local" / "state" / "handrail"


def deciding(endpoint: Stdio) -> dict[str, str]:
    """The variables whose values are approved too, as they are written."""
    return {name: endpoint.env[name] for name in sorted(endpoint.env) if _DECIDES.fullmatch(name)}


def binding(endpoint: Endpoint) -> str:
    """What an approval of this endpoint is good for."""
    match endpoint:
        case Stdio():
            values = deciding(endpoint)
            return digest([endpoint.approval, values]) if values else endpoint.approval
        case Http(url=url, headers=headers):
            # As they are written: which variable of the user's goes out in a header is what a person says yes to.
            return digest({"url": url, "headers": dict(headers)})


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
        binds = binding(endpoint)

        def approved(before: Approval | None) -> Approval:
            kept = before.tools if before is not None and before.binds == binds else None
            return Approval(binds=binds, at=self._clock.now(), by=by, tools=kept)

        self._put(config, server, approved)

    def pin(self, config: Path, server: str, endpoint: Endpoint, tools: Mapping[str, RemoteTool], *, by: str) -> None:
        """Take its tools as they are now for those that are approved."""
        self._put(config, server, lambda before: self._pinned(endpoint, tools, by))

    def meet(self, config: Path, server: str, endpoint: Endpoint, tools: Mapping[str, RemoteTool]) -> bool:
        """If it may be used and nobody has fixed its tools yet, fix them as they are; whether that was done."""
        met = False

        def first(before: Approval | None) -> Approval | None:
            nonlocal met
            met = before is not None and before.tools is None and before.binds == binding(endpoint)
            return self._pinned(endpoint, tools, "first use") if met else before

        self._put(config, server, first)
        return met

    def _pinned(self, endpoint: Endpoint, tools: Mapping[str, RemoteTool], by: str) -> Approval:
        described = {name: described_tool(tool) for name, tool in tools.items()}
        return Approval(binds=binding(endpoint), at=self._clock.now(), by=by, tools=described)

    def revoke(self, config: Path, server: str) -> bool:
        """Take the word back; whether there was one."""
        was = self.of(config, server) is not None
        if was:
            self._put(config, server, lambda before: None)
        return was

    def _put(self, config: Path, server: str, change: Callable[[Approval | None], Approval | None]) -> None:
        """Exchange the word on a server for what is made of it, with nobody else writing meanwhile."""
        with self._locked():
            book = self._read()
            servers = book.servers
            there = dict(servers.get(_key(config), {}))
            before = there.pop(server, None)
            after = change(before)
            if after is not before:
                named = there if after is None else {**there, server: after}
                self._write(replace(book, servers={**servers, _key(config): named}))

    # ── standing rules ───────────────────────────────────────────────────────────────

    def rules(self, config: Path | None) -> tuple[str, ...]:
        """What a person said once and for all, the newest first. Without a file it is for the folder one stands in."""
        return self._read().rules.get(_key(config or _HERE), ())

    def add_rule(self, config: Path | None, rule: str) -> None:
        """Let it hold from now on, before those that are there; one for the same calls as it was before is replaced.

        Raises:
            UsageError: It is no rule, or an `allow` that does not say for which definition of the tool.
        """
        added = Rule.parse(rule)
        if added.decision == "allow" and not added.definition:
            raise UsageError(
                f"rule {rule!r} would hold for whatever the tool becomes; name its definition, as"
                f" 'allow {added.tool}@sha256:4f1c0a2b77d3'"
            )
        self._put_rules(config, lambda before: (str(added), *(each for each in before if not _same(each, added))))

    def remove_rule(self, config: Path | None, rule: str) -> bool:
        """Forget one, as it is written; whether it was there."""
        was = False

        def without(before: tuple[str, ...]) -> tuple[str, ...]:
            nonlocal was
            was = rule in before
            return tuple(each for each in before if each != rule)

        self._put_rules(config, without)
        return was

    def _put_rules(self, config: Path | None, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        key = _key(config or _HERE)
        with self._locked():
            book = self._read()
            before = book.rules.get(key, ())
            if (after := change(before)) != before:
                self._write(replace(book, rules={**book.rules, key: after}))

    def _write(self, book: _Book) -> None:
        servers = {file: named for file, named in book.servers.items() if named}
        rules = {file: stated for file, stated in book.rules.items() if stated}
        kept = msgspec.json.encode(replace(book, servers=servers, rules=rules))
        write_whole(self.path, msgspec.json.format(kept, indent=1) + b"\n")

    def _read(self) -> _Book:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return _Book()
        except OSError as error:
            raise UsageError(f"the approvals at {str(self.path)!r} cannot be read: {error.strerror}") from error
        try:
            book = msgspec.json.decode(data, type=_Book)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise UsageError(
                f"the approvals at {str(self.path)!r} are damaged ({error}); move the file away and approve again"
            ) from error
        if book.version != 1:
            raise UsageError(f"the approvals at {str(self.path)!r} were written by a newer handrail; use that one")
        return book

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            make_folder(self.path.parent)
            handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)
        except OSError as error:
            raise UsageError(
                f"the approvals at {str(self.path)!r} cannot be written: {error.strerror};"
                " make the folder writable, or set XDG_STATE_HOME to one that is"
            ) from error


def described_tool(tool: RemoteTool) -> dict[str, Any]:
    """What a person approves of a tool: every word that a model or the executor goes by."""
    described: dict[str, Any] = msgspec.to_builtins(tool)
    return {key: value for key, value in described.items() if value not in (None, "")}


def unapproved(approvals: Approvals, config: Path, server: str, endpoint: Endpoint) -> str | None:
    """Why a server may not be used yet, in words; None if it may."""
    known = approvals.of(config, server)
    if known is None:
        return "it was never approved"
    if known.binds == binding(endpoint):
        return None
    what = "its command, arguments, folder or variables" if isinstance(endpoint, Stdio) else "its address or headers"
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
        endpoint = self._endpoints[server]
        known = self._approvals.of(self._config, server)
        if known is None or known.tools is None:
            if self._approvals.meet(self._config, server, endpoint, tools):
                self._tell(
                    f"MCP server {server!r} is used for the first time: its {len(tools)} tools are taken as they are"
                    " now; what it changes later is held back until you have looked"
                )
                return {}
            known = self._approvals.of(self._config, server)  # somebody else was quicker, or took the word back
        if known is None or known.tools is None or known.binds != binding(endpoint):
            why = f"the word on the server was taken back, or is for another; handrail mcp approve {server}"
            return dict.fromkeys(tools, why)
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


def _same(written: str, rule: Rule) -> bool:
    """Whether it is for the same calls, whatever the definition of the tool."""
    other = Rule.parse(written)
    return (other.tool, other.arguments) == (rule.tool, rule.arguments)


def _key(config: Path) -> str:
    """By where it stands: a link elsewhere to the same file has another folder, in which its commands would run."""
    return str(config.parent.resolve() / config.name)
