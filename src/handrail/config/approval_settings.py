"""The table `[approvals]` of a file: who is told of a call that waits for a person, and where they can answer.

webhook    where a question is posted: an address, or "env:NAME" of the variable that holds it
secret     "env:NAME": what the post is signed with
address    where people reach `handrail serve` of this configuration; links in the post lead there
expires    seconds in which such a link is good
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from handrail.config.setting_kinds import SECONDS, SECRET, TEXT, Kinds, stated
from handrail.config.variables import KEY, secret_variable
from handrail.http.address import HttpAddress
from handrail.tools.files.toml_table import TomlTable

KEYS: Kinds = {"webhook": TEXT, "secret": SECRET, "address": TEXT, "expires": SECONDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    webhook: str | None = None
    secret: str | None = field(default=None, repr=False)
    """`env:NAME`. Never the secret."""
    address: str | None = None
    expires: float = 3600.0

    def webhook_url(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The address itself.

        Raises:
            ConfigError: Its variable is not set.
        """
        if self.webhook is None or not KEY.fullmatch(self.webhook):
            return self.webhook
        return secret_variable(self.webhook, "approvals.webhook", environ)

    def signing_secret(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """What posts are signed with.

        Raises:
            ConfigError: Its variable is not set.
        """
        return secret_variable(self.secret, "approvals.secret", environ)


def read_approvals(top: TomlTable) -> ApprovalSettings:
    """What a file says under `[approvals]`.

    Raises:
        ConfigError: Something in it is wrong.
    """
    table = top.table("approvals")
    if table is None:
        return ApprovalSettings()
    said = ApprovalSettings(**stated(table.only(KEYS), KEYS))
    for key, url in (("webhook", said.webhook), ("address", said.address)):
        if url is not None and not (key == "webhook" and KEY.fullmatch(url)):
            try:
                HttpAddress.of(url)
            except ValueError as error:
                raise table.error(key, f"must be an address with http:// or https://: {error}") from None
    return said
