"""Items of a past reply as the service takes them back.

The service refuses a thought whose next item is missing, a call of the caller's program
without its output, and a few fields that it writes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from handrail.models.openai_responses.service_items import CALLERS_WORK

_NOT_RUN = "This was not run: this program does not run such calls."
_REFUSED = {
    "reasoning": ("status",),
    "custom_tool_call": ("status",),
    "custom_tool_call_output": ("status",),
}
"""Fields of an item that the service writes and does not take, beside `created_by`."""


def items_to_send(items: Iterable[dict[str, Any]], left_out: Sequence[str], missed: list[str]) -> list[dict[str, Any]]:
    """The items of one reply in a form that the service takes, without those of the kinds in `left_out`.

    Notes in `missed` what else it cannot be sent.
    """
    given = list(items)
    answered = {_answers(item) for item in given}
    found: list[dict[str, Any]] = []
    for item in given:
        if item.get("type") == "computer_call" and item.get("call_id") not in answered:
            missed.append("a computer_call was not run and has no screenshot to answer it with; it is left out")
            _drop_thoughts(found)
        elif item.get("type") in left_out:
            _drop_thoughts(found)
        else:
            found.append(_cleaned(item))
            found.extend(_not_run(item, answered))
    _drop_thoughts(found)
    return found


def _drop_thoughts(items: list[dict[str, Any]]) -> None:
    """A thought goes back only with the item that it led to."""
    while items and items[-1].get("type") == "reasoning":
        items.pop()


def _cleaned(item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("type")
    if kind is None:
        return item
    refused = ("created_by", *_REFUSED.get(kind, ()))
    item = {key: value for key, value in item.items() if key not in refused}
    if kind == "web_search_call" and isinstance(action := item.get("action"), dict):
        item["action"] = {key: value for key, value in action.items() if key != "sources" and value is not None}
    return item


def _answers(item: dict[str, Any]) -> str | None:
    """The id of the call whose output the item is."""
    kind = str(item.get("type"))
    if kind == "mcp_approval_response":
        return item.get("approval_request_id")
    return (item.get("call_id") or item.get("id")) if kind.endswith("_output") else None


def _not_run(item: dict[str, Any], answered: set[str | None]) -> Iterator[dict[str, Any]]:
    """What is said in place of an output that is missing."""
    kind, id = item.get("type"), item.get("call_id")
    if kind == "mcp_approval_request" and item.get("id") not in answered:
        refusal = {"approval_request_id": item.get("id"), "approve": False, "reason": _NOT_RUN}
        yield {"type": "mcp_approval_response", **refusal}
    if kind not in CALLERS_WORK or id in answered:
        return
    match kind:
        case "local_shell_call":
            yield {"type": "local_shell_call_output", "id": id, "output": _NOT_RUN}
        case "shell_call":
            output = {"stdout": "", "stderr": _NOT_RUN, "outcome": {"type": "exit", "exit_code": 127}}
            yield {"type": "shell_call_output", "call_id": id, "output": [output]}
        case "apply_patch_call":
            yield {"type": "apply_patch_call_output", "call_id": id, "status": "failed", "output": _NOT_RUN}
        case "custom_tool_call":
            yield {"type": "custom_tool_call_output", "call_id": id, "output": _NOT_RUN}
