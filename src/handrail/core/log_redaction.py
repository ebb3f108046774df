"""Log records of this package without secrets, whatever a program does with them.

A filter of a logger does not see the records of the loggers below it. A handler does, and
before the handlers of the root logger: so the one here masks each record in place and
writes nothing. Programs that configure no logging still see warnings on stderr.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

_PACKAGE = "handrail"
_formatter = logging.Formatter()


class RedactingHandler(logging.Handler):
    """Masks secrets in every record that passes, and leaves writing it to the handlers above."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._mask(record)
        except Exception:  # a message that does not fit its arguments: whoever writes it says so
            self.handleError(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and _is_alone(self, record.name):
            last.handle(record)

    def _mask(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        safe = self._redact(message)
        if safe != message:
            record.msg, record.args = safe, ()
        if record.exc_info and record.exc_info[0] is not None:
            told = record.exc_text or _formatter.formatException(record.exc_info)
            safe = self._redact(told)
            if safe != told:
                record.exc_info, record.exc_text = None, safe


def redact_logs(redact: Callable[[str], str]) -> None:
    """Mask secrets in the log records of this package. It is done once."""
    logger = logging.getLogger(_PACKAGE)
    if not any(isinstance(handler, RedactingHandler) for handler in logger.handlers):
        logger.addHandler(RedactingHandler(redact))


def _is_alone(handler: logging.Handler, name: str) -> bool:
    """Whether nobody else handles the records of this logger: then logging writes warnings to stderr, and so do we."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(each is not handler for each in logger.handlers):
            return False
        logger = logger.parent
    return True
