"""What can go wrong, in words for the person who asked."""


class BotError(Exception):
    """The root: its text is a whole sentence, safe to show, and says what to do next.

    The technical cause belongs in the log, never in this text.
    """


class ConfigError(BotError):
    """The configuration cannot be used; the text names the key and what would be right."""


class NotAllowedError(BotError):
    """This person may not do that."""


class NotFoundError(BotError):
    """There is no such thing, or it is someone else's: both answer alike."""


class AmbiguousError(BotError):
    """Several things fit what was typed; the text lists them."""


class LimitReachedError(BotError):
    """A cap of this person or of the whole bot is reached.

    Attributes:
        limit: The config key of the cap.
        retry_after_seconds: When asking again makes sense, if that is known.
    """

    def __init__(self, text: str, *, limit: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(text)
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds


class BadRequestError(BotError):
    """What was asked for makes no sense as it stands; the text says what would."""


class ToolError(BotError):
    """A tool could not do it; the text tells the model what to try instead."""


class ModelError(BotError):
    """The language model gave no usable answer, and asking again will not help.

    Attributes:
        charged: The provider was at work on the answer and may charge for it.
    """

    def __init__(self, text: str, *, charged: bool = False) -> None:
        super().__init__(text)
        self.charged = charged


class ModelUnavailableError(ModelError):
    """The model is busy or out of reach; asking again later may help.

    Attributes:
        retry_after_seconds: The least time to wait, if the provider named one.
        throttled: The provider refuses because it is asked too much.
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
    """The provider refuses this account or this model, whatever is asked; another may answer."""


class ContextTooLongError(ModelError):
    """The conversation no longer fits the model; a shorter one might."""


class ImagesRefusedError(ModelError):
    """The model takes no images, or not these; without them it might answer."""


class DeliveryError(BotError):
    """A text did not reach its place.

    Attributes:
        permanent: Trying again cannot help (the place is gone).
        fate_unknown: The platform may have taken the text before the connection broke.
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
    """Nobody is there to read it now; it waits until that person is back."""


class FencedError(Exception):
    """Another process has taken this work over: stop, and write nothing more."""


class LeftError(Exception):
    """The work cannot go on in this process now: it is left as it is, to be resumed."""


class DatabaseUnreachableError(BotError):
    """The database gives no connection; it may do so later."""


class PlatformUnreachableError(BotError):
    """Discord or Slack cannot be reached; it may be later."""


class DatabaseBusyError(BotError):
    """Another process holds the database file."""
