"""``sup eval``."""

from pathlib import Path

import tyro

from speedup_patch.commands.terminal import available_cores, print_json, terminal
from speedup_patch.errors import InputError


def evaluate(
    env: tyro.conf.Positional[str],
    *,
    policy: str,
    scheduler: tuple[str, ...],
    out: Path,
    episodes: int = 50,
    seed: int = 0,
    latency: str = "0",
    processes: int | None = None,
    traces: bool = True,
    rerun: Path | None = None,
    json: bool = False,
) -> None:
    """Run schedulers in closed loop on the same seeds and compare them with the unpatched policy.

    Args:
        env: The task, such as aloha/insertion.
        policy: The policy, such as onnx:FILE or bundled:aloha/insertion.
        scheduler: One or more of base, fixed:RATE, mpc:PATCH, speedcap:PATCH, retime:PATCH, tracked:RATE:PATCH or a
            PATCH; dwell+ before any. A patch without one of its rules is without-RULE:PATCH, one with another value of
            a setting with-SETTING=VALUE:PATCH; changes are joined by +. A wrong name is answered with the right ones.
        out: Folder for the run; a run that was stopped goes on when called again.
        episodes: Episodes for every scheduler.
        seed: First episode seed: 0 .. 49999 are evaluation scenes, 50000 .. 99999 development scenes, from 100000 on
            those of demonstrations. The results say which.
        latency: Seconds that a call of the policy takes, such as 0,0.1: the world goes on meanwhile and the robot holds
            still. Nothing sleeps; what is not simulated is reckoned from steps and calls.
        processes: How many processes to use; all cores when not given.
        traces: Keep every episode's states, actions and decisions in the run folder, for videos and reports.
        rerun: Also write a file that shows paths, rates, deviations and violations in the Rerun viewer.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.evaluation.floor import floor_line
    from speedup_patch.evaluation.run import EvaluationConfig
    from speedup_patch.evaluation.run import evaluate as run
    from speedup_patch.evaluation.table import COLUMNS, further_tables, summary_rows, tasks_note
    from speedup_patch.progress import show_progress
    from speedup_patch.tables import text_table

    if rerun and not traces:
        raise InputError("--rerun is made from traces; leave out --no-traces")
    if rerun:
        from speedup_patch.evaluation.rerun_log import import_rerun

        import_rerun()
    config = EvaluationConfig(env, policy, scheduler, episodes, seed, _latencies(latency))
    with show_progress(quiet=json) as report:
        result = run(config, out, processes=processes or available_cores(), traces=traces, report=report)
    if rerun:
        from speedup_patch.envs import make_env
        from speedup_patch.evaluation.rerun_log import write_rerun

        write_rerun(out, make_env(env).robot, scheduler, config.seeds, rerun)
    if json:
        print_json(result.to_json())
    else:
        title = f"{env}, {episodes} paired episodes, {config.scenes} scenes"
        terminal().print(text_table(COLUMNS, summary_rows(result.schedulers), title))
        if note := tasks_note(result.schedulers):
            print(note)
        for title, columns, rows in further_tables(result.schedulers):
            terminal().print(text_table(columns, rows, title))
        if result.floor:
            print(floor_line(result.floor))


def _latencies(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--latency {text!r} is not a list of seconds such as 0,0.1") from None
