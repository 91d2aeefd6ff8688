"""By HTTP, what Slack signed reaches the app, and nothing else is even looked into."""

import json
import logging
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings

from bot.errors import ConfigError
from bot.platforms.slack.web import listening
from bot.web_server import WebLimits
from tests.bot.platforms.slack.posting import (
    FORM,
    Pages,
    Recorder,
    Served,
    click,
    command,
    event,
    head,
    line,
    served,
    settings,
)
from tests.fakes.slack.webhook import sign

MEGABYTE = 1024 * 1024


@pytest.fixture
async def bot() -> AsyncIterator[Served]:
    async with served() as found:
        yield found


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING)
    return caplog


def warnings(told: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in told.records]


# --- what is let in -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "heard"),
    [
        (event("hello"), "application/json", "hello"),
        (event("grüße"), "application/json; charset=utf-8", "grüße"),
        (command("list"), FORM, "/retinue list"),
        (click("run:stop"), FORM, "run:stop 7"),
    ],
)
async def test_what_slack_signed_is_heard(
    bot: Served, body: bytes, content_type: str, heard: str
) -> None:
    response = await bot.hook.post(body, content_type)

    assert response.status == 200
    assert await bot.recorder.next() == heard


async def test_what_the_app_answers_reaches_slack(bot: Served) -> None:
    response = await bot.hook.post(command(), FORM)

    assert response.text == "wait for it"


async def test_the_address_is_verified(bot: Served) -> None:
    response = await bot.hook.verify()

    assert response.status == 200
    assert json.loads(response.text) == {"challenge": "a challenge"}


async def test_the_address_is_not_verified_for_strangers(bot: Served) -> None:
    bot.hook.unsigned = True

    response = await bot.hook.verify()

    assert response.status == 401


async def test_the_same_request_twice_is_heard_twice(bot: Served) -> None:
    for _ in range(2):
        assert (await bot.hook.post(event("again"))).status == 200

    assert [await bot.recorder.next(), await bot.recorder.next()] == ["again", "again"]


async def test_a_body_of_the_largest_size_is_heard(bot: Served) -> None:
    padding = MEGABYTE - len(event("big", padding=""))

    response = await bot.hook.post(event("big", padding="x" * padding))

    assert response.status == 200
    assert await bot.recorder.next() == "big"


async def test_headers_that_nobody_signed_do_not_reach_bolt(bot: Served) -> None:
    lazy = {"X-Slack-Bolt-Lazy-Only": "1", "X-Slack-Bolt-Lazy-Function-Name": "_mention"}

    await bot.hook.post(command(), FORM, headers=lazy)

    assert await bot.recorder.next() == "/retinue list"


# --- who is refused -----------------------------------------------------------------------------


async def test_strangers_are_refused_before_anything_is_read(bot: Served) -> None:
    bot.hook.unsigned = True
    bodies = [event(), b"", b"{", b"ssl_check=1", b"\xff\xfe", b"[" * 100_000]

    responses = [await bot.hook.post(body) for body in bodies]

    assert [response.status for response in responses] == [401] * 6
    assert bot.recorder.requests == 0


async def test_a_wrong_signature_is_refused(bot: Served) -> None:
    timestamps = ["", "soon", "-1", "9" * 400, "\u00b2\u00b3"]
    signatures = ["", "v0=" + "0" * 64, "v1=" + "0" * 64]

    responses = [await bot.hook.post(event(), timestamp=each) for each in timestamps]
    responses += [await bot.hook.post(event(), signature=each) for each in signatures]

    assert [response.status for response in responses] == [401] * 8
    assert bot.recorder.requests == 0


@pytest.mark.parametrize("name", ["X-Slack-Signature", "X-Slack-Request-Timestamp"])
async def test_a_header_that_comes_twice_is_refused(bot: Served, name: str) -> None:
    again = f"{name}: {'1' if name.endswith('Timestamp') else 'v0=' + '0' * 64}"

    async with line(bot.url) as raw:
        await raw.say(head(again, length=len(event()), body=event()) + event())
        answer = await raw.answer()

    assert answer.startswith("HTTP/1.1 401 ")
    assert bot.recorder.requests == 0


async def test_a_body_that_was_changed_on_the_way_is_refused(bot: Served) -> None:
    async with line(bot.url) as raw:
        sent = event("pay 9")
        await raw.say(head(length=len(sent), body=event("pay 1")) + sent)
        answer = await raw.answer()

    assert answer.startswith("HTTP/1.1 401 ")


async def test_a_new_secret_counts_at_once_and_the_old_one_no_longer(bot: Served) -> None:
    before = await bot.hook.post(event())
    bot.secret = "the new one"
    with_old = await bot.hook.post(event())
    bot.hook.secret = "the new one"
    with_new = await bot.hook.post(event())

    assert [before.status, with_old.status, with_new.status] == [200, 401, 200]


