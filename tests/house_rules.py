"""The rules of `test_architecture` as tables: a new module, or an exception, is a line here."""

import re

#: The line on which a module stands; it imports only from lines with a higher number. A module that
#: is not listed stands where the longest listed beginning of its name does.
LINES = {
    "bot.__main__": 1,
    "bot.accounts": 2,
    "bot.accounts_console": 1,
    "bot.app": 2,
    "bot.assembly": 2,
    "bot.audit_console": 1,
    "bot.audit_reports": 2,
    "bot.cautions": 2,
    "bot.config_reports": 2,
    "bot.console": 2,
    "bot.doctor": 2,
    "bot.health": 2,
    "bot.inventory": 2,
    "bot.processes": 2,
    "bot.prompt_tokens": 2,
    "bot.report": 2,
    "bot.running": 2,
    "bot.serving": 2,
    "bot.settings_console": 1,
    "bot.settings_shown": 2,
    "bot": 3,
    "bot.changes": 9,
    "bot.personal": 9,
    "bot.config": 3,
    "skills.mcp": 6,
    "skills.mcp.checkup": 2,
    "skills.mcp.commands": 4,
    "skills.mcp.approvals": 2,
    "skills.mcp.console": 1,
    "skills.mcp.report": 3,
    "skills.mcp.skill": 3,
    "skills.mcp.settings": 8,
    "skills.mcp.tools": 8,
    "bot.models": 3,
    "bot.platforms": 3,
    "skills.rest.settings": 8,
    "skills.calendar.settings": 8,
    "bot.web": 3,
    "migrations": 3,
    "skills": 3,
    "bot.conversations": 4,
    "bot.spending": 6,
    "bot.spending.amounts": 9,
    "bot.spending.pools": 8,
    "bot.spending.settings": 8,
    "bot.subagents": 5,
    "bot.agent": 6,
    "bot.engine": 7,
    "bot.engine_library": 8,
    "bot.models.anthropic_client": 7,
    "bot.models.anthropic_codec": 7,
    "bot.models.base": 7,
    "bot.models.client": 7,
    "bot.models.failures": 7,
    "bot.models.metering": 7,
    "bot.models.prices": 7,
    "bot.models.retrying": 7,
    "bot.net": 8,
    "bot.files": 8,
    "bot.platforms.base": 7,
    "bot.platforms.handler": 7,
    "bot.platforms.catalog": 8,
    "bot.platforms.messages": 8,
    "bot.platforms.reading": 8,
    "bot.platforms.messaging": 6,
    "bot.platforms.messaging.attachments": 8,
    "bot.platforms.messaging.pacing": 8,
    "bot.platforms.messaging.splitting": 8,
    "bot.platforms.messaging.texts": 8,
    "db": 7,
    "db.trouble": 8,
    "bot.agent.brief": 8,
    "bot.agent.context": 8,
    "bot.agent.dialects": 8,
    "bot.agent.documents": 8,
    "bot.agent.markup": 8,
    "bot.agent.messages": 8,
    "bot.agent.permissions": 8,
    "bot.agent.plain": 8,
    "bot.agent.sanitizer": 8,
    "bot.agent.settings": 8,
    "bot.agent.subjects": 8,
    "bot.agent.usage_columns": 8,
    "bot.catalog": 8,
    "bot.conversations.access": 8,
    "bot.conversations.audit_settings": 8,
    "bot.conversations.command_arguments": 8,
    "bot.conversations.command_lines": 8,
    "bot.conversations.command_words": 8,
    "bot.conversations.file_kinds": 8,
    "bot.disk": 8,
    "bot.config.document": 8,
    "bot.config.interpolation": 8,
    "bot.platforms.discord.settings": 8,
    "bot.checks": 8,
    "bot.platforms.slack.settings": 8,
    "bot.config.plaintext_secrets": 8,
    "bot.config.problems": 8,
    "bot.rights": 8,
    "bot.run_texts": 8,
    "skills.shell.settings": 8,
    "skills.schedules.settings": 8,
    "skills.web.settings": 8,
    "bot.subagents.limits": 8,
    "bot.subagents.retention": 8,
    "skills.files": 7,
    "skills.files.checkup": 3,
    "skills.files.cleanup": 3,
    "skills.files.skill": 3,
    "skills.files.wording": 3,
    "skills.files.settings": 8,
    "skills.mcp.flow": 8,
    "skills.mcp.images": 6,
    "skills.rest": 6,
    "skills.rest.checkup": 3,
    "skills.rest.report": 3,
    "skills.rest.skill": 3,
    "skills.rest.documents": 8,
    "skills.rest.openapi": 8,
    "skills.rest.requests": 8,
    "skills.calendar": 7,
    "skills.calendar.checkup": 3,
    "skills.calendar.report": 3,
    "skills.calendar.skill": 3,
    "skills.files.inbox": 4,
    "skills.files.sending": 4,
    "skills.attachments": 4,
    "skills.attachments.extract": 8,
    "skills.attachments.skill": 3,
    "skills.conversation": 4,
    "skills.conversation.skill": 3,
    "skills.schedules": 4,
    "skills.schedules.skill": 3,
    "skills.schedules.times": 8,
    "skills.shell": 6,
    "skills.shell.checkup": 3,
    "skills.shell.report": 3,
    "skills.shell.skill": 3,
    "skills.web.search": 7,
    "skills.web.search.anthropic": 6,
    "skills.web.search.catalog": 6,
    "skills.base": 8,
    "skills.declaration": 4,
    "skills.discovery": 8,
    "skills.opening": 2,
    "skills.services": 8,
    "skills.shapes": 8,
    "skills.store": 6,
    "skills.user_texts": 6,
    "skills.settings": 8,
    "bot.isolated": 8,
    "bot.isolated_launcher": 8,
    "bot.errors": 9,
    "bot.events": 9,
    "bot.masking": 9,
    "bot.logs": 9,
    "bot.tasks": 9,
    "bot.values": 9,
}
EDGE, PURE, VALUES = 3, 8, 9

