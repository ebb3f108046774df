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
from handrail.cli.rlm_live import Aside, RlmLive
from handrail.cli.rlm_options import Exploring
from handrail.cli.rlm_page import check_place, write_page
from handrail.cli.setup import Setup
from handrail.cli.view import answer, answer_json, tell
from handrail.cli.working import tell_waiting
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
        Exit: It waits for a person, or there is only a part of an answer; how to go on was told.
    """
    if exploring.report is not None:
        check_place(exploring.report)
    if root_of(setup.config, exploring.model) == NAME and not again:
        tell("The model is too small to write code: a fixed program counts and searches, and the answer cites lines.")
    live = RlmLive(as_json=setup.view.as_json, code=exploring.code)
    line = _resume_line(setup, exploring, run, files)
    try:
        completion = asyncio.run(_explore(setup, exploring, question, context, run, live, again))
    except (HandrailError, KeyboardInterrupt):
        live.end_line()
        if live.begun:
            tell(f"Cut off; take it up with: {line}")
        raise
    live.end_line()
    _tell(setup, completion)
    if exploring.report is not None:
        write_page(setup.view, run, exploring.report)
        tell(f"The page of it is {text.visible(str(exploring.report))}")
    if completion.partial:
        _tell_how_to_go_on(completion, live, line)
        raise click.exceptions.Exit(1)


async def _explore(
    setup: Setup, exploring: Exploring, question: str, context: Any, run: str, live: RlmLive, again: bool
) -> RLMChatCompletion:
    chosen = exploring.chosen
    ask = chosen.ask()
    async with open_rlm(
        setup.config,
        setup.journal,
        model=exploring.model,
        sub_models=exploring.sub,
        settings=exploring.settings(setup.config.rlm),
        wanted=chosen.wanted(setup.config),
        ask=lambda tools: Aside(ask(tools), live),
        person=chosen.person(),
        log=exploring.log,
        run=None if again else run,
        on_event=live,
    ) as rlm:
        clock = asyncio.create_task(live.keep_time())
        try:
            if again:
                return await rlm.aresume(run, context, question)
            return await rlm.acompletion(context, question)
        finally:
            clock.cancel()


def _tell(setup: Setup, completion: RLMChatCompletion) -> None:
    if setup.view.as_json:
        answer_json({"type": "rlm.completion", **completion.to_dict()})
    elif completion.response:
        answer(text.block(completion.response))
    used = completion.usage_summary
    cost = "" if used.total_cost is None else f", ${used.total_cost:.4f}"
    spent = text.count(used.total_input_tokens + used.total_output_tokens, "token")
    took = text.duration(int(completion.execution_time * 1e6))
    tell(f"run {text.visible(completion.run)} · {text.count(used.total_calls, 'model call')}, {spent}{cost}, {took}")


def _tell_how_to_go_on(completion: RLMChatCompletion, live: RlmLive, line: str) -> None:
    if live.waiting:
        tell_waiting(live.waiting.values(), line)
        return
    tell(f"Only a part of an answer: {text.visible(completion.error or 'it was cut off')}")
    larger = ", with a larger limit" if completion.error_type == "limit_exceeded" else ""
    tell(f"Go on{larger}: {line}")


def _resume_line(setup: Setup, exploring: Exploring, run: str, files: Sequence[Path]) -> str:
    words = ["handrail", "rlm", "resume", run]
    words += [word for path in files for word in ("--context", str(path))]
    words += exploring.words()
    words += ["--journal", str(setup.view.named)] if setup.view.named else []
    words += ["--config", str(setup.view.config)] if setup.view.config else []
    return shlex.join(words)
