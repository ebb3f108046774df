"""An app: everything that answers a question, ready to use, and made anew where its files change."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.app.node import Beside, Node
from handrail.app.parts import Around, Server, loaded
from handrail.app.person import Person
from handrail.config.load import load_config
from handrail.config.values import Config
from handrail.config.watch import Watch, files_of
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.errors import HandrailError, UsageError
from handrail.core.ports import Approver, Embedder, Spill
from handrail.execute.confirm import DeferAll
from handrail.execute.executor import Executor
from handrail.execute.rules import Rule, Rules
from handrail.execute.spill import read_output_tool
from handrail.proof.database import explained
from handrail.proof.journal import SqliteJournal
from handrail.run.runner import OnWait, Runner
from handrail.store.spill import DirectorySpill
from handrail.tools.registry import RegisteredTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handrail.faces.llm import LLM

Adjust = Callable[[Config], Config]
Ask = Callable[[RegisteredTools], Approver]
"""Makes the approver that is asked where no rule decides; it may want to know the tools."""


class AllowAll:
    """The approver of somebody who said yes to everything beforehand, but not to what nobody could foresee."""

    def __init__(self, by: str) -> None:
        self._by = by

    async def decide(self, question: Confirmation) -> Decision:
        return Defer() if question.why else Allow(self._by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one use of the program adds to its configuration."""

    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    read_on: bool = True
    """Whether models get the tool that reads on in long outputs; to a very small one it is only one more to confuse."""


_SETS = 100
"""Sets of tools whose approvers are kept, for runs that still have them."""


class _Approving:
    """Who is asked now. Questions of runs that began with older tools go to those who know them."""

    def __init__(self) -> None:
        self._known: list[tuple[RegisteredTools, Approver]] = []

    def take(self, tools: RegisteredTools, approver: Approver) -> None:
        same = bool(self._known) and _same(self._known[0][0], tools)
        self._known = [(tools, approver), *self._known[same:]][:_SETS]

    async def decide(self, question: Confirmation) -> Decision:
        if not self._known:
            return Defer()
        knows = (approver for tools, approver in self._known if question.tool in tools)
        return await next(knows, self._known[0][1]).decide(question)


class App:
    """`open_app` makes one."""

    def __init__(
        self,
        node: Node,
        executor: Executor,
        journal: SqliteJournal,
        spill: Spill,
        approving: Callable[[RegisteredTools, Config], None],
        person: Person,
        offered: RegisteredTools,
        adjust: Adjust,
    ) -> None:
        self.executor = executor
        self.journal = journal
        self.spill = spill
        """Where long outputs are kept."""
        self.listeners: list[Callable[[], None]] = []
        """Called in the loop when runs that begin now have other tools than before."""
        self._node = node
        self._approving = approving
        self._person = person
        self._adjust = adjust
        self._watch = Watch(self._files)
        self._reloading = asyncio.Lock()
        self._mistake = ""
        self._offered = offered

    @property
    def config(self) -> Config:
        return self._node.config

    @property
    def tools(self) -> RegisteredTools:
        """Those of runs that begin now."""
        return self.executor.tools

    @property
    def servers(self) -> Mapping[str, Server]:
        """The MCP servers in use, by name."""
        return self._node.servers

    def runner(self, llm: LLM, on_wait: OnWait = "tell") -> Runner:
        config = self.config
        return Runner(
            llm.model,
            self.executor,
            config.limits,
            on_wait=on_wait,
            defaults=llm.defaults,
            offering=config.offering,
            valid=llm.valid,
        )

    # ── new files, new tools ─────────────────────────────────────────────────────────

    async def reload(self) -> bool:
        """Read the files anew; whether runs that begin now have other tools than before. Runs under way keep theirs.

        Raises:
            HandrailError: Something in the files is wrong; everything stays as it was.
        """
        async with self._reloading:
            if self.config.file is not None:
                before, config = self.config, self._adjust(load_config(self.config.file))
                await self._node.change(config)
                if config.policy != before.policy or config.journal != before.journal:
                    self._person.tell("What changed under [policy], [llm] or [proof] holds from the next start on.")
            return self._renew()

    async def refresh(self) -> bool:
        """As `reload`, if a file has changed since the last look. A mistake in it is told, once."""
        changed = await asyncio.to_thread(self._watch.look, self._files)
        if not changed:
            return False
        try:
            renewed = await self.reload()
        except HandrailError as error:
            if str(error) != self._mistake:
                self._mistake = str(error)
                self._person.tell(f"{error}; until it is mended, everything stays as it was")
            return False
        self._mistake = ""
        self._watch.look(self._files)
        return renewed

    @property
    def _files(self) -> tuple[Path, ...]:
        config = self.config
        return (*files_of(config.file, config.ensembles), self._person.approvals.path)

    def changed(self) -> None:
        """A server has other tools than before."""
        try:
            self._renew()
        except UsageError as error:
            if str(error) != self._mistake:
                self._mistake = str(error)
                self._person.tell(f"{error}; until then, the tools stay as they were")

    def _renew(self) -> bool:
        tools = self._node.tools()
        self._approving(tools, self.config)
        if _same(self._offered, tools):
            return False
        self._offered = tools
        self.executor.renew(tools)
        self.config.offering.equip(self.executor)
        for listener in tuple(self.listeners):
            listener()
        return True


