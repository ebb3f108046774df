"""`guard`: the tools of a framework, with everything that the executor does around a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from handrail.adapters.guarded_calls import GuardedCalls
from handrail.core.errors import UsageError
from handrail.core.ports import Journal
from handrail.execute.approvers import AnyApprover
from handrail.execute.policy import Policy
from handrail.tools.tool import ToolOptions

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

T = TypeVar("T")
D = TypeVar("D")

_ADAPTERS = {
    "pydantic_ai": "pydantic_ai",
}
"""The module here that guards the tools of a package."""


@overload
def guard(
    tools: Iterable[T],
    *,
    journal: Journal | str | Path,
    rules: Iterable[str] = (),
    approver: AnyApprover | None = None,
    policy: Policy = Policy(),
    reads: Sequence[str] = (),
    options: Mapping[str, ToolOptions] | None = None,
    owner: str | Callable[[Any], str] | None = None,
) -> list[T]: ...
@overload
def guard(
    tools: AbstractToolset[D],
    *,
    journal: Journal | str | Path,
    rules: Iterable[str] = (),
    approver: AnyApprover | None = None,
    policy: Policy = Policy(),
    reads: Sequence[str] = (),
    options: Mapping[str, ToolOptions] | None = None,
    owner: str | Callable[[Any], str] | None = None,
) -> AbstractToolset[D]: ...
def guard(
    tools: Any,
    *,
    journal: Journal | str | Path,
    rules: Iterable[str] = (),
    approver: AnyApprover | None = None,
    policy: Policy = Policy(),
    reads: Sequence[str] = (),
    options: Mapping[str, ToolOptions] | None = None,
    owner: str | Callable[[Any], str] | None = None,
) -> Any:
    """The same tools for the same framework: each call is checked, confirmed, bounded and recorded, and an effect that
    was begun is not begun again, whoever died meanwhile.

    Args:
        tools: A toolset of pydantic-ai.
        journal: An open journal, or the file of one. What happens once, happens once in it.
        rules: A person's word in advance, as `"allow pay to=ada"`. What no rule is for is put to `approver`, and where
            there is none to the framework, by its own way to stop for a person.
        reads: Names of tools without side effects, as `"get_*"`. Of any other it is taken that it has some.
        options: How a tool is treated, by its name, as `{"pay": {"effect_key": ("order",), "timeout": 5}}`.
        owner: Who asks, or a function that finds it in what the framework tells a tool. Equal effects of one owner
            are found across conversations; without it, within a conversation.

    Raises:
        UsageError: These are no tools of a framework that is known here.
    """
    calls = GuardedCalls(
        journal=journal, rules=rules, approver=approver, policy=policy, reads=reads, options=options, owner=owner
    )
    given = list(tools) if isinstance(tools, Iterable) else tools
    for each in given if isinstance(given, list) else [given]:
        adapter = _adapter_of(each)
    if not given:
        return []
    return adapter.guarded(given, calls)


def _adapter_of(tool: Any) -> Any:
    for base in type(tool).__mro__:
        if (name := _ADAPTERS.get(base.__module__.partition(".")[0])) is not None:
            return import_module(f"handrail.adapters.{name}")
    raise UsageError(f"guard() takes tools of {', '.join(_ADAPTERS)}; not {tool!r}")
