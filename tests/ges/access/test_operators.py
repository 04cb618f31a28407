"""Who may operate: by the rules, or without rules from where and as whom."""

from __future__ import annotations

import pytest

from ges.access.admission import Admitted
from ges.access.operators import why_not_operate
from ges.access.rules import NOBODY, Operation, Principal, parse_access
from ges.errors import AccessError
from overlay.security.identity import Role

CLIENT = Principal("a" * 32, Role.CLIENT)
BROKER = Principal("b" * 32, Role.BROKER)

RULES = """
[[allow]]
subject = "token:ops"
operate = ["clients", "drain"]

[[deny]]
name = "no drains"
subject = "token:ops"
operate = "drain"
"""


@pytest.mark.parametrize(
    ("principal", "is_local", "may"),
    [(NOBODY, True, True), (NOBODY, False, False), (CLIENT, False, False), (BROKER, False, True)],
)
def test_without_rules_those_on_the_machine_and_brokers_may(
    principal: Principal, is_local: bool, may: bool
) -> None:
    for operation in Operation:
        why = why_not_operate(Admitted(principal, None, None), operation, is_local=is_local)
        assert (why is None) == may
        if why is not None:
            assert f"operate = ['{operation}']" in why, "it names the mend"


def test_with_rules_the_rules_say_it_wherever_one_is() -> None:
    rules = parse_access(RULES, "rules")
    ops = Principal(token="ops")

    def why(principal: Principal, operation: Operation) -> str | None:
        admitted = Admitted(principal, None, rules.permissions(principal))
        return why_not_operate(admitted, operation, is_local=True)

    assert why(ops, Operation.CLIENTS) is None
    assert "no rule allows it" in (why(ops, Operation.KICK) or "")
    assert "(no drains)" in (why(ops, Operation.DRAIN) or "")
    assert why(BROKER, Operation.CLIENTS) is not None


def test_an_operation_that_is_none_is_named() -> None:
    with pytest.raises(AccessError, match="operate: 'stop' is not known; write clients, kick"):
        parse_access('[[allow]]\nsubject = "anyone"\noperate = ["stop"]\n', "rules")
