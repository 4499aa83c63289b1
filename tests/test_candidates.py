"""What every way of running a chunk keeps: the order, the path, the gripper's events, the limits."""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from speedup_patch.acceleration import Merging, accelerate, accelerate_along
from speedup_patch.candidates import Options, Rates, RetimedChunks, Retimings, bind, shorten_all
from speedup_patch.errors import InputError
from speedup_patch.limits import ArmLimits, FingerScale, GripperLimits, Limits, StrokeLimits
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.observations import feature_poses, features, plain_state_indices
from speedup_patch.retiming import Boldness, Retiming, RetimingConfig
from speedup_patch.robots import ALOHA, PANDA_LIBERO, Robot
from speedup_patch.warp import Warp
from stand_ins import DELTA_ROBOT, START

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)
robots = st.sampled_from([ALOHA, DELTA_ROBOT])
N, CHUNKS = 16, 3


class Case(NamedTuple):
    """Chunks, the paths on which they lead (the moment before, the present, then N more), limits that some steps
    exceed, and ways of running them."""

    robot: Robot
    limits: Limits
    choices: Retimings
    paths: np.ndarray
    chunks: np.ndarray

    @property
    def options(self) -> Options:
        return shorten_all(self.robot, bind(self.choices, self.robot, self.limits), self.paths, self.chunks)

    def warps(self):
        """(chunk, level, warp, its commands) of every option, without the padding."""
        options = self.options
        delays = bind(self.choices, self.robot, self.limits).delays
        for chunk, option in np.ndindex(*options.lengths.shape):
            length = options.lengths[chunk, option]
            warp = Warp(options.positions[chunk, option, :length], N, delays)
            yield chunk, self.choices.levels[option], warp, options.chunks[chunk, option, :length]


