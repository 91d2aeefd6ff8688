"""A request counts as Slack's only with the right signature over its very bytes, made just now."""

import hmac
from dataclasses import dataclass

import pytest

from bot.platforms.slack.web import check_signature
from tests.fakes.slack.webhook import sign

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NOW = 1_763_715_600.0
STAMP = "1763715600"
BODY = b'{"type":"event_callback","event_id":"Ev1"}'
FORM = b"command=%2Fretinue&text=list&team_id=T1&trigger_id=1.2"
GOOD = sign(SECRET, STAMP, BODY)


def signed(stamp: str, body: bytes = BODY, secret: str = SECRET) -> str:
    return sign(secret, stamp, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request; by default it is in order."""

    reason: str | None
    stamps: tuple[str, ...] = (STAMP,)
    signatures: tuple[str, ...] = (GOOD,)
    body: bytes = BODY
    secret: str = SECRET


def at(stamp: str, reason: str | None) -> Case:
    """A request with a right signature over this timestamp."""
    return Case(reason=reason, stamps=(stamp,), signatures=(signed(stamp),))


CASES = {
    "right": Case(reason=None),
    "an empty body": Case(reason=None, body=b"", signatures=(signed(STAMP, b""),)),
    "a command's form": Case(reason=None, body=FORM, signatures=(signed(STAMP, FORM),)),
    "bytes that are no text": Case(
        reason="malformed", body=b"\xff\x00", signatures=(signed(STAMP, b"\xff\x00"),)
    ),
    "a secret with a line end": Case(reason=None, secret=f"{SECRET}\n"),
    "4 min behind": at("1763715360", None),
    "4 min ahead": at("1763715840", None),
    "just 5 min old": at("1763715300", None),
    "6 min old": at("1763715240", "clock"),
    "6 min ahead": at("1763715960", "clock"),
    "1 s over": at("1763715299", "clock"),
    "of 1970": at("0", "clock"),
    "a huge timestamp": at("9" * 400, "malformed"),
    "far in the future": at("9" * 15, "clock"),
    "a negative timestamp": at("-1763715600", "malformed"),
    "no number": at("now", "malformed"),
    "a fraction": at("1763715600.5", "malformed"),
    "a space": at(" 1763715600", "malformed"),
    "a line end": at("1763715600\n", "malformed"),
    "digits of another script": at("١٧٦٣٧١٥٦٠٠", "malformed"),
    "an empty timestamp": at("", "malformed"),
    "no timestamp": Case(reason="malformed", stamps=()),
    "no signature": Case(reason="malformed", signatures=()),
    "no header at all": Case(reason="unsigned", stamps=(), signatures=()),
    "an empty signature": Case(reason="malformed", signatures=("",)),
    "another version": Case(reason="malformed", signatures=(GOOD.replace("v0=", "v1="),)),
    "no version": Case(reason="malformed", signatures=(GOOD.removeprefix("v0="),)),
    "upper-case hex": Case(
        reason="malformed", signatures=("v0=" + GOOD.removeprefix("v0=").upper(),)
    ),
    "too short": Case(reason="malformed", signatures=(GOOD[:-1],)),
    "not ASCII": Case(reason="malformed", signatures=(GOOD[:-1] + "é",)),
    "the right length": Case(reason="wrong", signatures=("v0=" + "0" * 64,)),
    "another app's secret": Case(reason="wrong", signatures=(signed(STAMP, secret="another"),)),
    "another byte": Case(reason="wrong", body=BODY.replace(b"Ev1", b"Ev2")),
    "another byte at the end": Case(reason="wrong", body=BODY + b"\n"),
    "another request's": Case(reason="wrong", signatures=(signed(STAMP, FORM),)),
    "another timestamp's": Case(reason="wrong", stamps=("1763715601",)),
    "old and wrong": Case(reason="wrong", stamps=("1763715000",)),
    "two signatures": Case(reason="malformed", signatures=(GOOD, GOOD)),
    "two timestamps": Case(reason="malformed", stamps=(STAMP, STAMP)),
    "signed with nothing": Case(
        reason="secret", secret="", signatures=("v0=" + hmac.new(b"", b"", "sha256").hexdigest(),)
    ),
    "signed with a space": Case(
        reason="secret", secret=" ", signatures=(signed(STAMP, secret=""),)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_only_a_right_and_fresh_signature_counts(case: Case) -> None:
    refusal = check_signature(case.stamps, case.signatures, case.body, secret=case.secret, now=NOW)

    assert (refusal.reason if refusal else None) == case.reason


def test_a_replay_within_five_minutes_is_still_slacks() -> None:
    # Events are told apart by their ids, in the database.
    both = [
        check_signature([STAMP], [GOOD], BODY, secret=SECRET, now=NOW + later) for later in (0, 299)
    ]

    assert both == [None, None]


def test_the_signature_is_that_of_slacks_own_example() -> None:
    # From Slack's page on verifying requests.
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F"
        b"commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )

    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    refusal = check_signature(["1531420618"], [signature], body, secret=SECRET, now=1_531_420_620)

    assert refusal is None


@pytest.mark.parametrize(("later", "said"), [(360, "360 s (ahead)"), (-360, "360 s (behind)")])
def test_a_wrong_clock_is_told_by_how_much(later: float, said: str) -> None:
    refusal = check_signature([STAMP], [GOOD], BODY, secret=SECRET, now=NOW + later)

    assert refusal is not None
    assert said in refusal.text
    assert "set it by NTP" in refusal.text


def test_a_wrong_signature_names_the_key_to_look_at() -> None:
    refusal = check_signature([STAMP], ["v0=" + "0" * 64], BODY, secret=SECRET, now=NOW)

    assert refusal is not None
    assert "`slack.signing_secret` is that of another app" in refusal.text
