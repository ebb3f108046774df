"""What can be chosen for a conversation: models and ensembles, and what a choice means for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from handrail.app.app import App
from handrail.app.models import model_names, settings_of
from handrail.config.values import Config
from handrail.core.errors import UsageError
from handrail.desk.values import EnsembleChoice, ModelChoice
from handrail.desk.views.tools import ensemble_sources, tools_to_choose
from handrail.execute.spill import READ_OUTPUT
from handrail.tools.registry import RegisteredTools

_WILD = "*?["


def models(config: Config) -> tuple[ModelChoice, ...]:
    """The one that is taken where nobody chooses first."""
    found = _models(config)
    return tuple(
        ModelChoice(name=name, model=_described(config, name), is_default=at == 0, can=_abilities(config, name))
        for at, name in enumerate(found)
    )


def default_model(config: Config) -> str:
    return next(iter(_models(config)), "")


def ensembles(app: App) -> tuple[EnsembleChoice, ...]:
    """The ensembles by name. One that has no tools now is listed with the reason."""
    names: dict[str, list[str]] = {}
    for tool in tools_to_choose(app):
        names.setdefault(tool.ensemble or "", []).append(tool.scoped_name)
    known = ensemble_sources(app)
    problems = {name: server.ensemble.problem or "" for name, server in app.servers.items()}
    return tuple(
        EnsembleChoice(
            name=name,
            source=known.get(name, ""),
            tools=len(names.get(name, ())),
            names=tuple(sorted(names.get(name, ()))),
            problem=problems.get(name, ""),
        )
        for name in sorted({*names, *known})
    )


def check_model(config: Config, name: str) -> None:
    """Checks that the configuration has a model of this name.

    Raises:
        UsageError: There is no such model.
    """
    settings_of(config, name)


def check_ensembles(app: App, chosen: Sequence[str]) -> tuple[str, ...]:
    """The chosen ensembles, each of which the app has.

    Raises:
        UsageError: There is no such ensemble.
    """
    known = {each.name for each in ensembles(app)}
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise UsageError(f"there is no ensemble {unknown[0]!r}; there are {', '.join(sorted(filter(None, known)))}")
    return tuple(dict.fromkeys(chosen))


def tool_patterns(
    chosen: tuple[str, ...] | None, off: tuple[str, ...], tools: RegisteredTools
) -> tuple[tuple[str, ...], ...]:
    """What a run may call: the tools of these ensembles, and those that are in none by their names; if some are
    switched off, every other one by its name."""
    if off:
        offered = (tool for tool in tools if chosen is None or (tool.ensemble or "") in chosen)
        names = (_exactly(tool.scoped_name) for tool in offered if tool.scoped_name not in off)
        return ((*names, READ_OUTPUT),)  # one pattern at least: none at all would be everything
    if chosen is None:
        return ()
    alone = (_exactly(tool.name) for tool in tools if not tool.ensemble) if "" in chosen else ()
    return ((*(f"{_exactly(name)}:*" for name in chosen if name), *alone),)


def _models(config: Config) -> tuple[str, ...]:
    try:
        return model_names(config)
    except UsageError:  # several, and none of them is the default
        return tuple(config.models)


def _described(config: Config, name: str) -> str:
    try:
        settings = settings_of(config, name)
    except UsageError:
        return ""  # it is said where somebody asks it
    return f"{settings.provider}:{settings.model}" if settings.model else settings.provider


_SERVERS = frozenset({"ollama", "vllm", "llamacpp", "lmstudio"})
"""Which serve any model: whether one of them sees pictures is not known."""


def _abilities(config: Config, name: str) -> tuple[Literal["tools", "images", "files"], ...]:
    from handrail.models.profiles import known_services, profile_for

    try:
        settings = settings_of(config, name)
    except UsageError:
        return ()
    if settings.provider not in known_services():
        return ()
    profile = profile_for(settings.provider, settings.model or "")
    sees = profile.images and settings.provider not in _SERVERS
    found: dict[Literal["tools", "images", "files"], bool] = {
        "tools": profile.tools != "none",
        "images": sees,
        "files": profile.files,
    }
    return tuple(each for each, holds in found.items() if holds)


def _exactly(name: str) -> str:
    """A pattern that only this name fits."""
    return "".join(f"[{letter}]" if letter in _WILD else letter for letter in name)
