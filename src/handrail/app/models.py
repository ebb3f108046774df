"""Opens a model by its name in a configuration or on a command line."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.config.values import LOCAL, Config, ModelSettings
from handrail.core.errors import UsageError

if TYPE_CHECKING:
    from handrail.sessions.llm import LLM

SCRIPTED = "scripted"
"""The provider whose model is a file of replies, for demonstrations and tests."""


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
    from handrail.models.rate_limit import ServiceRateLimits
    from handrail.sessions.create import with_fallback

    paces = ServiceRateLimits()
    models = [_one(config, each, paces=paces) for each in (name, *others)]
    llm = with_fallback(models[0], models[1:])
    # Whoever of them answers, it calls nothing that is not valid for it.
    llm.valid = tuple(dict.fromkeys(patterns for each in models for patterns in each.valid))
    return llm


def _one(config: Config, name: str, **shared: Any) -> LLM:
    settings = settings_of(config, name)
    llm = _make_model(config, settings, **shared)
    llm.valid = () if settings.tools is None else (settings.tools,)
    return llm


def _make_model(config: Config, settings: ModelSettings, **shared: Any) -> LLM:
    if settings.provider == SCRIPTED:
        return _scripted(config, settings)
    from handrail.models.services import SERVICES
    from handrail.sessions.create import create_llm

    return create_llm(
        settings.provider,
        model=settings.model,
        key=settings.key,
        base_url=settings.base_url,
        **(shared if settings.provider in SERVICES else {}),
        **settings.options,
    )


def settings_of(config: Config, name: str) -> ModelSettings:
    """Return the settings of a model by its name.

    Raises:
        UsageError: Neither the configuration nor the services have it.
    """
    if name in config.models:
        return config.models[name]
    provider, _, model = name.partition(":")
    if provider != SCRIPTED:
        from handrail.sessions.create import service_names

        if provider not in service_names():
            known = (*config.models, *service_names())
            near = difflib.get_close_matches(provider, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else _to_write(config.models, service_names())
            raise UsageError(f"there is no model {name!r}; {hint}")
    return ModelSettings(provider=provider, model=model or None)


def _to_write(configured: Collection[str], services: Collection[str]) -> str:
    own = f"one of yours ({', '.join(configured)}) or " if configured else ""
    return f"write {own}SERVICE:MODEL, where the service is one of {', '.join(services)}"


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
    from handrail.sessions.llm import LLM
    from handrail.testing.script import ScriptFile

    if not settings.model:
        raise UsageError("a scripted model needs its file: scripted:replies.toml")
    folder = Path() if config.file is None or settings not in config.models.values() else config.file.parent
    return LLM(ScriptFile.read(folder / settings.model), **settings.options)