@asynccontextmanager
async def open_app(
    config: Config,
    journal: Path,
    wanted: Wanted = Wanted(),
    ask: Ask = lambda tools: DeferAll(),
    person: Person | None = None,
    *,
    beside: Beside = lambda others: (),
    adjust: Adjust = lambda config: config,
) -> AsyncIterator[App]:
    """Tools, executor and journal for as long as the block lasts; the journal is made if it is not there.

    Files are read, and MCP servers connected, all at once. One that cannot be had and is not required is told to
    the person, and joins when it comes back. `beside` gives tools that go with those that there are;
    `adjust` does to a configuration that is read anew what was done to this one since it was read.

    Raises:
        UsageError: Something in the configuration, or wanted beside it, cannot be had.
        McpError: A server that is required cannot be had.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    approving = _Approving()
    rules = tuple(map(Rule.parse, wanted.rules))
    apps: list[App] = []

    def take(tools: RegisteredTools, config: Config) -> None:
        approving.take(tools, Rules((*rules, *config.rules), ask(tools)))

    around = Around(person, approving, on_change=lambda: apps[0].changed() if apps else None)
    groups = loaded(config, wanted.tools, around)  # before anything is made: a mistake in a file leaves no journal
    async with AsyncExitStack() as stack:
        _make_folder(journal)
        opened = await stack.enter_async_context(await SqliteJournal.open(journal))
        around = replace(around, journal=opened)
        spill = DirectorySpill(journal.parent / "outputs")
        reading = (read_output_tool(spill),) if wanted.read_on else ()
        node = Node(config, wanted.tools, around, reading, beside)
        stack.push_async_callback(node.close)
        await node.open(groups)
        tools = node.tools()
        take(tools, config)
        executor = Executor(
            tools,
            policy=config.policy,
            approver=approving,
            journal=opened,
            spill=spill,
            embedder=_embedder(config, tools),
        )
        config.offering.equip(executor)
        apps.append(App(node, await stack.enter_async_context(executor), opened, spill, take, person, tools, adjust))
        yield apps[0]


@asynccontextmanager
async def open_tools(config: Config, person: Person) -> AsyncIterator[RegisteredTools]:
    """Only the tools of a configuration, to be looked at: without a journal, nothing can run them."""
    around = Around(person, DeferAll())
    node = Node(config, (), around)
    try:
        await node.open(loaded(config, (), around))
        yield node.tools()
    finally:
        await node.close()


def _same(one: RegisteredTools, two: RegisteredTools) -> bool:
    """Whether they are the very same tools, handlers included."""
    return len(one) == len(two) and all(map(operator.is_, one, two))


def _make_folder(journal: Path) -> None:
    try:
        journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise explained(journal, error) from error


def _embedder(config: Config, tools: RegisteredTools) -> Embedder | None:
    """Semantic reuse needs one; it is heavy, so only then."""
    kinds = [config.calls.deduplicator, *(tool.deduplicator for tool in tools)]
    if not any(_kind(each) == "semantic" for each in kinds):
        return None
    from handrail.store.embedding import WordLlamaEmbedder

    return WordLlamaEmbedder()


def _kind(deduplicator: Any) -> Any:
    return deduplicator.get("kind") if isinstance(deduplicator, dict) else deduplicator
