"""Who may see, cut off and move the clients of a broker. Pure.

Where there are access rules, who a rule with ``operate`` names may, and nobody else. Without rules
everybody may publish and subscribe, but to end the work of others is more than that: then only who
is on the broker's own machine may, or who shows a broker's certificate.
"""

from __future__ import annotations

from ges.access.admission import Admitted
from ges.access.rules import Operation
from overlay.security.identity import Role


def why_not_operate(
    admitted: Admitted, operation: Operation, *, is_local: bool, is_certified: bool = False
) -> str | None:
    """Return why a client may not do that, or None.

    ``is_local``: it is attached over loopback; ``is_certified``: the broker holds an identity.
    """
    if admitted.permissions is not None:
        decision = admitted.permissions.operate(operation)
        return None if decision.allowed else decision.reason
    if admitted.principal.role is Role.BROKER:
        return None
    if operation is Operation.DRILL and is_certified:
        return (
            f"{operation.in_words} is denied to {admitted.principal.label}: this broker has an "
            "identity, and then a drill needs one of a broker, or a rule; give --identity DIR with "
            f"a chordals:// URL, or allow it with operate = ['{operation}'] in --access FILE"
        )
    if is_local:
        return None
    return (
        f"{operation.in_words} is denied to {admitted.principal.label}: this broker has no access "
        "rules, and then only clients on its own machine and those with a broker's identity may; "
        f"allow it with operate = ['{operation}'] in a rule of --access FILE"
    )
