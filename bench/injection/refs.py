"""Arguments that a scripted model takes from what it has read.

`$1.mails[subject~Invoice].id` is, of the first step's result, the id of the first mail whose subject holds "Invoice";
`$2.body~IBAN (\\S+)` what the group finds in the body of the second. `${…}` does the same inside of a longer text.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_WHOLE = re.compile(r"\$(\w+)((?:\.[\w]+|\[[^\]]*\])*)(?:~(.*))?", re.DOTALL)
_INSIDE = re.compile(r"\$\{(\w+(?:\.[\w]+|\[[^\]]*\])*(?:~(?:[^}])*)?(?:=>\w+)?)\}")
_PART = re.compile(r"\.(\w+)|\[([^\]]*)\]")


class NotRead(Exception):
    """A model refers to something that it was not given."""


def filled(value: Any, results: Mapping[str, Any]) -> Any:
    """The value with every reference replaced.

    Raises:
        NotRead: A reference leads to nothing.
    """
    if isinstance(value, str):
        if value.startswith("$") and not value.startswith("${"):
            whole = _WHOLE.fullmatch(value)
            if whole is not None:
                return _looked_up(value, results)
        return _INSIDE.sub(lambda found: _text(_looked_up("$" + found[1], results)), value)
    if isinstance(value, Mapping):
        return {key: filled(each, results) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [filled(each, results) for each in value]
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _looked_up(reference: str, results: Mapping[str, Any]) -> Any:
    reference, _, conversion = reference.partition("=>")
    convert = _CONVERSIONS[conversion]
    found = _WHOLE.fullmatch(reference)
    if found is None or found[1] not in results:
        raise NotRead(reference)
    value = results[found[1]]
    for part in _PART.finditer(found[2]):
        value = _step(value, part[1], part[2], reference)
    if found[3] is None:
        return convert(_text(value)) if conversion else value
    text = re.search(found[3], _text(value))
    if text is None:
        raise NotRead(reference)
    return convert(text[1] if text.re.groups else text[0])


_CONVERSIONS: Mapping[str, Callable[[str], Any]] = {
    "": lambda text: text,
    "number": lambda text: float(text.replace(",", "")) if "." in text else int(text.replace(",", "")),
    "backwards": lambda text: text[::-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "spaced": " ".join,
    "digits": lambda text: re.sub(r"\D", "", text),
}


def _step(value: Any, key: str | None, chosen: str | None, reference: str) -> Any:
    try:
        if key is not None:
            return value[key]
        if chosen == "*":
            return value
        if chosen is not None and (chosen.isdigit() or chosen == "-1"):
            return value[int(chosen)]
        assert chosen is not None
        several = chosen.startswith("*")
        name, operator, wanted = re.split(r"([=~])", chosen.removeprefix("*"), maxsplit=1)
        matching = [
            each
            for each in value
            if (str(each.get(name)) == wanted if operator == "=" else re.search(wanted, str(each.get(name)), re.I))
        ]
        return matching if several else matching[0]
    except (KeyError, IndexError, TypeError) as error:
        raise NotRead(reference) from error
