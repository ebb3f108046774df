"""The REPL of a run and everything that was done in it, so that it can be made again when its interpreter is gone.

Making it again is to run the same code under the same keys, on the answers that are on record: nothing is asked or done
that was not, and nothing is done twice. Where there is a dump of the variables, the code before it need not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from handrail.core.errors import HandrailError, SandboxUnavailable, UsageError
from handrail.core.redact import MASK
from handrail.run.code.callers import CodeCaller, ReplayCaller, ReplayDiverged
from handrail.run.code.variable_dumps import VariableDumps
from handrail.sandbox.port import JSON, Cell, Ending, Host, Repl, Sandbox, no_host


@dataclass(frozen=True, slots=True)
class RecordedCodeRun:
    """What is on record of one piece of code that ran."""

    ending: Ending
    state: str = "kept"
    stdout: str | None = None
    """What it printed; None if the record does not have all of it."""

    @property
    def error_code(self) -> str:
        return f"code_{self.ending}" if self.state == "kept" else f"code_{self.ending}_{self.state}"


@dataclass(frozen=True, slots=True)
class RecordedCodeCall:
    """A call of the tool that runs code, and has its result: what is needed to make its variables again."""

    id: str
    codes: tuple[str, ...]
    blocks: tuple[RecordedCodeRun, ...]
    """What became of each piece of code that was run."""
    after: str = ""
    """Code of the program to run once the code of the call has been run again; or empty."""
    by_model: bool = True


class HostBridge(Protocol):
    """Answers `_host(name, value)` of the code of one call, in a `with` block."""

    async def __call__(self, name: str, value: JSON) -> JSON: ...
    def again(self) -> None:
        """The code runs again from its beginning, and its calls are counted again."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind: object, error: object, trace: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBindings:
    """What the host binds in the interpreter, and answers for it when code asks for more."""

    values: Mapping[str, JSON] = field(default_factory=dict)
    source: str = ""
    serves: Callable[[str], bool] = lambda name: False
    serve: Callable[[str, JSON], Awaitable[JSON]] = no_host


B = TypeVar("B", bound=HostBridge)


class InterpreterLost(HandrailError):
    """The interpreter ended while code of our own ran in it."""


class _ReplayStuck(Exception):
    """The code of a call cannot be run again, and the interpreter is not to be gone on with."""

    def __init__(self, call: str, why: str) -> None:
        super().__init__(why)
        self.call = call


