"""Arms that are told motions: what holds them back is not pressed on, and grippers do not work in full flight."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from speedup_patch.baselines import FixedRate, OneRatePerChunk
from speedup_patch.errors import InputError
from speedup_patch.limits import ArmLimits, FingerScale, GripperLimits, Limits, StrokeLimits, limits_from_json
from speedup_patch.maths.momentum import free_motion
from speedup_patch.observations import features, observe, plain_state_indices
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.caution import Caution
from speedup_patch.runtime.engine import Engine
from speedup_patch.tuning import Tuning
from stand_ins import DELTA_ROBOT

N = 10
WATCH = Tuning().watch
GAIN, SPEED, APPROACH = 0.01, 0.012, 0.003
STROKE = StrokeLimits(2.0, 0.1, 5, jumps=True, approach=APPROACH)
LIMITS = Limits(
    (ArmLimits(SPEED, 0.05, 0.0, 0.01, GAIN),),
    (),
    (GripperLimits(FingerScale((1.0,), 0.0, 1.0), STROKE, STROKE),),
)
CAUTION = Caution(DELTA_ROBOT, LIMITS)
PAUSE, ATTEMPT = (round(seconds * DELTA_ROBOT.control_hz) for seconds in (WATCH.pause_seconds, WATCH.attempt_seconds))
ANSWER = round(STROKE.delay)
LONG_AGO = (1000.0,)
RUNNING_ON = replace(LIMITS, arms=(replace(LIMITS.arms[0], axis_lags=(2.0, 1.0, 1.0), axis_gains=(GAIN,) * 3),))
"""The same arm, when it is also known how far it runs on: by two steps along x."""


class ObedientArm:
    """A stand-in world model: every command moves the arm at once, and nothing else changes."""

    robot = DELTA_ROBOT
    memory = 0

    def rollout(self, observations, actions, before=None):
        x = observations[:, None, : observations.shape[1] // 2].repeat(actions.shape[1], axis=1)
        first = len(plain_state_indices(DELTA_ROBOT))
        x[..., first : first + 3] += GAIN * np.cumsum(actions[..., :3], axis=1)
        return x

    def save(self, directory):
        raise NotImplementedError


def state(x=0.0):
    return np.array([x, 0, 0, np.pi, 0, 0, 0.04])


OPEN, CLOSED = -1.0, 1.0


def chunk(speed=0.3, closes_at=None, begins=OPEN):
    """``begins`` closed, the chunk opens where it would have closed."""
    made = np.zeros((N, 7))
    made[:, 0] = speed
    made[:, 6] = begins
    if closes_at is not None:
        made[closes_at:, 6] = -begins
    return made


def accelerator(caution=CAUTION, rate=2.0, world_model=None, **more):
    model = world_model or ObedientArm()
    engine = Engine(DELTA_ROBOT, lambda: OneRatePerChunk(FixedRate(rate)), world_model=model, caution=caution)
    return ChunkAccelerator(engine, **more)


def test_an_arm_that_gets_there_runs_on_and_one_that_does_not_is_given_the_policys_own_commands():
    runs = accelerator()
    first = runs.shorten(chunk(), state(), state())
    assert len(first.actions) == N // 2
    moved = GAIN * first.actions[:, 0].sum()
    assert len(runs.shorten(chunk(), state(moved), state(moved)).actions) == N // 2
    held = runs.shorten(chunk(), state(moved + 0.001), state(moved + 0.001))
    assert held.reason == "held back"
    assert np.array_equal(held.actions, chunk()[:ATTEMPT])
    assert (held.original, held.done, held.rate) == (N, ATTEMPT, 1.0)  # the rest of the chunk was never sent
    runs.reset()
    assert runs.shorten(chunk(), state(), state()).reason is None  # another episode, nothing is expected yet


def test_a_caller_that_asks_again_half_way_is_not_taken_for_an_arm_that_is_held_back():
    runs = accelerator()
    first = runs.shorten(chunk(), state(), state())
    half = GAIN * first.actions[: len(first.actions) // 2 + 1, 0].sum()
    assert runs.shorten(chunk(), state(half), state(half)).reason is None


def test_ways_that_are_too_short_say_nothing():
    path = np.stack([features(DELTA_ROBOT, state(x)) for x in (0.001, 0.002)])
    assert not CAUTION.stalled(features(DELTA_ROBOT, state()), path, features(DELTA_ROBOT, state()))
    far = np.stack([features(DELTA_ROBOT, state(x)) for x in (0.01, 0.02)])
    assert CAUTION.stalled(features(DELTA_ROBOT, state()), far, features(DELTA_ROBOT, state()))


@pytest.mark.parametrize("begins", [OPEN, CLOSED])
@pytest.mark.parametrize("at", [0, 1, 7])
def test_an_arm_too_fast_for_a_stroke_runs_the_first_commands_as_they_are_with_its_gripper_as_it_was(at, begins):
    made = chunk(closes_at=at, begins=begins)
    fast = observe(DELTA_ROBOT, state(0.01), state())
    first = CAUTION.slow_down(fast, made, chunk(begins=begins)[0], LONG_AGO)
    assert len(first) == min(at or PAUSE, PAUSE)
    assert np.array_equal(first[:, :6], made[: len(first), :6])
    assert (first[:, 6] == begins).all()


def test_slow_arms_and_chunks_without_a_stroke_are_left_alone():
    fast, slow = (observe(DELTA_ROBOT, state(speed), state()) for speed in (0.01, WATCH.rush * APPROACH - 1e-6))
    closing, opened, closed = chunk(closes_at=5), chunk()[0], chunk(closes_at=0)[0]
    assert CAUTION.slow_down(slow, closing, opened, LONG_AGO) is None
    assert CAUTION.slow_down(fast, chunk(), opened, LONG_AGO) is None
    assert CAUTION.slow_down(fast, chunk(closes_at=0), closed, LONG_AGO) is None
    assert CAUTION.slow_down(fast, closing, opened, LONG_AGO) is not None


def test_opening_and_closing_each_have_a_speed_and_one_that_was_never_seen_has_none():
    limits = replace(LIMITS, grippers=(replace(LIMITS.grippers[0], opening=replace(STROKE, approach=None)),))
    fast, caution = observe(DELTA_ROBOT, state(0.01), state()), Caution(DELTA_ROBOT, limits)
    opened, closed = chunk()[0], chunk(begins=CLOSED)[0]
    assert caution.slow_down(fast, chunk(closes_at=5), opened, LONG_AGO) is not None
    assert caution.slow_down(fast, chunk(closes_at=5, begins=CLOSED), closed, LONG_AGO) is None


@pytest.mark.parametrize("begins", [OPEN, CLOSED])
def test_a_stroke_is_told_at_once_where_the_arm_runs_on_to_where_its_fingers_answer(begins):
    caution, last = Caution(DELTA_ROBOT, RUNNING_ON), chunk(begins=begins)[0]
    fast = observe(DELTA_ROBOT, state(0.0091), state())  # runs on by 18 mm, as far as six commands take it
    for near in (chunk(closes_at=at, begins=begins) for at in (0, PAUSE, PAUSE + 6 - ANSWER)):
        told = caution.slow_down(fast, near, last, LONG_AGO)
        assert np.array_equal(told[:, :6], near[:PAUSE, :6])
        assert (told[:, 6] == -begins).all()


@pytest.mark.parametrize("speed", [0.3, -0.3])
def test_the_rest_of_the_way_is_told_with_a_stroke_as_far_as_the_action_limits_allow(speed):
    caution, velocity = Caution(DELTA_ROBOT, RUNNING_ON), 0.004 * np.sign(speed)  # runs on by 8 mm
    fast, reached = observe(DELTA_ROBOT, state(velocity), state()), []
    for at in range(3, N - ANSWER + 1):
        told, way = caution.slow_down(fast, chunk(speed, at), chunk()[0], LONG_AGO), GAIN * speed * (at + ANSWER)
        if (told[:, 6] == CLOSED).all():
            reached.append(at)
            assert GAIN * told[:, 0].sum() + 2.0 * velocity == pytest.approx(way)
            assert (np.abs(told[:, :6]) <= 1.0).all()
        else:
            assert np.array_equal(told, chunk(speed)[:PAUSE])
            assert abs(way - 2.0 * velocity) > GAIN * PAUSE
    assert reached == list(range(3, N - ANSWER))


@pytest.mark.parametrize("stops_at", [4, 6, N])
def test_a_hurried_arm_comes_to_rest_where_it_would_be_at_its_own_pace_when_its_fingers_answer(stops_at):
    lags, gains = np.array(RUNNING_ON.arms[0].axis_lags), np.array(RUNNING_ON.arms[0].axis_gains)
    slow = chunk(closes_at=5)
    slow[:, 1] = 0.03  # a little beside the arm's way
    slow[stops_at:, :3] = 0.0
    until_answer, rest = slow[: 5 + ANSWER, :3], np.zeros((100, 3))
    after = free_motion(gains * slow[0, :3], np.concatenate([until_answer, rest]), lags, gains)
    at_answer = after - lags * gains * until_answer[-1]  # which it has not followed yet
    velocity = np.array([0.0045, 0, 0])
    fast = observe(DELTA_ROBOT, state(velocity[0]), state())
    told = Caution(DELTA_ROBOT, RUNNING_ON).slow_down(fast, slow, slow[0], LONG_AGO)
    assert (told[:, 6] == CLOSED).all()
    np.testing.assert_allclose(free_motion(velocity, np.concatenate([told[:, :3], rest]), lags, gains), at_answer)


def test_a_stroke_is_waited_for_where_the_chunk_ends_before_its_fingers_answer():
    caution, fast = Caution(DELTA_ROBOT, RUNNING_ON), observe(DELTA_ROBOT, state(0.012), state())
    for at, told in ((N - ANSWER, CLOSED), (N - ANSWER + 1, OPEN)):
        assert (caution.slow_down(fast, chunk(closes_at=at), chunk()[0], LONG_AGO)[:, 6] == told).all()


def test_a_stroke_is_not_told_in_flight_to_somewhere_else():
    caution, fast = Caution(DELTA_ROBOT, RUNNING_ON), observe(DELTA_ROBOT, state(0.009), state())
    aside = chunk(speed=0.0, closes_at=5)
    aside[PAUSE:5, 1] = 1.01 * APPROACH / GAIN / (5 - PAUSE)
    assert (caution.slow_down(fast, aside, chunk()[0], LONG_AGO)[:, 6] == OPEN).all()
    aside[:, 1] *= 0.98
    assert (caution.slow_down(fast, aside, chunk()[0], LONG_AGO)[:, 6] == CLOSED).all()


def test_fingers_that_are_still_at_a_stroke_are_not_called_back():
    caution, fast = Caution(DELTA_ROBOT, RUNNING_ON), observe(DELTA_ROBOT, state(0.009), state())
    whole = STROKE.delay + 1.0 / STROKE.speed
    for ago, told in ((1.0, OPEN), (whole - 1, OPEN), (whole, CLOSED)):
        assert (caution.slow_down(fast, chunk(closes_at=0), chunk()[0], (ago,))[:, 6] == told).all()


@pytest.mark.parametrize(
    ("switched_off", "commanded"),
    [
        (None, (CLOSED, CLOSED, OPEN)),
        ("early_gripper", (OPEN, OPEN, OPEN)),
        ("remaining_displacement", (CLOSED, OPEN, OPEN)),
        ("unbroken_gripper", (CLOSED, CLOSED, CLOSED)),
    ],
)
def test_each_rule_of_a_gripper_that_is_commanded_early_can_be_switched_off(switched_off, commanded):
    caution = Caution(DELTA_ROBOT, RUNNING_ON, **({switched_off: False} if switched_off else {}))
    coasts_there, stops_short = (observe(DELTA_ROBOT, state(velocity), state()) for velocity in (0.0091, 0.004))
    moments = (
        (coasts_there, chunk(closes_at=PAUSE), LONG_AGO),
        (stops_short, chunk(closes_at=4), LONG_AGO),
        (coasts_there, chunk(closes_at=0), (1.0,)),  # fingers that are still at their last motion
    )
    for (o, wanted, ago), gripper in zip(moments, commanded, strict=True):
        assert (caution.slow_down(o, wanted, chunk()[0], ago)[:, 6] == gripper).all()


def test_the_accelerator_knows_how_long_ago_strokes_were_told():
    runs, x = accelerator(Caution(DELTA_ROBOT, RUNNING_ON), rate=1.0), 0.0
    for made, ago in ((chunk(), np.inf), (chunk(closes_at=N - 1), 1.0), (chunk(begins=CLOSED), 1.0 + N)):
        runs.shorten(made, state(x), state(x))
        x += GAIN * made[:, 0].sum()
        assert runs._strokes_ago == [ago]
    flapping = runs.shorten(chunk(begins=OPEN), state(x), state(x - 0.009))
    assert (flapping.actions[:, 6] == CLOSED).all()  # opens in full flight, fingers still closing: not yet
    runs.reset()
    assert runs._strokes_ago == [np.inf]


HELD = 0.5
LETS_GO = replace(LIMITS, grippers=(replace(LIMITS.grippers[0], letting_go=5.0),))
"""The same gripper, when it is also known that it lets go of what it holds within five steps."""
CREEPS = 0.05
"""A motion too short to tell whether anything holds the arm back."""


def holding(opening=HELD):
    return np.append(state()[:6], opening)


def releasing(limits):
    """An accelerator that was last told to close, on something."""
    runs, grips = accelerator(Caution(DELTA_ROBOT, limits)), chunk(speed=0.0, begins=CLOSED)
    runs.shorten(grips, holding(), holding())
    return runs


def test_an_arm_does_not_leave_with_what_its_fingers_have_yet_to_let_go_of():
    runs, leaves = releasing(LETS_GO), chunk(CREEPS, closes_at=3, begins=CLOSED)
    told = runs.shorten(leaves, holding(), holding())
    assert told.actions[:, 6].tolist() == [CLOSED, OPEN]  # what comes after the stroke is asked for again
    assert told.positions.tolist() == [2.0, 4.0]
    for last in (OPEN, CLOSED):  # not even a policy that wants it back calls the stroke back
        waits = runs.shorten(chunk(CREEPS, begins=last), holding(), holding())
        assert np.array_equal(waits.actions[:, :6], chunk(CREEPS)[:PAUSE, :6])
        assert (waits.actions[:, 6] == OPEN).all()
    assert len(runs.shorten(chunk(CREEPS), holding(), holding()).actions) == PAUSE
    assert len(runs.shorten(chunk(CREEPS), holding(), holding()).actions) == N // 2  # it takes no longer than that


def test_an_arm_leaves_as_soon_as_its_fingers_have_let_go():
    for opening, length in ((HELD + 0.8 * WATCH.gave_way, PAUSE), (HELD + 1.2 * WATCH.gave_way, N // 2)):
        runs = releasing(LETS_GO)
        runs.shorten(chunk(CREEPS, closes_at=3, begins=CLOSED), holding(), holding())
        assert len(runs.shorten(chunk(CREEPS), holding(opening=opening), holding(opening=opening)).actions) == length


def test_nothing_is_waited_for_where_nothing_is_held_or_known():
    for limits, opening in ((LIMITS, HELD), (LETS_GO, 0.9 * WATCH.free)):
        runs, at = releasing(limits), holding(opening=opening)
        assert len(runs.shorten(chunk(CREEPS, closes_at=3, begins=CLOSED), at, at).actions) == N // 2
        assert len(runs.shorten(chunk(CREEPS), at, at).actions) == N // 2


def test_an_arm_that_pushes_in_vain_is_given_the_policys_own_chunk_even_where_that_was_foretold():
    class Pushing(ObedientArm):
        """A stand-in that has learned that the arm does not move."""

        def rollout(self, observations, actions, before=None):
            return super().rollout(observations, 0.0 * actions)

    limits = replace(LIMITS, arms=(replace(LIMITS.arms[0], axis_lags=(0.0,) * 3, axis_gains=(GAIN,) * 3),))
    for share, reason in ((0.2, "held back"), (0.3, None)):
        runs = accelerator(Caution(DELTA_ROBOT, limits), world_model=Pushing())
        way = GAIN * runs.shorten(chunk(), state(), state()).actions[:, 0].sum()
        assert runs.shorten(chunk(), state(share * way), state(share * way)).reason == reason


def test_what_is_held_back_is_given_a_few_commands_and_after_a_few_times_the_whole_chunk():
    runs = accelerator()
    runs.shorten(chunk(), state(), state())
    lengths = [len(runs.shorten(chunk(), state(), state()).actions) for _ in range(2 * (WATCH.short_attempts + 1))]
    assert lengths == 2 * ([ATTEMPT] * WATCH.short_attempts + [N])
    runs.reset()
    runs.shorten(chunk(), state(), state())
    for closing in (chunk(closes_at=0), chunk(begins=CLOSED, closes_at=N - 1)):  # a stroke is not put off
        assert np.array_equal(runs.shorten(closing, state(), state()).actions, closing)
    runs.max_rate = 1.0
    assert np.array_equal(runs.shorten(chunk(), state(), state()).actions, chunk())


def test_an_arm_that_moves_freely_again_has_all_its_attempts_before_it():
    runs, lengths, x = accelerator(Caution(DELTA_ROBOT, RUNNING_ON)), [], 0.0
    for moves in (True, False, False, True, False, False, False, False):
        sent = runs.shorten(chunk(), state(x), state(x))
        lengths.append(len(sent.actions))
        x += GAIN * float(sent.actions[:, 0].sum()) if moves else 0.0
    fast = N // 2
    assert lengths == [fast, fast, ATTEMPT, ATTEMPT, fast, ATTEMPT, ATTEMPT, ATTEMPT]


def test_commands_that_say_nothing_alone_say_something_together_but_not_for_ever():
    class Pushing(ObedientArm):
        """A stand-in that has learned that the arm does not move."""

        def rollout(self, observations, actions, before=None):
            return super().rollout(observations, 0.0 * actions)

    limits = replace(LIMITS, arms=(replace(LIMITS.arms[0], axis_lags=(0.0,) * 3, axis_gains=(GAIN,) * 3),))
    caution, short = Caution(DELTA_ROBOT, limits), chunk(speed=0.6)[:2]
    runs = accelerator(caution, world_model=Pushing())
    pressed = chunk(speed=0.04)  # half a command of 0.4 in all: less than tells anything
    reasons = [runs.shorten(pressed, state(), state()).reason for _ in range(5)]
    assert reasons == [None, None, None, "held back", None]
    assert caution.resisted(observe(DELTA_ROBOT, state(), state()), short[:1], features(DELTA_ROBOT, state())) is None
    runs.reset()
    idle, longest = chunk(speed=0.0), round(WATCH.longest_watch_seconds * DELTA_ROBOT.control_hz)
    for _ in range(3 * longest // N):
        assert runs.shorten(idle, state(), state()).reason is None
        assert len(runs._sent[1]) <= longest + N


def test_a_policy_is_not_put_off_for_ever_and_not_at_all_at_rate_one():
    runs = accelerator()
    runs.shorten(chunk(), state(), state())
    lengths, pauses = [], int(np.ceil(WATCH.longest_pause_seconds * DELTA_ROBOT.control_hz / PAUSE))
    for step in range(pauses + 1):
        x = 0.1 * (step + 1)
        lengths.append(len(runs.shorten(chunk(closes_at=3), state(x), state(x - 0.02)).actions))
    assert lengths == [PAUSE] * pauses + [N // 2]
    runs.max_rate = 1.0
    assert len(runs.shorten(chunk(closes_at=3), state(0.9), state(0.88)).actions) == N


def scaled(unit):
    """(robot, limits): the stand-in whose commands count in so many times the unit that they did."""
    actions = tuple(
        replace(group, low=tuple(v / unit for v in group.low), high=tuple(v / unit for v in group.high))
        if group.mode == "delta"
        else group
        for group in DELTA_ROBOT.actions
    )
    arm = replace(RUNNING_ON.arms[0], gain=GAIN * unit, axis_gains=(GAIN * unit,) * 3)
    return replace(DELTA_ROBOT, actions=actions), replace(RUNNING_ON, arms=(arm,))


@pytest.mark.parametrize("metres", [0.05, 0.002])
def test_an_arm_whose_commands_are_metres_is_held_back_like_the_same_arm_in_shares_of_its_largest(metres):
    verdicts = []
    for unit in (1.0, 1.0 / metres):
        caution = Caution(*scaled(unit))
        verdicts.append(
            [
                caution.resisted(
                    observe(caution.robot, state(), state()),
                    chunk(speed=speed)[:commands] / unit,
                    features(caution.robot, state(share * GAIN * speed * commands)),
                )
                for speed in (0.05, 0.2, 0.5, 1.0)
                for commands in (1, 4, 10)
                for share in (0.0, 0.1, 0.9)
            ]
        )
    assert verdicts[0] == verdicts[1]
    assert set(verdicts[0]) == {None, True, False}


def test_action_limits_that_are_never_reached_do_not_turn_the_watch_off():
    robot, limits = scaled(1.0 / 100)  # limits a hundred times as wide, for the same commands
    arm = replace(limits.arms[0], gain=GAIN, axis_gains=(GAIN,) * 3)
    caution = Caution(robot, replace(limits, arms=(arm,)))
    still, sent = observe(robot, state(), state()), chunk(speed=0.5)
    assert caution.resisted(still, sent, features(robot, state())) is True
    assert caution.resisted(still, sent[:1], features(robot, state())) is None


def test_what_was_chosen_by_hand_is_saved_and_runs_as_it_was_saved():
    tuning = replace(Tuning(), watch=replace(WATCH, attempt_seconds=0.3, short_attempts=1))
    document = json.loads(json.dumps(asdict(replace(LIMITS, tuning=tuning))))
    limits = limits_from_json(document, DELTA_ROBOT)
    assert limits.tuning == tuning
    runs = accelerator(Caution(DELTA_ROBOT, limits))
    runs.shorten(chunk(), state(), state())
    assert [len(runs.shorten(chunk(), state(), state()).actions) for _ in range(2)] == [6, N]
    del document["tuning"]  # as in patches from before it was recorded
    assert limits_from_json(document, DELTA_ROBOT).tuning == Tuning()
    document["tuning"] = {"watch": {"patience": 1.0}}
    with pytest.raises(InputError, match="patience"):
        limits_from_json(document, DELTA_ROBOT)
    for wrong in (0.0, float("nan")):
        document["tuning"] = {"watch": {"rush": wrong}}
        with pytest.raises(InputError, match="rush must be a positive number"):
            limits_from_json(document, DELTA_ROBOT)
