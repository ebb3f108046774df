"""`tool` with labels, for a handrail that knows only some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from handrail import tool as plain_tool
from handrail.tools.tool import ToolOptions

F = TypeVar("F", bound=Callable[..., Any])


def tool(**options: Any) -> Callable[[F], F]:
    known = ToolOptions.__annotations__
    if "directs" not in known:
        options = {key: value for key, value in options.items() if key in known}
        options["untrusted"] = bool(options.get("untrusted"))
    return cast(Callable[[F], F], plain_tool(**options))
