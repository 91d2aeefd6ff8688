"""The effective rights: never wider than any level, whatever the levels are."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions import Decision, read_rules
from bot.rights.effective import NOUNS, Kind, Rights, RightsLevel
from bot.subagents.limits import SubagentSettings

NAMES = ("shell", "web_search", "web_fetch", "file_write", "general")
PATTERNS = st.sampled_from((*NAMES, "web_*", "*", "file_?rite"))
LISTS = st.dictionaries(
    st.sampled_from(list(NOUNS)), st.lists(PATTERNS, max_size=3).map(tuple), max_size=4
)
RULES = st.dictionaries(PATTERNS, st.sampled_from([str(each) for each in Decision]), max_size=3)
CAPS = st.dictionaries(
    st.sampled_from(["max_concurrent_per_user", "max_token_budget", "max_tool_calls_per_run"]),
    st.integers(1, 400_000),
)
LEVELS = st.builds(
    RightsLevel,
    key=st.sampled_from(["roles.everyone", "roles.named.guest", "roles.places.x"]),
    title=st.just("this level"),
    allowed=LISTS,
    denied=LISTS,
    rules=RULES.map(read_rules),
    limits=CAPS,
)
STRICTNESS: Mapping[Decision, int] = {Decision.ALLOW: 0, Decision.ASK: 1, Decision.DENY: 2}


@given(
    levels=st.lists(LEVELS, max_size=4),
    kind=st.sampled_from(list(NOUNS)),
    name=st.sampled_from(NAMES),
)
def test_a_thing_may_be_used_if_and_only_if_every_level_admits_it(
    levels: list[RightsLevel], kind: Kind, name: str
) -> None:
    refused = Rights(tuple(levels)).refusal(kind, name)

    assert (refused == "") == all(level.admits(kind, [name]) for level in levels)


@given(levels=st.lists(LEVELS, max_size=4), tool=st.sampled_from(NAMES))
def test_the_decision_on_a_call_is_the_strictest_of_any_level(
    levels: list[RightsLevel], tool: str
) -> None:
    alone = [Rights((level,)).decide(tool, ("",)).decision for level in levels]

    together = Rights(tuple(levels)).decide(tool, ("",)).decision

    assert STRICTNESS[together] == max((STRICTNESS[each] for each in alone), default=0)


@given(levels=st.lists(LEVELS, max_size=4))
def test_a_limit_is_the_smallest_of_the_settings_and_every_level(levels: list[RightsLevel]) -> None:
    settings = SubagentSettings()

    narrowed = Rights(tuple(levels)).narrowed(settings)

    for name in SubagentSettings.model_fields:
        whole = getattr(settings, name)
        caps = [level.limits[name] for level in levels if name in level.limits]
        if name.startswith("default_"):
            assert getattr(narrowed, name) <= whole
        elif caps:
            assert getattr(narrowed, name) == min([whole, *caps])
        else:
            assert getattr(narrowed, name) == whole
    assert narrowed.default_token_budget <= narrowed.max_token_budget
    for name in {name for level in levels for name in level.limits}:
        value, source = Rights(tuple(levels)).cap(name, getattr(settings, name), "default")
        assert value == getattr(narrowed, name)
        assert (source == "default") == (value == getattr(settings, name))


@given(
    one=st.lists(LEVELS, max_size=3),
    two=st.lists(LEVELS, max_size=3),
    kind=st.sampled_from(list(NOUNS)),
    name=st.sampled_from(NAMES),
)
def test_stored_and_current_rights_together_are_never_wider_than_either(
    one: list[RightsLevel], two: list[RightsLevel], kind: Kind, name: str
) -> None:
    stored, now = Rights(tuple(one), "guest"), Rights(tuple(two), "user")

    both = stored.within(now)

    allowed = not both.refusal(kind, name)
    assert allowed == (not stored.refusal(kind, name) and not now.refusal(kind, name))
    caps = [each.cap("max_token_budget", 200_000)[0] for each in (stored, now)]
    assert both.cap("max_token_budget", 200_000)[0] == min(caps)


@given(levels=st.lists(LEVELS, max_size=3))
def test_rights_come_back_from_the_row_of_a_run_as_they_were(levels: list[RightsLevel]) -> None:
    rights = Rights(tuple(levels), "guest")

    assert Rights.of_json(rights.as_json) == rights
    assert Rights.of_json(None) == Rights()


@pytest.mark.parametrize(
    ("allowed", "admits"),
    [({}, True), ({"tools": ()}, False), ({"tools": ("web_*",)}, False), ({"tools": ("*",)}, True)],
)
def test_an_absent_list_admits_everything_and_an_empty_one_nothing(
    allowed: dict[Kind, tuple[str, ...]], admits: bool
) -> None:
    level = RightsLevel(key="roles.named.guest", title="the role `guest`", allowed=allowed)

    assert level.admits("tools", ["shell"]) is admits


def test_a_refusal_names_the_level_the_thing_and_who_can_change_it() -> None:
    level = RightsLevel(
        key="roles.named.guest", title="the role `guest`", denied={"tools": ("shell",)}
    )

    refused = Rights((level,)).decide("shell", ("",))

    assert refused.decision is Decision.DENY
    assert refused.reason == (
        "the role `guest` does not include the tool `shell`; "
        "an operator of this bot can change that"
    )
