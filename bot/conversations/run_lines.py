"""Formats runs, agents and limits for the answers to commands, as Markdown (pure)."""

from datetime import datetime

from bot.agent.sanitizer import one_line
from bot.catalog.agents import Agents
from bot.run_texts import counted, dollars, status_text
from bot.subagents.limits import SubagentSettings, spoken
from bot.subagents.records import RunDetails
from bot.subagents.requests import Spawned, UsageReport
from bot.subagents.wording import usage_words
from bot.values import short
from db.runs import Run

#: Most tools of an agent that are listed.
MOST_TOOLS = 20
AGENTS_PER_PAGE = 15


def run_line(run: Run, now: datetime) -> str:
    """Return a run as a line of a list, Markdown."""
    elapsed = spoken(run.seconds_used)
    if not run.status.final and run.started_at is not None:
        elapsed = spoken((now - run.started_at).total_seconds())
    icon, words = status_text(run.status, degraded=run.degraded)
    return (
        f"- {icon} `{short(run.id)}` #{run.number} **{run.label}** "
        f"({run.agent}) {words} · {elapsed} · {counted(run.tool_call_count, 'tool call')} · "
        f"{run.weighted_tokens:,} of {run.token_budget:,} tokens"
    )


def info_text(details: RunDetails) -> str:
    """Return the details of one run, Markdown."""
    run = details.run
    icon, words = status_text(run.status, degraded=run.degraded)
    lines = [
        f"{icon} **{run.label}** (`{run.id}`, #{run.number})",
        f"- Status: {words}"
        + (f", place {details.position} in the queue" if details.position else ""),
        f"- Agent: {run.agent}, model {run.model} ({run.provider}), {run.mode}",
        f"- Task: {one_line(run.task, 300)}",
        f"- Tokens: {run.weighted_tokens:,} of {run.token_budget:,} (weighted); "
        f"{run.tokens:,} in all: {usage_words(run)}",
        f"- Cost: {dollars(run.cost)}",
        f"- Work: {counted(details.steps, 'step')}, "
        f"{counted(run.tool_call_count, 'tool call')}, "
        f"{spoken(run.seconds_used)} of {spoken(run.timeout_ms / 1000)}",
        f"- Asked for: {run.created_at:%Y-%m-%d %H:%M:%S} UTC"
        + (f", ended {run.completed_at:%H:%M:%S}" if run.completed_at else ""),
    ]
    if (before := details.before) is not None:
        shown = f"`{short(before)}`" if isinstance(before, str) else named_state(before)
        lines.append(f"- Continues: {shown}")
    if details.after is not None:
        lines.append(f"- Continued by: {named_state(details.after)}")
    if details.asks:
        lines.append(f"- Waits for your answer: {one_line(details.asks, 300)}")
    for message in details.messages:
        read = f"read at step {message.read_at_step}" if message.read_at_step else "queued"
        if run.status.final and not message.read_at_step:
            read = "came too late"
        lines.append(f"- Message ({read}): {one_line(message.text, 200)}")
    if run.error:
        lines.append(f"- {run.error}")
    if run.result:
        lines += ["", run.result[:1500] + (" …" if len(run.result) > 1500 else "")]
    return "\n".join(lines)


def named(run: Run) -> str:
    """Return the id and number of a run, Markdown."""
    return f"`{short(run.id)}`, #{run.number}"


def named_state(run: Run) -> str:
    """Return the id, number and state of a run, Markdown."""
    return f"{named(run)}, {status_text(run.status, degraded=run.degraded).words}"


def spawned_text(spawned: Spawned, started: str, told: str) -> str:
    """Return the answer about a run that was admitted."""
    run = spawned.run
    if spawned.position is not None:
        started = (
            f"✅ “{run.label}” ({named(run)}) waits for a slot: place {spawned.position} in your "
            "queue."
        )
    return f"{started}{told}" + "".join(f"\n- {note}" for note in spawned.notes)


def usage_text(report: UsageReport) -> str:
    """Return a user's usage and limits."""
    settings, runs = report.settings, report.runs
    rate, delegation = settings.spawn_rate_limit, settings.delegation_rate_limit
    lines = [
        f"- Runs started in the last {spoken(rate.window_seconds)}: {runs.started_in_window} of "
        f"{rate.max_requests}",
        f"- Tasks delegated in the last {spoken(delegation.window_seconds)}: {report.delegated} of "
        f"{delegation.max_requests}",
        f"- Running: {runs.running} of {settings.max_concurrent_per_user}",
        f"- Waiting: {runs.queued} of {settings.max_queued_per_user}",
        f"- Last 24 hours: {counted(report.runs_today, 'run')}, "
        f"{counted(report.tokens_today, 'token')} "
        f"({report.weighted_today:,} weighted)",
        f"- One run: {settings.default_token_budget:,} tokens (at most "
        f"{settings.max_token_budget:,}), {settings.default_timeout_minutes:g} min (at most "
        f"{settings.max_timeout_minutes:g})",
    ]
    if report.people is not None:
        lines.append(
            f"- Everyone: {runs.running_global} of {settings.max_concurrent_global} slots taken, "
            + counted(report.people, "user")
        )
    return "**Your usage**\n" + "\n".join(lines)


def agents_text(
    agents: Agents, settings: SubagentSettings, *, words: str = "", page: int = 1
) -> str:
    """Return a page of the agents with their tools and limits, Markdown.

    Args:
        agents: All agents.
        settings: The limits of runs.
        words: Only agents with all of these words in name or description are shown.
        page: The page, from 1.
    """
    wanted = words.lower().split()
    found = [
        agent
        for agent in sorted(agents.by_name.values(), key=lambda agent: agent.name)
        if all(word in f"{agent.name} {agent.description}".lower() for word in wanted)
    ]
    if not found:
        return (
            f"No agent has “{one_line(words, 60)}” in its name or description. "
            "`/subagents agents` shows all."
        )
    pages = -(-len(found) // AGENTS_PER_PAGE)
    page = min(max(page, 1), pages)
    with_words = f" with “{one_line(words, 60)}”" if words else ""
    which = f", page {page} of {pages}" if pages > 1 else ""
    lines = [f"**Agents**{with_words} ({len(found)}{which})"]
    for agent in found[(page - 1) * AGENTS_PER_PAGE : page * AGENTS_PER_PAGE]:
        tools = "all that runs may have" if agent.tools is None else _tools(agent.tools) or "none"
        if agent.disallowed:
            tools += f", but not {_tools(agent.disallowed)}"
        minutes = agent.timeout_minutes or settings.default_timeout_minutes
        tokens = agent.token_budget or settings.default_token_budget
        lines += [
            f"- **{one_line(agent.name, 60)}**: {one_line(agent.description, 300)}",
            f"  - Tools: {tools}",
            f"  - Limits: {counted(agent.max_steps, 'step')}, "
            f"{spoken(min(minutes, settings.max_timeout_minutes) * 60)} "
            f"({spoken(settings.sync_timeout_seconds)} when an answer waits for it), "
            f"{min(tokens, settings.max_token_budget):,} tokens",
        ]
    lines += ["", "`/subagents spawn --agent NAME TASK` starts one."]
    if page < pages:
        more = " ".join(["/subagents agents", *words.split(), str(page + 1)])
        lines[-1] += f" `{more}` shows the next page."
    return "\n".join(lines)


def _tools(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_TOOLS} more" if len(names) > MOST_TOOLS else ""
    return ", ".join(f"`{one_line(name, 60)}`" for name in names[:MOST_TOOLS]) + more
