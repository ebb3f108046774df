"""A configuration as it holds now, in names and values for people. Secrets are masked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

import msgspec

from handrail.app.person import endpoint_description
from handrail.config.values import Config
from handrail.config.variables import KEY
from handrail.core.redact import MASK, redact_text
from handrail.desk.views.values import SettingsSection
from handrail.execute.rules import Rule
from handrail.mcp.values import HttpEndpoint, StdioEndpoint

_MOST = 200
"""Values of a section."""
_LONGEST = 500
_DEEPEST = 8
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\benv:([A-Za-z_][A-Za-z0-9_]*)")
_SECRET = re.compile(
    r"(?:^|[._-])(?:api[_-]?)?(?:keys?|tokens?|secrets?|passwords?|authorization)(?:$|\[)", re.IGNORECASE
)


def variable_names(text: str) -> frozenset[str]:
    """The names of the variables that a file takes values from."""
    return frozenset(one or other for one, other in _VARIABLE.findall(text))


def config_sections(config: Config, hidden: Mapping[str, str]) -> tuple[SettingsSection, ...]:
    """`hidden` are values that stand nowhere, by the names of their variables."""
    parts: dict[str, Any] = {
        "models": {"default_model": config.default_model, **config.models},
        "llm": config.llm,
        "policy": config.policy,
        "limits": config.limits,
        "offering": config.offering,
        "rules": [str(rule) for rule in config.rules],
        "ensembles": config.ensembles,
        "mcp": config.mcp,
        "standard": config.standard,
        "serve": config.serve,
        "node": config.node,
        "services": config.services,
        "rlm": config.rlm,
        "hook": config.hook,
        "proof": {"journal": config.journal},
        "approvals": config.approvals,
        "state": {"url": None if config.state.url is None else str(config.state.url)},
    }
    made = (SettingsSection(name=name, values=_values(value, hidden)) for name, value in parts.items())
    return tuple(section for section in made if section.values)


def _values(value: Any, hidden: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (_concealed_and_cut(name, hidden), _masked(name, text, hidden))
        for name, text in islice(_flat("", value, 0), _MOST)
    )


def _flat(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """What is nested by names with dots; what is not said is left out."""
    match value:
        case None:
            return
        case bool():
            yield name, "true" if value else "false"
        case str() | int() | float() | Path() | Rule():
            yield name, str(value)
        case StdioEndpoint() | HttpEndpoint():
            yield name, endpoint_description(value)
        case _ if depth == _DEEPEST:
            yield name, "…"
        case list() | tuple() | frozenset():
            items = sorted(value) if isinstance(value, frozenset) else value
            for at, item in enumerate(items):
                yield from _flat(f"{name}[{at}]" if name else str(at + 1), item, depth + 1)
        case _:
            for key, item in _fields(value):
                yield from _flat(f"{name}.{key}" if name else key, item, depth + 1)


def _fields(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if is_dataclass(value):
        return [(each.name, getattr(value, each.name)) for each in fields(value) if each.repr]
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    return []


def _masked(name: str, text: str, hidden: Mapping[str, str]) -> str:
    if _SECRET.search(name) and not KEY.fullmatch(text) and not text.replace(".", "").isdecimal():
        return MASK
    return _concealed_and_cut(text, hidden)


def _concealed_and_cut(text: str, hidden: Mapping[str, str]) -> str:
    text = conceal_values(text, hidden)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def conceal_values(text: str, hidden: Mapping[str, str]) -> str:
    """With the name of a variable where its value stood, as it is, as a path or as Python quotes it; and no secret."""
    for variable, secret in sorted(hidden.items(), key=lambda each: -len(each[1])):
        for written in (secret, str(PurePath(secret))):
            for quoted in (written, repr(written)[1:-1]):
                text = text.replace(quoted, f"${{{variable}}}") if len(written) > 2 else text
    return redact_text(text)
