"""What code says when it is done, in the REPL: `answer`, `FINAL`, `FINAL_VAR`, and `SHOW_VARS` beside them.

Python that CPython and Monty both run. Answers leave the REPL as text: what a value is as text is decided where the
value is, so that nothing but JSON has to cross.
"""

from __future__ import annotations

SOURCE = """
import json as _json

answer = {"content": "", "ready": False}
_final = {}

def FINAL(value=""):
    _final.clear()
    _final["value"] = value

def FINAL_VAR(name=""):
    _final.clear()
    _final["name" if isinstance(name, str) else "value"] = name

def SHOW_VARS():
    return _host("show_vars", None)

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
    if "name" in _final:
        return {"name": _final["name"]}
    if "value" in _final:
        return {"text": _as_text(_final["value"])}
    if isinstance(answer, dict) and "content" in answer:
        return {"text" if answer.get("ready") else "draft": _as_text(answer["content"])}
    return {}

def _unready():
    _final.clear()
    if isinstance(answer, dict):
        answer["ready"] = False
"""

PEEK = ("answer", "_final")
"""Enough to see that nothing was answered, which is so after nearly every block."""

RESET = 'answer = {"content": "", "ready": False}\n_final.clear()\n'
"""For the next question in the same REPL."""

LOOK = "_seen = _look()"
SEEN = ("_seen",)
UNREADY = "_unready()"

NAMES = ("answer", "FINAL", "FINAL_VAR", "SHOW_VARS")


def as_text(name: str) -> str:
    """Code that reads a variable, if there is one of that name."""
    return f"_seen = {{'text': _as_text({name})}}"
