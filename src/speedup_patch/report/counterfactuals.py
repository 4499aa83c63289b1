"""Measured counterfactuals (benchmarks/counterfactual.py): found beside a run or where the benchmarks are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedup_patch.artefacts import read_json
from speedup_patch.errors import InputError
from speedup_patch.report.reading import Run

BENCHMARKS = Path("benchmarks/results")
FIGURES = ("true_mean", "bias")


@dataclass(frozen=True)
class Counterfactuals:
    """How true a world model's predictions are in one environment."""

    file: Path
    env: str
    epsilon: float | None
    command: str
    scores: dict[str, dict[str, dict[str, dict[str, Any]]]]
    """Model -> kind of state -> rate (and "pooled") -> figures."""


def find_counterfactuals(runs: Sequence[Run], given: Sequence[Path]) -> list[Counterfactuals]:
    """Those that were given, or else those about the environments of the runs that lie in known places."""
    if given:
        return [read_counterfactuals(path) for path in given]
    found: dict[str, Counterfactuals] = {}
    for run in runs:
        name = f"counterfactual_{run.env.replace('/', '_')}.json"
        for folder in (run.folder, run.folder.parent, BENCHMARKS):
            if run.env not in found and (folder / name).is_file():
                found[run.env] = read_counterfactuals(folder / name)
    return list(found.values())


def read_counterfactuals(path: Path) -> Counterfactuals:
    """The scores in a file that benchmarks/counterfactual.py wrote."""
    document = read_json(path)
    try:
        settings = document["settings"]
        scores = {str(model): dict(found["scores"]) for model, found in document["models"].items()}
        for figures in (f for groups in scores.values() for rates in groups.values() for f in rates.values()):
            for key in FIGURES:
                float(figures[key])
        epsilon = settings.get("epsilon")
        return Counterfactuals(
            path,
            str(settings["env"]),
            None if epsilon is None else float(epsilon),
            str(document.get("command", "")),
            scores,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} holds no counterfactual scores as benchmarks/counterfactual.py writes them: {error!r}"
        ) from error
