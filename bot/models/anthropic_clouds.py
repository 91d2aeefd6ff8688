"""Claude on Amazon Bedrock and on Google Vertex AI, through the SDK's own clients.

They sign a request themselves and read its body, so that it is not sent as bytes. What they need
beyond the SDK is an extra of this package.
"""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, SecretStr

from bot.errors import ModelError, ModelRefusedError
from bot.models.anthropic import PATH, StreamedMessage
from bot.models.anthropic_codec import CLAUDE, answer_from, body_for
from bot.models.capabilities import Knows
from bot.models.client import Lazy, Sdk, SdkModel, SdkSettings, arguments_of, sdk_of
from bot.values import Json

MISSING = (
    "{title} needs libraries that are not installed. An admin installs them with "
    "`pip install 'retinue[{extra}]'`, and restarts the bot."
)
Thinking = Literal["off", "adaptive", "between_tools"]


class BedrockSettings(SdkSettings):
    """Claude on Amazon Bedrock."""

    needed: ClassVar[str] = "region"

    region: str = Field("", pattern=r"^[a-z0-9-]*$")
    """The region, such as eu-central-1; empty leaves Bedrock off."""

    api_key: SecretStr | None = None
    """A key of the Bedrock API; write ${AWS_BEARER_TOKEN_BEDROCK}. Without one and without
    `access_key`, AWS's own chain is used: its variables, its files, the role of the machine.
    """

    base_url: str | None = None
    """Another address, such as a VPC endpoint's."""

    access_key: SecretStr | None = None
    """The id of an AWS key."""

    secret_key: SecretStr | None = None
    """The secret of that key."""

    session_token: SecretStr | None = None
    """The token of a temporary key."""

    profile: str = ""
    """The profile in AWS's own files."""

    main_model: str = ""
    """The main agent's model, by its full id, such as eu.anthropic.claude-sonnet-5-5-v1:0."""

    subagent_model: str = ""
    """The model of runs; empty for the main model."""

    thinking: Thinking = "off"
    """As in `models.anthropic`."""

    @property
    def configured(self) -> bool:
        """True if a region is set."""
        return bool(self.region)

    @property
    def endpoint(self) -> tuple[str, dict[str, str]]:
        """Nothing: requests are signed, and no address describes a model."""
        return "", {}


class VertexSettings(SdkSettings):
    """Claude on Google Vertex AI."""

    needed: ClassVar[str] = "project"

    project: str = ""
    """The id of the project; empty leaves Vertex off."""

    region: str = Field("global", pattern=r"^[a-z0-9-]+$")
    """The region, such as europe-west1, eu or global."""

    api_key: SecretStr | None = None
    """An access token. Without one, Google's application default credentials are used."""

    base_url: str | None = None
    """Another address."""

    main_model: str = ""
    """The main agent's model, such as claude-sonnet-5-5@20260401."""

    subagent_model: str = ""
    """The model of runs; empty for the main model."""

    thinking: Thinking = "off"
    """As in `models.anthropic`."""

    @property
    def configured(self) -> bool:
        """True if a project is set."""
        return bool(self.project)

    @property
    def endpoint(self) -> tuple[str, dict[str, str]]:
        """Nothing: requests carry a token of the cloud, and no address describes a model."""
        return "", {}


def bedrock_model(settings: BedrockSettings, knows: Knows = CLAUDE) -> SdkModel:
    """Return Claude on Bedrock behind the model port."""
    return _model("Bedrock", partial(_open_bedrock, settings), settings, knows)


def vertex_model(settings: VertexSettings, knows: Knows = CLAUDE) -> SdkModel:
    """Return Claude on Vertex behind the model port."""
    return _model("Vertex", partial(_open_vertex, settings), settings, knows)


def _model(
    name: str, opener: Any, settings: BedrockSettings | VertexSettings, knows: Knows
) -> SdkModel:
    return SdkModel(
        name=name,
        sdk=Lazy(opener),
        body_for=partial(body_for, thinking=settings.thinking, in_cloud=True, knows=knows),
        answer_from=answer_from,
        new_stream=StreamedMessage,
        timeout_seconds=settings.timeout_seconds,
    )


