"""handrail.toml: what it may say, how it is read, and what a person approved of it.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.config.load import find_config as find_config, load_config as load_config, read_config as read_config

export_lazily(
    __name__,
    {
        "handrail.config.load": "find_config load_config read_config",
    },
)
