"""Secrets: kept out of every record by their type and by how they look.

The patterns find well-known key formats. They are a net under the types, not a
promise that no secret of an unknown form ever passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "[redacted]"


class Secret(str):
    """Text that tools may use and records must not hold: annotate a parameter with it.

    Its schema is `writeOnly`, which marks secrets in schemas from elsewhere too.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Secret('…{self[-4:]}')" if len(self) > 8 else "Secret('…')"


_PATTERNS = (
    r"sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter
    r"AIza[0-9A-Za-z_-]{35}",  # Google
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",  # AWS
    r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}",
    r"glpat-[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}",
    r"hntoken://v1/[A-Za-z0-9_.-]+",
    r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",  # JWT
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    r"(?<=[Bb]earer )[A-Za-z0-9_.~+/-]{16,}=*",
    r"(?<=://)[^/\s:@\"]{1,64}:[^/\s@\"]{1,256}(?=@)",  # user:password in a URL
)
_SECRET = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS), re.DOTALL)


def redact_text(text: str) -> str:
    return _SECRET.sub(MASK, text)


def redact(value: Any) -> Any:
    """The same JSON value with everything that looks like a secret masked, keys included."""
    match value:
        case str():
            return redact_text(value)
        case list() | tuple():
            return [redact(item) for item in value]
        case dict():
            return {redact_text(key): redact(item) for key, item in value.items()}
    return value


def secret_fields(schema: Mapping[str, Any]) -> frozenset[str]:
    """The names of properties that a schema marks as secret, at any depth."""
    found: set[str] = set()
    stack: list[Any] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            properties = node.get("properties")
            if isinstance(properties, Mapping):
                found.update(name for name, sub in properties.items() if _is_secret(sub))
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
    if isinstance(value, list):
        return [mask_fields(item, names) for item in value]
    return value


def _is_secret(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (schema.get("writeOnly") is True or schema.get("format") == "password")
