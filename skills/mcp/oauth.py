"""The sign-in of a user at an MCP server: discovery, registration, PKCE and tokens.

It uses the models and checks of the SDK (RFC 9728, 8414, 7591, 7636, 8707, 9207), but not its
provider, which waits for the user inside of a request: a restart would lose the sign-in.

Importing this module takes a second: see `skills.mcp.sign_ins`.
"""

import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from mcp.client.auth import OAuthFlowError, PKCEParameters
from mcp.client.auth.oauth2 import OAuthContext, check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls as metadata_urls,
)
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls as resource_urls,
)
from mcp.client.auth.utils import (
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    issuers_match,
    validate_authorization_response_iss,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, BaseModel, ValidationError

from bot.net.base import WebResponse
from bot.values import Json
from skills.mcp.oauth_http import OAuthHttp, SignInError
from skills.mcp.settings import McpOAuthSettings

Described = TypeVar("Described", bound=BaseModel)

OK, CREATED, BAD_REQUEST, UNAUTHORIZED = 200, 201, 400, 401


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun.

    Attributes:
        link: The page where the user signs in.
        state: The value that comes back with the user.
        pending: What the end of the sign-in needs; secret.
    """

    link: str
    state: str
    pending: Json


class _Challenge:
    """The parts of a response that the SDK's functions read."""

    def __init__(self, response: WebResponse) -> None:
        self.status_code = response.status
        self.headers = {"WWW-Authenticate": response.challenge or None}


class RefusedTokenError(Exception):
    """The server does not accept the refresh token any more."""


async def begin(
    http: OAuthHttp,
    settings: McpOAuthSettings,
    redirect: str,
    *,
    name: str,
    earlier: Json | None,
    now: float,
) -> Begun:
    """Find out where the users of a server sign in, register there, and return a link.

    Args:
        http: Sends the requests.
        settings: The settings of the sign-in.
        redirect: The address to which a browser returns.
        name: The name of the server.
        earlier: The stored document of a completed sign-in, whose registration is used again if it
            fits; `None` for none.
        now: The time, in seconds since 1970.

    Raises:
        SignInError: The server offers no sign-in that the bot can use.
    """
    probe = await http.send("GET", http.server_url, headers={"Accept": "text/event-stream"})
    challenge = _Challenge(probe)
    named = extract_resource_metadata_from_www_auth(challenge)  # type: ignore[arg-type]
    protected = await _protected(http, named)
    metadata = await _metadata(http, protected, name)
    methods = metadata.code_challenge_methods_supported
    if methods is not None and "S256" not in methods:
        raise SignInError(f"The sign-in of {name} does not offer PKCE with S256, and is refused.")
    scope = " ".join(settings.scopes) or get_client_metadata_scopes(
        extract_scope_from_www_auth(challenge),  # type: ignore[arg-type]
        protected,
        metadata,
        ["authorization_code", "refresh_token"],
    )
    again = None
    if earlier is not None and not settings.client_id:
        again = _registered(earlier, metadata, redirect, scope, now)
    client = again or await _client(http, settings, metadata, redirect, scope, name)
    resource = resource_url_from_server_url(http.server_url)
    if protected is not None:
        resource = str(protected.resource)
    pending = {
        "redirect": redirect,
        "resource": resource,
        "client": client.model_dump(mode="json", exclude_none=True),
        "metadata": metadata.model_dump(mode="json", exclude_none=True),
    }
    return _begun(pending, scope)


def _begun(pending: Json, scope: str | None) -> Begun:
    """Return the link of a sign-in, with a new state and verifier."""
    pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
    asked = {
        "response_type": "code",
        "client_id": pending["client"]["client_id"],
        "redirect_uri": pending["redirect"],
        "state": state,
        "code_challenge": pkce.code_challenge,
        "code_challenge_method": "S256",
        "resource": pending["resource"],
    }
    if scope:
        asked["scope"] = scope
    if scope and "offline_access" in scope.split():
        asked["prompt"] = "consent"
    page = pending["metadata"]["authorization_endpoint"]
    link = f"{page}{'&' if urlsplit(page).query else '?'}{urlencode(asked)}"
    return Begun(link, state, {**pending, "verifier": pkce.code_verifier})


async def finish(http: OAuthHttp, pending: Json, code: str, issuer: str | None) -> Json:
    """Exchange the code of a user for tokens, and return what is to be stored.

    Raises:
        SignInError: The server refuses, or another server has answered.
    """
    metadata = OAuthMetadata.model_validate(pending["metadata"])
    try:
        validate_authorization_response_iss(issuer, metadata)
    except OAuthFlowError:
        raise SignInError(
            "Another server has answered than the one that was asked. Begin the sign-in again."
        ) from None
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending["redirect"],
        "code_verifier": pending["verifier"],
    }
    answer = await _token_request(http, pending, form)
    if answer.status not in (OK, CREATED):
        raise SignInError(
            f"{_host(metadata.token_endpoint)} refused the sign-in (status {answer.status}). Begin "
            "it again."
        )
    kept = {key: pending[key] for key in ("resource", "client", "metadata")}
    return kept | _tokens(answer, {}, metadata)


