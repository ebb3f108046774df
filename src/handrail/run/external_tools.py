"""Tools that whoever asks runs: they are offered beside those of the executor, and no call of one is settled here."""

from __future__ import annotations

from handrail.core.messages import InvocationMessage
from handrail.core.model_request import ToolOffer
from handrail.run.offering import TurnOffer


class ExternalTools:
    """Those of one run; mostly none."""

    def __init__(self, offers: tuple[ToolOffer, ...]) -> None:
        self._offers = offers
        self.names = dict.fromkeys(offer.name for offer in offers)
        """Of tools that are not run here, whatever else goes by them."""
        self._joined: tuple[TurnOffer, tuple[ToolOffer, ...]] | None = None

    def beside(self, shown: TurnOffer) -> tuple[ToolOffer, ...]:
        """What is offered with them: the same object as long as it is the same."""
        if not self._offers:
            return shown.tools
        if self._joined is None or self._joined[0] is not shown:
            self._joined = shown, (*shown.tools, *self._offers)
        return self._joined[1]

    def left_here(self, calls: tuple[InvocationMessage, ...]) -> tuple[InvocationMessage, ...]:
        """Those of the calls that the executor settles."""
        return tuple(each for each in calls if each.call.name not in self.names) if self.names else calls