@pytest.mark.parametrize("secret", ["", "  "])
async def test_a_secret_that_is_lost_lets_nobody_in(
    bot: Served, told: pytest.LogCaptureFixture, secret: str
) -> None:
    stamp = str(int(bot.now()))
    bot.secret = secret

    response = await bot.hook.post(event(), timestamp=stamp, signature=sign("", stamp, event()))

    assert response.status == 401
    assert "`slack.signing_secret` is empty" in warnings(told)[0]


@pytest.mark.parametrize("secret", ["", " \n"])
async def test_without_a_secret_nothing_starts(secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with listening(Recorder().app, settings(), secret=lambda: secret):
            pass

    assert "needs `slack.signing_secret` (or SLACK_SIGNING_SECRET)" in str(caught.value)


# --- what the log says --------------------------------------------------------------------------


@pytest.mark.parametrize(("skew", "side"), [(365, "ahead"), (-365, "behind")])
async def test_a_wrong_clock_is_named_as_the_reason(
    bot: Served, told: pytest.LogCaptureFixture, skew: float, side: str
) -> None:
    bot.skew_seconds = skew

    response = await bot.hook.post(event())

    assert response.status == 401
    [warning] = warnings(told)
    assert "the clock of this computer differs from Slack's by 36" in warning
    assert f" s ({side}); set it by NTP" in warning


@pytest.mark.parametrize("skew", [240, -240])
async def test_a_clock_that_is_a_little_wrong_does_no_harm(bot: Served, skew: float) -> None:
    bot.skew_seconds = skew

    assert (await bot.hook.post(event())).status == 200


async def test_the_same_reason_is_told_once_a_minute(
    bot: Served, told: pytest.LogCaptureFixture
) -> None:
    bot.hook.secret = "another app's"
    for _ in range(5):
        await bot.hook.post(event())
    bot.hook.unsigned = True
    await bot.hook.post(event())
    first = len(warnings(told))
    bot.skew_seconds = 61
    await bot.hook.post(event())

    assert first == 2
    assert len(warnings(told)) == 3
    assert "`slack.signing_secret` is that of another app" in warnings(told)[0]


@pytest.mark.parametrize("secret", ["another app's", None])
async def test_bodies_are_never_logged(
    bot: Served, caplog: pytest.LogCaptureFixture, secret: str | None
) -> None:
    caplog.set_level(logging.DEBUG, logger="bot")
    caplog.set_level(logging.DEBUG, logger="uvicorn")
    bot.hook.secret = secret or bot.secret

    await bot.hook.post(b'{"text": "my password"')

    assert warnings(caplog)
    assert "my password" not in caplog.text


# --- bodies of any kind -------------------------------------------------------------------------


UNREADABLE = [
    (b"{", "application/json"),
    (b"payload=%7B", FORM),
    (b"[1]", "application/json"),
    (b"null", "application/json"),
    (b"payload=7", FORM),
    (b"[" * 100_000, "application/json"),
    (b'{"a":' + b"9" * 5000 + b"}", "application/json"),
]


async def test_what_cannot_be_read_is_a_bad_request_and_no_fault(
    bot: Served, told: pytest.LogCaptureFixture
) -> None:
    responses = [await bot.hook.post(body, kind) for body, kind in UNREADABLE]

    assert [response.status for response in responses] == [400] * len(UNREADABLE)
    [warning] = warnings(told)
    assert "could not be read" in warning
    assert not told.records[0].exc_info


@pytest.mark.parametrize("body", [b"\xff\xfe", b"payload=\xff"])
async def test_a_body_that_is_not_utf_8_is_refused(
    bot: Served, told: pytest.LogCaptureFixture, body: bytes
) -> None:
    response = await bot.hook.post(body, FORM)

    assert response.status == 401
    assert "not as Slack writes them" in warnings(told)[0]


async def test_a_large_body_is_refused_by_its_length_before_it_comes(
    bot: Served, told: pytest.LogCaptureFixture
) -> None:
    async with line(bot.url) as raw:
        await raw.say(head(length=10 * MEGABYTE))
        answer = await raw.answer()

    assert answer.startswith("HTTP/1.1 413 ")
    assert "body over 1048576 bytes" in warnings(told)[0]


@pytest.mark.parametrize("headers", [{}, {"Content-Length": str(10 * MEGABYTE)}])
async def test_a_large_body_is_refused_and_the_client_sees_it(
    bot: Served, headers: dict[str, str]
) -> None:
    response = await bot.hook.post(b"", pieces=_pieces(10), headers=headers)

    assert response.status == 413
    assert bot.recorder.requests == 0


async def test_memory_stays_flat_whatever_is_sent(bot: Served) -> None:
    await bot.hook.post(event())
    tracemalloc.start()
    try:
        response = await bot.hook.post(b"", pieces=_pieces(40))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert response.status == 413
    assert peak < 4 * MEGABYTE


async def test_bodies_that_come_at_the_same_time_have_a_limit_together() -> None:
    async with served(WebLimits(bodies_bytes=3000)) as bot, line(bot.url) as first:
        await first.say(head("Expect: 100-continue", length=2001))
        assert (await first.answer()).startswith("HTTP/1.1 100 ")
        await first.say(b"x" * 2000)
        async with line(bot.url) as second:
            await second.say(head(length=2000) + b"x" * 2000)
            crowded = await second.answer()
        await first.say(b"x")
        released = await first.answer()
        after = await bot.hook.post(event(padding="x" * 2000))

    assert crowded.startswith("HTTP/1.1 503 ")
    assert released.startswith("HTTP/1.1 401 ")
    assert after.status == 200


async def _pieces(megabytes: int) -> AsyncIterator[bytes]:
    piece = b"x" * (MEGABYTE // 16)
    for _ in range(16 * megabytes):
        yield piece


# --- the other pages ----------------------------------------------------------------------------


async def test_events_are_only_posted(bot: Served) -> None:
    methods = ["GET", "HEAD", "PUT", "DELETE", "PATCH"]

    answers = [await bot.get("/slack/events", method) for method in methods]

    assert [status for status, _ in answers] == [405] * 5


async def test_there_is_nothing_else(bot: Served) -> None:
    paths = ["/", "/slack", "/slack/events/", "//slack/events", "/slack/events/more", "/docs"]
    paths += ["/openapi.json", "/slack/install", "/slack/oauth_redirect", "/..%2fetc/passwd"]

    answers = [await bot.get(path, method) for path in paths for method in ("GET", "POST")]

    assert [status for status, _ in answers] == [404] * 20


async def test_a_monitor_sees_that_it_lives(bot: Served) -> None:
    assert await bot.get("/health") == (200, "ok")
    assert (await bot.get("/health", "POST"))[0] == 405


async def test_no_answer_tells_what_the_server_is(bot: Served) -> None:
    async with bot.hook.session.get(f"{bot.url}/nowhere") as answer:
        said = str(dict(answer.headers)) + await answer.text()

    assert "Server" not in answer.headers
    assert not [name for name in ("uvicorn", "starlette", "python") if name in said.lower()]


async def test_the_pages_of_an_installation_are_there_when_it_is_wanted() -> None:
    pages = Pages()

    async with served(oauth=pages) as bot:
        async with bot.hook.session.get(f"{bot.url}/slack/install") as answer:
            text, cookie = await answer.text(), answer.cookies["slack-app-oauth-state"]
        thanks = await bot.get("/slack/oauth_redirect?code=c&state=s")

    assert text == "Add to Slack"
    assert cookie.value == "s"
    assert cookie["secure"]
    assert thanks == (200, "Thank you")
    assert pages.seen == ["install", "callback {'code': ['c'], 'state': ['s']}"]


async def test_nothing_but_a_visit_uses_up_an_installation() -> None:
    pages, paths = Pages(), ["/slack/install", "/slack/oauth_redirect?code=c"]

    async with served(oauth=pages) as bot:
        answers = [await bot.get(path, way) for path in paths for way in ("HEAD", "POST", "PUT")]

    assert [status for status, _ in answers] == [405] * 6
    assert pages.seen == []


async def test_bolts_own_installation_is_served() -> None:
    flow = AsyncOAuthFlow(
        settings=AsyncOAuthSettings(
            client_id="1.2",
            client_secret="secret",
            scopes=["chat:write"],
            installation_store_bot_only=True,
            state_validation_enabled=False,
        )
    )

    async with served(oauth=flow) as bot:
        page = await bot.get("/slack/install")
        denied = await bot.get("/slack/oauth_redirect?error=access_denied")

    assert page[0] == 200
    assert "slack.com/oauth/v2/authorize" in page[1]
    assert "client_id=1.2" in page[1]
    assert denied[0] == 200 or denied[0] >= 400
    assert "access_denied" in denied[1]


async def test_a_client_that_hangs_up_in_the_middle_is_forgotten(
    bot: Served, told: pytest.LogCaptureFixture
) -> None:
    async with line(bot.url) as raw:
        await raw.say(head("Expect: 100-continue", length=100))
        await raw.answer()
        await raw.say(b"x")

    response = await bot.hook.post(event())

    assert response.status == 200
    assert warnings(told) == []


async def test_a_proxys_headers_change_nothing(bot: Served) -> None:
    forged = {"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "Forwarded": "for=x"}

    response = await bot.hook.post(event(), headers=forged)

    assert response.status == 200
