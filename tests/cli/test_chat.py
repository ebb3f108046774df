"""`handrail chat`: turns, commands, a person's word, and Ctrl-C that ends a turn only."""

from __future__ import annotations

import re
from pathlib import Path

from handrail.cli.chat.slash_commands import COMMANDS
from handrail.sessions.store.conversations import ConversationStore
from tests.cli.journal_fixtures import Journal, lines, run
from tests.cli.pages import PAGE
from tests.cli.terminal_fixtures import WITH, configure, dialogue, lines_of, run_of
from tests.replies import HELLO as REPLY_HELLO, calls, says

HELLO = "Hello!\n"
SLOW_TO_END = '''
import asyncio

from handrail import tool


@tool(side_effects=False)
async def wait() -> str:
    """Wait, and take a while to end."""
    print("under way", flush=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        # Not from here: a Ctrl-C that comes while this runs would end it.
        asyncio.get_running_loop().call_later(0.01, lambda: print("ending", flush=True))
        await asyncio.Event().wait()
    return "waited"
'''


def chat(*typed: str) -> tuple[str, str]:
    """What is answered, and what is told beside it, when these lines are typed."""
    result = run("chat", *WITH, text="".join(f"{line}\n" for line in typed))
    assert result.exit_code == 0
    return result.stdout, result.stderr


def said_in(told: str) -> list[str]:
    """What the person said in the run, as the record has it in the end."""
    told_again = run("replay", run_of(told), "--json")
    messages: list[dict[str, object]] = []
    for event in lines(told_again):
        if event["type"] == "conversation.changed":
            messages = [*messages[: event["keep"]], *event["messages"]]
        elif event["type"] == "reply.given":
            messages += event["messages"]
        elif event["type"] == "call.settled":
            messages.append({"type": "result"})
    return ["".join(part["text"] for part in each["content"]) for each in messages if each["type"] == "user"]  # type: ignore[attr-defined]


def test_the_page_has_every_command() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| in a chat |")[2].partition("\n\n")[0]

    assert re.findall(r"/(\w+)", table) == list(COMMANDS)


def test_a_conversation_is_one_run_with_every_turn_in_it(folder: Path) -> None:
    answered, told = chat("hello", "the sum?", "/quit", "never said")

    assert answered == f"{HELLO}Let me see.\nIt is 3.\n"
    assert said_in(told) == ["hello", "the sum?"]
    (listed,) = lines(run("proof", "list", "--json"))
    assert (listed["run"], listed["state"]) == (run_of(told), "done")


def test_the_end_of_the_input_is_the_end_of_the_conversation(folder: Path) -> None:
    assert chat("hello")[0] == HELLO


def test_a_conversation_in_which_nothing_was_said_names_no_run(folder: Path) -> None:
    _, told = chat("/tools", "/quit")

    assert "run run_" not in told
    assert run("proof", "list", "--json").stdout == ""


def test_a_turn_can_be_taken_back_and_what_tools_did_stays(folder: Path) -> None:
    _, told = chat("hello", "the sum?", "/undo", "hello again")

    assert said_in(told) == ["hello", "hello again"]
    assert "Undone: the sum?" in told
    assert lines_of(folder / "added.txt") == ["1 2"]


def test_there_may_be_nothing_to_take_back(folder: Path) -> None:
    _, told = chat("/undo", "/edit")

    assert "There is nothing to undo." in told
    assert "There is nothing to change yet." in told


def test_the_last_words_can_be_said_otherwise(folder: Path) -> None:
    answered, told = chat("hello", "/edit hello, you")

    assert answered == HELLO + HELLO
    assert said_in(told) == ["hello, you"]


def test_a_message_may_have_several_lines_and_begin_with_a_slash(folder: Path) -> None:
    _, told = chat("hello\\", "there", '"""', "/hello", "you", '"""', "//hello")

    assert said_in(told) == ["hello\nthere", "/hello\nyou", "/hello"]


def test_tools_proof_and_help_are_told_beside_the_answers(folder: Path) -> None:
    answered, told = chat("the sum?", "/tools", "/proof", "/help", "/hlep")

    assert answered == "Let me see.\nIt is 3.\n"
    assert "  pay (writes): Pay someone." in told
    assert re.search(r"  \S+ add a=1 b=2: ok\n  VERIFIED: ", told)
    assert "  /undo      undo the last turn" in told
    assert "There is no /hlep; did you mean /help?" in told


def test_the_model_can_be_changed_in_the_middle(folder: Path) -> None:
    (folder / "other.toml").write_text('name = "other"\n[[reply]]\nwhen = "hello"\ntext = "Good day."\n')

    answered, told = chat("hello", "/model scripted:other.toml", "hello", "/model nothing:at-all", "hello")

    assert answered == "Hello!\nGood day.\nGood day.\n"
    assert "The model is other." in told
    assert "there is no model 'nothing:at-all'" in told


def test_a_conversation_can_be_saved(folder: Path) -> None:
    _, told = chat("hello", "/save greetings")

    store = ConversationStore(folder / ".handrail")
    (saved,) = store.list()
    assert (saved.id, saved.title) == (run_of(told), "greetings")
    assert store.load(saved.id).text == "Hello!"


def test_a_fork_in_which_nothing_was_said_yet_can_be_saved(folder: Path) -> None:
    answered, told = chat("hello", "/fork", "/save", "hello again")

    store = ConversationStore(folder / ".handrail")
    (saved,) = store.list()
    assert (answered, saved.id, saved.title) == (HELLO * 2, run_of(told), "hello")
    assert f"Saved as {saved.id} (hello) in " in told
    assert len(store.load(saved.id)) == 4


