"""What the journal has of the code of a run: the calls of `run_code`, so that their variables can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast, get_args

from handrail.core.calls import ToolResult
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.run.code.functions import RUN_CODE
from handrail.run.code.notebook import RecordedCodeCall, RecordedCodeRun
from handrail.sandbox.port import Ending

NOTHING = "(the code printed nothing; print what you want to see)"


def code_calls(events: Iterable[Recorded]) -> Iterator[RecordedCodeCall]:
    """The calls that have their results, in order."""
    asked: dict[str, str] = {}
    for event in events:
        match event:
            case CallIntended(tool=name, call_id=id, arguments={"code": str(code)}) if name == RUN_CODE:
                asked[id] = code
            case CallSettled(tool=name, call_id=id, result=ToolResult() as result) if name == RUN_CODE and id in asked:
                if (ran := _recorded_run(result)) is not None:
                    yield RecordedCodeCall(id, (asked[id],), (ran,))


def _recorded_run(result: ToolResult) -> RecordedCodeRun | None:
    """None if the code never came to an end."""
    if result.outcome == "ok":
        whole = isinstance(result.content, str) and not result.warnings
        printed = "" if result.content == NOTHING else result.content
        return RecordedCodeRun("ok", stdout=printed if whole else None)
    _, _, said = (result.error.code if result.error else "").partition("code_")
    ending, _, state = said.partition("_")
    return RecordedCodeRun(cast("Ending", ending), state or "kept") if ending in get_args(Ending) else None
