"""Writes an evaluation's traces as one file for the Rerun viewer: paths, rates, predicted deviations, violations."""

# Rerun is an optional package.
# pyright: reportMissingImports=false, reportUnknownParameterType=false

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.errors import InputError
from speedup_patch.evaluation.deviations import Judge, find_judge, judge_decisions
from speedup_patch.evaluation.traces import Trace, read_trace, trace_file
from speedup_patch.robots import Robot

CLOCK = "time"
"""The timeline: seconds since the start of the episode, the same for every scheduler."""
COLOURS = ((140, 147, 158), (255, 165, 0), (46, 134, 222), (39, 174, 96), (155, 89, 182), (231, 76, 160))
VIOLATION = (214, 48, 49)
SHOWN_SEEDS = 8
"""How many seeds get a tab when the viewer opens; the others are in its list."""


def import_rerun() -> Any:
    """The package, or an error that says how to get it; call it before work starts that takes long."""
    try:
        import rerun
    except ModuleNotFoundError as error:
        raise InputError("a Rerun file needs rerun-sdk: pip install 'speedup-patch[rerun]'") from error
    return rerun


def write_rerun(run: Path, robot: Robot, specs: Sequence[str], seeds: Sequence[int], path: Path) -> None:
    """Writes or replaces the file for these schedulers and seeds, all of which must have traces in ``run``.

    Entities are ``/seed_<seed>/<scheduler>/...``: ``path/<arm>`` and ``hand/<arm>`` in metres, ``rate`` at every step,
    and where the scheduler is or names a patch ``deviation`` and ``violation`` at every decision.
    """
    rerun = import_rerun()
    traces = {(spec, seed): read_trace(trace_file(run, spec, seed)) for spec in specs for seed in seeds}
    judges = {spec: find_judge(spec, robot) for spec in specs}
    with write_file_atomically(path, overwrite=True) as unfinished:
        recording = rerun.RecordingStream("sup eval", recording_id=run.resolve().name)
        recording.save(unfinished, default_blueprint=_layout(rerun, specs, seeds))
        for (spec, seed), trace in traces.items():
            log = _EpisodeLog(
                rerun, recording, robot, [f"seed_{seed}", spec], COLOURS[specs.index(spec) % len(COLOURS)]
            )
            log.motion(trace)
            if judge := judges[spec]:
                log.deviations(trace, judge)
        recording.flush()
        recording.disconnect()


def _layout(rerun: Any, specs: Sequence[str], seeds: Sequence[int]) -> Any:
    """One tab per seed: the paths in space, and under them rates and deviations over time."""
    views = rerun.blueprint

    def plot(seed: int, name: str) -> Any:
        curves = [rerun.new_entity_path([f"seed_{seed}", spec, name]) for spec in specs]
        return views.TimeSeriesView(origin=f"/seed_{seed}", contents=curves, name=name)

    def tab(seed: int) -> Any:
        space = views.Spatial3DView(origin=f"/seed_{seed}", name="paths")
        plots = views.Horizontal(*(plot(seed, name) for name in ("rate", "deviation", "violation")))
        return views.Vertical(space, plots, row_shares=[2, 1], name=f"seed {seed}")

    return views.Blueprint(views.Tabs(*map(tab, seeds[:SHOWN_SEEDS])), collapse_panels=True)


class _EpisodeLog:
    """Writes one episode under its own entities."""

    def __init__(
        self, rerun: Any, recording: Any, robot: Robot, origin: list[str], colour: tuple[int, int, int]
    ) -> None:
        self._rerun, self._recording, self._robot = rerun, recording, robot
        self._origin, self._colour = origin, colour

    def motion(self, trace: Trace) -> None:
        """Where every end-effector went, and how fast the chunks ran."""
        rerun = self._rerun
        paths = self._robot.poses(trace.states.astype(np.float64))[..., :3]
        for index, arm in enumerate(self._robot.arms):
            strip = rerun.LineStrips3D([paths[:, index]], colors=[self._colour], radii=0.0015)
            self._recording.log(self._entity("path", arm.name), strip, static=True)
            hand = self._entity("hand", arm.name)
            self._recording.log(hand, rerun.Points3D.from_fields(colors=[self._colour], radii=[0.008]), static=True)
            self._columns(hand, np.arange(len(paths)), rerun.Points3D.columns(positions=paths[:, index]))
        self._scalars("rate", np.arange(len(trace)), trace.step_rates)

    def deviations(self, trace: Trace, judge: Judge) -> None:
        """What the patch's own world model expects of every decision, and where that is more than its tolerance."""
        deviations, violations = judge_decisions(judge, trace)
        self._scalars("deviation", trace.decision_steps, deviations)
        self._scalars("violation", trace.decision_steps, violations.astype(np.float64))
        where = self._robot.poses(trace.states[trace.decision_steps[violations]].astype(np.float64))[..., :3]
        points = self._rerun.Points3D(where.reshape(-1, 3), colors=[VIOLATION], radii=0.012)
        self._recording.log(self._entity("violations"), points, static=True)

    def _scalars(self, name: str, steps: np.ndarray, values: Float[np.ndarray, " N"]) -> None:
        entity = self._entity(name)
        line = self._rerun.SeriesLines(names=self._origin[-1], colors=[self._colour])
        self._recording.log(entity, line, static=True)
        self._columns(entity, steps, self._rerun.Scalars.columns(scalars=values))

    def _columns(self, entity: str, steps: np.ndarray, columns: Any) -> None:
        clock = self._rerun.TimeColumn(CLOCK, duration=steps / self._robot.control_hz)
        self._recording.send_columns(entity, indexes=[clock], columns=columns)

    def _entity(self, *parts: str) -> str:
        return self._rerun.new_entity_path([*self._origin, *parts])
