"""Where a handler lives, in words that another process can follow: its module and its name there, and the keyword
arguments that a `functools.partial` has fixed, if they are JSON.

A function defined in the program's main file is found by loading that file again
under another name, so that its `if __name__ == "__main__"` part does not run.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from handrail.core.errors import InvalidDefinition, UsageError
from handrail.core.jsontext import first_non_json
from handrail.tools.tool import Tool

MAIN = "__handrail_main__"
"""What the program's main file is called inside a worker."""


class HandlerTarget(Struct, frozen=True):
    module: str
    qualname: str
    file: str | None = None
    """The main file of the program, if the handler is defined there."""
    fixed: str = ""
    """The keyword arguments that a partial has fixed, as a JSON object."""


def check_guarded() -> None:
    """Checks that this process may start workers.

    Raises:
        UsageError: This is a worker that loads the program's main file, which is about to start workers of its own.
    """
    if MAIN in sys.modules:
        raise UsageError(
            "a worker process tried to start workers of its own while loading the program's main file; put what "
            "the program does under: if __name__ == '__main__'"
        )


def target_of(tool: Tool) -> HandlerTarget:
    """The importable location of a handler.

    Raises:
        InvalidDefinition: The handler cannot be imported by name.
    """
    handler, fixed = _without_partial(tool)
    module, qualname = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    if module is None or qualname is None:
        raise _refused(tool, f"a {type(handler).__name__} object has no name to import it by")
    if "<lambda>" in qualname:
        raise _refused(tool, "a lambda cannot be imported by name")
    if "<locals>" in qualname:
        raise _refused(tool, f"{qualname!r} is defined inside a function")
    if inspect.ismethod(handler) and not inspect.isclass(handler.__self__):
        raise _refused(tool, f"{qualname!r} is bound to an instance, which cannot cross")
    try:
        found = _walk(sys.modules[module], qualname)
    except (KeyError, AttributeError):
        raise _refused(tool, f"there is no {qualname!r} in the module {module!r}") from None
    if found != handler:
        raise _refused(tool, f"{qualname!r} in the module {module!r} is something else by now")
    target = _in_main(tool, qualname) if module == "__main__" else HandlerTarget(module, qualname)
    return replace(target, fixed=fixed) if fixed else target


def import_handler(target: HandlerTarget) -> Callable[..., Any]:
    """Import the handler, in a worker.

    Raises:
        Exception: Whatever the module raises when it is imported.
    """
    module = importlib.import_module(target.module) if target.file is None else _load_main(target.file)
    found: Callable[..., Any] = _walk(module, target.qualname)
    if not callable(found):
        raise TypeError(f"{target.qualname!r} in the module {target.module!r} is not a function")
    return functools.partial(found, **json.decode(target.fixed)) if target.fixed else found


def _without_partial(tool: Tool) -> tuple[Callable[..., Any], str]:
    """The function that a partial is of, and what it has fixed, as JSON."""
    handler = tool.handler
    if not isinstance(handler, functools.partial):
        return handler, ""
    if handler.args:
        raise _refused(tool, "a functools.partial with unnamed arguments cannot cross; fix them by name")
    if (odd := first_non_json(handler.keywords, "its partial")) is not None:
        raise _refused(tool, f"only JSON can cross, and {odd}")
    return handler.func, json.encode(handler.keywords, order="sorted").decode()


def _walk(module: ModuleType, qualname: str) -> Any:
    found = functools.reduce(getattr, qualname.split("."), module)
    return found.handler if isinstance(found, Tool) else found


def _in_main(tool: Tool, qualname: str) -> HandlerTarget:
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return HandlerTarget(spec.name, qualname)
    file = getattr(main, "__file__", None)
    if file is None or not os.path.isfile(file):
        raise _refused(tool, "it is defined in a session or notebook that has no file")
    return HandlerTarget(MAIN, qualname, os.path.abspath(file))


def _load_main(file: str) -> ModuleType:
    if MAIN in sys.modules:
        return sys.modules[MAIN]
    spec = importlib.util.spec_from_file_location(MAIN, file, loader=SourceFileLoader(MAIN, file))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file!r} cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MAIN] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[MAIN]
        raise
    return module


def _refused(tool: Tool, why: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"{tool.name!r} cannot run in a worker process: {why}; define the function at the top level of a module, "
        "or use isolation='thread'"
    )


def check_isolation(tool: Tool) -> None:
    """Checks that a tool can run under its declared isolation, when it is taken in, so that no call finds out.

    Raises:
        InvalidDefinition: A worker process would not find its handler, or something that it names is not there.
        SandboxUnavailable: It is for the sandbox, and this machine has none.
    """
    match tool.isolation:
        case "process":
            target_of(tool)
        case "sandbox":
            from handrail.execute.isolation.sandbox_pool import check_sandboxed  # few programs have such tools

            check_sandboxed(tool)
