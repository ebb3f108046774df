"""What a service's refusal means: the error for its status, in its own words, bounded and without secrets.

Pure, and the same for every way of reaching a service.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.redact import MASK, redact_text

SHOWN = 1000
"""Characters of what a service says about a failure."""
HEAD = 200
"""Characters of anything else."""

_SHORTEST = 6
"""A shorter secret is a placeholder for servers that want none, and would mask half of any text."""
_AGAIN = frozenset({408, 409, 425})
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes under 429 that no waiting mends."""
_OF_THE_MODEL = frozenset({"tool_use_failed"})
"""Codes that blame what the model wrote, and not the request: Groq's, for a call that it could not read or check."""
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_SPACE = re.compile(r"\s+")


def error_for_status(
    status: int, body: bytes, headers: Mapping[str, str] = {}, *, secrets: Iterable[str] = (), now: int = 0
) -> ModelError:
    """The error that an answer with this status is. `headers` have lower-case names; `now` is in milliseconds."""
    value = _value(body)
    words = masked_excerpt(_message(value) or body.decode(errors="replace"), SHOWN, secrets=secrets)
    text = f"the service answered {status}{f': {words}' if words else ''}"
    wait = _wait(headers, now)
    wait = wait if wait is not None else _named_wait(value)
    match status:
        case 429 if _SPENT.isdisjoint(_codes(value)):
            return RateLimited(text, status=status, retry_after=wait)
        case 400 if not _OF_THE_MODEL.isdisjoint(_codes(value)):
            return ProtocolError(text, status=status, retry_after=wait)
        case _ if status >= 500 or status in _AGAIN:
            return ModelUnavailable(text, status=status, retry_after=wait)
        case _ if 300 <= status < 400:
            where = masked_excerpt(headers.get("location", "nowhere"), HEAD, secrets=secrets)
            return RequestRefused(
                f"the service answered {status} and leads to {where}, which is not followed; set its base_url right",
                status=status,
            )
    return RequestRefused(text, status=status)


def masked_excerpt(text: str, length: int = HEAD, *, secrets: Iterable[str] = ()) -> str:
    """A piece of what a service said, fit for an error: masked first, so that no half of a secret is left, then cut."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, MASK)
    text = _SPACE.sub(" ", redact_text(text)).strip()
    return text if len(text) <= length else f"{text[:length]}…"


def _value(body: bytes) -> Any:
    try:
        value = parse(body)
    except JSONTextError:
        return None
    # Gemini puts its error into a list.
    return value[0] if isinstance(value, list) and value else value


def _message(value: Any) -> str:
    """The words in the forms that services use: `error.message`, `error`, `message`, `detail`."""
    match value:
        case {"error": {"message": str(words)}} | {"error": str(words)} | {"message": str(words)}:
            return words
        case {"detail": str(words)}:
            return words
    return ""


def _codes(value: Any) -> set[str]:
    match value:
        case {"error": dict(error)}:
            return {text for key in ("code", "type", "status") if isinstance(text := error.get(key), str)}
    return set()


def _wait(headers: Mapping[str, str], now: int) -> float | None:
    """Seconds until another try is welcome, as the headers have it."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
            return float(text) * unit
    if not (date := headers.get("retry-after")):
        return None
    try:
        until = email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, until - now / 1000)


def _named_wait(value: Any) -> float | None:
    """Gemini says it in the body, among the details of the error."""
    return next((float(found[1]) for text in _delays(value) if (found := _SECONDS.fullmatch(text))), None)


def _delays(value: Any) -> Iterator[str]:
    match value:
        case {"error": {"details": [*details]}}:
            for each in details:
                match each:
                    case {"retryDelay": str(delay)}:
                        yield delay
