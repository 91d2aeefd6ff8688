"""What a Slack consists of: teams, people, installations and files."""

from dataclasses import dataclass, field

from bot.values import Json

APP_ID = "A0FAKEAPP"


class SlackError(Exception):
    """What Slack answers instead of a result.

    Args:
        name: Slack's own name of the error.
        messages: What is wrong in detail, in `response_metadata`.
        more: Further fields of the answer.
    """

    def __init__(self, name: str, *messages: str, **more: object) -> None:
        super().__init__(name, *messages)
        self.name = name
        self.answer: Json = {"ok": False, "error": name, **more}
        if messages:
            self.answer["errors"] = list(messages)
            self.answer["response_metadata"] = {"messages": [f"[ERROR] {m}" for m in messages]}


@dataclass(eq=False, slots=True, repr=False)
class Team:
    """A workspace.

    Attributes:
        enterprise: The id of the organisation that it belongs to; empty for none.
        bot: Our bot there.
        grant: The installation of our app that covers it; `None` for none.
    """

    id: str
    name: str
    enterprise: str = ""
    grant: "Grant | None" = None
    bot: "User" = field(init=False)

    def __repr__(self) -> str:
        return f"<team {self.name} {self.id}>"

    @property
    def domain(self) -> str:
        return self.name.lower().replace(" ", "-")

    def to_json(self) -> Json:
        """Return it as interactions carry it."""
        team = {"id": self.id, "domain": self.domain}
        if self.enterprise:
            team |= {"enterprise_id": self.enterprise, "enterprise_name": "The organisation"}
        return team

    @property
    def enterprise_json(self) -> Json | None:
        if not self.enterprise:
            return None
        return {"id": self.enterprise, "name": "The organisation"}


@dataclass(eq=False, slots=True, repr=False)
class User:
    """A user, or a bot."""

    id: str
    name: str
    team: Team
    bot_id: str = ""
    deleted: bool = False
    admin: bool = False
    guest: bool = False

    def __repr__(self) -> str:
        return f"<{self.name} {self.id}>"

    @property
    def is_bot(self) -> bool:
        return bool(self.bot_id)

    def to_json(self) -> Json:
        """Return it as `users.info` does."""
        profile = {"display_name": self.name, "real_name": self.name.title()}
        return {
            "id": self.id,
            "team_id": self.team.id,
            "name": self.name,
            "real_name": self.name.title(),
            "deleted": self.deleted,
            "is_admin": self.admin,
            "is_owner": False,
            "is_bot": self.is_bot,
            "is_restricted": self.guest,
            "is_ultra_restricted": False,
            "tz": "Etc/UTC",
            "profile": profile | ({"bot_id": self.bot_id} if self.is_bot else {}),
        }

    def brief(self) -> Json:
        """Return it as interactions carry it."""
        return {
            "id": self.id,
            "username": self.name,
            "name": self.name,
            "team_id": self.team.id,
        }


@dataclass(eq=False, slots=True)
class Grant:
    """One installation of our app, and its token.

    Attributes:
        team: `None` when it covers the whole organisation.
        revoked: The error that its use gives; empty while it is good.
    """

    token: str
    bot: User
    scopes: list[str]
    team: Team | None
    enterprise: str = ""
    revoked: str = ""

    def covers(self, team: Team) -> bool:
        if self.team is None:
            return bool(team.enterprise) and team.enterprise == self.enterprise
        return team is self.team


@dataclass(eq=False, slots=True)
class File:
    """A file; `content` is `None` until it was uploaded."""

    id: str
    name: str
    mimetype: str
    user: str
    team: str
    url: str
    content: bytes | None = None
    title: str = ""
    snippet_type: str = ""
    size: int = 0

    def to_json(self) -> Json:
        """Return it as events and `files.info` carry it."""
        return {
            "id": self.id,
            "name": self.name,
            "title": self.title or self.name,
            "mimetype": self.mimetype,
            "filetype": self.snippet_type or self.name.rpartition(".")[2],
            "mode": "snippet" if self.snippet_type else "hosted",
            "user": self.user,
            "user_team": self.team,
            "size": self.size,
            "is_external": False,
            "is_public": False,
            "file_access": "visible",
            "url_private": self.url,
            "url_private_download": f"{self.url}/download",
        }
