"""``sup bench``."""

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import tyro

from speedup_patch.bench.config import SCHEDULERS, SUITES
from speedup_patch.commands.terminal import available_cores, print_json
from speedup_patch.errors import InputError

PAPER_PARTS = ("main", "gripper", "tuning", "paper", "epsilon", "violations", "counterfactual", "phases")
PART_NAMES = (*PAPER_PARTS, "ablation")


def bench(
    benchmark: tyro.conf.Positional[Literal["aloha", "libero", "strangers"]],
    *,
    suites: tuple[str, ...] | None = None,
    robots: str = "0-15",
    parts: tuple[str, ...] | None = None,
    schedulers: tuple[str, ...] | None = None,
    episodes: int | None = None,
    counterfactual_episodes: int = 10,
    seed: int = 0,
    work: Path | None = None,
    out: Path | None = None,
    policy: str = "bundled:{env}",
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Measure tables in closed loop: the paper's, what each rule of a patch is worth (ablation), and robots that nobody
    tuned for (strangers). A benchmark that was stopped goes on when called again.

    Args:
        benchmark: Which simulator.
        suites: Of aloha insertion and transfer, of libero spatial, object, goal and long; all when not given.
        robots: Of strangers, which ones: numbers and ranges such as 3,8-11. 0 to 15 are there to develop on, 16 to 31
            for the table.
        parts: Any of main, gripper, tuning, paper, epsilon, violations, counterfactual, phases and ablation; all but
            the last when not given. The part tuning chooses the paper's tolerances on development scenes, the part
            paper runs what it chose. Strangers have a table of their own, or with --parts ablation that one.
        schedulers: What the main table, the phases and the strangers' table compare with base; PATCH and PAPER_PATCH
            are the suite's. Others keep the rows they have.
        episodes: Episodes for every suite and scheduler, on the same seeds; when not given 100, and the paper's 500 for
            the parts paper and epsilon.
        counterfactual_episodes: Episodes per driven rate in which true deviations are measured.
        seed: First episode seed; the part tuning takes the first development seed, 50000, unless this is one.
        work: Folder with SUITE.patch, SUITE_paper.patch and so on; runs are kept in it. runs/BENCHMARK
            when not given. What strangers lack is made there.
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
        schedulers=schedulers or SCHEDULERS,
        work=work,
        out=out,
        policy=policy,
        processes=processes or available_cores(),
        counterfactual_episodes=counterfactual_episodes,
    )
    command = _command(sys.argv[1:])
    with show_progress(quiet=json) as report:
        if benchmark != "strangers":
            parts = parts or PAPER_PARTS
            left_out = run_bench(config, parts, command, report)
        else:
            from speedup_patch.bench import strangers

            config = strangers.choose_robots(config, _numbers(robots))
            if parts:
                left_out = run_bench(config, parts, command, report)
            else:
                parts = (strangers.ROBOTS.name, strangers.POOL.name)
                config = replace(config, schedulers=schedulers or strangers.SCHEDULERS)
                left_out = strangers.run_strangers(config, command, report)
    files = [out / f"{part}.md" for part in parts if (out / f"{part}.md").exists()]
    if json:
        print_json({"out": str(out), "tables": [str(file) for file in files], "left_out": left_out})
        return
    for note in left_out:
        print(f"left out: {note}", file=sys.stderr)
    print("\n".join(map(str, files)) or "nothing was measured")


def _numbers(text: str) -> list[int]:
    """The numbers that such as 3,8-11 names."""
    numbers: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if found is None:
            raise InputError(f"--robots {text!r} is not a list of numbers and ranges such as 3,8-11")
        first = int(found[1])
        numbers += range(first, int(found[2] or first) + 1)
    return list(dict.fromkeys(numbers))


def _command(words: list[str]) -> str:
    """What was called, without the folders of this machine, which say nothing to others."""
    return shlex.join(["sup", *(re.sub(r"(^|:)/(?:[^/]+/)*", r"\1", word) for word in words)])
