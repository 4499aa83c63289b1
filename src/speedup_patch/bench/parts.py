"""All parts of a benchmark, and how they are run: one suite at a time, each saved before the next begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from speedup_patch.bench import (
    ablation,
    counterfactual,
    epsilon,
    gripper,
    main_table,
    paper_table,
    phases,
    tuning,
    violations,
)
from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.results import Layout, Row, record, save_rows
from speedup_patch.bench.runs import policy_digest
from speedup_patch.envs.seeds import DEVELOPMENT, scenes_of
from speedup_patch.errors import InputError
from speedup_patch.reporting import Report, silent

Measure = Callable[[BenchConfig, str, list[str], Report], list[Row]]


@dataclass(frozen=True)
class Part:
    """One table of a benchmark: what measures a suite's rows, and how they are written."""

    measure: Measure
    layout: Layout
    suites: tuple[str, ...] | None = None
    """The only suites it is for."""
    episodes: int = 100
    """Episodes per scheduler, where the caller does not say how many."""
    development: bool = False
    """Whether numbers or rules are chosen by it, so that it must not see evaluation scenes."""

    def settled(self, config: BenchConfig) -> BenchConfig:
        """The configuration with the episodes that this part runs."""
        elsewhere = self.development and scenes_of(config.first_seed) != "development"
        first_seed = DEVELOPMENT if elsewhere else config.first_seed
        return replace(config, episodes=config.episodes or self.episodes, first_seed=first_seed)


PAPERS_EPISODES = 500
"""The paper's trials per LIBERO suite."""

PARTS = {
    "main": Part(main_table.measure, main_table.LAYOUT),
    "gripper": Part(gripper.measure, gripper.LAYOUT),
    "tuning": Part(tuning.measure, tuning.LAYOUT, development=True),
    "paper": Part(paper_table.measure, paper_table.LAYOUT, episodes=PAPERS_EPISODES),
    "epsilon": Part(epsilon.measure, epsilon.LAYOUT, suites=("long",), episodes=PAPERS_EPISODES),
    "violations": Part(violations.measure, violations.LAYOUT),
    "counterfactual": Part(counterfactual.measure, counterfactual.LAYOUT),
    "phases": Part(phases.measure, phases.LAYOUT),
    "ablation": Part(ablation.measure, ablation.LAYOUT, development=True),
}


def run_bench(config: BenchConfig, parts: Sequence[str], command: str, report: Report = silent) -> list[str]:
    """Measures and writes every part; returns what was left out and why.

    A part that cannot be measured in a suite leaves the suite's earlier results as they are.
    """
    if unknown := set(parts) - PARTS.keys():
        raise InputError(f"unknown parts {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    everything: list[str] = []
    for name in parts:
        part = PARTS[name]
        settled = part.settled(config)
        for suite in config.suites:
            if part.suites is not None and suite not in part.suites:
                continue
            notes: list[str] = []
            rows = _measure(part, settled, suite, notes, _under(f"{name} {suite}", report))
            if rows:
                made = record(command, settled.seeds) | {"policy_sha256": policy_digest(config, suite)}
                save_rows(config.out, part.layout, suite, rows, notes, made)
            everything += [f"{name}, {suite}: {note}" for note in notes]
    return everything


def _measure(part: Part, config: BenchConfig, suite: str, notes: list[str], report: Report) -> list[Row]:
    try:
        return part.measure(config, suite, notes, report)
    except InputError as error:
        notes.append(str(error))
        return []


def _under(name: str, report: Report) -> Report:
    """A report whose stages carry the name of the part and the suite."""
    return lambda stage, step, total, figures: report(f"{name}, {stage}", step, total, figures)
