"""Runs a question over a context and shows it, and says how the run stands when it stops."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from handrail.app.rlm import open_rlm, root_model_name
from handrail.cli import text
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.rlm.live_display import DisplayPausingApprover, RlmLiveDisplay
from handrail.cli.rlm.options import RlmOptions
from handrail.cli.rlm.report import check_page_path, write_page
from handrail.cli.run_driver import tell_waiting
from handrail.cli.run_options import CliSetup
from handrail.core.errors import HandrailError
from handrail.rlm.scripted_root import NAME
from handrail.rlm.values import RLMChatCompletion


def drive_rlm_run(
    setup: CliSetup,
    exploring: RlmOptions,
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
        check_page_path(exploring.report)
    if root_model_name(setup.config, exploring.model) == NAME and not again:
        tell("The model is too small to write code: a fixed program counts and searches, and the answer cites lines.")
    live = RlmLiveDisplay(as_json=setup.view.as_json, code=exploring.code)
    line = _resume_line(setup, exploring, run, files)
    try:
        completion = asyncio.run(_explore(setup, exploring, question, context, run, live, again))
    except (HandrailError, KeyboardInterrupt):
        live.end_line()
        if live.begun:
            tell(f"Interrupted; resume it with: {line}")
        raise
    live.end_line()
    _tell(setup, completion)
    if exploring.report is not None:
        write_page(setup.view, run, exploring.report)
        tell(f"The report is in {text.printable(str(exploring.report))}")
    if completion.partial:
        _tell_how_to_go_on(completion, live, line)
        raise click.exceptions.Exit(1)


async def _explore(
    setup: CliSetup, exploring: RlmOptions, question: str, context: Any, run: str, live: RlmLiveDisplay, again: bool
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
        ask=lambda tools: DisplayPausingApprover(ask(tools), live),
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


def _tell(setup: CliSetup, completion: RLMChatCompletion) -> None:
    if setup.view.as_json:
        answer_json({"type": "rlm.completion", **completion.to_dict()})
    elif completion.response:
        answer(text.printable_lines(completion.response))
    used = completion.usage_summary
    cost = "" if used.total_cost is None else f", ${used.total_cost:.4f}"
    spent = text.count_text(used.total_input_tokens + used.total_output_tokens, "token")
    took = text.duration_text(int(completion.execution_time * 1e6))
    tell(
        f"run {text.printable(completion.run)} · {text.count_text(used.total_calls, 'model call')}, "
        f"{spent}{cost}, {took}"
    )


def _tell_how_to_go_on(completion: RLMChatCompletion, live: RlmLiveDisplay, line: str) -> None:
    if live.waiting:
        tell_waiting(live.waiting.values(), line)
        return
    tell(f"Only a partial answer: {text.printable(completion.error or 'it was cut off')}")
    larger = ", with a larger limit" if completion.error_type == "limit_exceeded" else ""
    tell(f"Continue{larger}: {line}")


def _resume_line(setup: CliSetup, exploring: RlmOptions, run: str, files: Sequence[Path]) -> str:
    words = ["handrail", "rlm", "resume", run]
    words += [word for path in files for word in ("--context", str(path))]
    words += exploring.words()
    words += ["--journal", str(setup.view.named)] if setup.view.named else []
    words += ["--config", str(setup.view.config)] if setup.view.config else []
    return shlex.join(words)