@dataclass(eq=False)
class InterpreterNotebook(Generic[B]):
    """Holds one interpreter at a time. It is opened when code is to run, and made again when it was lost."""

    sandbox: Sandbox
    """The sandbox that the interpreters come from."""
    _: KW_ONLY
    seed: int
    """Chance inside of them follows from it."""
    source: str
    """Functions that the program brings. Running it again changes no variable."""
    functions: frozenset[str]
    """The names of those that code may have overwritten."""
    bridge: Callable[[CodeCaller, str], B]
    """Makes what answers the code of a call."""
    recall: Callable[[str], Awaitable[ReplayCaller]]
    """Makes what answers code that runs again."""
    dumps: VariableDumps | None = None
    """The store of dumped variables."""
    reset: str = ""
    """Code that runs once, after `source`, when an interpreter is new."""
    names: dict[str, str] = field(default_factory=dict, init=False)
    """The model's variables, after its last code, and their types."""
    rebuilt: int | None = field(default=None, init=False)
    """Calls whose code was run again when it was last asked to be ready; None if it was ready, or new."""
    _repl: Repl | None = field(default=None, init=False)
    _is_ready: bool = field(default=False, init=False)
    """Whether the interpreter has what the steps have made."""
    _steps: list[HostBindings | RecordedCodeCall] = field(default_factory=list, init=False)
    _own: frozenset[str] = field(default=frozenset(), init=False)
    """Names that the program made there, and not the code of a model."""

    @property
    def is_open(self) -> bool:
        """Whether it has an interpreter."""
        return self._repl is not None

    @property
    def has_run(self) -> bool:
        """Whether any code of the model ran since it was last given something."""
        given = max((at for at, step in enumerate(self._steps) if isinstance(step, HostBindings)), default=0)
        return any(isinstance(step, RecordedCodeCall) and step.blocks and step.by_model for step in self._steps[given:])

    async def give(self, given: HostBindings) -> None:
        """Have it for the code from now on."""
        self._steps.append(given)
        if not self._is_ready:
            return
        try:
            await self._bind(given)
        except (InterpreterLost, SandboxUnavailable):
            self._is_ready = False

    def was_done(self, done: RecordedCodeCall) -> None:
        """Take in what the record says of an earlier process; it is made again when code is to run."""
        self._steps.append(done)
        self._is_ready = False

    async def settled(self, done: RecordedCodeCall) -> None:
        """Keep what a call has done, also on disk where that is wanted."""
        self._steps.append(done)
        if self.dumps is None or not self._is_ready or self._repl is None:
            return
        try:
            state = await self._repl.dump()
        except HandrailError:  # the code has run, whatever becomes of its interpreter now
            self._is_ready = False
            return
        if state is not None:
            await self.dumps.save(done.id, state)

    async def run(self, code: str, bridge: B, *, peek: tuple[str, ...] = ()) -> Cell:
        """Runs one cell. If its interpreter is gone afterwards, `ready` makes another."""
        if self._repl is None:
            raise AssertionError("a notebook is made ready before code runs in it")
        self._is_ready = False  # also when this is cancelled: then nobody knows how far it came
        cell = await self._repl.run(code, self._host(bridge), peek=peek)
        self._is_ready = cell.state == "kept"
        await self._after(cell)
        return cell

    def was_lost(self) -> None:
        """The call that runs now begins again, with the variables as they were before it."""
        self._is_ready = False

    async def read(self, code: str, peek: str) -> JSON:
        """What code of our own finds out; None if it fails.

        Raises:
            InterpreterLost: The interpreter is gone, so nobody knows.
        """
        if self._repl is None or not self._is_ready:
            return None
        self._is_ready = False
        cell = await self._repl.run(code, no_host, peek=(peek,))
        self._is_ready = cell.state == "kept"
        if cell.ending == "lost":
            raise InterpreterLost("the interpreter ended before its variables were read")
        return cell.values.get(peek) if cell.ending == "ok" else None

    async def _after(self, cell: Cell) -> None:
        """Note the variables. What code wrote over a function that it needs is put right."""
        self.names = {name: kind for name, kind in cell.names.items() if name not in self._own}
        if cell.state == "kept" and self._repl is not None and overwritten(cell.names, self.functions):
            await self._repl.run(self.source)

    # ── making it, and making it again ───────────────────────────────────────────────

    async def ready(self) -> tuple[str, ...]:
        """Have an interpreter with everything that was done. Words for the model, if that could not be made whole.

        Raises:
            InterpreterLost: Again and again it ended while it was made.
            SandboxUnavailable: None could be started.
        """
        self.rebuilt = None
        if self._is_ready:
            return ()
        stuck: _ReplayStuck | None = None
        tries = 0
        while True:
            try:
                return await self._made(stuck)
            except _ReplayStuck as found:
                stuck = found
            except (InterpreterLost, SandboxUnavailable):
                tries += 1
                if tries == _TRIES:
                    raise

    async def _made(self, stuck: _ReplayStuck | None) -> tuple[str, ...]:
        """Makes one try. A call that is known to be stuck is not run again, nor is what came after it."""
        ran_before = any(not isinstance(step, HostBindings) and step.blocks for step in self._steps)
        self.rebuilt = 0 if ran_before else None
        await self._begin()
        covered = await self._load()
        problem: str | None = None
        notes: list[str] = []
        for step in self._steps[covered:]:
            if isinstance(step, HostBindings):
                if step is not self._steps[0]:
                    await self._bind(step)
            elif stuck is not None and step.id == stuck.call:
                problem = str(stuck)
            elif problem is None and step.blocks:
                problem = await self._again(step, notes)
        self._is_ready = True
        return (*notes, *(() if problem is None else (self._unsound(problem),)))

    async def _begin(self) -> None:
        """Begins with nothing but what the program itself brings, and the first context."""
        if self._repl is None:
            self._repl = await self.sandbox.repl(seed=self.seed)
        else:
            await self._repl.restart()
        cell = await self._repl.run(f"{self.source}\n{self.reset}")
        _check(cell, "the functions of the REPL")
        for step in self._steps[:1]:
            if isinstance(step, HostBindings):
                cell = await self._bind(step)
        self._own = frozenset(cell.names)

    async def _bind(self, given: HostBindings) -> Cell:
        repl = self._repl
        if repl is None:
            raise AssertionError("there is no interpreter yet")
        for name, value in given.values.items():
            await repl.put(name, value)
        cell = await repl.run(given.source)
        _check(cell, "its values")
        return cell

    async def _load(self) -> int:
        """Take up the latest dump that there is: how many steps are in it. Without one, the first."""
        if self.dumps is None or self._repl is None:
            return 0
        for at in range(len(self._steps) - 1, -1, -1):
            step = self._steps[at]
            state = None if isinstance(step, HostBindings) else await self.dumps.find(step.id)
            if state is None:
                continue
            try:
                await self._repl.load(state)
            except UsageError:  # torn, or of another version: the code is run again instead
                await self._begin()
                return 0
            return at + 1
        return 0

    async def _again(self, done: RecordedCodeCall, notes: list[str]) -> str | None:
        """Run the code of a call again. Why what comes after it cannot be made, if it is so.

        Raises:
            _ReplayStuck: It did something else than it did.
        """
        remembered = await self.recall(done.id)
        self.rebuilt = (self.rebuilt or 0) + 1
        async with self.bridge(remembered, done.id) as bridge:
            for code, block in zip(done.codes, done.blocks, strict=False):
                if block.state == "gone":
                    return None  # it left nothing behind
                if block.ending not in ("ok", "error"):
                    return "code of yours was stopped in the middle"
                if MASK in code:
                    return "code of yours held something secret, which is not on record"
                cell = await self._replayed(code, bridge)
                if cell is None or remembered.diverged or cell.ending != block.ending or cell.state == "gone":
                    raise _ReplayStuck(done.id, "code of yours did something else when it was run again")
                await self._after(cell)
                if block.stdout not in (None, cell.stdout) and _DIFFERS not in notes:
                    notes.append(_DIFFERS)
            if remembered.skipped_handlers and _NOT_HANDLED not in notes:
                notes.append(_NOT_HANDLED)
        if done.after and self._repl is not None:
            _check(await self._repl.run(done.after), "its variables")
        return None

    async def _replayed(self, code: str, bridge: B) -> Cell | None:
        if self._repl is None:
            raise AssertionError("there is no interpreter yet")
        try:
            return await self._repl.run(code, self._host(bridge))
        except ReplayDiverged:
            return None

    def _host(self, bridge: B) -> Host:
        held = [step for step in self._steps if isinstance(step, HostBindings)]

        async def host(name: str, value: JSON) -> JSON:
            if name == "show_vars" and SHOW_VARS in self.functions:
                return self._listed(value)
            for each in held:
                if each.serves(name):
                    return await each.serve(name, value)
            return await bridge(name, value)

        return host

    def _unsound(self, problem: str) -> str:
        look = f"Look with {SHOW_VARS}() what is there" if SHOW_VARS in self.functions else "Check what is there"
        return _UNSOUND.format(problem, look)

    def _listed(self, scope: JSON) -> str:
        """The model's variables: those that its code sees now, or else those that there were before it."""
        if not isinstance(scope, dict):
            return _told(self.names, "before this code")
        given = {name for step in self._steps if isinstance(step, HostBindings) for name in step.values}
        names = {name: str(kind) for name, kind in scope.items() if name not in self._own and name not in given}
        return _told(names, "so far")

    async def discard(self) -> None:
        if self.dumps is not None:
            await self.dumps.discard()

    async def aclose(self) -> None:
        repl, self._repl, self._is_ready = self._repl, None, False
        if repl is not None:
            await asyncio.shield(repl.aclose())


