"""What a test sets on a fake Slack: what goes wrong, what is allowed, what the manifest says."""

import asyncio
from collections.abc import Callable

from bot.values import Json
from tests.fakes.slack.agents import Agents
from tests.fakes.slack.calls import Fault, Rates
from tests.fakes.slack.events import Events
from tests.fakes.slack.hands import Hands
from tests.fakes.slack.shapes import Team
from tests.fakes.slack.streams import Streams
from tests.fakes.slack.surfaces import Surfaces
from tests.fakes.slack.uploads import Uploads
from tests.fakes.slack.web import WebApi


class Knobs:
    """The settings of a fake Slack that tests use most."""

    agents: Agents
    api: WebApi
    events: Events
    hands: Hands
    streams: Streams
    surfaces: Surfaces
    team: Team
    uploads: Uploads

    # --- what goes wrong ------------------------------------------------------------------------

    def fail(
        self,
        method: str,
        *,
        error: str = "",
        status: int = 200,
        retry_after: int | None = None,
        body: str | None = None,
        cut: bool = False,
        refuse: bool = False,
        hold: asyncio.Event | None = None,
        late: asyncio.Event | None = None,
        times: int | None = 1,
        when: Callable[[Json], bool] | None = None,
    ) -> Fault:
        """Let the next calls of a method go wrong; see `Fault` for how.

        `*` is every method; `response_url`, `files.upload` and `files.download` are known too.
        """
        return self.api.faults.add(
            Fault(
                method=method,
                error=error,
                status=status,
                retry_after=retry_after,
                body=body,
                cut=cut,
                refuse=refuse,
                hold=hold,
                late=late,
                times=times,
                when=when,
            )
        )

    def heal(self, method: str = "") -> None:
        """Let nothing more go wrong."""
        self.api.faults.heal(method)

    @property
    def rates(self) -> Rates:
        """The rate limits; off until they are switched on."""
        return self.api.rates

    def end_streams(self) -> None:
        """End every stream, as Slack does five minutes after it began."""
        self.streams.expire()

    @property
    def streaming(self) -> bool:
        """Whether the app may stream."""
        return self.streams.on

    @streaming.setter
    def streaming(self, on: bool) -> None:
        self.streams.on = on

    @property
    def refuse_files(self) -> bool:
        """Whether the workspace neither takes nor gives files."""
        return self.uploads.refused

    @refuse_files.setter
    def refuse_files(self, refused: bool) -> None:
        self.uploads.refused = refused

    @property
    def granted_scopes(self) -> list[str]:
        """What the app may do in the first workspace."""
        assert self.team.grant is not None, "The app is not installed."
        return self.team.grant.scopes

    @granted_scopes.setter
    def granted_scopes(self, scopes: list[str]) -> None:
        assert self.team.grant is not None, "The app is not installed."
        self.team.grant.scopes = scopes

    def use_manifest(self, manifest: Json) -> None:
        """Know of the app what its manifest says: its events, commands, scopes and surfaces."""
        settings, features = manifest["settings"], manifest["features"]
        self.events.subscriptions = set(settings["event_subscriptions"]["bot_events"])
        self.granted_scopes = list(manifest["oauth_config"]["scopes"]["bot"])
        self.agents.agent = "agent_view" in features
        self.surfaces.home_enabled = features["app_home"]["home_tab_enabled"]
        commands = {each["command"] for each in features.get("slash_commands", ())}
        assert len(commands) <= 25, "Slack takes at most 25 slash commands."
        self.hands.commands = commands
        self.hands.interactive = settings.get("interactivity", {}).get("is_enabled", False)
