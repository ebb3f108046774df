"""The one place where a configuration becomes a model, tools, an executor, a journal and a runner."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.config.tools import tools_of
from handrail.config.values import LOCAL, Config, ModelSettings
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.errors import UsageError
from handrail.core.ports import Approver, Embedder
from handrail.execute.confirm import DeferAll
from handrail.execute.executor import Executor
from handrail.execute.rules import Rule, Rules
from handrail.execute.spill import read_output_tool
from handrail.proof.database import explained
from handrail.proof.journal import SqliteJournal
from handrail.run.runner import OnWait, Runner
from handrail.store.spill import DirectorySpill
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, registered

if TYPE_CHECKING:
    from handrail.faces.llm import LLM

SCRIPTED = "scripted"
"""The provider whose model is a file of replies, for demonstrations and tests."""

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


@dataclass(frozen=True, slots=True)
class App:
    """Everything that answers a question, ready to use. `open_app` makes one."""

    config: Config
    executor: Executor
    journal: SqliteJournal

    @property
    def tools(self) -> RegisteredTools:
        return self.executor.tools

    def runner(self, llm: LLM, on_wait: OnWait = "tell") -> Runner:
        config = self.config
        return Runner(
            llm.model, self.executor, config.limits, on_wait=on_wait, defaults=llm.defaults, offering=config.offering
        )


@asynccontextmanager
async def open_app(
    config: Config, journal: Path, wanted: Wanted = Wanted(), ask: Ask = lambda tools: DeferAll()
) -> AsyncIterator[App]:
    """Tools, executor and journal for as long as the block lasts; the journal is made if it is not there.

    Raises:
        UsageError: Something in the configuration, or wanted beside it, cannot be had.
        JournalError: The journal cannot be opened.
    """
    items = tools_of(config, wanted.tools)
    spill = DirectorySpill(journal.parent / "outputs")
    reading = (read_output_tool(spill),) if items and wanted.read_on else ()
    tools = registered(*items, *reading)
    rules = (*map(Rule.parse, wanted.rules), *config.rules)
    async with AsyncExitStack() as stack:
        for item in items:
            if isinstance(item, Ensemble):
                await stack.enter_async_context(item)
        _make_folder(journal)
        opened = await stack.enter_async_context(await SqliteJournal.open(journal))
        executor = Executor(
            tools,
            policy=config.policy,
            approver=Rules(rules, ask(tools)),
            journal=opened,
            spill=spill,
            embedder=_embedder(config, tools),
        )
        config.offering.equip(executor)
        yield App(config, await stack.enter_async_context(executor), opened)


def _make_folder(journal: Path) -> None:
    try:
        journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise explained(journal, error) from error


def open_model(config: Config, name: str | None = None, fallback: Sequence[str] = ()) -> LLM:
    """A model by its name in the configuration, or as `provider:model`. The caller closes it.

    Where it gives no reply, those of `fallback` are asked, or else those that the configuration names for it.

    Raises:
        UsageError: There is no such model, or it lacks a key or an address.
        MissingExtra: What it needs is not installed.
    """
    name = name or config.default_model or _only(config)
    others = tuple(fallback) or settings_of(config, name).fallback
    if not others:
        return _one(config, name)
    from handrail.faces.create import with_fallback
    from handrail.providers.pace import Paces

    paces = Paces()
    return with_fallback(_one(config, name, paces=paces), [_one(config, each, paces=paces) for each in others])


def _one(config: Config, name: str, **shared: Any) -> LLM:
    settings = settings_of(config, name)
    if settings.provider == SCRIPTED:
        return _scripted(config, settings)
    from handrail.faces.create import SERVICES, create_llm

    return create_llm(
        settings.provider,
        model=settings.model,
        key=settings.key,
        base_url=settings.base_url,
        **(shared if settings.provider in SERVICES else {}),
        **settings.options,
    )


def settings_of(config: Config, name: str) -> ModelSettings:
    """What is known of a model by the name that people give it.

    Raises:
        UsageError: Neither the configuration nor the services have it.
    """
    if name in config.models:
        return config.models[name]
    provider, _, model = name.partition(":")
    if provider != SCRIPTED:
        from handrail.faces.create import service_names

        if provider not in service_names():
            known = (*config.models, *service_names())
            near = difflib.get_close_matches(provider, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"there is no model {name!r}; {hint}")
    return ModelSettings(provider=provider, model=model or None)


def model_names(config: Config) -> tuple[str, ...]:
    """The configured models, the default one first; without any, the one that needs no configuration."""
    first = config.default_model or _only(config)
    return tuple(dict.fromkeys((first, *config.models)))


def _only(config: Config) -> str:
    if len(config.models) > 1:
        raise UsageError(
            f"there are several models: {', '.join(config.models)}; name one with -m, or set default_model"
            f" in {config.file}"
        )
    return next(iter(config.models), LOCAL)


def _scripted(config: Config, settings: ModelSettings) -> LLM:
    from handrail.faces.llm import LLM
    from handrail.testing.script import ScriptFile

    if not settings.model:
        raise UsageError("a scripted model needs its file: scripted:replies.toml")
    folder = Path() if config.file is None or settings not in config.models.values() else config.file.parent
    return LLM(ScriptFile.read(folder / settings.model), **settings.options)


def _embedder(config: Config, tools: RegisteredTools) -> Embedder | None:
    """Semantic reuse needs one; it is heavy, so only then."""
    kinds = [config.calls.deduplicator, *(tool.deduplicator for tool in tools)]
    if not any(_kind(each) == "semantic" for each in kinds):
        return None
    from handrail.store.embedding import WordLlamaEmbedder

    return WordLlamaEmbedder()


def _kind(deduplicator: object) -> object:
    return deduplicator.get("kind") if isinstance(deduplicator, dict) else deduplicator