SHOW_VARS = "SHOW_VARS"
"""A function that lists the variables, where there is one."""
_TRIES = 3
"""Interpreters that may end while one is made ready."""
_UNSOUND = (
    "The interpreter was started again. Your variables were made again by running your code on recorded answers, but "
    "not all of them: {0}. Nothing was done twice. {1} before you go on."
)
_DIFFERS = (
    "The interpreter was started again, and your variables were made again by running your code on recorded answers. "
    "Some of it printed something else than the first time, so values that come from chance or the clock may differ."
)
_NOT_HANDLED = (
    "The interpreter was started again, and your variables were made again by running your code on recorded answers. "
    "Your tool handlers were not called again for that: what they changed is not there."
)


_SHOWN = 1_000


def _check(cell: Cell, what: str) -> None:
    if cell.ending == "lost":
        raise InterpreterLost(f"the interpreter ended while {what} were set up in it: {cell.error[-2_000:]}")
    if cell.ending != "ok":
        raise HandrailError(f"{what} could not be set up in the REPL ({cell.ending}): {cell.error[-2_000:]}")


def _told(names: Mapping[str, str], when: str) -> str:
    if not names:
        return f"You have made no variables {when}."
    shown = sorted(names.items())[:_SHOWN]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"Your variables {when}: " + ", ".join(f"{name} ({kind})" for name, kind in shown) + more


def overwritten(names: Mapping[str, str], bound: Iterable[str]) -> list[str]:
    """Of the functions that the program bound, those that are something else now: then they are to be bound again.

    `names` are the variables of a cell with their types. A function that code wrote in the place of one is its own.
    """
    return sorted(
        name for name in bound if name in names and names[name] not in ("function", "builtin_function_or_method")
    )