def lacks(settings: BedrockSettings | VertexSettings) -> str:
    """Return the sentence about the libraries that a cloud needs here; empty if it has them."""
    if isinstance(settings, BedrockSettings):
        return "" if _has("boto3") else MISSING.format(title="Bedrock", extra="bedrock")
    # With a token of its own it asks Google for none.
    missing = not settings.key and not _has("google.auth")
    return MISSING.format(title="Vertex", extra="vertex") if missing else ""


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _open_bedrock(settings: BedrockSettings) -> Sdk:
    """Import the SDK and open its client for Bedrock; the caller closes the client.

    Raises:
        ModelError: Its libraries are not installed.
    """
    if sentence := lacks(settings):
        raise ModelError(sentence)
    import anthropic  # noqa: PLC0415 - heavy

    def plain(secret: SecretStr | None) -> str | None:
        return secret.get_secret_value() if secret is not None else None

    client = anthropic.AsyncAnthropicBedrock(
        api_key=settings.key or None,
        aws_region=settings.region,
        aws_access_key=plain(settings.access_key),
        aws_secret_key=plain(settings.secret_key),
        aws_session_token=plain(settings.session_token),
        aws_profile=settings.profile or None,
        **arguments_of(anthropic, settings),
    )

    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    refused = _Refused("Bedrock", (RuntimeError, BotoCoreError))

    @asynccontextmanager
    async def stream(body: Json) -> AsyncIterator[AsyncIterator[Json]]:
        # Bedrock's own format of events, which the SDK reads.
        with refused:
            events: Any = await client.messages.create(**body)
        async with aclosing(events.response):
            yield (event.to_dict() async for event in events)

    sdk = _sdk(client, settings, "Bedrock", refused)
    return replace(sdk, stream=stream, count_tokens=None)


def _open_vertex(settings: VertexSettings) -> Sdk:
    """Import the SDK and open its client for Vertex; the caller closes the client.

    Raises:
        ModelError: Its libraries are not installed.
    """
    if sentence := lacks(settings):
        raise ModelError(sentence)
    import anthropic  # noqa: PLC0415 - heavy

    client = anthropic.AsyncAnthropicVertex(
        region=settings.region,
        project_id=settings.project,
        access_token=settings.key or None,
        **arguments_of(anthropic, settings),
    )
    kinds: tuple[type[Exception], ...] = (RuntimeError,)
    if _has("google.auth"):
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415

        kinds = (RuntimeError, GoogleAuthError)
    return _sdk(client, settings, "Vertex", _Refused("Vertex", kinds))


@dataclass(frozen=True)
class _Refused:
    """Turns an error about the credentials of this machine into a refusal, which says the remedy.

    Attributes:
        title: The cloud.
        kinds: The exceptions that its libraries raise before they send a request.
    """

    title: str
    kinds: tuple[type[Exception], ...]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, self.kinds):
            setting = f"models.{self.title.lower()}.api_key"
            raise ModelRefusedError(
                f"{self.title} finds no valid credentials on this machine. An admin must set "
                f"`{setting}`, or give the machine credentials."
            ) from error


def _sdk(client: Any, settings: SdkSettings, title: str, refused: _Refused) -> Sdk:
    import anthropic  # noqa: PLC0415 - heavy

    setting = f"models.{title.lower()}"
    sdk = sdk_of(
        *(client, anthropic, settings, PATH),
        provider=title,
        setting=setting,
        code="error_code",
        as_bytes=False,
    )

    async def send(body: Json) -> Any:
        with refused:
            return await sdk.send(body)

    @asynccontextmanager
    async def stream(body: Json) -> AsyncIterator[AsyncIterator[Json]]:
        async with AsyncExitStack() as stack:
            with refused:
                events = await stack.enter_async_context(sdk.stream(body))
            yield events

    return replace(sdk, send=send, stream=stream)