def test_a_conversation_that_was_gone_on_with_can_be_saved_as_it_is(folder: Path) -> None:
    _, told = chat("hello")

    run("chat", run_of(told), *WITH, text="/save\n")

    (saved,) = ConversationStore(folder / ".handrail").list()
    assert (saved.id, saved.title, saved.messages) == (run_of(told), "hello", 2)


def test_nothing_is_kept_beside_the_record_until_a_person_saves_it(folder: Path) -> None:
    chat("hello", "/undo", "hello again", "/fork", "hello once more")

    assert not list(ConversationStore(folder / ".handrail").list())


def test_a_fork_goes_on_in_a_run_of_its_own(folder: Path) -> None:
    _, told = chat("hello", "/fork", "hello again")

    first, second = lines(run("proof", "list", "--json"))
    assert (first["state"], second["state"]) == ("forked", "done")
    assert said_in(first["run"]) == ["hello"]
    assert said_in(second["run"]) == ["hello", "hello again"]
    assert f"Now in run {second['run']}" in told


def test_a_conversation_can_be_gone_on_with(folder: Path) -> None:
    _, told = chat("hello")

    result = run("chat", run_of(told), *WITH, text="hello again\n")

    assert result.stdout == HELLO
    assert said_in(told) == ["hello", "hello again"]


def test_a_problem_ends_the_turn_and_not_the_conversation(folder: Path) -> None:
    answered, told = chat("what?", "hello")

    assert answered == HELLO
    assert "handrail: the script has" in told


def test_from_a_pipe_a_side_effect_waits(folder: Path) -> None:
    answered, told = chat("pay her")

    assert (answered, lines_of(folder / "paid.txt")) == ("So it stands.\n", [])
    assert "handrail confirm allow" in told
    assert lines(run("proof", "list", "--json"))[0]["state"] == "waiting"


def test_on_a_terminal_a_conversation_with_a_yes_a_no_an_undo_and_an_end(folder: Path) -> None:
    configure(folder)
    code, shown = dialogue(
        ["chat"],
        ("> ", "pay her\n"),
        ("Allow it?", "y\n"),
        ("So it stands.", ""),
        ("> ", "pay again\n"),
        ("Allow it?", "n\n"),
        ("Why?", "\n"),
        ("So it stands.", ""),
        ("> ", "/undo\n"),
        ("Undone: pay again", ""),
        ("> ", "\x04"),
    )

    assert (code, lines_of(folder / "paid.txt")) == (0, ["ada 5"])
    assert "← pay denied" in shown  # as the call above it
    assert (folder / ".handrail" / "chat-history").read_text().splitlines()[-3:] == ["pay her", "pay again", "/undo"]


def test_on_a_terminal_markdown_is_rendered_and_the_tools_are_counted_as_in_the_list(folder: Path) -> None:
    (folder / "styled.toml").write_text(says("show", r"# Stock\n\nWe have **12**.\n\n- umbrellas"))
    code, shown = dialogue(
        ["chat", "-m", "scripted:styled.toml", "--tools", "talk_tools.py"],
        ("> ", "show\n"),
        ("• umbrellas", ""),
        ("> ", "\x04"),
    )

    assert code == 0
    assert "We have 12.\n" in shown and " • umbrellas\n" in shown
    assert "scripted, 4 tools." in shown
    assert len(lines(run("tools", "list", "--tools", "talk_tools.py", "--json"))) == 4


def test_on_a_terminal_ctrl_c_ends_the_turn_and_the_conversation_goes_on(folder: Path) -> None:
    code, shown = dialogue(
        ["chat", *WITH],
        ("> ", "the sum?\n"),
        ("under way", "^C"),
        ("(stopped", ""),
        ("> ", "hello\n"),
        ("Hello!", ""),
        ("> ", "/quit\n"),
        HOLD="add",
    )

    assert code == 0
    assert "/undo removes the turn" in shown


def test_on_a_terminal_a_second_ctrl_c_leaves_a_conversation_that_goes_on(folder: Path) -> None:
    (folder / "slow_tools.py").write_text(SLOW_TO_END)
    (folder / "slow.toml").write_text(calls("wait", "wait", then="Waited.") + REPLY_HELLO)
    code, shown = dialogue(
        ["chat", "-m", "scripted:slow.toml", "--tools", "slow_tools.py"],
        ("> ", "wait\n"),
        ("under way", "^C"),
        ("ending", "^C"),
        ("(stopped", ""),
        ("> ", "hello\n"),
        ("Hello!", ""),
        ("> ", "\x04"),
    )

    assert code == 0
    assert "a turn is in progress" not in shown


def test_on_a_terminal_ctrl_c_at_the_prompt_does_not_leave(folder: Path) -> None:
    code, shown = dialogue(
        ["chat", *WITH], ("> ", "^C"), ("leaves)", ""), ("> ", "hello\n"), ("Hello!", ""), ("> ", "\x04")
    )

    assert (code, "Hello!" in shown) == (0, True)
    assert shown.splitlines()[-1].startswith("run run_"), "it stands behind the prompt"


def test_the_journal_of_other_runs_is_not_disturbed(journal: Journal, folder: Path) -> None:
    chat("hello")

    assert len(lines(run("proof", "list", "--json"))) == 4
