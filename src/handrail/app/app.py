"""An app: everything that answers a question, ready to use, and rebuilt when its files change."""

from __future__ import annotations

import asyncio
import logging
import operator
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.app.loaded_groups import Beside, LoadedGroups, Sets
from handrail.app.node_state import NodeState, state_of
from handrail.app.person import Person
from handrail.app.tool_groups import AppMcpServer, GroupContext, ServedClients, ToolGroup, load_groups
from handrail.config.load import load_config
from handrail.config.standing_rules import StandingRules
from handrail.config.values import Config
from handrail.config.watch import WatchedFiles, config_files, ensembles_in
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.errors import HandrailError, UsageError
from handrail.core.ports import Approver, Embedder, Spill
from handrail.execute.confirm import DeferAll
from handrail.execute.executor import Executor
from handrail.execute.rules import Rule, Rules
from handrail.execute.spill import read_output_tool
from handrail.journal.database import explain_failure
from handrail.journal.journal import BatchedJournal, SqliteJournal
from handrail.run.runner import Runner
from handrail.run.single_run import OnWait
from handrail.telemetry import tracer_of_program
from handrail.tools.registry import RegisteredTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handrail.app.approval_webhook import ApprovalWebhook
    from handrail.sessions.llm import LLM

LOOK = 1.0
"""Seconds between two looks at the files."""
Adjust = Callable[[Config], Config]
"""What was said on the command line, put over a configuration each time that it is read."""
Ask = Callable[[RegisteredTools], Approver]
"""Makes the approver that is asked where no rule decides; it may want to know the tools."""


class AllowAll:
    """An approver that allows everything, except what nobody could foresee."""

    def __init__(self, by: str) -> None:
        self._by = by

    async def decide(self, question: Confirmation) -> Decision:
        return Defer() if question.why else Allow(self._by)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppAdditions:
    """Additions to the configuration for one use of the program."""

    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    read_on: bool = True
    """Whether models get the tool that reads on in long outputs; to a very small one it is only one more to confuse."""


