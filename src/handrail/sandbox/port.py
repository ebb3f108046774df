"""The port of a sandbox: it runs code that nobody vouches for, one cell after the other. Only JSON crosses its border.

`monty`     an interpreter in Rust, in worker processes, without any authority of its own
`os`        CPython behind bubblewrap, seccomp and limits
`process`   CPython in a child process with its user's rights: no border at all, only for code one trusts

One contract suite passes on all three. None of them stands in for another that is missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, get_args

from msgspec import Struct, field

from handrail.core.errors import UsageError

JSON = Any

Kind = Literal["monty", "os", "process"]

Ending = Literal["ok", "error", "timeout", "memory", "output", "calls", "lost"]
"""The way in which a cell ended: by itself; by an exception; out of time, of memory, of output, of calls to the host;
or because its interpreter ended while it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplLimits:
    """What one interpreter may use."""

    memory_bytes: int = 512 * 2**20
    cell_seconds: float = 60.0
    """The running time of a cell; while it waits for the host the clock stands still."""
    output_chars: int = 200_000
    """Printed by one cell and kept. More is counted and dropped; ten times as much ends the cell."""
    host_calls: int = 10_000
    """The most host calls of one cell."""
    calls_bytes: int = 256 * 2**20
    """The most bytes of the arguments and results of all calls of a run: they are kept while it goes on. Contexts do
    not count."""
    message_bytes: int = 32 * 2**20
    """The largest value that may cross, either way. What a cell sends may besides hold 250,000 values at most."""
    disk_bytes: int = 64 * 2**20
    """The most bytes of its own files, where it has any."""


class HostError(Exception):
    """The error that a host returns instead of a value. The cell gets an exception of the builtin type `kind`."""

    def __init__(self, message: str, kind: str = "RuntimeError") -> None:
        super().__init__(message)
        self.kind = kind


Host = Callable[[str, JSON], Awaitable[JSON]]
"""Answers `_host(name, value)` of a cell. It may raise `HostError`; whatever else it raises ends the cell."""


async def no_host(name: str, value: JSON) -> JSON:
    raise HostError(f"nothing answers to {name!r} here", "NameError")


class Cell(Struct, frozen=True, kw_only=True):
    """The outcome of one piece of code."""

    ending: Ending
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    """The error for the author of the code: a traceback of their own lines, or which limit was reached; else empty."""
    dropped: int = 0
    """Characters of output that were not kept."""
    values: dict[str, JSON] = field(default_factory=dict)
    """The variables that were asked for and exist; what is not JSON as its `repr`, cut."""
    names: dict[str, str] = field(default_factory=dict)
    """Every variable that code here has made, private ones left out, and the name of its type."""
    seconds: float = 0.0
    """Its running time, without waiting for the host."""
    state: Literal["kept", "gone"] = "kept"
    """Gone: the interpreter had to be ended, and the next cell begins with no variables at all."""


def nameable_variables(names: Mapping[str, str]) -> dict[str, str]:
    """Variables and their types, as far as both have names. Code can make others, such as words that would be read as
    the host's where the variables are told."""
    return {name: kind if kind.isidentifier() else "object" for name, kind in names.items() if name.isidentifier()}


class Repl(Protocol):
    """One interpreter with its variables. One cell at a time; belongs to one event loop."""

    @property
    def kind(self) -> Kind: ...

    async def run(self, code: str, host: Host = no_host, *, peek: tuple[str, ...] = ()) -> Cell:
        """Run a cell to its end, whatever it does. Code calls `_host(name, value)` for what only the host can do.

        A caller that is cancelled ends the cell and, where it cannot be interrupted, the interpreter.

        Raises:
            SandboxUnavailable: No interpreter could be started.
        """
        ...

    async def put(self, name: str, value: JSON) -> None:
        """Bind a variable. It is not among the `names` of later cells.

        Raises:
            UsageError: It is larger than a message may be, or not JSON, or not a name.
            SandboxUnavailable: The interpreter ended meanwhile, and its variables are gone.
        """
        ...

    async def dump(self) -> bytes | None:
        """Every variable as bytes for `load`, or None where that cannot be done."""
        ...

    async def load(self, state: bytes) -> None:
        """Begin again with the variables of a dump.

        Raises:
            UsageError: It is not a dump, or was changed.
        """
        ...

    async def restart(self) -> None:
        """Begin again with no variables."""
        ...

    async def aclose(self) -> None: ...


class Sandbox(Protocol):
    """Where interpreters come from; some are kept warm. Belongs to one event loop."""

    @property
    def kind(self) -> Kind: ...

    async def repl(self, *, seed: int = 0) -> Repl:
        """An interpreter of one's own. Chance inside it follows from the seed, so that a cell can be run again.

        Raises:
            SandboxUnavailable: With what to do about it.
        """
        ...

    async def aclose(self) -> None:
        """End every interpreter, and everything that they started."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


def create_sandbox(kind: str, limits: ReplLimits = ReplLimits(), *, key: bytes | None = None) -> Sandbox:
    """Make a sandbox of that kind. Nothing is started yet. Dumps are valid wherever the same `key` is given.

    Raises:
        UsageError: There is no such kind.
        SandboxUnavailable: This machine cannot have it, with what to do about it.
        MissingExtra: What it needs is not installed.
    """
    match kind:
        case "monty":
            from handrail.sandbox.monty import MontySandbox

            return MontySandbox(limits, key=key)
        case "os":
            from handrail.sandbox.jail import Jail
            from handrail.sandbox.kernel import KernelSandbox

            return KernelSandbox(limits, jail=Jail.for_repl(limits))
        case "process":
            from handrail.sandbox.kernel import KernelSandbox

            return KernelSandbox(limits)
    raise UsageError(f"there is no sandbox {kind!r}; there are {', '.join(get_args(Kind))}")
