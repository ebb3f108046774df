"""Merge the adapter into the weights of the embedded model: one Q8_0 file that answers faster than the pair.

Each weight that the adapter changes is dequantised, gets `B·A` added, and is quantised again. It is done once, by
`handrail local setup`; the result is a cached file like the weights themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
