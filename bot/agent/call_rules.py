"""Decides about calls by the rules of an agent and the rights of the user as they are now."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from bot.agent.messages import ToolCall
from bot.agent.permissions import Decision, Permissions, Verdict, strictest
from bot.conversations.access import is_private
from bot.errors import BotError
from skills.base import Effects, Tool, ToolContext

ALLOW = Decision.ALLOW
#: The tool whose argument `name` names an Agent Skill.
READS_SKILLS = "skill_read"
#: The tool whose rules apply to the files that other tools read.
READS_FILES = "file_read"
NO_APPROVER = "{}, which takes the yes of the role `{}`, and nobody with that role reads here"


async def ruled(
    permissions: Permissions, tool: Tool, call: ToolCall, context: ToolContext
) -> Verdict:
    """Return the strictest decision about a call by the rules and the rights of the user.

    The rights act when a tool is called: everyone in a place is offered the same tools.
    """
    subjects = tool.subjects(call.arguments) if tool.subjects else ("",)
    files = tool.files(call.arguments) if tool.files else ()
    harmless = tool.effects is Effects.NONE or tool.auto_approved
    skill = call.arguments.get("name") if tool.name == READS_SKILLS else None
    try:
        rights = await context.rights()
        if isinstance(skill, str) and (refused := rights.refusal("skills", skill.strip())):
            return Verdict(Decision.DENY, refused)

        def decide(granted: Collection[str]) -> Verdict:
            verdicts = [
                permissions.decide(tool.name, subjects, harmless=harmless, granted=granted),
                rights.decide(tool.name, subjects, granted=granted),
            ]
            if files:
                verdicts += [
                    permissions.decide(READS_FILES, files, harmless=True, granted=granted),
                    rights.decide(READS_FILES, files, granted=granted),
                ]
            return strictest(verdicts)

        verdict = decide(())
        if verdict.decision is not ALLOW:
            # Grants answer questions, so they change nothing for a call that is allowed.
            verdict = decide(await rights.always())
    except BotError as error:
        return Verdict(Decision.DENY, str(error).removesuffix("."))
    if verdict.approver and is_private(context.place) and rights.role != verdict.approver:
        return Verdict(Decision.DENY, NO_APPROVER.format(verdict.reason, verdict.approver))
    if tool.needs_confirmation and verdict.decision is not Decision.DENY:
        # No rule makes the question unnecessary.
        return replace(verdict, decision=Decision.ASK, rule="")
    return verdict


async def usable_skills(
    permissions: Permissions, tools: Mapping[str, Tool], context: ToolContext, names: Iterable[str]
) -> frozenset[str]:
    """Return the Agent Skills that the caller may use, of these names.

    They are those whose texts are in its prompt, and all others if it may read them without
    asking; less those that the rights of the user leave out.

    Raises:
        BotError: The rights of the user are unknown.
    """
    rights = await context.rights()
    found = {name for name in names if not rights.refusal("skills", name)}
    if reader := tools.get(READS_SKILLS):
        verdict = await ruled(permissions, reader, ToolCall("", READS_SKILLS, {}), context)
        if verdict.decision is ALLOW:
            return frozenset(found)
    return frozenset(found & context.named_skills)
