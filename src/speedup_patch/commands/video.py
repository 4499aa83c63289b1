"""``sup video``."""

from pathlib import Path

import tyro

from speedup_patch.commands.terminal import print_json, terminal


def video(
    run: tyro.conf.Positional[Path],
    *,
    scheduler: str,
    out: Path,
    seed: int | None = None,
    json: bool = False,
) -> None:
    """Film one episode of an evaluation: the policy alone on the left, faster on the right, on the same clock.

    Args:
        run: Folder that `sup eval` wrote, with base and its traces.
        scheduler: What is shown on the right, as it was named to `sup eval`.
        out: The film, ending in .mp4 or .gif.
        seed: Which episode; the first at which both succeeded when not given.
        json: Print one JSON document instead of text.
    """
    from speedup_patch.progress import show_progress
    from speedup_patch.video.files import check_name, write_video
    from speedup_patch.video.side_by_side import render_side_by_side

    check_name(out)
    film = render_side_by_side(run, scheduler, seed)
    with show_progress(quiet=json) as report:
        write_video(film.frames(report), film.fps, out)
    if json:
        print_json({"video": str(out), "frames": len(film), "fps": film.fps, "seed": film.seed})
    else:
        terminal().print(f"{out}: {len(film) / film.fps:.1f} s of seed {film.seed}")