def draw(robot: Robot, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    middle = START if robot is ALOHA else np.zeros(robot.state_size)
    pace = rng.uniform(0.0, 1.0, (CHUNKS, N + 2, 1)) ** 2  # a chunk has quick moments and slow ones
    states = middle + np.cumsum(0.02 * pace * rng.normal(size=(CHUNKS, N + 2, robot.state_size)), axis=1)
    chunks = 0.3 * pace[:, 2:] * rng.normal(size=(CHUNKS, N, robot.action_size))
    if robot is ALOHA:
        chunks = states[:, 2:] + 0.1 * chunks
    arms = tuple(ArmLimits(*rng.uniform(0.005, 0.05, 2), lag=float(rng.integers(3)), brisk=0.01) for _ in robot.arms)
    grippers = tuple(
        GripperLimits(
            FingerScale((1.0,), 0.0, 1.0),
            *(StrokeLimits(rng.uniform(0, 8), rng.uniform(0.005, 0.05), strokes=5) for _ in range(2)),
        )
        for _ in robot.grippers
    )
    levels = tuple(Boldness(rng.uniform(1, 6), *rng.uniform(0.5, 4, 2)) for _ in range(3))
    common = RetimingConfig(
        overdrive=rng.uniform(1, 2),
        change=rng.uniform(0.2, 2),
        slack=rng.choice([0.0, 0.1]),
        leave_rest=bool(rng.integers(2)),
    )
    choices = Retimings((Boldness(1.0), *levels), common)
    return Case(robot, Limits(arms, (), grippers), choices, features(robot, states), chunks)


@given(robot=robots, seed=seeds)
@few
def test_a_warp_never_reorders_and_reaches_the_end_or_nearly(robot, seed):
    for _, level, warp, commands in (case := draw(robot, seed)).warps():
        steps = np.diff(warp.positions, prepend=0.0)
        assert (steps > 0).all()
        assert (steps <= (1 + case.choices.common.slack) * level.fastest + 1e-9).all()
        assert len(commands) == len(warp)
        if warp.positions[-1] < N:
            assert case.choices.common.leave_rest
            assert N - warp.positions[-1] < level.fastest


@given(robot=robots, seed=seeds)
@few
def test_rate_one_is_the_identity(robot, seed):
    case = draw(robot, seed)
    options = case.options
    assert (options.lengths[:, 0] == N).all()
    np.testing.assert_array_equal(options.positions[:, 0], np.tile(np.arange(1.0, N + 1), (CHUNKS, 1)))
    within = np.clip(case.chunks, robot.action_low, robot.action_high)
    deltas = [i for group, part in zip(robot.actions, robot.action_slices, strict=True)
              if group.mode == "delta" for i in range(robot.action_size)[part]]  # fmt: skip
    expected = case.chunks.copy()
    expected[..., deltas] = within[..., deltas]
    np.testing.assert_array_equal(options.chunks[:, 0], expected)
    for chunk in case.chunks:
        np.testing.assert_array_equal(accelerate(robot, chunk, Warp(np.arange(1.0, N + 1), N)).actions, chunk)


@given(seed=seeds)
@few
def test_absolute_targets_stay_on_their_path(seed):
    case = draw(ALOHA, seed)
    fingers = {gripper.action for gripper in ALOHA.grippers}
    joints = [i for i in range(14) if i not in fingers]
    for chunk, _, warp, commands in case.warps():
        for joint in joints:
            path = case.chunks[chunk, :, joint]
            expected = np.interp(warp.positions, np.arange(1.0, N + 1), path)
            np.testing.assert_allclose(commands[:, joint], expected, atol=1e-12)
        if warp.positions[-1] == N:
            np.testing.assert_array_equal(commands[-1, joints], case.chunks[chunk, -1, joints])


@given(seed=seeds)
@few
def test_motions_add_up_to_the_same_where_nothing_is_cut_off(seed):
    case = draw(DELTA_ROBOT, seed)
    case = case._replace(chunks=case.chunks / 20)  # too small for any limit
    for chunk, _, warp, commands in case.warps():
        done = case.chunks[chunk] * np.clip(warp.positions[-1] - np.arange(N), 0.0, 1.0)[:, None]
        np.testing.assert_allclose(commands[:, :3].sum(axis=0), done[:, :3].sum(axis=0), atol=1e-13)
        whole, shortened = (_turned(turns[:, 3:6]) for turns in (done, commands))
        np.testing.assert_allclose(shortened.as_matrix(), whole.as_matrix(), atol=1e-9)


def _turned(turns: np.ndarray) -> Rotation:
    whole = Rotation.identity()
    for turn in turns:
        whole = Rotation.from_rotvec(turn) * whole
    return whole


@given(robot=robots, seed=seeds)
@few
def test_no_command_asks_for_more_than_the_limits(robot, seed):
    case = draw(robot, seed)
    paths = case.paths[:, 1:]
    poses = feature_poses(robot, paths)
    metres = np.linalg.norm(np.diff(poses[..., :3], axis=1), axis=-1)
    radians = 2.0 * rotation_distance(poses[:, 1:, :, 3:], poses[:, :-1, :, 3:])
    place = [plain_state_indices(robot).index(gripper.state[0]) for gripper in robot.grippers]
    opening = np.diff(paths[..., place], axis=1)
    slack = case.choices.common.slack
    for chunk, level, warp, _ in case.warps():
        for number, arm in enumerate(case.limits.arms):
            _assert_within(warp, metres[chunk, :, number], level.scale * arm.speed, slack)
            _assert_within(warp, radians[chunk, :, number], level.scale * arm.turn, slack)
        for number, gripper in enumerate(case.limits.grippers):
            change = opening[chunk, :, number]
            _assert_within(warp, np.maximum(change, 0), level.stroke * gripper.opening.speed, slack)
            _assert_within(warp, np.maximum(-change, 0), level.stroke * gripper.closing.speed, slack)
        if robot is DELTA_ROBOT:
            for column in range(6):
                _assert_within(warp, np.abs(case.chunks[chunk, :, column]), case.choices.common.overdrive, slack)


def _assert_within(warp: Warp, moved: np.ndarray, limit: float, slack: float) -> None:
    """What one executed command covers is within the limit, or within what one of its steps covers at rate 1, but for
    the slack that spreads the last, short command over the others."""
    covered = np.r_[0.0, np.cumsum(moved)]
    ends = np.r_[0.0, warp.positions]
    windows = np.diff(np.interp(ends, np.arange(N + 1.0), covered))
    for amount, (start, end) in zip(windows, pairwise(ends), strict=True):
        touched = moved[int(np.floor(start + 1e-9)) : int(np.ceil(end - 1e-9))]
        assert amount <= (1 + slack) * max(limit, touched.max()) + 1e-9


@given(
    delay=st.floats(0.0, 6.0),
    fastest=st.floats(1.0, 6.0),
    first=st.integers(1, 20),
    apart=st.integers(0, 10),
    closes=st.booleans(),
)
@few
def test_no_gripper_event_is_skipped(delay, fastest, first, apart, closes):
    # Events so near to each other that a command read ahead is of the event after next may run into one.
    gap = int(np.ceil((fastest - 1) * delay + fastest)) + apart
    events = [first, first + gap, first + 2 * gap]
    n = events[-1] + 3
    command = np.where(np.searchsorted(events, np.arange(n), side="right") % 2 == int(closes), 1.0, -1.0)
    chunk = np.zeros((1, n, 7))
    chunk[0, :, 6] = command
    still = np.tile(np.r_[0.0, 0, 0, 0, 1, 0, 0, 0, 1, 0], (1, n + 2, 1))
    stroke = StrokeLimits(delay, 0.1, 5)
    limits = Limits(
        (ArmLimits(1.0, 1.0, 0.0, 0.1),), (), (GripperLimits(FingerScale((1.0,), 0.0, 1.0), stroke, stroke),)
    )
    for common in (RetimingConfig(), RetimingConfig(gripper_lead=False)):
        candidates = bind(Retimings((Boldness(fastest),), common), DELTA_ROBOT, limits)
        led = shorten_all(DELTA_ROBOT, candidates, still, chunk).chunks[0, 0, :, 6]
        changes = np.flatnonzero(np.diff(np.r_[command[0], led]))
        assert len(changes) == 3
        assert led[-1] == command[-1]


@given(robot=robots, seed=seeds)
@few
def test_a_batch_is_its_chunks_one_by_one(robot, seed):
    case = draw(robot, seed)
    candidates = bind(case.choices, robot, case.limits)
    together = case.options
    for chunk in range(CHUNKS):
        one = slice(chunk, chunk + 1)
        alone = shorten_all(robot, candidates, case.paths[one], case.chunks[one])
        length = alone.positions.shape[2]
        np.testing.assert_array_equal(alone.lengths[0], together.lengths[chunk])
        np.testing.assert_array_equal(alone.positions[0], together.positions[chunk, :, :length])
        filled = np.arange(length) < alone.lengths[0][:, None]
        np.testing.assert_allclose(alone.chunks[0][filled], together.chunks[chunk, :, :length][filled], atol=1e-12)


@given(robot=robots, seed=seeds)
@few
def test_the_chosen_option_is_what_then_runs(robot, seed):
    # A scheduler judges padded options; the robot runs the warp of one of them.
    for chunk, _, warp, commands in (case := draw(robot, seed)).warps():
        if len(warp) == N:
            continue
        merging = case.choices.merging
        alone = accelerate(robot, case.chunks[chunk], warp, merging)
        np.testing.assert_allclose(commands, alone.actions, atol=1e-12)
        batch = accelerate_along(robot, case.chunks[chunk, None], warp.positions[None], warp.delays, merging)
        np.testing.assert_allclose(batch.actions[0], alone.actions, atol=1e-12)
        np.testing.assert_allclose(batch.lost[0], alone.lost, atol=1e-12)


@pytest.mark.parametrize("tail", ["keep", "drop"])
def test_constant_rates_are_the_same_for_every_chunk(tail):
    case = draw(DELTA_ROBOT, 0)
    rates = Rates((1.0, 2.5, 3.0), tail=tail)
    options = shorten_all(DELTA_ROBOT, bind(rates, DELTA_ROBOT, case.limits), None, case.chunks)
    for option, warp in enumerate(rates.warps(N)):
        assert (options.lengths[:, option] == len(warp)).all()
        np.testing.assert_array_equal(options.positions[:, option, : len(warp)], np.tile(warp.positions, (CHUNKS, 1)))
        np.testing.assert_allclose(options.rates(N)[:, option], warp.rate)
        expected = accelerate(DELTA_ROBOT, case.chunks, warp).actions
        np.testing.assert_allclose(options.chunks[:, option, : len(warp)], expected, atol=1e-12)


def test_only_retimings_read_grippers_ahead():
    limits = draw(DELTA_ROBOT, 1).limits
    assert bind(Rates(), DELTA_ROBOT, limits).delays == {}
    assert set(bind(Retimings(), DELTA_ROBOT, limits).delays) == {6}
    silent = replace(Retimings(), common=RetimingConfig(gripper_lead=False))
    assert bind(silent, DELTA_ROBOT, limits).delays == {}


@pytest.mark.parametrize("values", [(), (2.0, 1.0), (0.5, 1.0), (1.0, 1.0)])
def test_rates_must_increase_from_one(values):
    with pytest.raises(InputError, match="increasing"):
        Rates(values)


@pytest.mark.parametrize("levels", [(), (Boldness(2.0), Boldness(2.0))])
def test_levels_of_retiming_must_differ(levels):
    with pytest.raises(InputError, match="none twice"):
        Retimings(levels)


@pytest.mark.parametrize(
    "change", [{"overdrive": 0.9}, {"change": 0.0}, {"overdrive": float("nan")}, {"momentum": 1.5}, {"joint_rate": 0.5}]
)
def test_a_retiming_that_cannot_be_is_refused(change):
    with pytest.raises(InputError, match="overdrive"):
        RetimingConfig(**change)


@pytest.mark.parametrize("choices", [Rates(), Retimings()])
def test_every_choice_has_its_own_label(choices):
    assert len(set(choices.labels)) == len(choices.labels) > 1
    assert choices.fastest >= 4


def test_labels_say_the_largest_rate_that_a_robot_is_run_at():
    limits = draw(ALOHA, 0).limits
    kept_up = bind(Retimings(), ALOHA, replace(limits, pulls=(0.1,) * len(ALOHA.drives)))
    assert kept_up.labels[3] == "to 4x, arm x4, fingers x1"
    assert bind(Retimings(), ALOHA, limits).labels == Retimings().labels
    assert bind(Rates(), ALOHA, limits).labels == Rates().labels


def like_libero() -> Limits:
    """One arm that is sent motions, and fingers whose commands jump."""
    stroke = StrokeLimits(3.0, 0.1, 5, jumps=True)
    fingers = GripperLimits(FingerScale((1.0, -1.0), 0.0, 0.08), stroke, stroke)
    return Limits((ArmLimits(0.012, 0.05, 2.0, 0.01, 0.01),), (), (fingers,))


def test_levels_that_come_to_the_same_on_a_robot_are_one_option():
    assert [level.label for level in bind(Retimings(), PANDA_LIBERO, like_libero()).choices.levels] == [
        "as it is",
        "to 2x, arm x1, fingers x1",
        "to 4x, arm x2, fingers x1",
        "to 6x, arm x4, fingers x1",
    ]
    limits = replace(draw(ALOHA, 0).limits, pulls=(0.1,) * len(ALOHA.drives))
    assert bind(Retimings(), ALOHA, limits).choices == Retimings()
    constant = Retimings(common=RetimingConfig(constant=True))
    assert [level.fastest for level in bind(constant, ALOHA, limits).choices.levels] == [1.0, 2.0, 4.0]
    # What a patch from before that saved is bound to the same.
    bound = bind(Retimings(), PANDA_LIBERO, like_libero())
    assert bind(bound.choices, PANDA_LIBERO, like_libero()).choices == bound.choices


def test_no_option_is_lost_and_none_is_there_twice():
    rng, limits = np.random.default_rng(0), like_libero()
    states = np.cumsum(0.004 * rng.normal(size=(CHUNKS, N + 2, PANDA_LIBERO.state_size)), axis=1)
    chunks = 0.2 * rng.normal(size=(CHUNKS, N, PANDA_LIBERO.action_size))
    paths, bound = features(PANDA_LIBERO, states), bind(Retimings(), PANDA_LIBERO, limits)
    every = RetimedChunks(Retimings(), Retiming(PANDA_LIBERO, limits, RetimingConfig())).positions(paths, chunks)
    distinct = bound.positions(paths, chunks)
    assert distinct.shape[1] == len(bound.labels) == len(set(bound.labels))
    assert {row.tobytes() for row in np.swapaxes(every, 0, 1)} == {row.tobytes() for row in np.swapaxes(distinct, 0, 1)}


@pytest.mark.parametrize(("size", "rate"), [(1.0, 1.0), (0.75, 4 / 3), (0.5, 2.0)])
def test_motion_that_is_cut_off_is_not_counted_as_gained(size, rate):
    chunks = np.zeros((1, N, 7))
    chunks[..., 0], chunks[..., 6] = size, -1.0
    still = np.tile(np.r_[0.0, 0, 0, 0, 1, 0, 0, 0, 1, 0], (1, N + 2, 1))
    choices = Retimings((Boldness(1.0), Boldness(2.0)), RetimingConfig(overdrive=2.0, change=10.0))
    candidates = bind(choices, DELTA_ROBOT, draw(DELTA_ROBOT, 0).limits)
    options = shorten_all(DELTA_ROBOT, candidates, still, chunks)
    assert options.lengths.tolist() == [[N, N // 2]]
    np.testing.assert_allclose(options.rates(N), [[1.0, rate]])
    np.testing.assert_allclose(options.chunks[0, 1, : N // 2, 0], min(2 * size, 1.0))
    # The paper's reward is k, whatever is cut off.
    paper = shorten_all(DELTA_ROBOT, bind(Rates((1.0, 2.0)), DELTA_ROBOT, like_libero()), None, chunks)
    np.testing.assert_allclose(paper.rates(N), [[1.0, 2.0]])


@given(seed=seeds, straight=st.booleans())
@few
def test_what_is_done_is_between_nothing_and_all_of_it(seed, straight):
    case = draw(DELTA_ROBOT, seed)
    for size in (0.05, 1.0, 10.0):
        positions = case.options.positions
        chunks = np.broadcast_to(size * case.chunks[:, None], (CHUNKS, positions.shape[1], N, 7))
        short = accelerate_along(DELTA_ROBOT, chunks, positions, {}, Merging(straight=straight))
        done = short.done(positions)
        assert ((done >= -1e-9) & (done <= positions[..., -1] + 1e-9)).all()
        np.testing.assert_allclose(done[:, 0], N)  # the chunk as it is
        if size == 0.05:
            np.testing.assert_allclose(done, positions[..., -1])
