"""``sup demo``."""

import shutil
from pathlib import Path

from speedup_patch.commands.check import check
from speedup_patch.commands.collect import collect
from speedup_patch.commands.evaluate import evaluate
from speedup_patch.commands.report import report
from speedup_patch.commands.train import train


def demo(
    *,
    out: Path,
    demonstrations: int = 50,
    episodes: int = 30,
    processes: int | None = None,
    overwrite: bool = False,
) -> None:
    """Do the whole job on ALOHA insertion: collect demonstrations, train a patch, evaluate it in closed loop.

    Args:
        out: Folder for the demonstrations, the patch and the run.
        demonstrations: How many demonstrations to collect.
        episodes: Paired evaluation episodes for every scheduler.
        processes: How many processes to use; all cores when not given.
        overwrite: Replace OUT if it exists.
    """
    from speedup_patch.artefacts import refuse_existing

    refuse_existing(out, overwrite)
    shutil.rmtree(out, ignore_errors=True)
    task = "aloha/insertion"
    data, patch = out / "demonstrations", out / "insertion.patch"
    print(f"1/4 collecting {demonstrations} demonstrations of {task}")
    collect(task, out=data, episodes=demonstrations, processes=processes)
    print("2/4 training a patch from them")
    train((data,), robot="aloha", out=patch)
    print("3/4 checking it offline, on demonstrations it was not trained on")
    check(patch, (data,))
    print(f"4/4 running the robot: {episodes} episodes for every scheduler, on the same seeds")
    specs = ("base", "fixed:2", "fixed:3", f"speedcap:{patch}", f"mpc:{patch}", str(patch))
    evaluate(task, policy=f"bundled:{task}", scheduler=specs, out=out / "run", episodes=episodes, processes=processes)
    report((out / "run",), out=out / "report.html")
    print(f"everything is in {out}")
