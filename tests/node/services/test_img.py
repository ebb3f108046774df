"""`img.describe` on pictures that are drawn here, with the real reader and with a model that is told what to see."""

from __future__ import annotations

import io
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps

from handrail.core.errors import BusError, ModelUnavailable
from handrail.core.messages import Media, UserMessage
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.blobs import BlobStore
from handrail.node.services.img.ocr import PictureReader, open_picture
from handrail.node.services.img.service import ImgService
from handrail.testing.model import ScriptedModel, text

READER = PictureReader()


def drawn(*lines: str, background: str = "white", ink: str = "black") -> bytes:
    image = Image.new("RGB", (640, 60 + 60 * len(lines)), background)
    for row, line in enumerate(lines):
        ImageDraw.Draw(image).text((20, 30 + 60 * row), line, fill=ink, font=ImageFont.load_default(size=36))
    return png(image)


def png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


class Node:
    def __init__(self, folder: Path, **options: Any) -> None:
        self.blobs = BlobStore(folder)
        self.bus = CapabilityBus()
        self.bus.register_service(ImgService(self.blobs, **options))

    async def describe(self, picture: bytes, task: str = "caption", **params: Any) -> dict[str, Any]:
        cid = await self.blobs.put(picture, "image/png", "self")
        body = {"params": params, "input": {"image_cid": cid, "task": task}}
        return await self.bus.call("img.describe", (1, 0), body)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path, reader=READER)
    async with made.bus:
        yield made
    made.blobs.close()


async def test_what_is_written_in_a_picture_is_read(node: Node) -> None:
    said = await node.describe(drawn("Rainwater must be filtered", "Hinweis: nicht trinken 2026"), "ocr")

    assert said["output"]["text"] == "Rainwater must be filtered\nHinweis: nicht trinken 2026"
    assert said["meta"]["backend"] == "local"


async def test_a_caption_tells_size_colour_and_the_first_words(node: Node) -> None:
    said = await node.describe(drawn("Closed today", "Open tomorrow", background="yellow"))

    assert said["output"]["caption"] == (
        "A picture of 640 × 180 pixels, mostly yellow. It says: Closed today and more, 2 lines in all."
    )
    assert said["output"]["tags"] == ["yellow", "wide", "text"]


async def test_a_model_that_can_see_is_shown_the_picture(tmp_path: Path) -> None:
    model = ScriptedModel([text('{"caption": "A red door.", "tags": ["door"], "objects": ["door", "handle"]}')])
    node = Node(tmp_path, model=lambda: model)
    async with node.bus:
        said = await node.describe(drawn("x"), "objects")

    assert said["output"] == {"caption": "A red door.", "tags": ["door"], "objects": ["door", "handle"]}
    asked = model.requests[0].messages[0]
    assert isinstance(asked, UserMessage)
    assert [part.media_type for part in asked.content if isinstance(part, Media)] == ["image/png"]


async def test_a_model_that_keeps_to_no_form_has_still_said_something(tmp_path: Path) -> None:
    node = Node(tmp_path, model=lambda: ScriptedModel([text("A door, I think.")]))
    async with node.bus:
        said = await node.describe(drawn("x"))
    assert said["output"] == {"caption": "A door, I think.", "tags": [], "objects": []}


async def test_objects_without_a_model_are_not_implemented_and_the_answer_says_how_to_add_one(node: Node) -> None:
    with pytest.raises(BusError, match=r"not_implemented: objects need a model that can see.*\[services\] img") as seen:
        await node.describe(drawn("x"), "objects")
    assert seen.value.code == "not_implemented"


def test_a_picture_is_read_as_a_person_sees_it() -> None:
    with Image.open(io.BytesIO(drawn("Closed today"))) as plain:
        turned, facts = plain.rotate(90, expand=True), Image.Exif()
        clear = Image.new("RGBA", plain.size, (0, 0, 0, 0))
        clear.paste((0, 0, 0, 255), mask=ImageOps.invert(plain.convert("L")))
    facts[0x0112] = 6  # that the camera was held on its side
    photo = io.BytesIO()
    turned.save(photo, "JPEG", exif=facts)

    for picture in map(open_picture, (photo.getvalue(), png(clear))):
        assert (picture.size, picture.getpixel((2, 2)), picture.mode) == ((640, 120), (255, 255, 255), "RGB")


async def test_a_model_that_fails_is_an_error_without_its_words(tmp_path: Path) -> None:
    class Broken(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            raise ModelUnavailable("key-1 is wrong")
            yield

    node = Node(tmp_path, model=Broken)
    async with node.bus:
        with pytest.raises(BusError, match="failed; try again later") as seen:
            await node.describe(drawn("x"))
    assert "key-1" not in str(seen.value)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"


@pytest.mark.parametrize("broken", [b"", b"no picture", drawn("cut")[:200], b"GIF89a" + b"\xff" * 40, POSTSCRIPT])
async def test_what_is_no_picture_is_refused(node: Node, broken: bytes) -> None:
    with pytest.raises(BusError, match="not a picture that can be read") as seen:
        await node.describe(broken)
    assert seen.value.code == "bad_request"


async def test_a_small_file_that_claims_to_be_enormous_is_not_decoded(node: Node) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = (60_000).to_bytes(4, "big")
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + size + b"\x08\x02\x00\x00\x00")
    bomb += chunk(b"IDAT", zlib.compress(b"\0" * 1_000)) + chunk(b"IEND", b"")
    with pytest.raises(BusError, match="more than 40,000,000 pixels") as seen:
        await node.describe(bomb)
    assert seen.value.code == "bad_request"


async def test_a_picture_of_somebody_else_is_not_there(node: Node) -> None:
    cid = await node.blobs.put(drawn("mine"), "image/png", "somebody")
    with pytest.raises(BusError) as seen:
        await node.bus.call("img.describe", (1, 0), {"input": {"image_cid": cid}})
    assert seen.value.code == "not_found"
