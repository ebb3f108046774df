"""Tools in a trial: what changes something does not run, and what the file states is answered without running."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from handrail.core.calls import Output
from handrail.core.events import ModelEvent
from handrail.core.interception import HandlerCall
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model

DONE = "done"
"""What a side effect without a stated result answers."""


class TrialTools:
    """An `Interceptor`: reads run, unless their result is stated."""

    asks_services = True

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results

    def stream(self, model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return model.stream(request)

    async def perform(self, call: HandlerCall, run: Callable[[], Awaitable[Output]]) -> Output:
        for name in (call.tool, call.tool.rpartition(":")[2]):
            if name in self._results:
                return Output(self._results[name])
        return Output(DONE) if call.side_effects else await run()
