"""What code says when it is done, in the REPL: `answer`, `FINAL`, `FINAL_VAR`, and `SHOW_VARS` beside them.

Python that CPython and Monty both run. Answers leave the REPL as text: what a value is as text is decided where the
value is, so that nothing but JSON has to cross.
"""

from __future__ import annotations

from handrail.run.code.bridge import shelter_builtins

FUNCTIONS = shelter_builtins("""
import json as _json

def FINAL(value=""):
    global _final
    _final = {"value": value}

def FINAL_VAR(name=""):
    global _final
    _final = {"name" if isinstance(name, str) else "value": name}

def SHOW_VARS(*, _type=type):
    try:
        scope = globals()
    except NameError:  # Monty has no such thing; then it is what there was before this code
        return _host("show_vars", None)
    return _host("show_vars", {name: _type(scope[name]).__name__ for name in list(scope) if name[:1] != "_"})

def _as_text(value):
    if value is None:
        return ""
    if isinstance(value, (dict, list, tuple)):
        try:
            return _json.dumps(value, ensure_ascii=False)
        except Exception:
            return str(value)
    return str(value)

def _look():
    if isinstance(_final, dict) and "name" in _final:
        return {"name": str(_final["name"])}
    if isinstance(_final, dict) and "value" in _final:
        return {"text": _as_text(_final["value"])}
    if isinstance(answer, dict) and "content" in answer:
        return {"text" if answer.get("ready") else "draft": _as_text(answer["content"])}
    return {}

def _unready():
    global _final
    _final = {}
    if isinstance(answer, dict):
        answer["ready"] = False
""")
"""Running them again changes no variable."""

PEEK = ("answer", "_final")
"""Enough to see that nothing was answered, which is so after nearly every block."""

RESET = 'answer = {"content": "", "ready": False}\n_final = {}\n'
"""The code that prepares the REPL for its first question, and for each next one."""

LOOK = "_seen = _look()"
LOOK_AGAIN = f"{FUNCTIONS}\n{LOOK}"
"""The code that restores the look at answers after code has overwritten it."""
SEEN = ("_seen",)
UNREADY = "_unready()"

CALLED = ("FINAL", "FINAL_VAR", "SHOW_VARS")
NAMES = ("answer", *CALLED)


def as_text(name: str) -> str:
    """Code that reads a variable, if there is one of that name."""
    return f"_seen = {{'text': _as_text({name})}}"
