"""The film of an evaluation: the policy alone on the left, patched on the right, same seed, same clock."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from speedup_patch.artefacts import read_json
from speedup_patch.data import EpisodeResult
from speedup_patch.envs import instruction
from speedup_patch.errors import InputError
from speedup_patch.reporting import Report, silent
from speedup_patch.video.drawing import Panel, draw_frame
from speedup_patch.video.replay import Replay, find_seed

WIDTH, HEIGHT = 560, 400
"""Pixels of one side."""
LONGEST_FRAME = 1 / 24
"""Seconds: a frame is shown for as many control steps as fit, at least one."""
HOLD_SECONDS = 2.0
"""How long the end is shown."""
SMOOTH_SECONDS = 0.3
"""The rate that is shown is the mean over this time: single steps flicker."""


class Film:
    """Frames (H, W, 3) to be shown at ``fps``, each rendered when it is asked for."""

    def __init__(self, sides: "tuple[_Side, _Side]", seed: int) -> None:
        self._sides = sides
        self.seed = seed
        control_hz = sides[0].control_hz
        self._stride = max(1, int(control_hz * LONGEST_FRAME + 1e-9))
        self.fps = control_hz / self._stride

    def __len__(self) -> int:
        """How many frames there are."""
        longest = max(len(side.replay.trace) for side in self._sides)
        return -(-longest // self._stride) + 1 + round(HOLD_SECONDS * self.fps)

    def frames(self, report: Report = silent) -> Iterator[UInt8[np.ndarray, "H W 3"]]:
        """Renders the film once, from its beginning to its end."""
        task = instruction(self._sides[0].replay.env)
        task = task[:1].upper() + task[1:]
        try:
            for frame in range(len(self)):
                left, right = (side.panel(frame * self._stride) for side in self._sides)
                over = left.outcome is not None and right.outcome is not None
                yield draw_frame(left, right, task, self._verdict() if over else "Real time")
                report("video", frame + 1, len(self), {})
        finally:
            for side in self._sides:
                side.close()

    def _verdict(self) -> str:
        base, patched = (side.replay.result for side in self._sides)
        if not (base.success and patched.success):
            return f"Seed {self.seed}"
        return f"Seed {self.seed}: {base.steps / patched.steps:.2f} times as fast"


def render_side_by_side(run: Path, spec: str, seed: int | None = None) -> Film:
    """The film of one seed, base beside ``spec``; without a seed, of the first at which both succeeded.

    Both episodes are run again from their traces while the film is rendered; where the simulator does not repeat them,
    that is an error.
    """
    if spec == "base":
        raise InputError("the left side is base already; name another scheduler for the right side")
    env = read_json(run / "run.json")["env"]
    seed = find_seed(run, ("base", spec)) if seed is None else seed
    base, patched = (_Side(Replay(run, env, name, seed), name) for name in ("base", spec))
    return Film((base, patched), seed)


def short_name(spec: str) -> str:
    """A scheduler's text without the folders that its patch lies in."""
    head, separator, path = spec.rpartition(":") if ":" in spec else spec.rpartition("+")
    return head + separator + Path(path).name


class _Side:
    """One episode, filmed."""

    def __init__(self, replay: Replay, spec: str) -> None:
        from speedup_patch.envs.stage import Filmed
        from speedup_patch.video.camera import Camera

        if not isinstance(replay.env, Filmed):
            raise InputError(f"{replay.env.name} cannot be filmed: it says not where to look from")
        self.replay = replay
        self.control_hz = replay.env.robot.control_hz
        self._title = "policy alone" if spec == "base" else short_name(spec)
        self._rates = _smooth(replay.trace.step_rates, round(SMOOTH_SECONDS * self.control_hz))
        self._camera = Camera(replay.env.stage, WIDTH, HEIGHT)
        self._picture = self._camera.render()
        self._shown = 0

    def panel(self, step: int) -> Panel:
        """What is seen after ``step`` actions, or at the end."""
        last = len(self.replay.trace)
        now = min(step, last)
        if now != self._shown:
            self.replay.advance(now)
            self._picture, self._shown = self._camera.render(), now
        return Panel(
            picture=self._picture,
            title=self._title,
            seconds=now / self.control_hz,
            rate=float(self._rates[min(now, last - 1)]),
            outcome=outcome_text(self.replay.result, self.control_hz) if step >= last else None,
            success=self.replay.result.success,
        )

    def close(self) -> None:
        self._camera.close()
        self.replay.env.close()


def outcome_text(result: EpisodeResult, control_hz: float) -> str:
    """What is said at the end of an episode."""
    return f"{'done in' if result.success else 'not done after'} {result.steps / control_hz:.1f} s"


def _smooth(values: Float[np.ndarray, " T"], window: int) -> Float[np.ndarray, " T"]:
    kernel = np.ones(min(max(1, window), len(values)))
    return np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")
