"""The page's side of the protocol, in a real browser against a real node: frames, acks, coming back, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page

from tests.desk.page.bus_node import BusNode, bare_page
from tests.desk.page.conftest import Engine

READY = """async (token) => {
  for (const name of ["bus", "token", "words"]) Object.assign(globalThis, await import(`/page/${name}.js`));
  add(await import("/page/words/shell.js"));
  await begin((why) => { globalThis.asked = why; });
  if (token) give(token);
  globalThis.outcome = (promise) => promise.then(
    (answer) => ({answer}), ({name, code, outcome, message}) => ({name, code, outcome, message}));
}"""


@pytest.fixture(scope="module")
def served() -> Iterator[BusNode]:
    post = BusNode()
    yield post
    post.stop()


@pytest.fixture
def post(served: BusNode) -> BusNode:
    """As if nobody had called it."""
    served.works.forget()
    return served


@pytest.fixture(scope="module")
def opened(engine: Engine, served: BusNode) -> Iterator[Page]:
    stack = ExitStack()
    with engine.awake() as browser:
        page = stack.enter_context(bare_page(browser, served.url))
        page.evaluate(READY, served.token)
    yield page
    with engine.awake():
        stack.close()


@pytest.fixture
def page(browser: Browser, opened: Page, post: BusNode) -> Page:
    """As if it had called nothing."""
    opened.evaluate("() => { sockets.length = sent.length = 0; cut = false; }")
    return opened


def test_an_answer_comes_back(page: Page) -> None:
    assert page.evaluate("ask('desk.echo', {text: 'grüße ☃'})") == {"text": "grüße ☃"}


def test_a_call_says_what_the_protocol_wants_and_no_more(page: Page, post: BusNode) -> None:
    page.evaluate("ask('desk.echo', {text: 'x'})")
    (said,) = page.evaluate("sent")
    request_id = said["envelope"].pop("request_id")
    assert len(request_id) == 36
    envelope = {"capability": "desk.echo", "version": "1.0", "interactive": False, "token": post.token}
    assert said == {"type": "call", "envelope": {**envelope, "body": {"input": {"text": "x"}}}}


def test_a_large_message_of_a_page_that_has_a_token_is_read(page: Page) -> None:
    assert page.evaluate("ask('desk.echo', {text: 'ü'.repeat(45_000)}).then(({text}) => text.length)") == 45_000


def test_every_eighth_of_a_hundred_frames_is_acknowledged(page: Page) -> None:
    numbers = page.evaluate(
        "(async () => { const n = []; await stream('desk.count', {to: 100}, (e, d) => n.push(d.n)); return n; })()"
    )
    assert numbers == list(range(1, 101))
    acks = page.evaluate("sent.filter((m) => m.type === 'ack').map((m) => m.upto)")
    assert acks == list(range(8, 97, 8))
    assert page.evaluate("sockets.length") == 1


def test_a_stream_whose_socket_was_lost_is_taken_up_where_it_was(page: Page, post: BusNode) -> None:
    numbers = page.evaluate(
        """(async () => {
          const n = [];
          await stream('desk.count', {to: 40}, (e, d) => { n.push(d.n); if (d.n === 10) sockets.at(-1).close(); });
          return n;
        })()"""
    )
    assert numbers == list(range(1, 41))
    assert [message["type"] for message in page.evaluate("sent") if message["type"] != "ack"] == ["call", "resume"]
    assert page.evaluate("sent.find((m) => m.type === 'resume').after") == 10
    assert len(post.works.asked) == 1


def test_what_must_not_happen_twice_is_not_done_again_when_its_answer_is_lost(page: Page, post: BusNode) -> None:
    found = page.evaluate(
        """(async () => {
          cut = true;
          const asked = ask('desk.pay');
          await until(() => sent.length);
          cut = false;
          return asked;
        })()"""
    )
    assert found == {"paid": 1}
    assert post.works.paid == 1


def test_after_a_restart_of_the_node_the_call_is_in_doubt(page: Page, post: BusNode) -> None:
    page.evaluate("() => { cut = true; globalThis.pending = outcome(ask('desk.pay')); }")
    page.evaluate("until(() => sent.length > 0)")
    post.stop()
    before = post.works.paid
    post.start()
    found = page.evaluate("() => { cut = false; return pending; }")
    assert (found["name"], found["code"], found["outcome"]) == ("CallError", "partition", "in_doubt")
    assert "may or may not" in found["message"]
    assert post.works.paid == before


def test_an_idempotent_call_is_answered_by_a_restarted_node(page: Page, post: BusNode) -> None:
    page.evaluate("() => { cut = true; globalThis.pending = outcome(ask('desk.echo', {text: 'again'})); }")
    page.evaluate("until(() => sent.length > 0)")
    post.stop()
    post.start()
    assert page.evaluate("() => { cut = false; return pending; }") == {"answer": {"text": "again"}}


def test_a_call_waits_for_a_node_that_is_away_for_a_moment(page: Page, post: BusNode) -> None:
    post.stop()
    page.evaluate("() => { globalThis.pending = outcome(ask('desk.echo', {text: 'later'})); }")
    page.evaluate("until(() => sockets.length > 1)")
    post.start()
    assert page.evaluate("pending") == {"answer": {"text": "later"}}


def test_a_node_that_stays_away_was_not_asked(browser: Browser, post: BusNode) -> None:
    with bare_page(browser, post.url) as page:
        page.clock.install()
        page.evaluate(READY.replace("await begin((why) => { globalThis.asked = why; });", ""), post.token)
        post.stop()
        page.evaluate("() => { globalThis.pending = outcome(ask('desk.pay')); }")
        for attempt in range(1, 9):
            page.wait_for_function(
                "(n) => sockets.length >= n && sockets[n - 1].readyState === 3 || globalThis.over", arg=attempt
            )
            page.clock.run_for(5_000)
            if page.evaluate("sockets.length") == attempt:
                break
        found = page.evaluate("pending")
    post.start()
    assert (found["code"], found["outcome"]) == ("partition", "failed")
    assert "Nothing was done" in found["message"]


def test_an_error_has_its_code_its_outcome_and_its_words(page: Page) -> None:
    found = page.evaluate("outcome(ask('desk.fail'))")
    message = "there is no such thing; look again"
    assert found == {"name": "CallError", "code": "bad_request", "outcome": "failed", "message": message}
    assert page.evaluate("outcome(ask('desk.nothing'))")["code"] == "not_found"


def test_a_message_that_is_too_large_is_an_error(page: Page) -> None:
    assert page.evaluate("outcome(ask('desk.echo', {text: 'x'.repeat(200_000)}))")["code"] == "bad_request"


def test_who_aborts_a_stream_cancels_its_call(page: Page, post: BusNode) -> None:
    page.evaluate(
        """() => {
          globalThis.stop = new AbortController();
          globalThis.seen = 0;
          globalThis.pending = outcome(stream('desk.count', {to: 3, hang: true}, () => seen++, {signal: stop.signal}));
        }"""
    )
    page.evaluate("until(() => seen === 3)")
    page.evaluate("stop.abort()")
    assert page.evaluate("pending")["name"] == "AbortError"
    assert page.evaluate("sent.at(-1)") == {"type": "cancel"}
    assert post.works.cancelled.wait(10)


def test_a_silent_stream_repeats_its_last_ack(browser: Browser, post: BusNode) -> None:
    with bare_page(browser, post.url) as page:
        page.clock.install()
        page.evaluate(READY.replace("await begin((why) => { globalThis.asked = why; });", ""), post.token)
        page.evaluate(
            "() => { globalThis.seen = 0; stream('desk.count', {to: 3, hang: true}, () => seen++).catch(() => {}); }"
        )
        page.evaluate("until(() => seen === 3)")
        page.clock.run_for(61_000)
        assert page.evaluate("sent.slice(1)") == [{"type": "ack", "upto": 3}]


def test_a_followed_stream_starts_over_when_the_node_restarts(page: Page, post: BusNode) -> None:
    page.evaluate(
        """() => {
          globalThis.states = [];
          globalThis.attempts = 0;
          globalThis.last = 0;
          globalThis.stop = new AbortController();
          const options = {signal: stop.signal, onState: (state) => states.push(state)};
          const input = () => ({to: ++attempts, hang: true});
          globalThis.pending = outcome(follow('desk.count', input, (e, d) => (last = d.n), options));
        }"""
    )
    page.evaluate("until(() => last === 1)")
    post.stop()
    page.evaluate("until(() => states.includes('lost'))")
    post.start()
    page.evaluate("until(() => last > 1)")
    assert page.evaluate("states.at(0)") == "open"
    assert page.evaluate("states.at(-1)") == "open"
    assert post.works.asked[-1]["to"] > 1
    page.evaluate("stop.abort()")
    assert page.evaluate("pending") == {"answer": None}


def test_to_follow_what_is_not_there_fails(page: Page) -> None:
    found = page.evaluate("outcome(follow('desk.fail', () => ({}), () => {}, {signal: new AbortController().signal}))")
    assert found["code"] == "bad_request"


def test_a_mistake_of_the_node_is_said_and_is_no_lost_connection(page: Page, post: BusNode) -> None:
    found = page.evaluate("outcome(follow('desk.break', () => ({}), () => {}, {signal: new AbortController().signal}))")
    assert found["code"] == "internal_error"
    assert len(post.works.asked) == 3


def test_a_call_that_is_given_up_before_its_socket_is_open_leaves_none_and_is_not_made(
    page: Page, post: BusNode
) -> None:
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    found = page.evaluate(
        """(async () => {
          const stop = new AbortController();
          const asked = outcome(ask('desk.pay', {}, {signal: stop.signal}));
          stop.abort();
          await until(() => sockets.length === 1 && sockets[0].readyState === 3);
          return asked;
        })()"""
    )
    assert (found["name"], post.works.paid, heard) == ("AbortError", 0, [])


def test_a_token_that_is_not_taken_is_asked_for_and_then_the_call_goes_on(browser: Browser, post: BusNode) -> None:
    with bare_page(browser, post.url) as page:
        page.evaluate(READY, post.token_for("other.*"))
        page.evaluate("() => { globalThis.pending = ask('desk.pay'); }")
        page.evaluate("until(() => globalThis.asked !== undefined)")
        assert "the token is not for this call" in page.evaluate("asked")
        page.evaluate("(token) => give(token)", post.token)
        assert page.evaluate("pending") == {"paid": 1}


def test_a_token_of_somebody_who_is_not_trusted_is_not_enough(browser: Browser, post: BusNode) -> None:
    with bare_page(browser, post.url) as page:
        page.evaluate(READY, post.token_for("*", trust="member"))
        page.evaluate("() => { globalThis.pending = outcome(ask('desk.pay')); }")
        page.evaluate("until(() => globalThis.asked !== undefined)")
    assert post.works.paid == 0


def test_two_calls_that_are_refused_ask_for_one_token(browser: Browser, post: BusNode) -> None:
    with bare_page(browser, post.url) as page:
        page.evaluate(READY.replace("globalThis.asked = why", "globalThis.times = (globalThis.times ?? 0) + 1"), "")
        page.evaluate(
            "() => { globalThis.pending = Promise.all([1, 2, 3].map((n) => ask('desk.echo', {text: String(n)}))); }"
        )
        page.evaluate("until(() => sockets.length === 3 && sockets.every((socket) => socket.readyState === 3))")
        page.evaluate("(token) => give(token)", post.token)
        assert page.evaluate("pending") == [{"text": "1"}, {"text": "2"}, {"text": "3"}]
        assert page.evaluate("times") == 1
