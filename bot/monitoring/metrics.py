"""The metrics of one process, for Prometheus; labels are bounded and never name users."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bot.counted_events import DeliveryTried, ModelCalled, ToolCalled, TurnEnded
from bot.events import EventBus, RunEnded
from bot.values import RunStatus
from db.health import Backlog

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
DATABASE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
MODEL_BUCKETS = (0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
TURN_BUCKETS = (1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
#: The label of calls of tools that do not exist: models make names up.
UNKNOWN = "unknown"


class Metrics:
    """Counts what one process does.

    Args:
        release: The version of the program and of its tables.
        whole: Whether to export the state of the whole system as well, which all processes share.
    """

    def __init__(self, *, release: str, whole: bool) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"retinue_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"retinue_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"retinue_{name}", text, labels, registry=registry, buckets=buckets)

        gauge("build_info", "Version and tables.", "release").labels(release).set(1)
        self.ready = gauge("ready", "1 if a part of this process is ready.", "part")
        self._turns = counter("turns", "Turns that ended.", "platform", "outcome")
        self._turn_seconds = histogram(
            "turn_seconds", "Time from a message to the end of its turn.", TURN_BUCKETS, "platform"
        )
        self._runs = counter("runs_ended", "Runs that ended.", "outcome")
        self._model_calls = counter(
            "model_calls", "Attempts of model calls.", "provider", "outcome"
        )
        self._model_seconds = histogram(
            "model_call_seconds", "Time of one attempt.", MODEL_BUCKETS, "provider"
        )
        self._tokens = counter("model_tokens", "Tokens as billed.", "provider", "kind")
        self._dollars = counter("model_cost_dollars", "Cost of model calls.", "provider")
        self._unpriced = counter(
            "model_calls_without_price", "Model calls of unknown cost.", "provider"
        )
        self._tools = counter("tool_calls", "Calls of tools.", "tool", "outcome")
        self._deliveries = counter(
            "deliveries", "Attempts of deliveries from the outbox.", "platform", "outcome"
        )
        self._retries = counter("retries", "Attempts after a failed one.", "kind")
        self.lag = histogram("event_loop_lag_seconds", "Delay of a timer.", LAG_BUCKETS)
        self._block = gauge("event_loop_longest_block_seconds", "In the last minutes.")
        self._database = histogram(
            "database_seconds",
            "Time of transactions and snapshots, with the wait for a connection.",
            DATABASE_BUCKETS,
            "kind",
        )
        self._database_errors = counter("database_errors", "Transactions without success.", "kind")
        for kind in ("model", "delivery"):
            self._retries.labels(kind)
        for kind in ("read", "write"):
            self._database_errors.labels(kind)
        self._whole = whole
        if whole:
            self._state = gauge("runs", "Runs by state, of the whole system.", "state")
            self._queue = gauge("turns_now", "Turns by state, of the whole system.", "state")
            self._age = gauge(
                "queue_age_seconds", "Age of the oldest work that could begin.", "kind"
            )
            self._outbox = gauge("outbox", "Deliveries by state, of the whole system.", "state")

    def subscribe(self, events: EventBus, is_tool: Callable[[str], bool]) -> None:
        """Count events from now on.

        Args:
            events: The bus of the bot.
            is_tool: Returns True for the name of a tool that exists.
        """

        def on_tool(event: ToolCalled) -> None:
            name = event.tool if is_tool(event.tool) else UNKNOWN
            self._tools.labels(name, "failed" if event.failed else "done").inc()

        events.subscribe(TurnEnded, self._on_turn)
        events.subscribe(RunEnded, lambda event: self._runs.labels(str(event.status)).inc())
        events.subscribe(ModelCalled, self._on_model)
        events.subscribe(ToolCalled, on_tool)
        events.subscribe(DeliveryTried, self._on_delivery)

    def on_database(self, kind: str, seconds: float, failed: bool) -> None:  # noqa: FBT001
        """Count a transaction or a snapshot; see `Database.observed`."""
        self._database.labels(kind).observe(seconds)
        if failed:
            self._database_errors.labels(kind).inc()

    def show(self, backlog: Backlog) -> None:
        """Export the state of the whole system."""
        if not self._whole:
            return
        for status in RunStatus:
            if not status.final:
                self._state.labels(str(status)).set(backlog.runs.get(status, 0))
        for gauge, values in (
            (self._queue, backlog.turns),
            (self._age, backlog.ages),
            (self._outbox, backlog.outbox),
        ):
            for name, value in values.items():
                gauge.labels(name).set(value)

    def show_ready(self, problems: Mapping[str, str]) -> None:
        """Export the readiness of each part: without a problem it is ready."""
        for part, problem in problems.items():
            self.ready.labels(part).set(not problem)

    def show_block(self, seconds: float) -> None:
        """Export the longest block of the event loop."""
        self._block.set(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _on_turn(self, event: TurnEnded) -> None:
        self._turns.labels(event.platform, event.outcome).inc()
        self._turn_seconds.labels(event.platform).observe(event.seconds)

    def _on_model(self, event: ModelCalled) -> None:
        provider = event.provider
        self._model_calls.labels(provider, event.outcome).inc()
        self._model_seconds.labels(provider).observe(event.seconds)
        if event.repeated:
            self._retries.labels("model").inc()
        for kind, tokens in (
            ("input", event.input),
            ("cache_read", event.cache_read),
            ("cache_write", event.cache_write),
            ("output", event.output),
        ):
            self._tokens.labels(provider, kind).inc(tokens)
        if event.cost is None:
            self._unpriced.labels(provider).inc()
        self._dollars.labels(provider).inc((event.cost or 0) / 1_000_000)

    def _on_delivery(self, event: DeliveryTried) -> None:
        self._deliveries.labels(event.platform, event.outcome).inc()
        if event.repeated:
            self._retries.labels("delivery").inc()
