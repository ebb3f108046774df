"""From what the model wrote to arguments that fit the schema, or every reason why they do not."""

from __future__ import annotations

import asyncio
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.confirmation import Locations
from handrail.core.errors import InvalidArguments
from handrail.core.jsontext import JSONTextError, copy_json, parse_object
from handrail.core.redact import has_masked
from handrail.core.secret_pointers import has_mask_at
from handrail.execute.repair import coerce_arguments, repair_arguments
from handrail.tools.tool import Tool


def read_arguments(call: ToolCall, tool: Tool, *, lenient: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parse and validate; the arguments with defaults filled in, and a warning for each repair.

    Raises:
        InvalidArguments: With every problem at once.
    """
    arguments, warnings = _parsed(call.arguments, lenient)
    problems = tool.validator.problems(arguments)
    if problems and lenient:
        arguments, coerced = coerce_arguments(arguments, tool.definition.input_schema)
        warnings += coerced
        problems = tool.validator.problems(arguments)
    if problems:
        raise InvalidArguments(problems)
    if arguments is call.arguments:
        arguments = copy_json(arguments)  # a handler may change what it is given; the call stays what was asked
    completed = tool.complete(arguments)
    # A default is a remark of the schema, and may not fit it: `"default": null` on a text is common.
    if completed is not arguments and tool.validator.problems(completed):
        completed = arguments
    return completed, warnings


def check_secrets(arguments: dict[str, Any], tool: Tool) -> None:
    """Never run a call of a resumed run with the mask that stands in the record for its secret.

    Raises:
        InvalidArguments: A secret is missing.
    """
    by_name = bool(tool.secrets) and has_masked(arguments, tool.secrets)
    if by_name or has_mask_at(arguments, tool.secret_places(arguments)):
        raise InvalidArguments("a secret of this call is not on record; make the call again with it")


def _parsed(written: dict[str, Any] | str, lenient: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    if isinstance(written, dict):
        return written, ()
    try:
        return parse_object(written), ()
    except JSONTextError as error:
        repaired = repair_arguments(written) if lenient else None
        if repaired is None:
            raise InvalidArguments(f"the arguments are not a JSON object: {error}") from error
        return repaired


_WITHIN = 10.0
"""Seconds in which a disk has said where a path leads."""


async def locate_arguments(tool: Tool, arguments: dict[str, Any]) -> Locations:
    """Resolve the path arguments of a call, if its tool has any; each is None if the disk does not answer."""
    if tool.locate is None:
        return {}
    try:
        return await asyncio.wait_for(asyncio.to_thread(tool.locate, arguments), _WITHIN)
    except TimeoutError:
        return dict.fromkeys(arguments)
