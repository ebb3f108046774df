"""The standing rules of one configuration file as they are now, whoever changed them."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from handrail.config.approvals import Approvals
from handrail.config.watch import WatchedFiles
from handrail.core.errors import UsageError
from handrail.execute.rules import Rule

logger = logging.getLogger(__name__)


class CurrentRules:
    """What `Approvals` keeps, read again only when its file has changed. A look costs next to nothing otherwise."""

    def __init__(self, approvals: Approvals, config: Path | None) -> None:
        self._approvals = approvals
        self._config = config
        self._watch = WatchedFiles()
        self._rules: tuple[Rule, ...] = ()
        self._looking = threading.Lock()

    def now(self) -> tuple[Rule, ...]:
        """None of them where the file cannot be read: then a person is asked."""
        with self._looking:
            if self._watch.look([self._approvals.path]):
                self._rules = self._read()
            return self._rules

    def _read(self) -> tuple[Rule, ...]:
        try:
            return tuple(map(Rule.parse, self._approvals.rules(self._config)))
        except UsageError as error:
            logger.warning("standing rules do not hold: %s", error)
            return ()
