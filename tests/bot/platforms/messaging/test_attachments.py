"""Files that people attach: from where they are fetched, and how much of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import yarl
from aiohttp import web

from bot.errors import DeliveryError
from bot.platforms.discord import messages as discord
from bot.platforms.discord.settings import API_URL
from bot.platforms.messaging.attachments import MOST_BYTES, FileHost
from bot.platforms.slack import messages as slack
from bot.platforms.slack.settings import API_URL as SLACK_API_URL

HERE = "http://127.0.0.1:8000/api/v10"


@pytest.mark.parametrize(
    ("address", "api_url", "may"),
    [
        ("https://cdn.discordapp.com/attachments/1/2/a.txt?ex=1", API_URL, True),
        ("https://media.discordapp.net/attachments/1/2/a.png", API_URL, True),
        ("https://cdn.discordapp.com/attachments/1/2/a.txt", HERE, True),
        ("http://cdn.discordapp.com/attachments/1/2/a.txt", API_URL, False),
        ("https://cdn.discordapp.com:8443/a.txt", API_URL, False),
        ("https://cdn.discordapp.com.evil.example/a.txt", API_URL, False),
        ("https://evil.example/cdn.discordapp.com/a.txt", API_URL, False),
        ("https://cdn.discordapp.com@evil.example/a.txt", API_URL, False),
        ("https://me:secret@cdn.discordapp.com/a.txt", API_URL, False),
        ("https://discord.com/api/v10/users/@me", API_URL, False),
        ("https://169.254.169.254/latest", API_URL, False),
        ("file:///etc/passwd", API_URL, False),
        ("http://127.0.0.1:8000/attachments/1/2/a.txt", HERE, True),
        ("http://127.0.0.1:8001/attachments/1/2/a.txt", HERE, False),
        ("http://127.0.0.1:8000/attachments/1/2/a.txt", API_URL, False),
        ("https://[broken", API_URL, False),
        ("", API_URL, False),
        ("a.txt", HERE, False),
    ],
)
def test_files_come_from_where_discord_keeps_them_and_from_nowhere_else(
    address: str, api_url: str, may: bool
) -> None:
    assert discord.store(api_url).has(address) is may


@pytest.mark.parametrize(
    ("address", "api_url", "may"),
    [
        ("https://files.slack.com/files-pri/T1-F1/download/a.txt", SLACK_API_URL, True),
        ("https://files.slack.com/files-pri/T1-F1/a.txt", HERE, True),
        ("http://files.slack.com/files-pri/T1-F1/a.txt", SLACK_API_URL, False),
        ("https://files.slack.com.evil.example/a.txt", SLACK_API_URL, False),
        ("https://drive.example/a.txt", SLACK_API_URL, False),
        ("https://slack.com/api/auth.test", SLACK_API_URL, False),
        ("http://127.0.0.1:8000/files-pri/T1-F1/a.txt", HERE, True),
        ("http://127.0.0.1:8000/files-pri/T1-F1/a.txt", SLACK_API_URL, False),
    ],
)
def test_files_come_from_where_slack_keeps_them_and_from_nowhere_else(
    address: str, api_url: str, may: bool
) -> None:
    assert slack.store(api_url).has(address) is may


def test_only_what_the_configuration_names_may_be_on_a_private_network() -> None:
    store = discord.store(HERE)

    stand_in = store._addresses(yarl.URL(HERE + "/a.txt"))
    discords_own = store._addresses(yarl.URL("https://cdn.discordapp.com/a.txt"))

    assert stand_in.may_dial("127.0.0.1", 8000)
    assert not discords_own.may_dial("127.0.0.1", 443)
    assert not discords_own.may_dial("10.0.0.1", 443)
    assert discords_own.may_dial("162.159.128.233", 443)


class Shelf:
    """A server that holds one file."""

    def __init__(self) -> None:
        self.url = ""
        self.respond: web.StreamResponse = web.Response(body=b"eggs")
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        return self.respond

    async def endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1024 * 1024))
        except ConnectionError:
            return response


@pytest.fixture
async def shelf() -> AsyncIterator[Shelf]:
    shelf = Shelf()
    app = web.Application()
    app.router.add_get("/endless", shelf.endless)
    app.router.add_get("/{path:.*}", shelf.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    shelf.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield shelf
    await runner.cleanup()


def kept_at(url: str, refused: str = "") -> FileHost:
    return FileHost(name="Discord", hosts=frozenset(), stand_in=url + "/api/v10", refused=refused)


async def got(shelf: Shelf, path: str = "/a%2Fb.txt") -> bytes:
    async with asyncio.timeout(10):
        return await kept_at(shelf.url).fetch(shelf.url + path, "a.txt")


async def test_a_file_is_what_was_sent(shelf: Shelf) -> None:
    assert await got(shelf) == b"eggs"


async def test_a_file_from_elsewhere_is_not_even_asked_for(shelf: Shelf) -> None:
    with pytest.raises(DeliveryError, match="where Discord keeps files") as caught:
        await discord.store(API_URL).fetch(shelf.url + "/a.txt", "a.txt")

    assert caught.value.permanent
    assert shelf.asked == []


async def test_a_redirect_is_not_followed(shelf: Shelf) -> None:
    shelf.respond = web.Response(status=302, headers={"Location": "/elsewhere"})

    with pytest.raises(DeliveryError, match=r"no longer has the file a\.txt"):
        await got(shelf, "/a.txt")

    assert shelf.asked == ["/a.txt"]


@pytest.mark.parametrize(("status", "permanent"), [(404, True), (403, True), (503, False)])
async def test_a_file_that_is_gone_is_told_from_one_that_comes_later(
    shelf: Shelf, status: int, permanent: bool
) -> None:
    shelf.respond = web.Response(status=status)

    with pytest.raises(DeliveryError, match=r"a\.txt") as caught:
        await got(shelf)

    assert caught.value.permanent is permanent


async def test_where_somebody_has_to_sign_in_it_is_said_what_helps(shelf: Shelf) -> None:
    shelf.respond = web.Response(status=302, headers={"Location": "/sign-in"})

    with pytest.raises(DeliveryError, match=r"read the file a\.txt\. Ask an admin\.") as caught:
        await kept_at(shelf.url, "Ask an admin.").fetch(shelf.url + "/a.txt", "a.txt")

    assert caught.value.permanent
    assert shelf.asked == ["/a.txt"]


async def test_of_a_file_without_end_no_more_is_read_than_is_taken(shelf: Shelf) -> None:
    with pytest.raises(DeliveryError, match=f"larger than the {MOST_BYTES // 1024**2} MB"):
        await got(shelf, "/endless")


async def test_a_server_that_is_not_there_may_come_back(shelf: Shelf) -> None:
    with pytest.raises(DeliveryError, match="Try again in a moment") as caught:
        await kept_at("http://127.0.0.1:9").fetch("http://127.0.0.1:9/a.txt", "a.txt")

    assert not caught.value.permanent
