"""Having a question over a context worked on and shown, and saying how it stands when it stops."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from handrail.app.rlm import open_rlm, root_of
from handrail.cli import text
from handrail.cli.rlm_live import RlmLive
from handrail.cli.rlm_options import Exploring
from handrail.cli.rlm_page import write_page
from handrail.cli.setup import Setup
from handrail.cli.view import answer, answer_json, tell
from handrail.core.errors import HandrailError
from handrail.rlm.plan import NAME
from handrail.rlm.values import RLMChatCompletion


def explore(
    setup: Setup,
    exploring: Exploring,
    question: str,
    context: Any,
    *,
    run: str,
    files: Sequence[Path] = (),
    again: bool = False,
) -> None:
    """Work on a question to its end. `again`: it is on record already, and is taken up.

    Raises:
        HandrailError: It ended before; how to take it up was told.
        KeyboardInterrupt: Likewise, on Ctrl-C.
        Exit: There is only a part of an answer.
    """
    if root_of(setup.config, exploring.model) == NAME and not again:
        tell("The model is too small to write code: a fixed plan searches, and the model reads what was found.")
    live = RlmLive(as_json=setup.view.as_json, code=exploring.code)
    try:
        completion = asyncio.run(_explore(setup, exploring, question, context, run, live, again))
    except (HandrailError, KeyboardInterrupt):
        live.end_line()
        if live.run:
            tell(f"Cut off; take it up with: {_resume_line(setup, exploring, run, files)}")
        raise
    live.end_line()
    _tell(setup, completion, live)
    if exploring.report is not None:
        write_page(setup.view, run, exploring.report)
        tell(f"The page of it is {text.visible(str(exploring.report))}")
    if completion.partial:
        tell(f"Only a part of an answer: {text.visible(completion.error or 'it was cut off')}")
        tell(f"Go on with: {_resume_line(setup, exploring, run, files)}")
        raise click.exceptions.Exit(1)


async def _explore(
    setup: Setup, exploring: Exploring, question: str, context: Any, run: str, live: RlmLive, again: bool
) -> RLMChatCompletion:
    chosen = exploring.chosen
    async with open_rlm(
        setup.config,
        setup.journal,
        question,
        model=exploring.model,
        sub_models=exploring.sub,
        settings=exploring.settings(setup.config.rlm),
        wanted=chosen.wanted(setup.config),
        ask=chosen.ask(),
        person=chosen.person(),
        log=exploring.log,
        run=None if again else run,
        on_event=live,
    ) as rlm:
        if again:
            return await rlm.aresume(run, context, question)
        return await rlm.acompletion(context, question)


def _tell(setup: Setup, completion: RLMChatCompletion, live: RlmLive) -> None:
    if setup.view.as_json:
        answer_json(completion.to_dict())
    elif completion.response:
        answer(text.block(completion.response))
    used = completion.usage_summary
    cost = "" if used.total_cost is None else f", ${used.total_cost:.4f}"
    spent = text.count(used.total_input_tokens + used.total_output_tokens, "token")
    took = text.duration(int(completion.execution_time * 1e6))
    tell(f"run {text.visible(completion.run)} · {text.count(used.total_calls, 'model call')}, {spent}{cost}, {took}")


def _resume_line(setup: Setup, exploring: Exploring, run: str, files: Sequence[Path]) -> str:
    words = ["handrail", "rlm", "resume", run]
    words += [word for path in files for word in ("--context", str(path))]
    words += exploring.words()
    words += ["--journal", str(setup.view.named)] if setup.view.named else []
    words += ["--config", str(setup.view.config)] if setup.view.config else []
    return shlex.join(words)
