"""Adding the hook to the settings of a coding agent, and taking it out again.

Nothing else in the file changes. What it was before is kept beside it, and a file that is not JSON is left alone.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from handrail.cli.hook.hosts import Host
from handrail.core.durable_files import write_atomically
from handrail.core.errors import UsageError

Scope = Literal["project", "local", "user"]
BACKUP = ".before-handrail"
_EVENTS: dict[Host, tuple[str, ...]] = {
    "claude": ("PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd"),
    "codex": ("PreToolUse", "PostToolUse"),
    "copilot": ("preToolUse", "postToolUse", "sessionEnd"),
}
_MATCHED = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
"""Events that are for tools; without a matcher they are for every tool, and that is said."""
_SECONDS = 600
"""How long the agent waits for the hook, and so for the answer to a question."""


def settings_file(host: Host, scope: Scope, folder: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The file of the host.

    Raises:
        UsageError: The host has none of this scope.
    """
    home = Path(environ.get("HOME") or Path.home())
    places: dict[tuple[Host, Scope], Path] = {
        ("claude", "project"): folder / ".claude" / "settings.json",
        ("claude", "local"): folder / ".claude" / "settings.local.json",
        ("claude", "user"): Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "settings.json",
        ("codex", "project"): folder / ".codex" / "hooks.json",
        ("codex", "user"): Path(environ.get("CODEX_HOME") or home / ".codex") / "hooks.json",
        ("copilot", "project"): folder / ".github" / "hooks" / "handrail.json",
    }
    if (host, scope) not in places:
        scopes = ", ".join(f"--{other}" for other_host, other in places if other_host == host)
        raise UsageError(f"{host} reads no hooks from a file for --{scope}; there are {scopes}")
    return places[host, scope]


def hook_command(host: Host, scope: Scope) -> str:
    """What the host runs. A file that others get names the program; one of this machine says where it is."""
    program = "handrail" if scope == "project" else shlex.quote(str(Path(sys.argv[0]).absolute()))
    if scope != "project" and not os.access(sys.argv[0], os.X_OK):
        program = shlex.quote(shutil.which("handrail") or "handrail")
    return f"{program} hook {host}"


def install(file: Path, host: Host, command: str) -> bool:
    """Have the host run the hook; whether something had to be written.

    Raises:
        UsageError: The file cannot be read or written, or is not what the host would read.
    """
    before = _read(file)
    after = _with_hook(_without_hook(before, host, file), host, command, file)
    if after == before:
        return False
    _write(file, after)
    return True


def uninstall(file: Path, host: Host) -> bool:
    """Take the hook out, and leave everything else; whether it was there.

    Raises:
        UsageError: The file cannot be read or written, or is not what the host would read.
    """
    before = _read(file)
    after = _without_hook(before, host, file)
    if after == before:
        return False
    if after in ({}, {"version": 1}):
        file.unlink()
    else:
        _write(file, after)
    return True


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{str(file)!r} cannot be read ({error}); nothing was changed") from error
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{str(file)!r} is not JSON ({error}), so the agent does not read it either; correct it, then try again."
            " Nothing was changed"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"{str(file)!r} does not contain a JSON object; nothing was changed")
    return found


def _write(file: Path, content: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        backup = file.with_name(file.name + BACKUP)
        if file.exists() and not backup.exists():
            shutil.copy2(file, backup)
        mode = file.stat().st_mode & 0o777 if file.exists() else None
        write_atomically(file, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
        if mode is not None:
            file.chmod(mode)
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}") from error


def _groups(content: dict[str, Any], event: str, file: Path) -> list[Any]:
    hooks = content.get("hooks", {})
    groups = hooks.get(event, []) if isinstance(hooks, dict) else None
    if not isinstance(groups, list):
        raise UsageError(f"{str(file)!r}: 'hooks' is not what the agent expects there; correct it, then try again")
    return groups


def _is_ours(entry: Any, host: Host) -> bool:
    command = entry.get("command", entry.get("bash")) if isinstance(entry, dict) else None
    return isinstance(command, str) and command.split()[-2:] == ["hook", host] and "handrail" in command


def _without_hook(content: dict[str, Any], host: Host, file: Path) -> dict[str, Any]:
    if "hooks" not in content:
        return content
    left: dict[str, Any] = dict(content["hooks"]) if isinstance(content["hooks"], dict) else {}
    for event in _EVENTS[host]:
        groups = _groups(content, event, file)
        kept = [group for group in (_without_our_entry(group, host) for group in groups) if group is not None]
        if kept:
            left[event] = kept
        elif event in left:
            del left[event]
    rest = {key: value for key, value in content.items() if key != "hooks"}
    return {**rest, "hooks": left} if left else rest


def _without_our_entry(group: Any, host: Host) -> Any:
    """A group without our entry; None if nothing else is in it."""
    if host == "copilot":
        return None if _is_ours(group, host) else group
    entries = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(entries, list) or not any(_is_ours(entry, host) for entry in entries):
        return group
    others = [entry for entry in entries if not _is_ours(entry, host)]
    return {**group, "hooks": others} if others else None


def _with_hook(content: dict[str, Any], host: Host, command: str, file: Path) -> dict[str, Any]:
    hooks = dict(content.get("hooks", {}))
    for event in _EVENTS[host]:
        hooks[event] = [*_groups(content, event, file), _group(host, event, command)]
    version = {"version": 1} if host == "copilot" else {}
    return {**version, **content, "hooks": hooks}


def _group(host: Host, event: str, command: str) -> dict[str, Any]:
    if host == "copilot":
        return {"type": "command", "bash": command, "powershell": command, "timeoutSec": _SECONDS}
    entry = {"type": "command", "command": command, "timeout": _SECONDS}
    return {"matcher": "*", "hooks": [entry]} if event in _MATCHED else {"hooks": [entry]}
