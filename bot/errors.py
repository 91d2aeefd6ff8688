"""The errors of the bot, with texts for the user who made the request."""


class BotError(Exception):
    """The root: its text is a whole sentence, safe to show, and names the next step.

    The technical cause belongs in the log, never in this text.
    """


class ConfigError(BotError):
    """The configuration is invalid; the text names the key and the valid form."""


class NotAllowedError(BotError):
    """The user lacks the right to the action."""


class UnknownRoleError(NotAllowedError):
    """The role of the user cannot be known at the moment."""


class NotFoundError(BotError):
    """The object does not exist or belongs to another user; both cases give the same answer."""


class AmbiguousError(BotError):
    """Several objects match the input; the text lists them."""


class LimitReachedError(BotError):
    """A cap of this user or of the whole bot is reached.

    Attributes:
        limit: The config key of the cap.
        retry_after_seconds: The time until a retry makes sense, if known.
    """

    def __init__(self, text: str, *, limit: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(text)
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds


class BadRequestError(BotError):
    """The request is invalid; the text gives the valid form."""


class OnHoldError(BadRequestError):
    """The user's data is under a legal hold; the text says no more than that it is kept."""


class ToolError(BotError):
    """A tool failed; the text gives the model an alternative."""


class ModelError(BotError):
    """The language model gave no usable answer, and a retry will not help.

    Attributes:
        charged: Whether the provider had begun the answer and may charge for it.
    """

    def __init__(self, text: str, *, charged: bool = False) -> None:
        super().__init__(text)
        self.charged = charged


class ModelUnavailableError(ModelError):
    """The model is busy or unreachable; a later retry may help.

    Attributes:
        retry_after_seconds: The least time to wait, if the provider named one.
        throttled: Whether the provider refused because of too many requests.
    """

    def __init__(
        self,
        text: str,
        *,
        retry_after_seconds: float | None = None,
        throttled: bool = False,
        charged: bool = False,
    ) -> None:
        super().__init__(text, charged=charged)
        self.retry_after_seconds = retry_after_seconds
        self.throttled = throttled


class ModelRefusedError(ModelError):
    """The provider refuses this account or this model for every request; another may answer."""


class SpendingLimitError(ModelError):
    """A model call exceeds a limit on tokens or money; the text names it, its use and its reset.

    Attributes:
        report: The most input and output tokens of a last report; `None` if none fits.
    """

    def __init__(self, text: str, *, report: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.report = report


class NearLimitError(Exception):
    """A model call is near a limit: the provider must count its input first."""


class ContextTooLongError(ModelError):
    """The conversation no longer fits the model; a shorter one might."""


class ImagesRefusedError(ModelError):
    """The model accepts no images, or not these; a request without them may succeed."""


class DeliveryError(BotError):
    """A text was not delivered to its place.

    Attributes:
        permanent: Whether retries cannot help (the place is gone).
        fate_unknown: Whether the platform may have taken the text before the connection broke.
        retry_after_seconds: The least time to wait; 0 if the platform named none.
    """

    def __init__(
        self,
        text: str,
        *,
        permanent: bool = False,
        fate_unknown: bool = False,
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(text)
        self.permanent = permanent
        self.fate_unknown = fate_unknown
        self.retry_after_seconds = retry_after_seconds


class NotPresentError(DeliveryError):
    """The user is not present to read the text; it waits until they return."""


class FencedError(Exception):
    """Another process has taken over this work: stop, and store nothing more."""


class LeftError(Exception):
    """This process cannot continue the work now: it is left unchanged, to be resumed."""


class DatabaseUnreachableError(BotError):
    """The database accepts no connection; it may do so later."""


class PlatformUnreachableError(BotError):
    """Discord or Slack is unreachable; it may be reachable later."""


class DatabaseBusyError(BotError):
    """Another process holds the database file."""
