"""Rules: of one list the last that matches counts, of several lists the strictest does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions import (
    Decision,
    PermissionRule,
    PermissionRules,
    Permissions,
    Verdict,
    read_rules,
)
from bot.errors import BadRequestError

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY

NAMES = st.sampled_from(["shell", "file_read", "file_write", "web_fetch"])
SUBJECTS = st.sampled_from(["", "a.txt", "secret/key", "git push", "git status"])
RULE = st.builds(
    PermissionRule,
    st.sampled_from(["*", "shell", "file_*", "file_write"]),
    st.sampled_from(["*", "secret/*", "git *", "git push*"]),
    st.sampled_from(list(Decision)),
)
RULES = st.lists(RULE, max_size=6).map(lambda rules: PermissionRules(tuple(rules)))
STRICTNESS = [ALLOW, ASK, DENY]


def test_of_rules_about_the_same_the_last_one_is_stored_where_it_stands() -> None:
    rules = read_rules([{"shell": "allow"}, {"shell:git *": "ask"}, {"shell:*": "deny"}])

    stored = read_rules(rules.as_given)

    for each in (rules, stored):
        found = each.find("shell", "git push")
        assert found is not None
        assert found.decision is DENY


@pytest.mark.parametrize(
    ("tool", "subject", "decision"),
    [
        ("file_write", "a.txt", ASK),
        ("file_write", "secret/key", DENY),
        ("file_read", "secret/key", DENY),
        ("shell", "git status", ALLOW),
        ("shell", "git push --force", DENY),
        ("shell", "rm -r .", ASK),
    ],
)
def test_of_the_rules_that_match_the_last_one_counts(
    tool: str, subject: str, decision: Decision
) -> None:
    rules = read_rules(
        {
            "file_write": "ask",
            "file_*:secret/*": "deny",
            "shell": "ask",
            "shell:git *": "allow",
            "shell:git push*": "deny",
        }
    )

    found = rules.find(tool, subject)
    assert found is not None
    assert found.decision is decision


def test_what_only_reads_is_allowed_and_what_changes_something_is_as_configured() -> None:
    careful = Permissions(default=ASK)

    assert careful.decide("file_read", ["a.txt"], harmless=True) == Verdict(ALLOW)
    assert careful.decide("file_write", ["a.txt"], harmless=False).decision is ASK
    assert Permissions().decide("file_write", ["a.txt"], harmless=False) == Verdict(ALLOW)


def test_a_rule_is_said_with_its_reason() -> None:
    permissions = Permissions(read_rules({"shell:git push*": "deny"}))

    verdict = permissions.decide("shell", ["git push\n--force"], harmless=False)
    assert verdict.decision is DENY
    assert verdict.reason == "the rule `shell:git push*: deny` is about shell on `git push --force`"


PERMISSIONS = st.builds(
    Permissions, RULES, st.lists(RULES, max_size=2).map(tuple), st.sampled_from(list(Decision))
)


@given(PERMISSIONS, RULES, NAMES, SUBJECTS, st.booleans())
def test_an_agent_never_gets_more_than_its_caller(
    caller: Permissions, own: PermissionRules, tool: str, subject: str, harmless: bool
) -> None:
    allowed = caller.decide(tool, [subject], harmless=harmless).decision
    inside = caller.within(own).decide(tool, [subject], harmless=harmless).decision

    assert STRICTNESS.index(inside) >= STRICTNESS.index(allowed)
    if rule := own.find(tool, subject):
        assert STRICTNESS.index(inside) >= STRICTNESS.index(rule.decision)


@given(PERMISSIONS, NAMES, SUBJECTS, st.booleans())
def test_a_tool_that_is_not_offered_is_denied_whatever_it_is_used_on(
    permissions: Permissions, tool: str, subject: str, harmless: bool
) -> None:

    if not permissions.offers(tool):
        verdict = permissions.decide(tool, [subject], harmless=harmless)
        assert verdict.decision is DENY


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("shell", "must be lines such as"),
        (["shell"], "must be lines such as"),
        ({"shell": "maybe"}, "must be allow, ask or deny"),
        ({"shell": None}, "must be allow, ask or deny"),
        ({"shell:": "deny"}, "must name a tool"),
        ({"": "deny"}, "must name a tool"),
        ({f"tool_{n}": "deny" for n in range(201)}, "there may be 200"),
        ({"x" * 301: "deny"}, "must name a tool"),
    ],
)
def test_rules_that_cannot_be_read_say_why(given: object, said: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        read_rules(given)

    assert said in str(raised.value)


def test_rules_may_be_a_section_or_a_list_or_nothing() -> None:
    assert read_rules(None) == PermissionRules()
    assert read_rules({"shell": "ask"}) == read_rules([{"shell": "ask"}])
    assert read_rules([{"a": "ask"}, {"b:c:d": "deny"}]).rules == (
        PermissionRule("a", "*", ASK),
        PermissionRule("b", "c:d", DENY),
    )


# -- the role that decides -------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["ask:lead", "ask: lead", {"ask": "lead"}])
def test_a_rule_may_name_the_role_that_decides(value: object) -> None:
    rules = read_rules({"shell:git push*": value})

    verdict = Permissions(rules).decide("shell", ["git push origin"], harmless=False)

    assert (verdict.decision, verdict.approver) == (Decision.ASK, "lead")
    assert verdict.rule == "shell:git push*: ask:lead"
    assert read_rules(rules.as_given) == rules


@pytest.mark.parametrize("value", ["deny:lead", "allow:lead", "ask:", "ask:Lead!", {"ask": ""}])
def test_only_ask_names_a_role(value: object) -> None:
    with pytest.raises(BadRequestError, match="allow, ask or deny, or `ask: ROLE`"):
        read_rules({"shell": value})


def test_a_role_of_any_list_decides_and_two_roles_are_a_no() -> None:
    one = Permissions(read_rules({"shell": "ask:lead"}))

    both = one.within(read_rules({"shell": "ask"})).decide("shell", [""], harmless=False)
    two = one.within(read_rules({"shell": "ask:ops"})).decide("shell", [""], harmless=False)
    denied = one.within(read_rules({"shell": "deny"})).decide("shell", [""], harmless=False)

    assert (both.decision, both.approver) == (Decision.ASK, "lead")
    assert two.decision is Decision.DENY
    assert two.reason == "rules give the decision to different roles: `lead` and `ops`"
    assert denied.decision is Decision.DENY


def test_a_rule_that_no_longer_asks_leaves_the_others() -> None:
    permissions = Permissions(read_rules({"shell": "ask", "mail": "deny"})).within(
        read_rules({"shell:rm*": "ask"})
    )

    def decided(subject: str, *granted: str) -> Decision:
        verdict = permissions.decide("shell", [subject], harmless=False, granted=granted)
        return verdict.decision

    assert decided("ls") is Decision.ASK
    assert decided("ls", "shell: ask") is Decision.ALLOW
    assert decided("rm x", "shell: ask") is Decision.ASK
    assert decided("rm x", "shell: ask", "shell:rm*: ask") is Decision.ALLOW
    mail = permissions.decide("mail", [""], harmless=False, granted=["mail: deny", "mail: ask"])
    assert mail.decision is Decision.DENY
