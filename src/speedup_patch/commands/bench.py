"""``sup bench``."""

import re
import shlex
import sys
from pathlib import Path
from typing import Literal

import tyro

from speedup_patch.bench.config import SCHEDULERS, SUITES
from speedup_patch.commands.terminal import available_cores, print_json

PAPER_PARTS = ("main", "gripper", "tuning", "paper", "epsilon", "violations", "counterfactual", "phases")
PART_NAMES = (*PAPER_PARTS, "ablation")


def bench(
    benchmark: tyro.conf.Positional[Literal["aloha", "libero"]],
    *,
    suites: tuple[str, ...] | None = None,
    parts: tuple[str, ...] = PAPER_PARTS,
    schedulers: tuple[str, ...] = SCHEDULERS,
    episodes: int | None = None,
    counterfactual_episodes: int = 10,
    seed: int = 0,
    work: Path | None = None,
    out: Path | None = None,
    policy: str = "bundled:{env}",
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Measure tables in closed loop: the paper's, and what each rule of a patch is worth (ablation). A benchmark that
    was stopped goes on when called again.

    Args:
        benchmark: Which simulator.
        suites: Of aloha insertion and transfer, of libero spatial, object, goal and long; all when not given.
        parts: Any of main, gripper, tuning, paper, epsilon, violations, counterfactual, phases and ablation. The part
            tuning chooses the paper's tolerances on development scenes, the part paper runs what it chose.
        schedulers: What the main table and the phases compare with base; PATCH and PAPER_PATCH are the suite's. Others
            keep the rows they have.
        episodes: Episodes for every suite and scheduler, on the same seeds; when not given 100, and the paper's 500 for
            the parts paper and epsilon.
        counterfactual_episodes: Episodes per driven rate in which true deviations are measured.
        seed: First episode seed; the part tuning takes the first development seed, 50000, unless this is one.
        work: Folder with SUITE.patch, SUITE_paper.patch and so on; runs are kept in it. runs/BENCHMARK
            when not given.
        out: Folder for the tables: each part as CSV, JSON and Markdown. benchmarks/results/BENCHMARK when not given.
        policy: The base policy, {env} and {suite} standing for names.
        processes: How many processes to use; all cores when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.bench.config import BenchConfig
    from speedup_patch.bench.parts import run_bench
    from speedup_patch.progress import show_progress

    work, out = work or Path("runs") / benchmark, out or Path("benchmarks/results") / benchmark
    config = BenchConfig(
        family=benchmark,
        suites=suites or SUITES[benchmark],
        episodes=episodes,
        first_seed=seed,
        schedulers=schedulers,
        work=work,
        out=out,
        policy=policy,
        processes=processes or available_cores(),
        counterfactual_episodes=counterfactual_episodes,
    )
    with show_progress(quiet=json) as report:
        left_out = run_bench(config, parts, _command(sys.argv[1:]), report)
    files = [out / f"{part}.md" for part in parts if (out / f"{part}.md").exists()]
    if json:
        print_json({"out": str(out), "tables": [str(file) for file in files], "left_out": left_out})
        return
    for note in left_out:
        print(f"left out: {note}", file=sys.stderr)
    print("\n".join(map(str, files)) or "nothing was measured")


def _command(words: list[str]) -> str:
    """What was called, without the folders of this machine, which say nothing to others."""
    return shlex.join(["sup", *(re.sub(r"(^|:)/(?:[^/]+/)*", r"\1", word) for word in words)])
