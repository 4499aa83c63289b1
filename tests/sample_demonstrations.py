"""Small demonstrations in every shape a data set may have."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from speedup_patch.data import Demonstrations, Episode

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
EXTRAS = ["observation.environment_state", "observation.force", "executed_action"]


@dataclass(frozen=True)
class Recipe:
    """What hypothesis varies; the numbers follow from the seed."""

    state_size: int
    action_size: int
    extras: Mapping[str, int]
    control_hz: float
    episodes: list[tuple[int, str]]
    """(length, task) of each."""
    robot_name: str
    seed: int

    def make(self) -> Demonstrations:
        """The demonstrations, with some values that float32 finds hard."""
        rng = np.random.default_rng(self.seed)

        def column(rows: int, width: int) -> np.ndarray:
            scale = rng.choice([0.0, 1e-40, 1.0, 1e30], size=(rows, width))
            return (scale * rng.normal(size=(rows, width))).astype(np.float32)

        episodes = (
            Episode(
                states=column(length, self.state_size),
                actions=column(length, self.action_size),
                timestamps=np.arange(length) / self.control_hz,
                task=task,
                extras={name: column(length, width) for name, width in self.extras.items()},
            )
            for length, task in self.episodes
        )
        return Demonstrations(tuple(episodes), self.control_hz, self.robot_name)


RECIPES = st.builds(
    Recipe,
    state_size=st.integers(1, 4),
    action_size=st.integers(1, 4),
    extras=st.dictionaries(st.sampled_from(EXTRAS), st.integers(1, 3)),
    control_hz=st.sampled_from([12.5, 20.0, 50.0]),
    episodes=st.lists(st.tuples(st.integers(1, 6), TEXTS), min_size=1, max_size=4),
    robot_name=TEXTS,
    seed=st.integers(0, 2**16),
)


def assert_same(left: Demonstrations, right: Demonstrations) -> None:
    """Equal in every value; timestamps to the microsecond, which LeRobot keeps in float32."""
    assert (len(left), left.control_hz, left.robot_name) == (len(right), right.control_hz, right.robot_name)
    for ours, theirs in zip(left, right, strict=True):
        assert ours.task == theirs.task
        np.testing.assert_array_equal(ours.states, theirs.states)
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        np.testing.assert_allclose(ours.timestamps, theirs.timestamps, atol=1e-6)
        assert ours.extras.keys() == theirs.extras.keys()
        for name, column in ours.extras.items():
            np.testing.assert_array_equal(column, theirs.extras[name])
        assert ours.states.dtype == ours.actions.dtype == np.float32
        assert ours.timestamps.dtype == np.float64
