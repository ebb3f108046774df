"""What this machine alone can tell of a picture: its size, its colours, and what is written in it."""

from __future__ import annotations

import asyncio
import io
import logging
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

from msgspec import Struct

from handrail.core.errors import BusError

LARGEST = 40_000_000
"""Pixels. More are not decoded: a small file can claim to be enormous."""
_SIDE = 2_000
"""Pixels that the longer side is made smaller to before it is read."""
_SURE = 0.5
"""Lines that the reader is less sure of are left out."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""The allowed formats of the many that Pillow knows: for some of the others it starts programs."""
_SHARE = 0.08
"""The share of the picture that a colour must have to be named."""
_COLOURS = {
    "black": (20, 20, 20),
    "white": (245, 245, 245),
    "grey": (128, 128, 128),
    "red": (205, 30, 35),
    "orange": (245, 140, 30),
    "yellow": (245, 220, 50),
    "green": (45, 140, 55),
    "blue": (35, 85, 190),
    "purple": (120, 45, 140),
    "pink": (240, 150, 180),
    "brown": (115, 70, 35),
}


class Picture(Struct, frozen=True):
    width: int
    height: int
    colours: tuple[str, ...]
    """The most common first."""
    lines: tuple[str, ...]
    """The lines from top to bottom, as they were read."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class PictureReader:
    """Reads pictures with RapidOCR, one at a time. Its network is loaded once, when the first picture comes."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="handrail-pictures")

    @staticmethod
    def missing() -> bool:
        return find_spec("rapidocr") is None or find_spec("onnxruntime") is None or find_spec("PIL") is None

    async def read(self, data: bytes) -> Picture:
        """What can be told of a picture.

        Raises:
            BusError: It is no picture, or too large (`bad_request`).
        """
        # In a thread of its own: one who no longer waits leaves the line, and takes no thread that others need.
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, data)

    def _read(self, data: bytes) -> Picture:
        image = open_picture(data)
        width, height = image.size
        image.thumbnail((_SIDE, _SIDE))
        found = self._loaded()(_pixels(image))
        lines = zip(found.txts or (), found.scores or (), strict=True)
        said = tuple(text.strip() for text, score in lines if score >= _SURE and text.strip())
        return Picture(width, height, _colours(image), said)

    def _loaded(self) -> Any:
        if self._engine is None:
            from rapidocr import RapidOCR

            logging.getLogger("RapidOCR").setLevel(logging.WARNING)
            self._engine = RapidOCR(
                params={
                    "Global.log_level": "warning",
                    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                }
            )
        return self._engine


def open_picture(data: bytes) -> Any:
    """The picture as a person sees it: the right way up, and on white where it is transparent. Its first, if it moves.

    Raises:
        BusError: It is none, or too large (`bad_request`).
    """
    from PIL import Image, ImageOps

    too_large = BusError("bad_request", f"the picture has more than {LARGEST:,} pixels; make it smaller")
    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
        if image.width * image.height > LARGEST:
            raise too_large
        upright = ImageOps.exif_transpose(image)
        return _on_white(upright) if upright.has_transparency_data else upright.convert("RGB")
    except BusError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_large from error
    except Exception as error:  # whatever a broken file makes of the library
        raise BusError(
            "bad_request", "these bytes are not a picture that can be read; send PNG, JPEG or WebP"
        ) from error


def _on_white(image: Any) -> Any:
    from PIL import Image

    seen = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen).convert("RGB")


def _pixels(image: Any) -> Any:
    """Blue first, as the network was taught."""
    import numpy

    return numpy.asarray(image)[:, :, ::-1]


def _colours(image: Any) -> tuple[str, ...]:
    small = image.resize((48, 48)).tobytes()
    counts: dict[str, int] = {}
    for pixel in zip(small[::3], small[1::3], small[2::3], strict=True):
        name = min(_COLOURS, key=lambda known: _distance(_COLOURS[known], pixel))
        counts[name] = counts.get(name, 0) + 1
    common = sorted((name for name in counts if counts[name] >= _SHARE * 48 * 48), key=lambda name: -counts[name])
    return tuple(common[:4])


def _distance(one: tuple[int, int, int], two: tuple[int, int, int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, two, strict=True))