async def refresh(http: OAuthHttp, stored: Json) -> Json:
    """Return stored tokens with a new access token.

    Raises:
        RefusedTokenError: The user must sign in again.
        SignInError: The server cannot be reached now.
    """
    if not (token := stored.get("refresh_token")):
        raise RefusedTokenError
    form = {"grant_type": "refresh_token", "refresh_token": token}
    answer = await _token_request(http, stored, form)
    metadata = OAuthMetadata.model_validate(stored["metadata"])
    if answer.status in (BAD_REQUEST, UNAUTHORIZED):
        raise RefusedTokenError
    if answer.status != OK:
        raise SignInError(
            f"{_host(metadata.token_endpoint)} gives no new access now (status {answer.status}). "
            "Try again later."
        )
    return {**stored, **_tokens(answer, stored, metadata)}


async def revoke(http: OAuthHttp, stored: Json) -> bool:
    """Revoke the tokens at the server; return False if it offers no revocation."""
    metadata = OAuthMetadata.model_validate(stored["metadata"])
    if metadata.revocation_endpoint is None:
        return False
    done = True
    for kind in ("refresh_token", "access_token"):
        if token := stored.get(kind):
            form = {"token": token, "token_type_hint": kind}
            answer = await _client_request(http, stored, str(metadata.revocation_endpoint), form)
            done = done and answer.status == OK
    return done


async def _described(
    http: OAuthHttp, urls: Iterable[str], kind: type[Described]
) -> Described | None:
    """Return the first description of a kind that one of these addresses has; `None` for none."""
    for url in urls:
        answer = await http.send("GET", url)
        if answer.status == OK:
            with suppress(ValidationError):
                return kind.model_validate_json(answer.content)
    return None


async def _protected(http: OAuthHttp, named: str | None) -> ProtectedResourceMetadata | None:
    """Return the server's own description of its sign-in; `None` for an old server."""
    urls = resource_urls(named, http.server_url)
    if found := await _described(http, urls, ProtectedResourceMetadata):
        wanted = resource_url_from_server_url(http.server_url)
        if not check_resource_allowed(
            requested_resource=wanted, configured_resource=str(found.resource)
        ):
            raise SignInError(
                f"{_host(http.server_url)} describes the sign-in of another server, and is refused."
            )
        return found
    return None


async def _metadata(
    http: OAuthHttp, protected: ProtectedResourceMetadata | None, name: str
) -> OAuthMetadata:
    parts = urlsplit(http.server_url)
    named = str(protected.authorization_servers[0]) if protected else None
    if found := await _described(http, metadata_urls(named, http.server_url), OAuthMetadata):
        if not issuers_match(str(found.issuer), named or f"{parts.scheme}://{parts.netloc}"):
            raise SignInError(
                f"The sign-in of {name} is described by another server than it names, and is "
                "refused."
            )
        if not http.private and found.authorization_endpoint.scheme != "https":
            raise SignInError(f"The sign-in of {name} is without TLS (https), and is refused.")
        return found
    raise SignInError(
        f"{name} does not describe its sign-in as OAuth servers do. An admin can give `headers` "
        "with a key instead."
    )


