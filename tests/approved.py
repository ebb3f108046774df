"""A person's approval of a configuration that a test wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.config.powers import powers_of
from handrail.core.errors import ConfigError


def approve(file: Path, state: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Approve the file as it is now, as `handrail approve --yes` does; one that is wrong stays as it is.

    `state` is where approvals are kept, as XDG_STATE_HOME says it; `environ` has more variables.
    """
    values = {**os.environ, **({} if state is None else {"XDG_STATE_HOME": str(state)}), **(environ or {})}
    try:
        powers = powers_of(load_config(file, values), values)
    except ConfigError:
        return file
    Approvals.here(values).approve_config(file, powers, by="the test")
    return file