class _AppApprover:
    """Who is asked: first the rules of now, then somebody who knows the tools of the run that asks."""

    def __init__(self, ask: Ask, rules: Iterable[str], standing: StandingRules) -> None:
        self._ask = ask
        self.standing = standing
        """Those that a person set when a call waited, asked after the others."""
        self._stated = tuple(map(Rule.parse, rules))
        self._rules = self._stated
        self._executor: Executor | None = None
        self._known: dict[int, tuple[RegisteredTools, Approver]] = {}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The current rules: those of the files, and those that were stated at the start."""
        return self._rules

    def begin(self, executor: Executor) -> None:
        """Makes `person` the one who is asked from now on."""
        self._executor = executor

    def renew(self, config: Config, in_use: Sets) -> None:
        """Take these rules, and forget who knew tools that no run has any more."""
        self._rules = (*self._stated, *config.rules)
        self._known = {id(tools): self._known[id(tools)] for tools in in_use if id(tools) in self._known}

    async def decide(self, question: Confirmation) -> Decision:
        if self._executor is None:
            return Defer()
        tools = self._executor.runs.tools_of(question.run)
        if id(tools) not in self._known:
            self._known[id(tools)] = tools, self._ask(tools)
        standing = await asyncio.to_thread(self.standing.now)
        return await Rules((*self._rules, *standing), self._known[id(tools)][1]).decide(question)


class App:
    """The parts of a configured program; `open_app` makes one."""

    def __init__(
        self,
        node: LoadedGroups,
        executor: Executor,
        journal: BatchedJournal,
        state: NodeState,
        spill: Spill,
        approving: _AppApprover,
        person: Person,
        offered: RegisteredTools,
        adjust: Adjust,
    ) -> None:
        self.executor = executor
        self.journal = journal
        self.state = state
        """Where everything else is kept that the node must not lose."""
        self.spill = spill
        """Where long outputs are kept."""
        self.listeners: list[Callable[[], None]] = []
        """Called in the loop when runs that begin now have other tools than before."""
        self.rereaders: list[Callable[[], None]] = []
        """Called in the loop when the configuration says something else than before."""
        self._node = node
        self._approving = approving
        self._person = person
        self._adjust = adjust
        self._watch = WatchedFiles(self._files)
        self._reloading = asyncio.Lock()
        self._mistake = ""
        self._offered = offered

    @property
    def config(self) -> Config:
        return self._node.config

    @property
    def tools(self) -> RegisteredTools:
        """The tools of runs that begin now."""
        return self.executor.tools

    @property
    def approver(self) -> Approver:
        """Decides by the current rules first, then asks a person."""
        return self._approving

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Those of now: of the files, and those that were stated at the start."""
        return self._approving.rules

    @property
    def standing(self) -> StandingRules:
        """What a person set when a call waited for their word. They are asked after `rules`."""
        return self._approving.standing

    @property
    def servers(self) -> Mapping[str, AppMcpServer]:
        """The MCP servers in use, by name."""
        return self._node.servers

    @property
    def person(self) -> Person:
        """The person behind this use of the program."""
        return self._person

    @property
    def groups(self) -> tuple[ToolGroup, ...]:
        """What files and handrail itself bring, with what each was made of."""
        return self._node.groups

    def runner(self, llm: LLM, on_wait: OnWait = "tell", *, valid: tuple[tuple[str, ...], ...] = ()) -> Runner:
        """`valid` narrows what this model may call further: each list of patterns must cover a tool."""
        config = self.config
        return Runner(
            llm.model,
            self.executor,
            config.limits,
            on_wait=on_wait,
            defaults=llm.defaults,
            offering=config.offering,
            valid=(*llm.valid, *valid),
        )

    # ── new files, new tools ─────────────────────────────────────────────────────────

    async def reload(self, file: Path | None = None) -> bool:
        """Read the files again; whether runs that begin now have other tools than before. Runs under way keep theirs.
        `file` is the configuration where there was none.

        Raises:
            HandrailError: Something in the files is wrong; everything stays as it was.
        """
        async with self._reloading:
            offered, told = self._offered, self.config
            if (file := self.config.file or file) is not None:
                before, config = self.config, self._adjust(load_config(file))
                await self._node.change(config, self.executor.runs.tools_in_use)
                if config.policy != before.policy or config.journal != before.journal:
                    self._person.tell("What changed under [policy], [llm] or [proof] holds from the next start on.")
            self._renew()
            if self.config != told:
                for reader in tuple(self.rereaders):
                    reader()
            await self._node.sweep(self.executor.runs.tools_in_use)
            return self._offered is not offered

    async def refresh(self) -> bool:
        """Reloads, as `reload` does, if a file has changed since the last look. A mistake in one is reported once."""
        if not await asyncio.to_thread(lambda: self._watch.look(self._files)):
            async with self._reloading:
                await self._node.sweep(self.executor.runs.tools_in_use)
            return False
        try:
            renewed = await self.reload()
        except HandrailError as error:
            if str(error) != self._mistake:
                self._mistake = str(error)
                self._person.tell(f"{error}; until it is mended, everything stays as it was")
            return False
        self._mistake = ""
        # What a reload itself brings and writes is no news. What somebody changed meanwhile is: it is read next time.
        await asyncio.to_thread(lambda: self._watch.meet(self._files, anew={self._person.approvals.path}))
        return renewed

    @property
    def _files(self) -> tuple[Path, ...]:
        config = self.config
        ensembles = (*config.ensembles, *ensembles_in(config.file))
        return (*config_files(config.file, ensembles), self._person.approvals.path)

    def changed(self) -> None:
        """A server has other tools than before."""
        try:
            self._renew()
        except UsageError as error:
            if str(error) != self._mistake:
                self._mistake = str(error)
                self._person.tell(f"{error}; until then, the tools stay as they were")

    def _renew(self) -> None:
        tools = self._node.tools()
        if not _same(self._offered, tools):
            self.executor.renew(tools)
            self.config.offering.equip(self.executor)
            self._offered = tools
            for listener in tuple(self.listeners):
                listener()
        self._approving.renew(self.config, self.executor.runs.tools_in_use)


@asynccontextmanager
async def open_app(
    config: Config,
    journal: Path,
    wanted: AppAdditions = AppAdditions(),
    ask: Ask = lambda tools: DeferAll(),
    person: Person | None = None,
    *,
    beside: Beside = lambda others: (),
    adjust: Adjust = lambda config: config,
    clients: ServedClients | None = None,
) -> AsyncIterator[App]:
    """Open tools, executor and journal while the block lasts; a missing journal is created.

    Files are read, and MCP servers connected, all at once. One that is not available and is not required is told to
    the person, and joins when it comes back. `beside` gives tools that go with those that there are;
    `adjust` does to a configuration that is read again what was done to this one since it was read. `clients` are those
    that MCP servers work for, where we stand between them.

    Raises:
        UsageError: Something in the configuration, or wanted beside it, is not available.
        McpError: A server that is required is not available.
        JournalError: The journal cannot be opened.
        StateError: The state that replicas share cannot be used.
    """
    person = person or Person()
    webhooks: list[ApprovalWebhook] = []
    apps: list[App] = []
    groups = load_groups(config, wanted.tools)  # before anything is made: a mistake in a file leaves no journal
    async with AsyncExitStack() as stack:
        _make_folder(journal)
        state = await asyncio.to_thread(state_of, config, journal)
        if state.database is not None:
            stack.push_async_callback(asyncio.to_thread, state.database.close)
        standing = await asyncio.to_thread(state.standing_rules, person.approvals, config.file)
        approving = _AppApprover(lambda tools: _telling(ask(tools), webhooks), wanted.rules, standing)
        opened = await stack.enter_async_context(await _journal(journal, state))
        if config.approvals.webhook is not None:
            webhooks.append(await asyncio.to_thread(_webhook, config, state))
            stack.push_async_callback(webhooks[0].aclose)
        spill = await asyncio.to_thread(state.outputs)
        around = GroupContext(person, approving, opened, lambda: apps[0].changed() if apps else None, clients)
        node = LoadedGroups(config, wanted.tools, around, (read_output_tool(spill),) if wanted.read_on else (), beside)
        stack.push_async_callback(node.close)
        tools = await node.open(groups)
        executor = await stack.enter_async_context(_executor(config, tools, approving, opened, spill))
        approving.begin(executor)
        approving.renew(config, executor.runs.tools_in_use)
        apps.append(App(node, executor, opened, state, spill, approving, person, tools, adjust))
        yield apps[0]


