"""What the embedded model says after a tool result: only what the result and the question say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.errors import OUTCOMES, Outcome
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage, Text, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.local.answers.answer_rule import answer_about_tools, answer_rule_applies, bound_answer
from handrail.models.local.answers.claims import AnswerEvidence, stated_tokens
from tests.models.local.dialogue_judge import invented

STOCK = ToolOffer("check_stock", "Check how many pieces of an item are in stock.", {"type": "object"})
ORDER = ToolOffer("place_order", "Order an item for the customer.", {"type": "object"})


def after(said: str, *results: tuple[str, dict[str, Any], Any], outcome: Outcome = "ok") -> ModelRequest:
    """What is asked of the model once these tools have returned that."""
    messages: list[Message] = [UserMessage((Text(said),))]
    for number, (tool, arguments, content) in enumerate(results):
        messages.append(InvocationMessage(ToolCall(f"c{number}", tool, arguments)))
        error = None if outcome == "ok" else Problem(outcome, str(content))
        messages.append(ResultMessage(ToolResult(f"c{number}", tool, content, outcome=outcome, error=error)))
    return ModelRequest(messages=tuple(messages), tools=(STOCK, ORDER))


UMBRELLAS = after(
    "How many umbrellas are in stock?", ("check_stock", {"item": "umbrella"}, {"item": "umbrella", "in_stock": 12})
)
EUROS = after(
    "How much is 250 euros in dollars?",
    ("convert_currency", {"amount": 250, "from_currency": "EUR", "to_currency": "USD"}, 270.0),
)
INVOICE = after("When is invoice 12 due?", ("due_date", {"invoice": 12}, {"due": "2026-03-13"}))
RATE = after("What is the rate?", ("vat_rate", {}, {"rate": "19%"}))
LATE = after("Is my order late?", ("order_status", {}, {"days": 2}))
OLDER = after("Who is older, Anna or Bob?", ("find_age", {"name": "Anna"}, {"age": 33}))
LISBON = after(
    "What is the weather in Lisbon?",
    ("get_weather", {"location": "Lisbon"}, {"location": "Lisbon", "temperature": 21, "unit": "celsius"}),
)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (UMBRELLAS, "There are 12 umbrellas in stock."),
        (LISBON, "Lisbon: 21 degrees, Celsius."),
        (LISBON, "The temperature in Lisbon is 21 degrees."),
        (EUROS, "250 euros is 270.0 dollars."),
        (EUROS, "250 euros is 270 dollars."),
        (INVOICE, "Invoice 12 is due on 2026-03-13."),
        (RATE, "The rate is 19%."),
    ],
)
def test_a_sentence_that_reports_the_one_new_value_in_known_words_is_kept(
    request_: ModelRequest, sentence: str
) -> None:
    assert bound_answer(request_, sentence).text == sentence


@pytest.mark.parametrize(
    ("request_", "sentence", "said"),
    [
        (UMBRELLAS, "There are 13 umbrellas in stock.", "Item: umbrella, in stock: 12."),
        (UMBRELLAS, "There are 12 umbrellas and 3 boots in stock.", "Item: umbrella, in stock: 12."),
        (UMBRELLAS, "There are not 12 umbrellas in stock.", "Item: umbrella, in stock: 12."),
        (UMBRELLAS, "There are twelve umbrellas in Berlin in stock.", "Item: umbrella, in stock: 12."),
        (UMBRELLAS, "All umbrellas are in stock.", "Item: umbrella, in stock: 12."),
        (LISBON, "Lisbon is sunny: 21 degrees.", "Location: Lisbon, temperature: 21, unit: celsius."),
        (LISBON, "It is 21 degrees in Lisbon today.", "Location: Lisbon, temperature: 21, unit: celsius."),
        (EUROS, "270.0 euros are 270.0 dollars.", "The result of convert currency (250, EUR, USD) is 270.0."),
        (EUROS, "270.0 euros are 250 dollars.", "The result of convert currency (250, EUR, USD) is 270.0."),
        (EUROS, "1.0 euros is 1.08 dollars.", "The result of convert currency (250, EUR, USD) is 270.0."),
        (EUROS, "It is 270.0 degrees.", "The result of convert currency (250, EUR, USD) is 270.0."),
        (INVOICE, "Invoice 2026-03-13 is due.", "Due: 2026-03-13."),
        (INVOICE, "", "Due: 2026-03-13."),
        (UMBRELLAS, "The umbrella costs 12.", "Item: umbrella, in stock: 12."),
        (RATE, "The rate is 19.", "Rate: 19%."),
        (RATE, "The rate is $19.", "Rate: 19%."),
        (LATE, "Your order is 2 days late.", "Days: 2."),
        (OLDER, "Bob is older: 33.", "Age: 33."),
    ],
)
def test_any_other_sentence_gives_way_to_the_result_itself(request_: ModelRequest, sentence: str, said: str) -> None:
    assert bound_answer(request_, sentence).text == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("order 1 is placed: 2 x umbrella", "order 1 is placed: 2 x umbrella"),
        ("iPhone 15 is ordered for you", "iPhone 15 is ordered for you"),
        ("Done.", "Done."),
        ("1,000.50 EUR", "The result of place order (umbrella, 2) is 1,000.50 EUR."),
        ("-5 %", "The result of place order (umbrella, 2) is -5 %."),
        ("/srv/my file.txt", "The result of place order (umbrella, 2) is /srv/my file.txt."),
        ('{"order": 7, "price": 1.10}', "Order: 7, price: 1.10."),
        ("[not json]", "The result of place order (umbrella, 2) is [not json]."),
        ("a1b2", "The result of place order (umbrella, 2) is a1b2."),
        (True, "The result of place order (umbrella, 2) is yes."),
        (None, "Place order (umbrella, 2) is done; it returned nothing."),
        ([], "Nothing was found."),
        ({}, "Place order (umbrella, 2) is done; it returned nothing."),
        (["a.csv", "b.csv"], "The result of place order (umbrella, 2) is a.csv and b.csv."),
        (["Ends.", "Here."], "Place order (umbrella, 2):\n- Ends.\n- Here."),
        ([{"train": "ICE 704", "price": 49.9}], "Place order (umbrella, 2):\n- train: ICE 704, price: 49.9"),
        ({"a.csv": 3, "b_c.csv": 4}, "a.csv: 3, b_c.csv: 4."),
        ({"08:15": "ICE 704"}, "08:15: ICE 704."),
        ({"discount": "12%"}, "Discount: 12%."),
        ({"items": [], "total": 0}, "Items: none, total: 0."),
        ({"name": "Ann", "address": "Main St 5, Kiel"}, "- name: Ann\n- address: Main St 5, Kiel"),
        ({"title": "Shopping", "text": "Milk.\n<b>Eva</b>"}, "- title: Shopping\n- text:\n  Milk.\n  <b>Eva</b>"),
        ({"text": "x" * 300}, f"- text: {'x' * 300}"),
        ("x" * 4003, f"{'x' * 4000}\n(… and 3 more characters in the result)"),
        ("[" * 99 + "1" + "]" * 99, "Place order (umbrella, 2):\n" + "- " * 98 + "1"),
        ("[" * 300 + "]" * 300, "The result of place order (umbrella, 2) is " + "[" * 300 + "]" * 300 + "."),
        (["two\nlines", "one"], "Place order (umbrella, 2):\n- two\n  lines\n- one"),
        ({"rows": [{"a": 1, "b": None}]}, "- rows:\n  - a: 1, b: none"),
        (
            {"name": "Ann", "address": {"city": "Kiel", "zip": "24103"}},
            "- name: Ann\n- address: city: Kiel, zip: 24103",
        ),
        ([[1, 2], [3]], "Place order (umbrella, 2):\n- 1 and 2\n- 3"),
        ("two\nlines", "two\nlines"),
        ({"left": None, "ok": False}, "Left: none, ok: no."),
    ],
)
def test_every_kind_of_result_is_rendered_with_its_own_values(content: Any, said: str) -> None:
    request = after("Order 2 umbrellas.", ("place_order", {"item": "umbrella", "quantity": 2}, content))
    assert bound_answer(request, "I ordered 99 boots for Bob.").text == said


def test_several_results_are_listed_with_the_call_of_each() -> None:
    request = after(
        "How warm is it in the kitchen and in the cellar?",
        ("get_temperature", {"room": "kitchen"}, 21.5),
        ("get_temperature", {"room": "cellar"}, {"degrees": 12}),
    )
    assert bound_answer(request, "It is 21.5 and 12 degrees.").text == (
        "- get temperature (kitchen): 21.5\n- get temperature (cellar): degrees: 12"
    )


def test_a_person_who_asks_in_german_is_answered_in_german() -> None:
    request = after("Wie viel sind 250 Euro in Dollar?", ("convert_currency", {"amount": 250}, 270.0))
    assert bound_answer(request, "").text == "Das Ergebnis von convert currency (250) ist 270.0."
    denied = after("Bestelle 5 Schals.", ("place_order", {"item": "Schal"}, "no"), outcome="denied")
    assert bound_answer(denied, "Bestellt!").text == "Place order (Schal) wurde nicht ausgeführt: Es wurde abgelehnt."


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome != "ok"])
def test_a_call_that_did_not_work_is_never_told_as_done(outcome: Outcome) -> None:
    request = after("Order 2 umbrellas.", ("place_order", {"item": "umbrella"}, "out of reach"), outcome=outcome)
    said = bound_answer(request, "I ordered 2 umbrellas.").text
    assert "ordered" not in said
    assert any(word in said for word in ("not", "cancelled", "Nobody knows"))


def test_an_error_without_a_message_is_a_whole_sentence() -> None:
    request = after("Order 2 umbrellas.", ("place_order", {"item": "umbrella"}, ""), outcome="failed")
    assert bound_answer(request, "").text == "Place order (umbrella) did not work."


def test_of_the_arguments_of_a_call_only_short_ones_are_repeated_whole() -> None:
    text = "Dear Bob,\n" + "thank you. " * 20
    request = after("Write to Bob.", ("shop:send_mail", {"to": "Bob", "urgent": True, "text": text}, None))
    said = "Send mail (Bob, Dear Bob, thank you. thank you. thank yo…) is done; it returned nothing."
    assert bound_answer(request, "").text == said


@pytest.mark.parametrize(
    "said",
    (
        *("What can you do?", "Was kannst du?", "help", "Which tools do you have?", "Wobei kannst du mir helfen?"),
        *("Can you help me?", "Kannst du mir helfen?", "Hallo, was kannst du?", "Welche Werkzeuge gibt es?"),
        *("What tools are available?", "Was machst du?", "Show me your tools, please."),
    ),
)
def test_asked_what_it_can_do_it_names_its_tools(said: str) -> None:
    answer = answer_about_tools(ModelRequest(messages=(UserMessage((Text(said),)),), tools=(STOCK, ORDER)))
    assert answer is not None
    assert "check stock: Check how many pieces" in answer.text
    assert "place order" in answer.text


@pytest.mark.parametrize(
    "said",
    [
        "What can you tell me about Lisbon?",
        "Help me order boots",
        "Was kannst du über Wien sagen?",
        "Can you help Bob?",
    ],
)
def test_a_question_that_only_begins_like_that_is_put_to_the_model(said: str) -> None:
    assert answer_about_tools(ModelRequest(messages=(UserMessage((Text(said),)),), tools=(STOCK,))) is None


def test_small_talk_is_left_as_it_is() -> None:
    request = ModelRequest(messages=(UserMessage((Text("Thanks, that is all."),)),), tools=(STOCK,))
    for words in (
        *("You're welcome. Have a nice day!", "Glad I could help.", "Gern. Einen schönen Tag noch!"),
        *("Hello! How can I help you today?", "Hallo! Wie kann ich dir heute helfen?", "Auf Wiedersehen!"),
        *("Ich habe keinen Namen, nenn mich einfach Assistent.", "I'm sorry, I don't have a tool for that."),
        *("Ich bin ein Assistent und kann die Werkzeuge nutzen, die ich habe.", "Dafür habe ich leider kein Werkzeug."),
        *(
            "I'm an assistant. I can answer and use the tools that I was given.",
            "Danke, gut! Was kann ich für dich tun?",
        ),
    ):
        assert bound_answer(request, words).text == words


def test_a_number_or_a_name_that_nobody_said_is_not_repeated_to_the_person() -> None:
    request = ModelRequest(messages=(UserMessage((Text("Who wrote Faust?"),)),), tools=(STOCK,))
    for words in (
        *("It was written by Schiller.", "Faust has 12 acts.", "It comes out on Friday.", "It costs twenty."),
        *("It is sold today.", 'A: "A: "B: "C: "'),
    ):
        answer = bound_answer(request, words)
        assert answer.dropped
        assert answer.text.startswith("I cannot answer that. I can use these tools:\n- check stock: Check how many")


@pytest.mark.parametrize(
    "words",
    (
        *("I ordered 2 umbrellas.", "The order for 2 umbrellas was placed.", "Order placed.", "Done.", "It is done."),
        *("Ich habe 2 umbrellas bestellt.", "Die Order ist aufgegeben.", "Erledigt!"),
    ),
)
def test_without_a_call_nothing_is_said_to_be_done(words: str) -> None:
    asked = UserMessage((Text("Order 2 umbrellas."),))
    answer = bound_answer(ModelRequest(messages=(asked,), tools=(ORDER,)), words)
    assert answer.dropped
    assert answer.text.startswith("I cannot answer that. I can use these tools:\n- place order")
    assert bound_answer(ModelRequest(messages=(asked,)), words).text == "I cannot answer that."


def test_asked_about_a_call_that_was_denied_it_says_that_it_was_not_done() -> None:
    denied = after("Order 1 boot.", ("place_order", {"item": "boot"}, "no"), outcome="denied")
    messages = (*denied.messages, AssistantMessage("No."), UserMessage((Text("Did you order the boot?"),)))
    said = bound_answer(ModelRequest(messages=messages, tools=(ORDER,)), "Yes, I ordered the boot.").text
    assert said == "Place order (boot) was not done: it was denied."


def test_a_question_that_shows_no_language_is_answered_in_that_of_the_conversation() -> None:
    german = after("Wie viel sind 250 Euro in Dollar?", ("convert_currency", {"amount": 250}, 270.0))
    more = after("300 Euro?", ("convert_currency", {"amount": 300}, 324.0))
    request = ModelRequest(messages=(*german.messages, AssistantMessage("270"), *more.messages), tools=(STOCK,))
    assert bound_answer(request, "").text == "Das Ergebnis von convert currency (300) ist 324.0."


def test_words_about_an_earlier_result_give_way_to_that_result() -> None:
    messages = (
        *UMBRELLAS.messages,
        AssistantMessage("There are 12."),
        UserMessage((Text("How many was that again?"),)),
    )
    request = ModelRequest(messages=messages, tools=(STOCK,))
    for words in ("There are 12 boots.", "12."):
        assert bound_answer(request, words).text == "Item: umbrella, in stock: 12."


def test_the_rule_leaves_plain_chat_and_structured_replies_alone() -> None:
    asked = (UserMessage((Text("Who wrote Faust?"),)),)
    assert not answer_rule_applies(ModelRequest(messages=asked))
    assert not answer_rule_applies(ModelRequest(messages=asked, tools=(STOCK,), response_schema={"type": "object"}))
    assert answer_rule_applies(ModelRequest(messages=asked, tools=(STOCK,)))


WORDS = st.sampled_from(
    (
        *("Anna", "Berlin", "boots", "12", "12.0", "-4", "1,250.5", "08:06", "2026-03-13", "Friday", "is", "are"),
        *("umbrella", "stock", "Order", "seven", "zwölf", "Müller", "3", "degrees", "in", "on", "to", "ICE", "not"),
    )
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=9).map(lambda words: " ".join(words) + ".")
SCALARS = st.one_of(
    WORDS, st.integers(-999, 999), st.floats(-99, 99).map(lambda x: round(x, 2)), st.booleans(), st.none()
)
CONTENTS = st.recursive(
    SCALARS | SENTENCES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["item", "price", "left_over"]), inner),
    max_leaves=8,
)


@given(question=SENTENCES, results=st.lists(CONTENTS, max_size=3), written=SENTENCES, earlier=st.booleans())
def test_whatever_the_model_writes_nothing_is_stated_that_is_in_no_result_and_no_question(
    question: str, results: list[Any], written: str, earlier: bool
) -> None:
    request = after(question, *[("check_stock", {"item": "umbrella"}, content) for content in results])
    if earlier:
        request = ModelRequest(
            messages=(*request.messages, AssistantMessage("Yes."), UserMessage((Text("And then?"),))),
            tools=request.tools,
        )
    evidence = [str(message.result.content) for message in request.messages if isinstance(message, ResultMessage)]
    said = [message.text for message in request.messages if isinstance(message, UserMessage)]
    tools = [f"{tool.name} {tool.description} umbrella".replace("_", " ") for tool in request.tools]
    answer = bound_answer(request, written).text
    assert (invented(answer, " ".join([*evidence, *said, *tools])), answer) == ((), answer)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("There are 12 left on Friday.", ["12", "Friday"]),
        ("You can ask Anna Weiss today.", ["Anna", "Weiss", "today"]),
        ("Anna Weiss can help.", ["Anna", "Weiss"]),
        ("You may try it again.", []),
        ("It is -4 at 08:06.", ["-4", "08:06"]),
        ("I ordered two boots.", ["two"]),
    ],
)
def test_numbers_names_and_dates_of_a_text_are_found(text: str, found: list[str]) -> None:
    assert list(stated_tokens(text)) == found


@pytest.mark.parametrize("spelling", ["270", "270.0", "270,00", "+270"])
def test_a_number_is_known_in_every_spelling(spelling: str) -> None:
    assert AnswerEvidence(["the sum is 270.00 dollars"]).has(spelling)
    assert not AnswerEvidence(["the sum is -270 dollars"]).has(spelling)
