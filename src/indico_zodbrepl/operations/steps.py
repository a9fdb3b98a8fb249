"""Every kind of step.  Importing this module registers all of them.

The executor needs it to resume an operation.  Modules that only show operations do not.
"""

from __future__ import annotations

import dataclasses

from indico_zodbrepl.errors import OperatorError
from indico_zodbrepl.operations import (  # noqa: F401  # each registers its steps
    checks,
    clone,
    consensus_failover,
    consensus_steps,
    failover_steps,
    native_rejoin_steps,
    pack,
    rejoin_steps,
    restart_steps,
    restore_steps,
    roles,
    start_steps,
    switchover_steps,
    takeover,
)
from indico_zodbrepl.operations.model import KINDS, Step


def with_code(step: Step) -> Step:
    """Return a step that was read from a file as an instance of its own class.

    Raises OperatorError if there is no such class: the plan was made by another release.
    """
    if type(step) is not Step:
        return step
    kind = KINDS.get(step.action)
    if kind is None:
        raise OperatorError(
            f"unknown step {step.action!r}",
            "the operation was started by another release",
            "continue it with that release",
        )
    values = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
    del values["action"]
    return kind(**values)
