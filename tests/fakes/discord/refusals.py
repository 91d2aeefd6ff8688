"""How Discord says no: its error codes, each with the status that comes with it."""

from bot.values import Json

CODES: dict[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10007: (404, "Unknown Member"),
    10008: (404, "Unknown Message"),
    10013: (404, "Unknown User"),
    10014: (400, "Unknown Emoji"),
    10015: (404, "Unknown Webhook"),
    10062: (404, "Unknown interaction"),
    10063: (404, "Unknown application command"),
    20016: (429, "This action cannot be performed due to slowmode rate limit"),
    30046: (429, "Maximum number of edits to messages older than 1 hour reached. Try again later"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    40094: (400, "Maximum number of follow up messages reached"),
    50001: (403, "Missing Access"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50008: (400, "Cannot send messages in a non-text channel"),
    50013: (403, "Missing Permissions"),
    50021: (403, "Cannot execute action on a system message"),
    50024: (400, "Cannot execute action on this channel type"),
    50027: (401, "Invalid Webhook Token"),
    50035: (400, "Invalid Form Body"),
    50083: (400, "Thread is archived"),
    50109: (400, "The request body contains invalid JSON."),
    160002: (400, "Cannot reply without permission to read message history"),
    160004: (400, "A thread has already been created for this message"),
    160005: (403, "Thread is locked"),
}


class Refusal(Exception):  # noqa: N818 - it is Discord's answer, not our error
    """Discord refuses a request."""

    def __init__(self, code: int, *, errors: Json | None = None, retry_after: float = 0) -> None:
        self.code = code
        self.status, self.text = CODES[code]
        self.errors = errors
        self.retry_after = retry_after
        super().__init__(f"{self.text} ({code}) {errors or ''}")

    def body(self) -> Json:
        """Return what stands in the answer."""
        body: Json = {"message": self.text, "code": self.code}
        if self.errors:
            body["errors"] = self.errors
        if self.status == 429:
            body |= {"retry_after": self.retry_after, "global": False}
        return body


def invalid(field: str, code: str, text: str) -> Refusal:
    """Return the refusal of a form of which one field (`a.b.0`) is wrong."""
    errors: Json = {"_errors": [{"code": code, "message": text}]}
    for part in reversed(field.split(".")):
        errors = {part: errors}
    return Refusal(50035, errors=errors)


def too_long(field: str, most: int, *, least: int = 0) -> Refusal:
    """Return the refusal of a text that is too long or too short."""
    text = f"Must be between {least} and {most} in length."
    return invalid(field, "BASE_TYPE_BAD_LENGTH", text)
