"""``sup collect``."""

from pathlib import Path

import tyro

from speedup_patch.commands.terminal import available_cores, print_json


def collect(
    env: tyro.conf.Positional[str],
    *,
    out: Path,
    episodes: int = 50,
    seed: int = 0,
    processes: int | None = None,
    correct: str | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write scripted demonstrations of a simulated task as a LeRobot v3.0 data set.

    Args:
        env: The task, such as aloha/insertion.
        out: Folder to write the data set to.
        episodes: How many successful demonstrations to keep.
        seed: Which collection: another seed gives other demonstrations. None shares a start with evaluation seeds.
        processes: How many processes to use; all cores when not given.
        correct: Let this policy (such as onnx:FILE) act first and the expert take over at some moment; only what the
            expert does is written. Train the policy on these, too, and it recovers from its own mistakes.
        overwrite: Replace OUT if it exists.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.artefacts import refuse_existing
    from speedup_patch.datasets import write_demonstrations
    from speedup_patch.envs.collect import collect_demonstrations
    from speedup_patch.progress import show_progress

    refuse_existing(out, overwrite)
    with show_progress(quiet=json) as report:
        demonstrations = collect_demonstrations(
            env,
            episodes,
            seed=seed,
            processes=processes or available_cores(),
            report=lambda done, total: report("demonstrations", done, total, {}),
            policy=correct,
        )
    write_demonstrations(demonstrations, out, overwrite=overwrite)
    if json:
        print_json({"out": str(out), "episodes": len(demonstrations), "frames": demonstrations.frames})
    else:
        print(f"{len(demonstrations)} episodes, {demonstrations.frames} frames -> {out}")
