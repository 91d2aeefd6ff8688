"""Reads files attached on Slack, with the bot's token and from Slack's hosts only."""

from collections.abc import Iterable
from functools import partial

from slack_sdk.web.async_client import AsyncWebClient

from bot.agent.sanitizer import one_line
from bot.errors import DeliveryError
from bot.platforms.messages import Attachment
from bot.platforms.messaging.attachments import FileHost
from bot.platforms.slack.clients import Clients
from bot.platforms.slack.problems import NOT_INSTALLED
from bot.platforms.slack.sending import Sender
from bot.platforms.slack.settings import API_URL
from bot.values import Json

HOSTS = frozenset({"files.slack.com"})
NO_SCOPE = (
    "Send what matters as text, or ask the people who run me to give me the scope files:read."
)
#: The access state of a file in a payload that contains only its id: `files.info` has the rest.
_ASK = "check_file_info"


def store(api_url: str) -> FileHost:
    """Return Slack's file storage.

    Args:
        api_url: The address of the Web API; a stand-in for the API may serve files too.
    """
    stand_in = "" if api_url == API_URL else api_url
    return FileHost(name="Slack", hosts=HOSTS, stand_in=stand_in, refused=NO_SCOPE)


class Attachments:
    """Reads the files of messages.

    Args:
        clients: Provide the tokens.
        sender: Makes requests to Slack.
        api_url: The address of the Web API.
    """

    def __init__(self, clients: Clients, sender: Sender, api_url: str) -> None:
        self._clients = clients
        self._sender = sender
        self._store = store(api_url)

    def of(self, files: Iterable[Json], workspace: str) -> tuple[Attachment, ...]:
        """Return the files of a message without fetching them.

        Args:
            files: The file objects of Slack's payload.
            workspace: The workspace of the bot.
        """
        return tuple(
            Attachment(
                name=_name(file),
                media_type=str(file.get("mimetype") or ""),
                size=int(file.get("size") or 0),
                read=partial(self._read, file, workspace),
            )
            for file in files
        )

    async def _read(self, file: Json, workspace: str) -> bytes:
        installed = await self._clients.installed(workspace)
        if installed is None:
            raise DeliveryError(NOT_INSTALLED, permanent=True)
        if file.get("file_access") == _ASK:
            answer = await self._sender.ask(
                workspace, AsyncWebClient.files_info, file=str(file["id"])
            )
            file = dict(answer["file"])
        address = str(file.get("url_private_download") or file.get("url_private") or "")
        headers = {"Authorization": f"Bearer {installed.token}"}
        return await self._store.fetch(address, _name(file), headers=headers)


def _name(file: Json) -> str:
    return one_line(str(file.get("name") or file.get("title") or "")) or "file"
