"""`POST /v1/messages/count_tokens`: the tokens of a request as the model would be asked it, the node's tools included.

The model's service counts them where it can. Else they are estimated, and a notice says so.
"""

from __future__ import annotations

from typing import Any

from handrail.core.errors import RequestRefused
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model, count_tokens
from handrail.node.gateways.token_estimate import estimated_tokens

PATH = "/v1/messages/count_tokens"
ESTIMATED = "input_tokens is an estimate: the model's service does not count tokens"
_NO_COUNT = frozenset({404, 405, 501})
"""How a service that speaks the API of one that counts says that it does not count itself."""


async def token_count_answer(model: Model, request: ModelRequest, hints: tuple[str, ...]) -> dict[str, Any]:
    """The answer.

    Raises:
        ModelError: The service failed, or refused the request.
    """
    notices = [f"{name} has no effect here" for name in hints]
    counted = await _counted(model, request)
    if counted is None:
        notices.append(ESTIMATED)
    said = {"handrail": {"notices": notices}} if notices else {}
    return {"input_tokens": estimated_tokens(request) if counted is None else counted, **said}


async def _counted(model: Model, request: ModelRequest) -> int | None:
    try:
        return await count_tokens(model, request)
    except RequestRefused as error:
        if error.status not in _NO_COUNT:
            raise
        return None