async def _journal(path: Path, state: NodeState) -> BatchedJournal:
    """The journal that all replicas share, or the one in the file."""
    if state.database is None:
        return await SqliteJournal.open(path)
    from handrail.journal.postgres_journal import PostgresJournal

    return await PostgresJournal.open(state.database)


def _webhook(config: Config, state: NodeState) -> ApprovalWebhook:
    """The webhook that gets questions which nobody here answers.

    Raises:
        ConfigError: A variable that it needs is not set.
        JournalError: The key of its links cannot be used.
        StateError: The state that replicas share cannot be used.
    """
    from handrail.app.approval_webhook import ApprovalWebhook

    links = None if config.approvals.address is None else state.approval_links()
    return ApprovalWebhook(config.approvals, links)


def _telling(approver: Approver, webhooks: list[ApprovalWebhook]) -> Approver:
    if not webhooks:
        return approver
    from handrail.app.approval_webhook import TellingApprover

    return TellingApprover(approver, webhooks[0])


def _executor(
    config: Config, tools: RegisteredTools, approver: Approver, journal: BatchedJournal, spill: Spill
) -> Executor:
    embedder = _embedder(config, tools)
    made = Executor(
        tools,
        policy=config.policy,
        approver=approver,
        journal=journal,
        spill=spill,
        embedder=embedder,
        tracer=tracer_of_program(),
    )
    config.offering.equip(made)
    return made


@asynccontextmanager
async def open_tools(config: Config, person: Person, *, whole: bool = False) -> AsyncIterator[RegisteredTools]:
    """Opens only the tools of a configuration, to look at them: there is no journal, so nothing can run them.

    Raises:
        UsageError: As `open_app`; and where the `whole` is wanted, that a server is not there.
    """
    around = GroupContext(person, DeferAll())
    node = LoadedGroups(config, (), around)
    try:
        tools = await node.open(load_groups(config, ()))
        if whole and (absent := node.absent):
            raise UsageError(f"not all tools are there: MCP server {', '.join(map(repr, absent))} is not")
        yield tools
    finally:
        await node.close()


def _same(one: RegisteredTools, two: RegisteredTools) -> bool:
    """Whether they are the very same tools, handlers included."""
    return len(one) == len(two) and all(map(operator.is_, one, two))


def _make_folder(journal: Path) -> None:
    try:
        journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise explain_failure(journal, error) from error


def _embedder(config: Config, tools: RegisteredTools) -> Embedder | None:
    """Semantic reuse needs one; it is heavy, so only then."""
    kinds = [config.calls.deduplicator, *(tool.deduplicator for tool in tools)]
    if not any(_kind(each) == "semantic" for each in kinds):
        return None
    from handrail.sessions.store.embedding import WordLlamaEmbedder

    return WordLlamaEmbedder()


def _kind(deduplicator: Any) -> Any:
    return deduplicator.get("kind") if isinstance(deduplicator, dict) else deduplicator


logger = logging.getLogger(__name__)


async def reload_on_change(
    app: App, person: Person, seconds: float, lasting: Callable[[Config], Any], told: str
) -> None:
    """Look at the files so often. `told` is said when something changes that is `lasting` until the next start."""
    began = lasting(app.config)
    while True:
        await asyncio.sleep(seconds)
        before = lasting(app.config)
        try:
            await app.refresh()
        except Exception:
            logger.exception("the files could not be looked at; handrail keeps trying")
        if lasting(app.config) not in (began, before):
            person.tell(told)


async def cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
