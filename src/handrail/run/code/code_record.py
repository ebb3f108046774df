"""What the journal has of the code of a run: the calls of `run_code`, so that their variables can be made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast, get_args

from handrail.core.calls import ToolResult
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.run.code.instructions import RUN_CODE
from handrail.sandbox.port import Ending

NOTHING = "(the code printed nothing; print what you want to see)"


@dataclass(frozen=True, slots=True)
class RecordedCodeCall:
    """A call of `run_code` that has its result: what is needed to make its variables again."""

    id: str
    codes: tuple[str, ...]
    blocks: tuple[RecordedCodeRun, ...]
    after: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCodeRun:
    ending: Ending
    state: str = "kept"
    stdout: str | None = None
    """None if the record does not have all of it."""

    @property
    def error_code(self) -> str:
        return f"code_{self.ending}" if self.state == "kept" else f"code_{self.ending}_{self.state}"

    @classmethod
    def of(cls, result: ToolResult) -> RecordedCodeRun | None:
        """Read off the record; None if the code never came to an end."""
        if result.outcome == "ok":
            whole = isinstance(result.content, str) and not result.warnings
            printed = "" if result.content == NOTHING else result.content
            return cls("ok", stdout=printed if whole else None)
        _, _, said = (result.error.code if result.error else "").partition("code_")
        ending, _, state = said.partition("_")
        return cls(cast("Ending", ending), state or "kept") if ending in get_args(Ending) else None


def code_calls(events: Iterable[Recorded]) -> Iterator[RecordedCodeCall]:
    """The calls that have their results, in order."""
    asked: dict[str, str] = {}
    for event in events:
        match event:
            case CallIntended(tool=name, call_id=id, arguments={"code": str(code)}) if name == RUN_CODE:
                asked[id] = code
            case CallSettled(tool=name, call_id=id, result=ToolResult() as result) if name == RUN_CODE and id in asked:
                if (ran := RecordedCodeRun.of(result)) is not None:
                    yield RecordedCodeCall(id, (asked[id],), (ran,))