#: Every module (with those named after it: `anthropic`, `anthropic_codec`) or package in these is
#: an adapter, and adapters never see one another.
ADAPTERS = ("bot.models", "bot.platforms", "skills")

#: Who may see others on its own line: the configuration gathers everyone's settings, and the
#: catalog knows every provider.
SEES_ITS_LINE = {
    "bot.config.loading": ("bot.platforms.catalog",),
    "bot.config.model": ("bot", "db", "skills"),
    "bot.__main__": ("bot.accounts_console", "bot.audit_console", "bot.settings_console"),
    "bot.app": (
        "bot.accounts",
        "bot.assembly",
        "bot.config_reports",
        "bot.running",
        "bot.settings_shown",
        "skills.opening",
    ),
    "bot.processes": ("bot.app", "bot.running", "bot.serving"),
    "bot.running": ("bot.config_reports", "skills.opening"),
    "bot.serving": ("bot.running",),
    "bot.audit_reports": ("bot.accounts",),
    "bot.settings_shown": ("bot.accounts",),
    "bot.doctor": ("bot.inventory",),
    "bot.inventory": ("bot.prompt_tokens",),
    "skills.declaration": ("bot.conversations.commands",),
    "skills.mcp.commands": ("bot.conversations.commands",),
    "skills.web.report": ("bot.models.catalog",),
    "skills.web.skill": ("bot.models.catalog",),
    "bot.report": ("bot.inventory",),
    "bot.models.catalog": ("bot.models",),
    "bot.models.checkup": ("bot.models.catalog",),
    "bot.models.providers": ("bot.models",),
}

#: What a skill sees beside the one service that it wraps: its declaration, the store that notes and
#: memory share over the database, and the values that the manager of runs takes.
SEEN_BY_SKILLS = ("skills.declaration", "skills.user_texts", "bot.subagents.requests")

#: SDKs that are slow to import, and the one place that may: a module does it inside a function. The
#: modules of a package may do it at their top; whoever stands outside of the package imports these
#: inside a function.
HEAVY = {
    "anthropic": "bot.models.anthropic",
    "openai": "bot.models.openai",
    "discord": "bot.platforms.discord",
    "slack_bolt": "bot.platforms.slack",
    "slack_sdk": "bot.platforms.slack",
    "dbos": "bot.engine",
    "caldav": "skills.calendar",
    "icalendar": "skills.calendar",
    "recurring_ical_events": "skills.calendar",
    "mcp": "skills.mcp",
    "mcp_types": "skills.mcp",
}

#: Who may import what inside a function, besides the SDKs above: the start must be quick.
LATE = {
    "bot.__main__": ("bot", "db", "importlib", "migrations"),
    "skills.calendar.calendars": ("skills.calendar.dav", "skills.calendar.ics"),
    "skills.calendar.checkup": ("skills.calendar.dav",),
    "bot.accounts_console": ("bot.accounts",),
    "bot.audit_console": ("bot.audit_reports",),
    "bot.settings_console": ("bot.settings_shown",),
    "bot.console": ("db.diagnosis",),
    "skills.mcp.console": ("skills.mcp.approvals",),
    "skills.mcp.servers": ("skills.mcp.link",),
    "bot.catalog.schemas": ("jsonschema",),
    "bot.models.client": ("aiohttp", "httpx2"),
    "bot.models.prices": ("genai_prices",),
    "bot.net.free_addresses": ("tld", "yarl"),
    "bot.net.guard": ("aiohttp",),
    "bot.net.urls": ("yarl",),
    "bot.net.web": ("aiohttp", "yarl"),
    "bot.platforms.terminal": ("rich", "prompt_toolkit", "bot.platforms.terminal"),
    "skills.web.search.ddgs": ("ddgs",),
    "skills.rest.requests": ("jsonschema", "referencing"),
    "migrations.run": ("alembic",),
}

