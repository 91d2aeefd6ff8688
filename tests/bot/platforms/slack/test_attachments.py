"""Files that people attach on Slack: read with the bot's token, from Slack alone."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from bot.errors import DeliveryError
from bot.platforms.messages import Attachment
from bot.platforms.slack.clients import Clients, Installed, OneClient, open_session
from bot.platforms.slack.installations import EncryptedInstallationStore
from bot.platforms.slack.messages import NO_SCOPE, History
from bot.platforms.slack.problems import NOT_INSTALLED
from bot.values import Json
from db.database import Database
from tests.bot.platforms.slack.hearing import Counter, counter, installed_in, new_client_of
from tests.bot.platforms.slack.installing import settings_for
from tests.fakes.slack.server import FakeSlack
from tests.fakes.slack.shapes import File


def reader_of(at: Counter, clients: Clients) -> History:
    outlet = at.receiver.outlet
    return History(clients, outlet.sender, outlet.names, at.fake.api_url)


@pytest.fixture
async def at(slack: FakeSlack) -> AsyncIterator[Counter]:
    async with counter(slack) as opened:
        yield opened


class Elsewhere:
    """A server that is not Slack, and remembers what it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers.get("Authorization", ""))
        return web.Response(body=b"not yours")


@pytest.fixture
async def elsewhere() -> AsyncIterator[Elsewhere]:
    server = Elsewhere()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


def on_slack(at: Counter, content: bytes = b"eggs") -> File:
    return at.fake.uploads.attach("notes.txt", "text/plain", content, at.alice)


def told(at: Counter, file: Json) -> Attachment:
    """Return a file as it comes with a message."""
    (attached,) = at.receiver.outlet.reader.files([file], at.fake.team.id)
    return attached


async def refusal(attached: Attachment) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        await attached.read()
    return caught.value


async def test_a_file_says_what_it_is_and_is_read_when_it_is_wanted(at: Counter) -> None:
    file = on_slack(at)

    attached = told(at, file.to_json())

    assert (attached.name, attached.media_type, attached.size) == ("notes.txt", "text/plain", 4)
    assert not at.fake.calls
    assert await attached.read() == b"eggs"


async def test_each_file_is_read_by_itself(at: Counter) -> None:
    files = [on_slack(at, b"eggs").to_json(), on_slack(at, b"milk").to_json()]

    attached = at.receiver.outlet.reader.files(files, at.fake.team.id)

    assert [await each.read() for each in reversed(attached)] == [b"milk", b"eggs"]


async def test_a_file_that_cannot_be_downloaded_is_read_where_it_is_shown(at: Counter) -> None:
    file = on_slack(at).to_json()
    del file["url_private_download"]

    assert await told(at, file).read() == b"eggs"


async def test_a_file_of_which_slack_tells_only_its_id_is_asked_for_first(at: Counter) -> None:
    file = on_slack(at)

    attached = told(at, {"id": file.id, "file_access": "check_file_info"})

    assert (attached.name, attached.media_type, attached.size) == ("file", "", 0)
    assert await attached.read() == b"eggs"
    assert [call.args["file"] for call in at.fake.called("files.info")] == [file.id]


async def test_a_file_that_slack_does_not_know_any_more_is_said(at: Counter) -> None:
    error = await refusal(told(at, {"id": "F999", "file_access": "check_file_info"}))

    assert error.permanent
    assert "F999" not in str(error)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ({"name": "a\n b.txt"}, "a b.txt"),
        ({"name": None, "title": "My notes"}, "My notes"),
        ({"name": "", "title": None}, "file"),
        ({"id": "F1", "mode": "tombstone"}, "file"),
        ({"id": "F1", "mode": "hidden_by_limit", "size": None, "mimetype": None}, "file"),
    ],
)
async def test_what_slack_leaves_out_breaks_nothing(at: Counter, file: Json, name: str) -> None:
    attached = told(at, file)

    assert (attached.name, attached.media_type, attached.size) == (name, "", 0)
    assert (await refusal(attached)).permanent


async def test_without_the_scope_the_sign_in_page_is_not_taken_for_the_file(at: Counter) -> None:
    at.fake.granted_scopes = ["chat:write"]

    error = await refusal(told(at, on_slack(at).to_json()))

    assert NO_SCOPE in str(error)
    assert "notes.txt" in str(error)
    assert error.permanent


async def test_a_file_that_is_kept_elsewhere_is_not_fetched(
    at: Counter, elsewhere: Elsewhere
) -> None:
    external = {"name": "plan", "is_external": True, "url_private": f"{elsewhere.url}/plan"}

    error = await refusal(told(at, external))

    assert "not where Slack keeps files" in str(error)
    assert error.permanent
    assert elsewhere.asked == []


async def test_the_token_goes_to_slack_alone(at: Counter, elsewhere: Elsewhere) -> None:
    file = on_slack(at)
    at.fake.world.files[file.id].url = f"{elsewhere.url}/a"
    asked = {"id": file.id, "file_access": "check_file_info"}

    for each in (asked, {"name": "a", "url_private_download": f"{elsewhere.url}/b"}):
        await refusal(told(at, each))

    assert elsewhere.asked == []


async def test_slack_being_away_is_a_matter_of_trying_again(at: Counter) -> None:
    attached = told(at, on_slack(at).to_json())
    at.fake.fail("files.download", status=503)

    error = await refusal(attached)

    assert not error.permanent
    assert await attached.read() == b"eggs"


async def test_a_file_is_read_as_the_bot_of_the_workspace_where_it_was_shared(at: Counter) -> None:
    asked: list[str] = []

    class Asked(OneClient):
        async def find(self, *workspaces: str) -> tuple[str, Installed]:
            asked.extend(workspaces)
            return await super().find(*workspaces)

    async with open_session() as session:
        clients = Asked(installed_in(at.fake, new_client_of(at.fake, session)))
        reader = reader_of(at, clients)
        (attached,) = reader.files([on_slack(at).to_json()], "E11.T22")

        assert await attached.read() == b"eggs"

    assert asked == ["E11.T22"]


async def test_where_the_bot_was_removed_no_file_can_be_read(
    at: Counter, database: Database
) -> None:
    async with open_session() as session:
        gone = EncryptedInstallationStore(database, settings_for(at.fake), session)
        reader = reader_of(at, gone)
        (attached,) = reader.files([on_slack(at).to_json()], at.fake.team.id)

        error = await refusal(attached)

    assert str(error) == NOT_INSTALLED
    assert error.permanent
