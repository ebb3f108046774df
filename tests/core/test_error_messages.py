"""What errors say: to a model, what went wrong; to a programmer, what to do."""

from __future__ import annotations

import pytest

from handrail.core import errors
from handrail.core.errors import (
    OUTCOMES,
    BrokenProof,
    BusError,
    ConfigError,
    DuplicateTool,
    InvalidArguments,
    InvalidOutput,
    InvalidSchema,
    LeaseHeld,
    LimitExceeded,
    MissingExtra,
    NeedsConfirmation,
    RegistryFrozen,
    ToolError,
    UnknownTool,
    describe_exception,
)
from handrail.core.installation import install_command


def all_of(error: type[ToolError]) -> list[type[ToolError]]:
    ours = [child for child in error.__subclasses__() if child.__module__ == errors.__name__]
    return ours + [deeper for child in ours for deeper in all_of(child)]


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (("NOT_FOUND", "no such city"), "NOT_FOUND", "no such city"),
        (("requires_confirmation",), "requires_confirmation", "requires_confirmation"),
        (("no such city",), "failed", "no such city"),
        (("weird: code", "a message"), "weird: code", "a message"),
        (("",), "failed", "failed"),
        (("TIMEOUT", ""), "TIMEOUT", "TIMEOUT"),
    ],
)
def test_a_tool_error_has_a_code_and_a_message(given: tuple[str, ...], code: str, message: str) -> None:
    error = ToolError(*given)

    assert (error.code, error.message, error.outcome) == (code, message, "failed")
    assert str(error) == message


def test_every_refusal_has_its_outcome_for_a_code() -> None:
    for kind in all_of(ToolError):
        if "__init__" not in vars(kind) and not kind.__name__.startswith("_"):
            error = kind("words")
            assert (error.code, error.message) == (error.outcome, "words")


def test_every_outcome_but_ok_has_an_error_of_its_own() -> None:
    found = {ToolError.outcome} | {kind.outcome for kind in all_of(ToolError)}

    assert found == set(OUTCOMES) - {"ok"}


def test_a_model_reads_which_names_are_near() -> None:
    error = UnknownTool("ad", ["add", "adder"])

    assert str(error) == "Tool 'ad' not found; did you mean 'add', 'adder'?"
    assert (error.name, error.near) == ("ad", ("add", "adder"))
    assert str(UnknownTool("ad")) == "Tool 'ad' not found"


def test_invalid_arguments_begin_with_their_code_and_name_every_problem() -> None:
    error = InvalidArguments(["a: expected an integer", "b: is missing"])

    assert str(error) == "invalid_arguments: a: expected an integer; b: is missing"
    assert error.problems == ("a: expected an integer", "b: is missing")
    assert InvalidArguments("one").problems == ("one",)


def test_an_invalid_output_says_that_the_tool_ran() -> None:
    error = InvalidOutput("it is a generator")

    assert error.code == "invalid_output"
    assert error.outcome == "failed"
    assert str(error).startswith("the tool ran")


def test_a_programmer_reads_what_to_do() -> None:
    words = [
        str(DuplicateTool("read")),
        str(DuplicateTool("read-file", "read_file")),
        str(RegistryFrozen("read")),
        str(MissingExtra("the terminal program", "cli")),
        str(LeaseHeld("run_1", "process 7")),
    ]

    assert words == [
        "tool 'read' is already registered; rename one, or give its group a prefix",
        "tool 'read-file' is too like 'read_file', which is registered; rename one, or give its group a prefix",
        "cannot register 'read': the registry is frozen; register every tool before freeze()",
        f"the terminal program needs an extra that is not installed; run: {install_command('cli')}",
        "run 'run_1' is in use by process 7; wait for it to end, or resume it there",
    ]


def test_errors_carry_their_parts() -> None:
    assert (DuplicateTool("a").name, DuplicateTool("a").taken, DuplicateTool("a", "b").taken) == ("a", "a", "b")
    assert (InvalidSchema("x", "y").where, InvalidSchema("x", "y").why) == ("x", "y")
    assert (BrokenProof(3, "w").index, BrokenProof(None, "w").why) == (3, "w")
    assert (LimitExceeded("turns", 6).limit, LimitExceeded("turns", 6).value) == ("turns", 6)
    assert NeedsConfirmation("post", "confirm_1").request == "confirm_1"


def test_a_mistake_in_a_file_begins_with_its_place() -> None:
    assert str(ConfigError("is no number", file="a.toml", key="timeout", line=3)) == "a.toml:3: timeout: is no number"
    assert str(ConfigError("cannot be read", file="a.toml")) == "a.toml: cannot be read"


def test_an_exception_is_described_by_its_type_and_its_text() -> None:
    assert describe_exception(ValueError("too big")) == "ValueError: too big"
    assert describe_exception(KeyError()) == "KeyError"


@pytest.mark.parametrize("said", [{"code": "x"}, {"self": 1}, {"details": {}}, {"outcome": ["ok"]}, {"an odd key": 1}])
def test_whatever_another_node_says_of_an_error_is_one(said: dict[str, object]) -> None:
    error = BusError.from_dict({"error": "timeout", "message": "late", **said})
    assert (error.code, error.message, error.outcome) == ("timeout", "late", "failed")
    assert error.details == {key: value for key, value in said.items() if key != "outcome"}


def test_what_looks_like_a_secret_is_in_no_words_for_others() -> None:
    key = "sk-0123456789abcdefABCDEF0123456789"

    wrong = InvalidArguments([f"n: expected integer, got {key!r}"])
    told = BusError("bad_request", f"got {key}", problems=[f"got {key}"]).to_dict()

    assert key not in f"{wrong} {wrong.problems} {told}"
    assert "n: expected integer" in str(wrong)
