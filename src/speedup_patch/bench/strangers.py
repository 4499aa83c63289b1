"""The benchmark of strangers: every robot's schedulers on the same seeds, what `sup check` predicted for its patch, and
both pooled over the robots."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.artefacts import read_json
from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import FurtherTable, Layout, Row, record, save_rows
from speedup_patch.bench.runs import HEADS, SECONDS_TABLES, policy_digest, run_schedulers, summary_rows
from speedup_patch.bench.stranger_robots import Recipe, prepare
from speedup_patch.check import check_patch
from speedup_patch.data import Demonstrations
from speedup_patch.envs.strangers import STRANGERS, Stranger, draw_stranger
from speedup_patch.envs.strangers.spec import GROUP
from speedup_patch.errors import InputError
from speedup_patch.evaluation.run import content_digest
from speedup_patch.known_outcomes import LOSS
from speedup_patch.reporting import Report, silent
from speedup_patch.runtime.patch_folder import load_patch

OURS = "PATCH"
SCHEDULERS = ("base", "fixed:2", "fixed:3", "fixed:4", "dwell+fixed:4", "mpc:PATCH", OURS)
EPISODES = 100
"""Per scheduler, where the caller does not say."""
LEAST_BASE = 0.95
"""Success that the unpatched policy must have for a robot's figures to mean anything."""
CALM = 0.01
"""Share of violating choices up to which `sup check` is taken to promise that nothing happens."""
RESAMPLES = 2000
SECONDS = {head: f"speedup_{name}" for head, name in HEADS.items()}
STRESS = {
    "peak joint speed to base": "peak_joint_speed_ratio",
    "99% of accelerations to base": "acceleration_99_ratio",
    "99% of jerks to base": "jerk_ratio",
}
POOLED = ("success", "difference", "speedup", *SECONDS.values(), *STRESS.values())
"""What is averaged over robots; each gets an interval that draws robots anew."""

ROBOTS = Layout(
    "robots",
    "Every stranger with its schedulers on the same seeds, against its unpatched policy; the speedup is over the seeds "
    "that both solved. Beside the patch (PATCH) what `sup check` predicted for it from demonstrations alone: speedup "
    "and share of violating choices, in states as demonstrated and in states reached at speed.",
    {
        "robot": "{robot}",
        "scheduler": "{scheduler}",
        "what it is": "{kind}",
        "task": "{task}",
        "Hz": "{control_hz:g}",
        "chunk": "{chunk}",
        "success": "{successes}/{episodes}",
        "change": "{difference:+.2f}",
        "95% interval of the change": "{difference_low:+.2f} .. {difference_high:+.2f}",
        "steps": "{steps:.0f}",
        "speedup": "{speedup:.2f}x",
        "95% interval of the speedup": "{speedup_low:.2f} .. {speedup_high:.2f}",
        "policy calls": "{policy_calls:.0f}",
        "predicted speedup": "{predicted_speedup:.2f}x",
        "at speed": "{predicted_speedup_at_speed:.2f}x",
        "predicted violating": "{predicted_violating:.2%}",
        "violating at speed": "{predicted_violating_at_speed:.2%}",
    },
    key="scheduler",
    further=SECONDS_TABLES,
)

POOL = Layout(
    "pooled",
    f"Strangers taken together: means over robots, with 95% intervals that draw robots anew; how many robots lost more "
    f"than {LOSS:.0%} of success against base; and of those for which `sup check` saw at most {CALM:.0%} of choices "
    "violating, how many did.",
    {
        "robots": "{suite}",
        "scheduler": "{scheduler}",
        "number": "{robots}",
        "success": "{success:.3f}",
        "95% interval": "{success_low:.3f} .. {success_high:.3f}",
        "change": "{difference:+.3f}",
        "95% interval of the change": "{difference_low:+.3f} .. {difference_high:+.3f}",
        "speedup": "{speedup:.2f}x",
        "95% interval of the speedup": "{speedup_low:.2f} .. {speedup_high:.2f}",
        "lost": "{lost}/{robots}",
        "lost though promised": "{promised_lost}/{promised}",
        "predicted speedup": "{predicted_speedup:.2f}x",
    },
    further=tuple(
        FurtherTable(
            title,
            {"robots": "{suite}", "scheduler": "{scheduler}"}
            | {head: f"{{{name}:.2f}}x ({{{name}_low:.2f}} .. {{{name}_high:.2f}})" for head, name in columns.items()},
        )
        for title, columns in (
            (
                "Speedup in seconds against base, mean over robots, while every call of the policy takes so long.",
                SECONDS,
            ),
            ("Stress on the joints as ratios to base on the same seeds, mean over robots.", STRESS),
        )
    ),
)


def choose_robots(config: BenchConfig, robots: Sequence[int]) -> BenchConfig:
    """The same benchmark for these robots, each with the policy that was learned from its demonstrations."""
    if beyond := [number for number in robots if not 0 <= number < STRANGERS]:
        raise InputError(f"strangers are numbered 0 to {STRANGERS - 1}, not {beyond[0]}")
    suites = tuple(f"{number:02d}" for number in robots)
    return replace(config, suites=suites, policy=f"onnx:{config.work}/{{suite}}.onnx")


