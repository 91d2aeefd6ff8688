"""`files.*`: uploads in three steps, and downloads with a token."""

from dataclasses import dataclass, field

from aiohttp import web

from bot.values import Json
from tests.fakes.slack.agents import Agents
from tests.fakes.slack.calls import Faults
from tests.fakes.slack.chat import Tell
from tests.fakes.slack.shapes import File, SlackError, User
from tests.fakes.slack.web import Ask, Method, cut_off
from tests.fakes.slack.world import World

MAX_SNIPPET = 1_000_000


@dataclass(slots=True)
class Uploads:
    """Files that come and go.

    Attributes:
        base: The address of this server.
        refused: Whether the workspace takes and gives no files.
        faults: Those of `files.upload` and `files.download` happen here.
        tickets: Where bytes are to be sent for which file.
    """

    world: World
    agents: Agents
    tell: Tell
    faults: Faults
    base: str = ""
    refused: bool = False
    tickets: dict[str, File] = field(default_factory=dict)

    @property
    def methods(self) -> dict[str, Method]:
        return {
            "files.getUploadURLExternal": self.ticket,
            "files.completeUploadExternal": self.complete,
            "files.info": self.info,
        }

    def attach(self, name: str, mimetype: str, content: bytes, user: User) -> File:
        """Make a file that a user sends along with a message."""
        file = self.world.add_file(name, mimetype, user, self.base)
        file.content, file.size = content, len(content)
        return file

    def ticket(self, ask: Ask) -> Json:
        if self.refused:
            raise SlackError("file_uploads_disabled")
        name, length = str(ask.args.get("filename") or ""), int(ask.args.get("length") or 0)
        if not name or length <= 0:
            raise SlackError("missing_argument")
        snippet = str(ask.args.get("snippet_type") or "")
        if snippet and length > MAX_SNIPPET:
            raise SlackError("snippet_too_large")
        file = self.world.add_file(name, "text/plain", ask.grant.bot, self.base)
        file.snippet_type, file.size = snippet, length
        ticket = self.world.new_id("upload")
        self.tickets[ticket] = file
        return {"upload_url": f"{self.base}/upload/v1/{ticket}", "file_id": file.id}

    async def take(self, request: web.Request) -> web.Response:
        """Take the bytes of a file."""
        file = self.tickets.get(request.match_info["ticket"])
        fault = self.faults.take("files.upload", {"name": file.name if file else ""})
        if fault is not None and fault.hold is not None:
            await fault.hold.wait()
        if fault is not None and (fault.refuse or fault.cut):
            return cut_off(request)
        if fault is not None and fault.answers:
            return web.Response(status=fault.status, text=fault.error or "upstream error")
        if file is None:
            return web.Response(status=404, text="Not found")
        content = await request.read()
        if len(content) != file.size:
            return web.Response(status=400, text="The length is not the one that was announced")
        file.content = content
        return web.Response(text=f"OK - {len(content)}")

    def complete(self, ask: Ask) -> Json:
        """Share what was uploaded; the answer does not say which message it became."""
        files = [self._uploaded(item) for item in ask.args.get("files") or ()]
        if not files:
            raise SlackError("invalid_arguments")
        named = str(ask.args.get("channels") or "").split(",")
        channels = {str(ask.args.get("channel_id") or ""), *named} - {""}
        for name in sorted(channels):
            channel = self.world.writable(name, ask.grant)
            root = self.world.root_of(channel, ask.args.get("thread_ts"))
            message = self.world.add_message(channel, ask.grant.bot, thread_ts=root)
            message.text = str(ask.args.get("initial_comment") or "")
            message.files = files
            message.subtype = "file_share"
            self.agents.replied(channel, message.root_ts)
            self.tell(message, None)
        return {"files": [file.to_json() | {"shares": {}} for file in files]}

    def _uploaded(self, item: Json) -> File:
        file = self.world.files.get(str(item.get("id")))
        if file is None or file.content is None:
            raise SlackError("file_not_found")
        file.title = str(item.get("title") or file.name)
        return file

    def info(self, ask: Ask) -> Json:
        file = self.world.files.get(str(ask.args.get("file")))
        if file is None:
            raise SlackError("file_not_found")
        return {"file": file.to_json()}

    async def give(self, request: web.Request) -> web.Response:
        """Give a file to whoever has a good token; others get a page to sign in, as a success."""
        id_ = request.match_info["file"].rpartition("-")[2]
        file = self.world.files.get(id_)
        fault = self.faults.take("files.download", {"id": id_})
        if fault is not None and fault.hold is not None:
            await fault.hold.wait()
        if fault is not None and (fault.refuse or fault.cut):
            return cut_off(request)
        if fault is not None and fault.answers:
            return web.Response(status=fault.status, text=fault.error)
        if file is None or file.content is None:
            return web.Response(status=404, text="Not found")
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        grant = self.world.grants.get(token)
        if grant is None or grant.revoked or "files:read" not in grant.scopes or self.refused:
            raise web.HTTPFound("/signin")
        return web.Response(body=file.content, content_type=file.mimetype)

    async def sign_in(self, _: web.Request) -> web.Response:
        """Show what a browser would see."""
        page = "<!DOCTYPE html><html><title>Sign in to Slack</title></html>"
        return web.Response(text=page, content_type="text/html")
