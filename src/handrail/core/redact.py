"""Secrets: kept out of every record by their type, by their value and by how they look.

The keys that this process was configured with are known by value: whoever reads one from the environment or from a
file says so here, once, and records, errors, spans and logs are then without it. The shapes of well-known services
(`secret_patterns`) and values beside the usual names (`secret_names`) are a net under the types, not a promise that no
secret of an unknown form ever passes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from handrail.core.secret_names import is_secret_field, is_secret_flag, mask_named, may_hold_named
from handrail.core.secret_patterns import MASK, mask_shapes, may_hold_shape

__all__ = ["MASK"]

_SHORTEST = 6
"""The fewest characters of a secret that is known by its form."""


class Secret(str):
    """Text that tools may use but the record must not contain: annotate a parameter with it.

    Its schema is `writeOnly`, which marks secrets in schemas from elsewhere too.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Secret('…{self[-4:]}')" if len(self) > 8 else "Secret('…')"


def redact_text(text: str) -> str:
    """The text with every secret masked: configured keys, well-known shapes, values beside the usual names."""
    if len(text) < _SHORTEST:
        return text
    text = mask_known(text)
    lowered = text.lower()
    if may_hold_shape(text, lowered):
        text = mask_shapes(text)
    return mask_named(text) if may_hold_named(text, lowered) else text


def may_hold_secret(text: str) -> bool:
    """Whether a text, or the JSON of a value, may hold what `redact` masks. It is quick, and right when it says no."""
    lowered = text.lower()
    return may_hold_named(text, lowered) or may_hold_shape(text, lowered) or may_hold_known(text)


def redact(value: Any) -> Any:
    """The same JSON value with everything that looks like a secret masked, keys included."""
    match value:
        case Secret():
            return MASK
        case str():
            return redact_text(value)
        case list() | tuple():
            return _redacted_list(value)
        case dict():
            return _redacted_object(value)
    return value


def _redacted_list(items: Sequence[Any]) -> list[Any]:
    """Masks, in the arguments of a command, the value that follows an option such as `--token`."""
    found = [redact(item) for item in items]
    for index, item in enumerate(items[:-1]):
        if isinstance(item, str) and is_secret_flag(item) and isinstance(items[index + 1], str):
            found[index + 1] = MASK
    return found


def _redacted_object(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        safe = redact_text(key)
        while safe in found:  # two keys that were secrets are still two fields
            safe = f"{safe} {len(found)}"
        found[safe] = MASK if isinstance(item, str) and is_secret_field(key, item) else redact(item)
    return found


def is_secret(schema: Mapping[str, Any]) -> bool:
    """Whether a schema itself marks its values as secret."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def secret_fields(schema: Mapping[str, Any]) -> frozenset[str]:
    """The names of properties that a schema marks as secret, at any depth."""
    found: set[str] = set()
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            properties = node.get("properties")
            if isinstance(properties, Mapping):
                found.update(name for name, sub in properties.items() if _holds_secret(sub, schema))
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return frozenset(found)


def mask_fields(value: Any, names: frozenset[str]) -> Any:
    """The same JSON value with every field of these names masked."""
    if not names:
        return value
    if isinstance(value, dict):
        return {key: MASK if key in names else mask_fields(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_fields(item, names) for item in value]
    return value


def mask_field_values(text: str, value: Any, names: frozenset[str]) -> str:
    """The text without what the fields of these names hold: whoever failed may speak of what it was given."""
    for secret in sorted(_texts_in_fields(value, names), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _texts_in_fields(value: Any, names: frozenset[str], inside: bool = False) -> set[str]:
    """The texts in those fields, however deep. One or two letters would mask half of every sentence."""
    match value:
        case dict():
            return {
                each for key, item in value.items() for each in _texts_in_fields(item, names, inside or key in names)
            }
        case list() | tuple():
            return {each for item in value for each in _texts_in_fields(item, names, inside)}
    return {str(value)} if inside and len(str(value)) > 2 else set()


def has_masked(value: Any, names: frozenset[str]) -> bool:
    """Whether a field of these names holds the mask in place of its secret."""
    if isinstance(value, dict):
        return any(item == MASK if key in names else has_masked(item, names) for key, item in value.items())
    return isinstance(value, list | tuple) and any(has_masked(item, names) for item in value)


_INSIDE = ("anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalProperties", "patternProperties")


def _holds_secret(schema: Any, root: Mapping[str, Any]) -> bool:
    """Whether a field of this schema is a secret or a list, a choice or a map of them, references followed."""
    stack, followed = [schema], set()
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        if not isinstance(node, Mapping):
            continue
        if is_secret(node):
            return True
        for key in _INSIDE:
            inner = node.get(key)
            stack.extend(inner.values() if key == "patternProperties" and isinstance(inner, Mapping) else [inner])
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            stack.append(_at(reference, root))
    return False


def _at(reference: str, root: Any) -> Any:
    """The part of a schema that `#/a/b` points to, or None."""
    path = reference.partition("#/")[2]
    for step in path.split("/") if path else ():
        root = root.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(root, Mapping) else None
    return root if path else None


SHORTEST = 8
"""A shorter value would mask ordinary words; a key of fewer characters protects nothing."""

_known: tuple[str, ...] = ()
"""Each value and, where that is different, how it is written inside JSON; the longest first. They are kept as long as
the process lives: a key that was replaced is still a secret."""


def remember_secret(value: str) -> None:
    """Have this value masked from now on in every record, error, span and log line of this process."""
    global _known
    text = str(value).strip()
    if len(text) >= SHORTEST:
        written = json.dumps(text, ensure_ascii=False)[1:-1]
        _known = tuple(sorted({*_known, text, written}, key=len, reverse=True))


def may_hold_known(text: str) -> bool:
    """Whether one of the values is in a text, or in the JSON of a value."""
    return _known != () and any(secret in text for secret in _known)


def mask_known(text: str) -> str:
    """The text without the values that were remembered."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MASK)
    return text


_formatter = logging.Formatter()


class RedactingHandler(logging.Handler):
    """Masks secrets in every log record of this package in place, and leaves writing it to the handlers above.

    A filter of a logger does not see the records of the loggers below it. A handler does, and before the handlers of
    the root logger. Programs that configure no logging still see warnings on stderr.
    """

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
        safe = redact_text(message)
        if safe != message:
            record.msg, record.args = safe, ()
        if record.exc_info and record.exc_info[0] is not None:
            told = record.exc_text or _formatter.formatException(record.exc_info)
            safe = redact_text(told)
            if safe != told:
                record.exc_info, record.exc_text = None, safe


def _is_alone(handler: logging.Handler, name: str) -> bool:
    """Whether nobody else handles the records of this logger: then logging writes warnings to stderr, and so do we."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(each is not handler for each in logger.handlers):
            return False
        logger = logger.parent
    return True


if not any(isinstance(handler, RedactingHandler) for handler in logging.getLogger("handrail").handlers):
    logging.getLogger("handrail").addHandler(RedactingHandler())
