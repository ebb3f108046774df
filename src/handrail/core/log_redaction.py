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
        if last is not None and _is_alone(self) and record.levelno >= last.level:
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


def _is_alone(handler: logging.Handler) -> bool:
    """Whether nobody else handles the records: then logging itself writes warnings to stderr, and we do as it does."""
    return not logging.getLogger().handlers and logging.getLogger(_PACKAGE).handlers == [handler]
