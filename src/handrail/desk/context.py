"""What all conversations of a desk share: the app and its models, who is asked and told, and how turns are run."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from handrail.app.app import App
from handrail.app.models import open_model, settings_of
from handrail.config.values import Config, ModelSettings
from handrail.core.ids import NewId
from handrail.core.ports import Clock
from handrail.desk.call_counts import CallCounts
from handrail.desk.feed import DeskNews
from handrail.desk.questions import PendingQuestions
from handrail.run.single_run import OnWait
from handrail.sessions.store.port import Conversations

if TYPE_CHECKING:
    from handrail.sessions.llm import LLM


@dataclass(frozen=True, slots=True)
class _OpenModel:
    settings: ModelSettings
    llm: LLM


class DeskModels:
    """The models of the conversations: each opened when it is first asked, kept, and closed at the end."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenModel] = {}
        self._retired: list[LLM] = []
        """Turns under way may still ask them."""

    def open(self, config: Config, name: str) -> LLM:
        """By its name as the configuration has it now.

        Raises:
            UsageError: There is no such model, or it lacks a key or an address.
            MissingExtra: What it needs is not installed.
        """
        settings = settings_of(config, name)
        known = self._open.get(name)
        if known is None or known.settings != settings:
            opened = _OpenModel(settings, open_model(config, name))
            if known is not None:
                self._retired.append(known.llm)
            self._open[name] = known = opened
        return known.llm

    async def aclose(self) -> None:
        async with AsyncExitStack() as closing:  # all of them, also if one fails
            for llm in (*self._retired, *(each.llm for each in self._open.values())):
                closing.push_async_callback(llm.aclose)
            self._retired.clear()
            self._open.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskTerms:
    """How the conversations of a desk are kept and run."""

    saves: bool = True
    """Whether each is on disk from its beginning on; else `Desk.save` puts it there."""
    ends_turns: bool = True
    """Whether a run ends with each turn, so that the next begins with the tools that there are then and other programs
    may take it up; else whoever opened the desk ends it."""
    on_wait: OnWait = "pause"
    """What becomes of a turn in which a call waits for a person who is not here."""


@dataclass(frozen=True, slots=True)
class DeskContext:
    """What all conversations of a desk have in common."""

    app: App
    asking: PendingQuestions
    store: Conversations
    models: DeskModels
    news: DeskNews
    clock: Clock
    new_id: NewId
    terms: DeskTerms = DeskTerms()
    calls: CallCounts = field(default_factory=CallCounts)
