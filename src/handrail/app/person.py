"""The person behind a use of the program: their approvals, who asks them, and where they are told things."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from handrail.config.approvals import Approvals, deciding_variables
from handrail.core.redact import redact_text
from handrail.mcp.values import Endpoint, HttpEndpoint, StdioEndpoint

logger = logging.getLogger(__name__)

Consent = Callable[[str, Endpoint, str], Awaitable[bool]]
"""Given a server, what it is and why its approval is wanted: whether the person says yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Without anything said: the approvals of this user, nobody to ask, and the log to tell."""

    by: str = "local"
    approvals: Approvals = field(default_factory=Approvals.here)
    consent: Consent | None = None
    tell: Callable[[str], None] = lambda line: logger.warning("%s", line)
    patient: bool = False
    """Whether they need not be told that something takes long: they wait for nothing that they would see."""

    @property
    def tokens(self) -> Path:
        """The folder of stored sign-ins."""
        return self.approvals.path.parent / "oauth"


def endpoint_description(endpoint: Endpoint) -> str:
    """Exactly what would be run or spoken to, as it is written. Values are shown of variables that decide what runs."""
    match endpoint:
        case StdioEndpoint(command=command, args=args, env=env, cwd=cwd):
            folder = f", in {cwd}" if cwd else ""
            values = deciding_variables(endpoint)
            named = (f"{name}={values[name]}" if name in values else name for name in sorted(env))
            variables = f", with the variables {redact_text(', '.join(named))}" if env else ""
            return f"{redact_text(shlex.join((command, *args)))}{folder}{variables}"
        case HttpEndpoint(url=url, headers=headers, users=users, other_users=others):
            parts = [url, *([f"with the headers {_written(headers)}"] if headers else [])]
            parts += [f"for the user {user!r} with the headers {_written(own)}" for user, own in sorted(users.items())]
            parts += ["for all other users as without a user"] if users and others == "shared" else []
            return redact_text(", ".join(parts))


def _written(headers: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in sorted(headers.items()))


_RUNNERS = {
    # program, and the words before the package
    "npx": (),
    "bunx": (),
    "uvx": (),
    "pipx": ("run",),
    "pnpm": ("dlx",),
    "yarn": ("dlx",),
    "uv": ("tool", "run"),
}
_WITH_VALUE = frozenset({"--package", "-p", "--from", "--with", "--python", "--spec", "-c", "--call", "--index-url"})


def unpinned_reason(endpoint: Endpoint) -> str | None:
    """Why nobody knows which code a command will run: it fetches a package without a version; None if it does not."""
    if not isinstance(endpoint, StdioEndpoint):
        return None
    before = _RUNNERS.get(Path(endpoint.command).name)
    args = list(endpoint.args)
    if before is None or tuple(args[: len(before)]) != before:
        return None
    package = _package(args[len(before) :])
    if package is None or _has_version(package) or package.startswith((".", "/")):
        return None
    example = (
        f"{package}@1.2.3" if Path(endpoint.command).name in ("npx", "bunx", "pnpm", "yarn") else f"{package}==1.2.3"
    )
    return f"it runs whatever {package!r} is on the day; name a version, as {example!r}"


def _package(args: list[str]) -> str | None:
    named = {"--package", "-p", "--from", "--spec"}
    for index, word in enumerate(args):
        if word in named and index + 1 < len(args):
            return args[index + 1]
        if any(word.startswith(f"{each}=") for each in named if each.startswith("--")):
            return word.partition("=")[2]
    skip = False
    for word in args:
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_VALUE
            continue
        return word
    return None


def _has_version(package: str) -> bool:
    """`name@1.2`, `@scope/name@1.2`, `name==1.2`; `name@latest` is none."""
    _, at, version = package[1:].rpartition("@")
    return "==" in package or (bool(at) and version not in ("", "latest", "next", "*"))
