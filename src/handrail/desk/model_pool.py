"""The models of the desk's conversations: each opened when it is first asked, kept, and closed at the end."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handrail.app.models import open_model, settings_of
from handrail.config.values import Config, ModelSettings

if TYPE_CHECKING:
    from handrail.sessions.llm import LLM


@dataclass(frozen=True, slots=True)
class _OpenModel:
    settings: ModelSettings
    llm: LLM


class DeskModels:
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
