"""The calls that an agent takes of commands which hold its lock, or held it."""

from __future__ import annotations

import pytest

from indico_zodbrepl.host.operations_interface import LockLostError
from indico_zodbrepl.host.remote.holds import Steps


def test_a_command_may_go_on_while_its_lock_is_held_and_not_afterwards() -> None:
    steps = Steps()
    with steps.allowed("one"):
        steps.refuse_ended("one")
    with pytest.raises(LockLostError, match="has lost the lock of operations"):
        steps.refuse_ended("one")
    steps.refuse_ended("another")


def test_a_command_that_takes_the_lock_again_may_go_on() -> None:
    steps = Steps()
    with steps.allowed("one"):
        pass
    with steps.allowed("one"):
        steps.refuse_ended("one")


def test_a_host_that_was_away_when_the_lock_was_taken_refuses_nothing() -> None:
    Steps().refuse_ended("one")