#: Who may open connections besides the guard of `bot.net`, and with what: SDKs that speak to the
#: services that the configuration names. `tests/bot/net/test_one_factory.py` keeps it.
CLIENTS = {
    "skills.calendar.dav": ("caldav",),
    "skills.mcp.http": ("httpx2",),
    "bot.models.client": ("httpx2",),
    "bot.models.checkup": ("aiohttp.ClientSession",),
    "bot.net.guard": ("aiohttp.ClientSession", "aiohttp.TCPConnector"),
    "bot.platforms.slack.clients": ("aiohttp.ClientSession",),
    "skills.web.search.ddgs": ("ddgs",),
}

#: Where `except Exception` may stand, and what is bounded there.
BOUNDARIES = {
    "bot.agent.toolbox": "a tool call",
    "skills.calendar.dav": "a reply of a server",
    "skills.calendar.reading": "an event that strangers wrote",
    "bot.conversations.announcements": "a delivery",
    "bot.conversations.durable_commands": "a command that is carried out once more",
    "bot.conversations.files": "the fetching of a file",
    "bot.conversations.turn_reply": "a reply",
    "bot.conversations.turns": "a turn",
    "bot.conversations.upkeep": "a regular duty",
    "bot.console": "a command",
    "bot.doctor": "a check",
    "bot.events": "a subscriber",
    "skills.mcp.checkup": "a look at a server",
    "skills.mcp.servers": "a connection to a server",
    "bot.net.reading": "the reading of a page",
    "bot.subagents.answer_waits": "the showing of a question",
    "bot.subagents.cards": "a run card",
    "bot.platforms.discord.client": "a connection to the gateway, an event that discord.py parses",
    "bot.platforms.messaging.catch_up": "the reading of a place",
    "bot.platforms.discord.commands": "a completion",
    "bot.platforms.discord.interactions": "a command, a click or a form",
    "bot.platforms.messaging.intake": "a message, or a call of the core",
    "bot.platforms.messaging.pacing": "a send that a newer one follows",
    "bot.platforms.slack.oauth": "a web page",
    "bot.platforms.slack.interactions": "a command, a click or a form",
    "bot.platforms.terminal.listener": "a line that was typed",
    "bot.platforms.terminal.printer": "a text on the screen",
    "skills.web.search.ddgs": "a search by way of other people's pages",
    "skills.schedules.fires": "a fire",
    "bot.serving": "a platform",
    "bot.subagents.runner": "a run",
    "skills.loading": "the code of a skill that somebody else wrote",
    "db.database": "a unit of work that may be tried again",
    "db.steps": "a group commit: whoever waits for it gets the error",
}

#: Classes of ours of which a module may hold an instance after all, by their full name.
INSTANCES: set[str] = set()
#: Bases whose instances are values.
VALUE_BASES = {
    "BaseModel",
    "Enum",
    "IntEnum",
    "NamedTuple",
    "StrEnum",
    "TypeDecorator",
    "Exception",
}

MAX_FILE, MAX_FUNCTION = 400, 50
#: A migration is a list of what happens to tables, in order: nothing is gained by cutting it up.
MAY_BE_LONG = ("migrations.versions",)
#: Functions that may be longer: the composition root is a list of parts, in their order.
LONG_FUNCTIONS = {"bot.app": "open_bot"}

#: Docstrings that hint at the code instead of stating what it does.
RIDDLE = re.compile(
    r"(?:(?:return|say|tell|give|keep)\s+)?(?:what|whether|who|whose|whom|why|how|where|which)\b"
    r"|[\s\S]*\b(?:so long|goes on|somebody)\b",
    re.IGNORECASE,
)

#: Class names that adapters share for the same role; any other class name has one meaning.
TWINS: set[str] = {
    "AdmittedInteraction",
    "Draft",
    "RefusedError",
    "Sender",
    "Tempo",
}

#: Words of class names that hide what a class does.
FURNITURE = {
    *("attendance", "desk", "doors", "ears", "equipment", "fate", "furniture", "ground", "kept"),
    *("means", "office", "paper", "reception", "room", "shelf", "surroundings", "visit", "wires"),
}
