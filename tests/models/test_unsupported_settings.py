"""Settings that a model does not take: told, and not sent."""

from __future__ import annotations

import msgspec
import pytest

from handrail.core.model_request import ModelRequest
from handrail.models.codec import Codec
from handrail.models.profiles import Profile
from tests.hostile.reply_corpus import WireName
from tests.hostile.reply_outcomes import CODECS
from tests.models.reply_rounds import asked

ASKED = asked(temperature=0.625, top_p=0.875, stop=("ENOUGH",), seed=4711)
SENT = ("0.625", "0.875", "ENOUGH", "4711")
WITHOUT_SEED = ("anthropic", "openai_responses", "bedrock")
WITHOUT_STOP = ("openai_responses",)


def said(wire: WireName, profile: Profile, request: ModelRequest = ASKED) -> tuple[set[str], int]:
    """Which of the settings are in the request, and how many notices it has."""
    codec: Codec = CODECS[wire](profile=profile)
    encoded = codec.encode(request, "m", stream=True)
    text = msgspec.json.encode(encoded.body).decode()
    return {each for each in SENT if each in text}, len(encoded.notices)


@pytest.mark.parametrize("wire", CODECS)
def test_what_a_model_does_not_take_is_told_and_not_sent(wire: WireName) -> None:
    assert said(wire, Profile(sampling=False, stop=False, seed_field="")) == (set(), 4)


@pytest.mark.parametrize("wire", CODECS)
def test_what_it_takes_is_sent(wire: WireName) -> None:
    missing = {"4711" for name in WITHOUT_SEED if name == wire} | {"ENOUGH" for name in WITHOUT_STOP if name == wire}
    seed = "" if wire in WITHOUT_SEED else "seed"
    assert said(wire, Profile(seed_field=seed)) == ({*SENT} - missing, len(missing))