def run_strangers(
    config: BenchConfig, command: str, report: Report = silent, recipe: Recipe | None = None
) -> list[str]:
    """Makes what robots lack, measures them one after the other, and writes the tables; returns what is to be noted."""
    config, everything = replace(config, episodes=config.episodes or EPISODES), list[str]()
    for suite in config.suites:
        notes: list[str] = []
        rows = measure(config, suite, recipe or Recipe(), notes, _under(suite, report))
        made = record(command, config.seeds) | {"policy_sha256": policy_digest(config, suite)}
        save_rows(config.out, ROBOTS, suite, rows, notes, made)
        save_pools(config.out)
        everything += [f"stranger {suite}: {note}" for note in notes]
    return everything


def measure(config: BenchConfig, suite: str, recipe: Recipe, notes: list[str], report: Report) -> list[Row]:
    """One row per scheduler of one robot."""
    stranger = draw_stranger(int(suite))
    demonstrations = prepare(config, suite, recipe, report)
    labels = tuple(dict.fromkeys(("base", *config.schedulers)))
    run = run_schedulers(config, suite, config.specs(suite, labels, notes), report)
    predicted = predict(config.patch(suite), demonstrations)
    kind = _describe(stranger)
    rows: list[Row] = [
        kind | row | {"patch_sha256": content_digest(run.specs[row["scheduler"]])}
        for row in summary_rows(suite, run.episodes, run.clock)
    ]
    base = next(row["success"] for row in rows if row["scheduler"] == "base")
    if base < LEAST_BASE:
        notes.append(f"the unpatched policy solves {base:.0%} of its episodes, less than {LEAST_BASE:.0%}")
    return [row | predicted if row["scheduler"] == OURS else row for row in rows]


def predict(patch: Path, demonstrations: Demonstrations) -> Row:
    """What `sup check` says of a patch on the episodes that training kept apart."""
    found = check_patch(load_patch(patch), demonstrations)
    fast = found.accelerated
    return {
        "predicted_speedup": found.demonstrated.speedup,
        "predicted_violating": found.demonstrated.violating,
        "predicted_speedup_at_speed": fast.speedup if fast else None,
        "predicted_violating_at_speed": fast.violating if fast else None,
    }


def save_pools(out: Path) -> None:
    """Makes the table of means again, from the table of robots: one block for each half of them."""
    suites: Mapping[str, Any] = read_json(out / f"{ROBOTS.name}.json")["suites"]
    groups: dict[int, list[str]] = {}
    for suite in sorted(suites):
        groups.setdefault(int(suite) // GROUP, []).append(suite)
    for group, members in groups.items():
        name = f"{group * GROUP} to {group * GROUP + GROUP - 1}"
        last = suites[members[-1]]
        notes = [f"{suite}: {note}" for suite in members for note in suites[suite]["notes"]]
        made = {key: last[key] for key in ("command", "seeds", "versions")}
        save_rows(out, POOL, name, pool_rows(name, [suites[suite]["rows"] for suite in members]), notes, made)


def pool_rows(name: str, robots: Sequence[Sequence[Row]]) -> list[Row]:
    """One row per scheduler: means over the robots that ran it."""
    labels = dict.fromkeys(row["scheduler"] for rows in robots for row in rows)
    calm = [_promised(rows) for rows in robots]
    pooled: list[Row] = []
    for label in labels:
        pairs = [(row, safe) for each, safe in zip(robots, calm, strict=True) for row in each]
        found = [(row, safe) for row, safe in pairs if row["scheduler"] == label]
        rows = [row for row, _ in found]
        lost = [row["difference"] < -LOSS - 1e-9 for row in rows]
        entry: Row = {"suite": name, "scheduler": label, "robots": len(rows), "lost": sum(lost)}
        for figure in POOLED:
            entry |= _mean_over_robots(figure, [row[figure] for row in rows if row.get(figure) is not None])
        if label == OURS:
            entry["promised"] = sum(safe for _, safe in found)
            entry["promised_lost"] = sum(bad and safe for bad, (_, safe) in zip(lost, found, strict=True))
            entry["predicted_speedup"] = float(np.mean([row["predicted_speedup"] for row in rows]))
        pooled.append(entry)
    return pooled


def _promised(rows: Sequence[Row]) -> bool:
    """Whether `sup check` saw hardly a choice violate."""
    return any(row["predicted_violating"] <= CALM for row in rows if row["scheduler"] == OURS)


def _mean_over_robots(figure: str, values: Sequence[float]) -> Row:
    if not values:
        return {figure: None, f"{figure}_low": None, f"{figure}_high": None}
    low, high = robots_interval(np.array(values, dtype=np.float64), np.random.default_rng(0))
    return {figure: float(np.mean(values)), f"{figure}_low": low, f"{figure}_high": high}


def robots_interval(values: Float[np.ndarray, " R"], rng: np.random.Generator) -> tuple[float, float]:
    """The 95% interval of a mean when the robots are drawn anew, with all that was measured of each."""
    drawn = rng.integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def _describe(stranger: Stranger) -> Row:
    body = f"{stranger.joints} joints" if stranger.joints else "free hand"
    plane = " in a plane" if stranger.planar else ""
    arms = "two arms, " if stranger.arms == 2 else ""
    return {
        "robot": stranger.number,
        "kind": f"{arms}{body}{plane}, {stranger.control}",
        "task": stranger.task,
        "control_hz": stranger.control_hz,
        "chunk": stranger.chunk,
    }


def _under(suite: str, report: Report) -> Report:
    return lambda stage, step, total, figures: report(f"stranger {suite}, {stage}", step, total, figures)
