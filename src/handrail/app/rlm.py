"""A configuration as an `RLM`: its models, its tools as functions of the REPL, its journal and its rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from handrail.app.app import AppAdditions, Ask, open_app
from handrail.app.models import model_names, open_model, settings_of
from handrail.app.person import Person
from handrail.config.rlm import RlmSettings
from handrail.config.values import LOCAL, Config
from handrail.core.context import Context
from handrail.execute.confirm import DeferAll
from handrail.models.profiles import profile_for
from handrail.rlm.backends import make_backend
from handrail.rlm.progress import Watch
from handrail.rlm.record.trajectory import RLMLogger
from handrail.rlm.rlm import RLM
from handrail.rlm.scripted_root import NAME, LineSearchRoot
from handrail.sessions.llm import LLM
from handrail.telemetry import tracer_of_program

_SENTENCE = 48
"""Tokens of what a small model says of a passage that the plan found: only its first line is used."""


def root_model_name(config: Config, model: str | None = None) -> str:
    """Who writes the code: the model that is asked for, or configured; where that is too small for it, the plan."""
    name = model or config.rlm.model or model_names(config)[0]
    return NAME if name == NAME or _is_small(config, name) else name


def _is_small(config: Config, name: str) -> bool:
    """Whether a model by its name is too small to write code, as its profile says."""
    settings = settings_of(config, name)
    return not profile_for(settings.provider, settings.model or settings.provider).writes_code


@asynccontextmanager
async def open_rlm(
    config: Config,
    journal: Path,
    *,
    model: str | None = None,
    sub_models: Sequence[str] = (),
    settings: RlmSettings | None = None,
    wanted: AppAdditions = AppAdditions(),
    ask: Ask = lambda tools: DeferAll(),
    person: Person | None = None,
    log: Path | None = None,
    run: str | None = None,
    on_event: Watch | None = None,
) -> AsyncIterator[RLM]:
    """An RLM for as long as the block lasts. Its code has the tools that are `wanted`, or those that `[rlm]` names,
    and no others: nobody who asks about a book means that code should reach whatever is configured, and no server is
    started for it.

    A call that waits for a person pauses the run.

    Raises:
        UsageError: Something in the configuration is not available.
        SandboxUnavailable: This machine cannot have the environment that was chosen.
        JournalError: The journal cannot be opened.
    """
    settings = settings or config.rlm
    async with AsyncExitStack() as stack:
        named = tuple(sub_models) or settings.sub_models
        backend, others = await _models(config, model or settings.model, named, stack)
        allowed = settings.tools if settings.tools is not None and not wanted.tools else ("*",)
        scope = Context(within=(allowed, *(backend.valid if isinstance(backend, LLM) else ())))
        wanted = replace(wanted, read_on=False)
        has_tools = bool(wanted.tools or settings.tools)
        offered = config if has_tools else replace(config, llm=replace(config.llm, tools_enabled=False))
        app = await stack.enter_async_context(open_app(offered, journal, wanted, ask, person))
        yield await stack.enter_async_context(
            RLM(
                backend,
                **_options(settings),
                other_backends=others or None,
                custom_tools={tool.name: tool for tool in app.tools if scope.allows(*tool.names)} or None,
                journal=app.journal,
                policy=config.policy,
                approver=app.approver,
                on_wait="pause",
                tracer=tracer_of_program(),
                state=journal.parent / "rlm",
                logger=None if log is None else RLMLogger(str(log)),
                run=run,
                on_event=on_event,
            )
        )


def _options(settings: RlmSettings) -> dict[str, Any]:
    """What `[rlm]` says that an `RLM` takes by the same name: all but its models and its tools."""
    names = {each.name for each in fields(settings)} - {"model", "sub_models", "tools"}
    return {name: getattr(settings, name) for name in names}


async def _models(
    config: Config, model: str | None, named: tuple[str, ...], stack: AsyncExitStack
) -> tuple[LineSearchRoot | LLM, list[LLM]]:
    """Who writes the code, and whom it asks."""
    if (root := root_model_name(config, model)) != NAME:
        backend = await stack.enter_async_context(open_model(config, root))
        return backend, [await stack.enter_async_context(open_model(config, name)) for name in named]
    names = [LOCAL if name == NAME else name for name in named or (model or model_names(config)[0],)]
    others = [await stack.enter_async_context(open_model(config, name)) for name in names]
    for name, each in zip(names, others, strict=True):
        if _is_small(config, name):
            each.settings.setdefault("max_tokens", _SENTENCE)
    return LineSearchRoot(reads=make_backend(others[0]).reads, is_bound=_is_small(config, names[0])), others
