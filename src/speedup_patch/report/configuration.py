"""How to get the same run again: the commands, what they were run with, and which data the patches come from."""

import json
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedup_patch import __version__
from speedup_patch.report.patches import FoundPatch
from speedup_patch.report.reading import Run

Facts = list[tuple[str, str]]
"""(name, value) pairs to list."""


@dataclass(frozen=True)
class PatchCard:
    """A patch as the page describes it."""

    name: str
    note: str
    facts: Facts
    provenance: str
    """Everything the patch says of its making, as JSON; empty when it could not be read."""


def evaluation_command(run: Run) -> str:
    """The command that runs the same evaluation; empty when the folder does not tell what was run."""
    if run.asked is None or not run.schedulers:
        return ""
    first, episodes = run.asked
    words = ["sup", "eval", run.env, "--policy", run.policy, "--scheduler", *run.schedulers]
    words += ["--episodes", str(episodes), "--seed", str(first), "--out", str(run.folder)]
    return shlex.join(words)


def report_command(runs: Sequence[Path], out: Path, options: Sequence[str] = ()) -> str:
    """The command that makes this page."""
    return shlex.join(["sup", "report", *map(str, runs), "--out", str(out), *options])


def report_versions() -> str:
    """What made this page."""
    return f"speedup_patch {__version__}, Python {platform.python_version()}"


def run_facts(run: Run) -> Facts:
    """The run's settings."""
    facts: Facts = [("environment", run.env), ("policy", run.policy), ("folder", str(run.folder))]
    if run.asked:
        first, episodes = run.asked
        facts.append(("seeds", f"{first} to {first + episodes - 1}, the same for every scheduler"))
    if run.policy in run.contents:
        facts.append(("policy digest", run.contents[run.policy]))
    ran_with = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return [*facts, ("ran with", ran_with or "not recorded in the run folder")]


def patch_card(patch: FoundPatch) -> PatchCard:
    """A patch's settings, data fingerprint, versions and held-out figures."""
    facts: Facts = [("digest when it ran", patch.digest or "not recorded")]
    loaded = patch.loaded
    if loaded is None:
        return PatchCard(patch.named, patch.note, facts, "")
    provenance = loaded.provenance
    facts += [
        ("robot", f"{loaded.robot.name}, {loaded.robot.control_hz:g} Hz"),
        ("chunk length", str(loaded.chunk_length)),
        ("choices", "; ".join(loaded.candidates.labels)),
        ("tolerance", f"{loaded.epsilon:g} ({loaded.measure.replace('_', ' ')})"),
    ]
    data = provenance.get("data")
    if isinstance(data, dict):
        facts.append(("training data", _amount(data)))
        facts.append(("data fingerprint", str(data.get("fingerprint", "not recorded"))))
    versions = provenance.get("versions")
    if isinstance(versions, dict):
        facts.append(("trained with", ", ".join(f"{name} {version}" for name, version in versions.items())))
    if isinstance(provenance.get("command"), str):
        facts.append(("training command", provenance["command"]))
    facts += _held_out(provenance.get("held_out"))
    seconds = (patch.training or {}).get("seconds")
    if isinstance(seconds, dict):
        facts.append(("training took", ", ".join(f"{figure} s" for figure in _figures(seconds))))
    return PatchCard(patch.named, patch.note, facts, json.dumps(provenance, indent=2, ensure_ascii=False))


def _amount(data: dict[str, Any]) -> str:
    return ", ".join(f"{data[key]} {key}" for key in ("episodes", "frames") if key in data)


def _held_out(figures: Any) -> Facts:
    if not isinstance(figures, dict):
        return []
    return [
        (f"held out: {stage.replace('_', ' ')}", ", ".join(_figures(found)))
        for stage, found in figures.items()
        if isinstance(found, dict) and _figures(found)
    ]


def _figures(found: dict[str, Any]) -> list[str]:
    return [f"{name.replace('_', ' ')} {value:.3g}" for name, value in found.items() if isinstance(value, int | float)]
