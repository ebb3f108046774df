"""How this copy of handrail was installed, and so which line adds an extra to it.

Pip writes `direct_url.json` beside the metadata of whatever it installed from a folder, a file or a repository. Without
it, the package came from an index, and an index can be asked again.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGE = "handrail"
_OWN_PACKAGES = {"local": "handrail-local", "all": "handrail-local"}
"""The packages of our own that an extra needs. In a checkout they are folders beside it, and on an index packages."""


def install_command(*extras: str, shows_folder: bool = True) -> str:
    """The line for a shell that adds extras to this copy of handrail.

    Args:
        shows_folder: Whether the line goes to the checkout's folder first, and names this Python where the shell finds
            another one's pip. What is said to another machine leaves out where files lie on this one.
    """
    install = _installer() if shows_folder else "pip install"
    wanted = f"[{','.join(extras)}]"
    own = sorted({_OWN_PACKAGES[extra] for extra in extras if extra in _OWN_PACKAGES})
    origin = _direct_url()
    if (checkout := _checkout(origin)) is not None:
        parts = [f"'./packages/{name}'" for name in own if (checkout / "packages" / name).is_dir()]
        # An editable copy stays editable.
        flag = "-e " if _is_editable(origin) else ""
        line = " ".join((install, *(flag + part for part in (*parts, f"'.{wanted}'"))))
        return f"cd {shlex.quote(str(checkout))} && {line}" if shows_folder else line
    if (repository := _repository(origin)) is not None:
        parts = [f"'{name} @ {repository}#subdirectory=packages/{name}'" for name in own]
        return " ".join((install, *parts, f"'{PACKAGE}{wanted} @ {repository}'"))
    if shows_folder and (wheels := _wheels(origin)) is not None:
        return f"{install} --find-links {shlex.quote(str(wheels))} '{PACKAGE}{wanted}'"
    return f"{install} '{PACKAGE}{wanted}'"


def _installer() -> str:
    """What installs into this very environment: the pip that the shell finds may be another Python's, as long as the
    environment is not activated."""
    import shutil
    from importlib.util import find_spec

    here, found = Path(sys.executable), shutil.which("pip")
    if found is not None and Path(found).parent.resolve() == here.parent.resolve():
        return "pip install"
    if find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip install --python {shlex.quote(str(here))}"
    return f"{shlex.quote(str(here))} -m pip install"


def _direct_url() -> dict[str, Any] | None:
    """What pip noted of where it took the package from; an empty dict if it came from an index; None if pip never
    installed it."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    try:
        noted = json.loads(text or "{}")
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _checkout(origin: dict[str, Any] | None) -> Path | None:
    """The folder with our sources that this copy was installed from, or runs in, if it is still there."""
    if origin is None:
        folder: Path | None = Path(__file__).resolve().parents[3]
    else:
        folder = _local_path(origin) if "dir_info" in origin else None
    return folder if folder is not None and (folder / "pyproject.toml").is_file() else None


def _is_editable(origin: dict[str, Any] | None) -> bool:
    noted = (origin or {}).get("dir_info")
    return isinstance(noted, dict) and noted.get("editable") is True


def _repository(origin: dict[str, Any] | None) -> str | None:
    """The address of the repository as pip reads it, at the commit that is installed."""
    noted = (origin or {}).get("vcs_info")
    url = (origin or {}).get("url")
    if not isinstance(noted, dict) or not isinstance(url, str) or "'" in url:
        return None
    at = noted.get("commit_id")
    return f"{noted.get('vcs', 'git')}+{url}" + (f"@{at}" if isinstance(at, str) else "")


def _wheels(origin: dict[str, Any] | None) -> Path | None:
    """The folder of the wheel or archive that this copy was installed from, if it is still there."""
    path = _local_path(origin or {}) if "archive_info" in (origin or {}) else None
    return path.parent if path is not None and path.is_file() else None


def _local_path(origin: dict[str, Any]) -> Path | None:
    url = origin.get("url")
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path))
