"""A configuration as an `RLM`: its models, its tools as functions of the REPL, its journal and its rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from handrail.app.models import model_names, open_model, settings_of
from handrail.app.opened import Ask, Wanted, open_app
from handrail.app.person import Person
from handrail.config.rlm import RlmSettings
from handrail.config.values import LOCAL, Config
from handrail.execute.confirm import DeferAll
from handrail.faces.llm import LLM
from handrail.rlm.plan import NAME, Plan
from handrail.rlm.progress import Watch
from handrail.rlm.record.trajectory import RLMLogger
from handrail.rlm.rlm import RLM
from handrail.telemetry.otel import tracer_of_program


def root_of(config: Config, model: str | None = None) -> str:
    """Who writes the code: the model that is asked for, or configured; where that is too small for it, the plan."""
    name = model or config.rlm.model or model_names(config)[0]
    return NAME if name == NAME or settings_of(config, name).provider == LOCAL else name


@asynccontextmanager
async def open_rlm(
    config: Config,
    journal: Path,
    question: str,
    *,
    model: str | None = None,
    sub_models: Sequence[str] = (),
    settings: RlmSettings | None = None,
    wanted: Wanted = Wanted(),
    ask: Ask = lambda tools: DeferAll(),
    person: Person | None = None,
    log: Path | None = None,
    run: str | None = None,
    on_event: Watch | None = None,
) -> AsyncIterator[RLM]:
    """An RLM for as long as the block lasts. The tools of the configuration are there only if some are `wanted`.

    Raises:
        UsageError: Something in the configuration cannot be had.
        SandboxUnavailable: This machine cannot have the environment that was chosen.
        JournalError: The journal cannot be opened.
    """
    settings = settings or config.rlm
    names = tuple(sub_models) or settings.sub_models
    root = root_of(config, model)
    async with AsyncExitStack() as stack:
        if root == NAME:
            backend: Plan | LLM = Plan(question)
            names = names or (model or config.rlm.model or model_names(config)[0],)
            names = tuple(LOCAL if name == NAME else name for name in names)
        else:
            backend = await stack.enter_async_context(open_model(config, root))
        others = [await stack.enter_async_context(open_model(config, name)) for name in names]
        app = await stack.enter_async_context(open_app(config, journal, replace(wanted, read_on=False), ask, person))
        yield await stack.enter_async_context(
            RLM(
                backend,
                environment=settings.environment,
                other_backends=others or None,
                max_depth=settings.max_depth,
                max_iterations=settings.max_iterations,
                max_budget=settings.max_budget,
                max_timeout=settings.max_timeout,
                max_tokens=settings.max_tokens,
                max_errors=settings.max_errors,
                limits=settings.limits,
                concurrency=settings.concurrency,
                custom_tools={tool.name: tool for tool in app.tools} if wanted.tools else None,
                journal=app.journal,
                policy=config.policy,
                approver=app.approver,
                tracer=tracer_of_program(),
                state=journal.parent / "rlm",
                logger=None if log is None else RLMLogger(str(log)),
                run=run,
                on_event=on_event,
            )
        )