def _registered(
    earlier: Json, metadata: OAuthMetadata, redirect: str, scope: str | None, now: float
) -> OAuthClientInformationFull | None:
    """Return the registration of an earlier sign-in if it fits this one."""
    client = OAuthClientInformationFull.model_validate(earlier["client"])
    ends = client.client_secret_expires_at
    fits = (
        earlier["metadata"]["issuer"] == str(metadata.issuer)
        and AnyUrl(redirect) in (client.redirect_uris or ())
        and (client.scope is None or {*(scope or "").split()} <= {*client.scope.split()})
        and (not ends or ends > now)
    )
    return client if fits else None


async def _client(
    http: OAuthHttp,
    settings: McpOAuthSettings,
    metadata: OAuthMetadata,
    redirect: str,
    scope: str | None,
    name: str,
) -> OAuthClientInformationFull:
    if settings.client_id:
        secret = settings.client_secret
        methods = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        posted = "client_secret_basic" not in methods
        method = "client_secret_post" if posted else "client_secret_basic"
        return OAuthClientInformationFull(
            client_id=settings.client_id,
            client_secret=secret.get_secret_value() if secret else None,
            token_endpoint_auth_method=method if secret else "none",
        )
    if metadata.registration_endpoint is None:
        raise SignInError(
            f"{name} registers no clients by itself: an admin registers the bot there, and sets "
            "`oauth.client_id` of the server."
        )
    asked = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method="none",  # noqa: S106 - the name of a method
        scope=scope,
        client_name="Retinue",
        application_type="web" if redirect.startswith("https:") else "native",
    )
    body = asked.model_dump(mode="json", exclude_none=True)
    answer = await http.send("POST", str(metadata.registration_endpoint), json=body)
    try:
        if answer.status not in (OK, CREATED):
            raise ValueError("refused")  # noqa: TRY301
        made = OAuthClientInformationFull.model_validate_json(answer.content)
        check_registration_usable(made)
    except (ValueError, OAuthFlowError):
        raise SignInError(
            f"{_host(metadata.registration_endpoint)} did not register the bot (status "
            f"{answer.status}). An admin can register it there, and set `oauth.client_id`."
        ) from None
    return made


async def _token_request(http: OAuthHttp, stored: Json, form: Json) -> WebResponse:
    metadata = OAuthMetadata.model_validate(stored["metadata"])
    form = {**form, "resource": stored["resource"]}
    return await _client_request(http, stored, str(metadata.token_endpoint), form)


async def _client_request(http: OAuthHttp, stored: Json, url: str, form: Json) -> WebResponse:
    """Send a form to a server with the bot's id, and its secret if it has one."""
    client = OAuthClientInformationFull.model_validate(stored["client"])
    context = OAuthContext(http.server_url, None, None, None, None)  # type: ignore[arg-type]
    context.client_info = client
    data, headers = context.prepare_token_auth({**form, "client_id": client.client_id}, {})
    return await http.send("POST", url, form=data, headers=headers)


def _tokens(answer: WebResponse, before: Json, metadata: OAuthMetadata) -> Json:
    try:
        token = OAuthToken.model_validate_json(answer.content)
    except ValidationError:
        raise SignInError(
            f"{_host(metadata.token_endpoint)} answered without a token. Begin the sign-in again."
        ) from None
    return {
        "access_token": token.access_token,
        "refresh_token": token.refresh_token or before.get("refresh_token"),
        "expires_in": token.expires_in,
    }


def _host(url: object) -> str:
    return urlsplit(str(url)).netloc
