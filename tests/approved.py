"""A person's approval of a configuration that a test wrote."""

from __future__ import annotations

import os
from pathlib import Path

from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.config.powers import powers_of
from handrail.core.errors import ConfigError


def approve(file: Path, state: Path | None = None, **environ: str) -> Path:
    """Approve the file as it is now, as `handrail approve --yes` does; one that is wrong stays as it is.

    `state` is where approvals are kept, as XDG_STATE_HOME says it.
    """
    values = {**os.environ, **({} if state is None else {"XDG_STATE_HOME": str(state)}), **environ}
    try:
        powers = powers_of(load_config(file, values), values)
    except ConfigError:
        return file
    Approvals.here(values).approve_config(file, powers, by="the test")
    return file
