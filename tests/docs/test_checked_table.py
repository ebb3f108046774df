"""The table of what was checked says what the tests have, no more and no less."""

from __future__ import annotations

from handrail.models.services import SERVICES
from tests.wires.recording_player import recordings
from tests.wires.service_evidence import REAL_SERVERS, ROOT, service_of, sources, table, table_of_page


def test_the_table_of_what_was_checked_is_what_the_tests_have() -> None:
    assert table_of_page() == table(), "write it anew: python -m tests.wires.service_evidence"


def test_every_recording_belongs_to_a_service_and_names_its_source() -> None:
    assert {service_of(each) for each in recordings()} <= set(SERVICES)
    assert {f"{each.wire}/{each.path.name}" for each in recordings()} <= sources().keys()


def test_a_service_that_is_said_to_be_started_is_asked_by_a_test() -> None:
    for service, (test, _) in REAL_SERVERS.items():
        assert service in SERVICES
        assert ROOT.joinpath(test).is_file()
