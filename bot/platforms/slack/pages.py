"""Defines the web pages for the installation of the bot (no SDK)."""

from dataclasses import dataclass, replace
from html import escape
from typing import Self

#: The pages load no resources and cannot be framed. Their addresses, which contain a code, are sent
#: to no other site.
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>body {{ font-family: sans-serif; line-height: 1.5; margin: 3em auto; max-width: 36em;
padding: 0 1em }}</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
<p><a href="{link}">{label}</a></p>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page with a headline, a text, and one link to the next step."""

    title: str
    text: str
    label: str = "Start again"

    def filled(self, **values: str) -> Self:
        """Return the page with these values in its text."""
        return replace(self, text=self.text.format(**values))

    def html(self, link: str) -> str:
        """Return the page as an HTML document; `link` is the address of its only link."""
        return _PAGE.format(
            title=escape(self.title),
            text=escape(self.text),
            label=escape(self.label),
            link=escape(link),
        )


OFFER = Page(
    "Install the bot in Slack",
    "Slack will show you what the bot asks for, and lets you choose the workspace.",
    "Continue to Slack",
)
NOT_NOW = Page(
    "That did not work",
    "Something went wrong on our side, and the bot was not installed. Start again in a minute. If "
    "it happens again, tell the people who run the bot: its log says what is wrong.",
)
CANCELLED = Page(
    "Nothing was installed",
    "The installation was cancelled in Slack. If you did not mean to, start again.",
)
OTHER_BROWSER = Page(
    "This installation was not begun here",
    "It was begun in another browser, or without cookies, or it is over already and the page was "
    "loaded once more. Nothing was installed just now. Start again, and stay in this browser.",
)
TOO_LATE = Page(
    "This installation is over",
    "It was finished already, or it took too long. Nothing was installed just now. If the bot is "
    "not in Slack yet, start again.",
)
NOT_CONFIRMED = Page(
    "Slack did not confirm the installation",
    "Nothing was installed. Start again. If it happens again, tell the people who run the bot: "
    "its log says what Slack answers.",
)

#: The pages by the reason of the failure: Bolt's, or the `error` that Slack adds to the redirect.
FAILURES = {
    "access_denied": CANCELLED,
    "invalid_browser": OTHER_BROWSER,
    "invalid_state": TOO_LATE,
    "storage_error": NOT_NOW,
}


INSTALLED = Page(
    "The bot is installed",
    "It is in the workspace {name}. Find it in Slack under Apps and write to it, or invite it to a "
    "channel and mention it there.",
    "Open Slack",
)
INSTALLED_FOR_ORGANISATION = Page(
    "The bot is installed",
    "It is installed for the organisation {name}. An administrator of the organisation now adds it "
    "to workspaces, in Slack's settings of the organisation. People find it there under Apps.",
    "Open Slack",
)
NOT_ALLOWED = Page(
    "The bot is not for this workspace",
    "The people who run this bot have named the workspaces that may use it, and yours is not among "
    "them. Nothing was stored. Ask them to add {workspace} to `slack.workspaces`, or start again "
    "and choose another workspace.",
)
#: For an app whose tokens expire (token rotation).
ROTATES = Page(
    "The bot cannot keep this token",
    "Slack gave a token for {workspace} that expires, and nothing was stored. Tell the people who "
    "run the bot: their app at api.slack.com/apps has token rotation switched on, which this bot "
    "does not know. It needs an app without.",
)
