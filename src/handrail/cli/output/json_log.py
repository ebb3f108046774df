"""Logs of a node as JSON, one object a line: for whatever collects logs from many machines.

    {"time": "2026-11-18T09:30:00.125Z", "level": "warning", "logger": "handrail.app", "message": "…", "run": "run_…"}

`run` and `call` are the ids that the message names, so that a line is found by them; several are a list. They are read
from the text, and only when something is logged, so that calls cost nothing more. What looks like a secret is masked.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

from handrail.cli.output.view import tell_elsewhere
from handrail.core.redact import redact_text

_ID = re.compile(r"\b(run|call)_[0-9A-Za-z]{16,64}\b")


class JsonFormatter(logging.Formatter):
    """One line for each record, whatever is in it."""

    def format(self, record: logging.LogRecord) -> str:
        message = redact_text(record.getMessage())
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        exception = record.exc_text
        if exception is None and record.exc_info and record.exc_info[0] is not None:
            exception = self.formatException(record.exc_info)
        for kind in ("run", "call"):
            ids = list(dict.fromkeys(each[0] for each in _ID.finditer(message) if each[1] == kind))
            if ids:
                line[kind] = ids[0] if len(ids) == 1 else ids
        if exception:
            line["exception"] = redact_text(exception)
        return json.dumps(line)  # in ASCII: nothing in it can end the line, or be no UTF-8


def log_in_json() -> None:
    """Makes everything that this process writes to stderr such a line from now on, also what it tells people."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)
    told = logging.getLogger("handrail.cli")
    told.setLevel(logging.INFO)
    tell_elsewhere(lambda line: told.info("%s", line))
