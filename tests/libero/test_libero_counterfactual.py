"""The true deviation is measured by restoring LIBERO's simulator; that must leave no trace in the episode."""

import numpy as np
import pytest

pytest.importorskip("robosuite", reason="needs the LIBERO environment")

from speedup_patch.bench.true_deviation import run_episode, true_deviations, try_rates
from speedup_patch.envs import make_env
from speedup_patch.limits import Limits

pytestmark = pytest.mark.libero

RATES = (1.0, 2.0, 3.0)
CHUNK = np.array([[0.3, -0.2, -0.4, 0.0, 0.0, 0.1, -1.0]] * 10)
NO_LIMITS = Limits((), (), ())  # only the measure that counts fingers asks for them


class Repeat:
    """Asks for the same motion again and again."""

    def infer(self, observation):
        return CHUNK

    def reset(self):
        pass


def test_trying_rates_leaves_the_episode_as_it_was():
    env = make_env("libero/object/0")
    env.reset(0)
    env.step(CHUNK[0])
    moment = env.save()
    expected = np.array([env.step(action)[0]["state"] for action in CHUNK])
    env.restore(moment)
    reference, accelerated = try_rates(env, CHUNK, RATES)
    after = np.array([env.step(action)[0]["state"] for action in CHUNK])
    env.close()
    np.testing.assert_array_equal(reference, expected)
    np.testing.assert_array_equal(accelerated[0], expected)
    np.testing.assert_array_equal(after, expected)


def test_faster_strays_further():
    env = make_env("libero/object/0")
    env.max_steps = 30
    decisions = run_episode(env, Repeat(), RATES, 1.0, seed=0)
    deviations = true_deviations(env.robot, NO_LIMITS, decisions, RATES, "time_aligned")
    env.close()
    assert len(decisions) == 3
    np.testing.assert_allclose(deviations[:, 0], 0.0, atol=1e-6)
    assert (np.diff(deviations.mean(axis=0)) > 0).all()
