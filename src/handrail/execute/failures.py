"""What the author of a tool is told when it fails: the traceback in the log, and the exception for a caller who asks.

The model reads the type and the text of an exception, which is enough to go on with and not enough to mend a tool.
"""

from __future__ import annotations

import json
import logging
import traceback

from handrail.core.errors import ToolError
from handrail.core.redact import mask_field_values, redact, redact_text
from handrail.execute.attempt import CallAttempt
from handrail.tools.tool import Tool

logger = logging.getLogger(__name__)

_ARGUMENTS = 2_000
_TRACE = 20_000
"""Characters that the log shows: an exception may hold megabytes."""


def report_failure(attempt: CallAttempt, tool: Tool, error: ToolError) -> None:
    """Keep the exception for a caller who asked for it, and log one that the tool did not mean to raise.

    A `ToolError` that a tool raises is an answer, and is not logged. Declared secrets, and what looks like one, are
    masked in the log.
    """
    cause, raised = attempt.cause, attempt.context.raised
    if raised is not None:
        raised[attempt.call.id] = cause or error
    if cause is None or not logger.isEnabledFor(logging.ERROR):
        return
    trace = "".join(traceback.format_exception(cause))
    if tool.secrets:
        trace = mask_field_values(trace, attempt.arguments, tool.secrets)
    arguments = json.dumps(redact(tool.masked(attempt.arguments)), ensure_ascii=False, default=str)
    logger.error(
        "tool %r failed with the arguments %s\n%s",
        tool.scoped_name,
        _shortened(arguments, _ARGUMENTS),
        _shortened(redact_text(trace), _TRACE),
    )


def _shortened(text: str, most: int) -> str:
    """Its beginning and its end, in characters that every log can hold."""
    if len(text) > most:
        text = f"{text[: most // 2]}\n[… {len(text) - most:,} characters …]\n{text[-most // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()
