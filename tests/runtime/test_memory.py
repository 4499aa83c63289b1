"""However long an episode is, what is remembered of it does not grow."""

from collections.abc import Mapping

import numpy as np
import pytest

from runtime.test_caution import CAUTION, RUNNING_ON, ObedientArm, chunk, state
from speedup_patch.baselines import FixedRate, OneRatePerChunk
from speedup_patch.guard import Guard
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.caution import Caution
from speedup_patch.runtime.engine import Engine
from stand_ins import DELTA_ROBOT

ARM = ObedientArm()


class Unfamiliar(Guard):
    """A stand-in guard that knows nothing."""

    def __init__(self):
        pass

    def reason(self, observation, chunk):
        return "unfamiliar state"


def make(robot, **more):
    return ChunkAccelerator(Engine(robot, lambda: OneRatePerChunk(FixedRate(2.0)), **more))


def kept(value):
    """Numbers and objects that are kept, inside each other or not."""
    if isinstance(value, np.ndarray):
        return 1 + value.size
    if isinstance(value, Mapping):
        return 1 + sum(map(kept, value.values()))
    return 1 + sum(map(kept, value)) if isinstance(value, (list, tuple)) else 1


@pytest.mark.parametrize(
    ("accelerator", "wanted", "seen", "decisions"),
    [
        (make(ALOHA), np.zeros((4, 14)), np.zeros(14), 10_000),
        (make(DELTA_ROBOT, world_model=ARM, caution=CAUTION), chunk(speed=0.0), state(), 10_000),
        (make(DELTA_ROBOT, world_model=ARM, caution=Caution(DELTA_ROBOT, RUNNING_ON)), chunk(), state(), 1_000),
        (make(DELTA_ROBOT, world_model=ARM, caution=CAUTION, guard=Unfamiliar()), chunk(), state(), 1_000),
    ],
    ids=["without caution", "with caution", "held back for ever", "never familiar"],
)
def test_memory_does_not_grow(accelerator, wanted, seen, decisions, unchecked):
    most = 0
    for decision in range(decisions):
        accelerator.shorten(wanted, seen, seen)
        if decision < 100:
            most = max(most, kept(vars(accelerator)))
    assert kept(vars(accelerator)) <= most
