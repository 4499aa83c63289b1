"""A side-by-side video for the page, rendered from traces."""

import base64
import tempfile
from dataclasses import dataclass
from pathlib import Path

from speedup_patch.errors import InputError
from speedup_patch.report.labels import is_patch
from speedup_patch.report.reading import Run

VIDEO_BYTES = 2_200_000
"""What the videos of all runs may take of the page, before they are written as text."""


@dataclass(frozen=True)
class Video:
    """A video that lies in the page itself."""

    caption: str
    source: str
    """A data URI."""


def make_videos(run: Run, most_bytes: int) -> tuple[list[Video], list[str]]:
    """(the unpatched policy beside a patch on one seed that both solved, a note where that cannot be shown)."""
    others = [spec for spec in run.schedulers if spec != "base"]
    if not others:
        return [], ["There is no video: it takes base and another scheduler."]
    spec = next((spec for spec in reversed(others) if is_patch(spec)), others[-1])
    try:
        contents, seed = _render(run.folder, spec)
    except InputError as error:
        return [], [f"There is no video: {error}"]
    if len(contents) > most_bytes:
        return [], [f"The video of {spec} on seed {seed} takes {len(contents) / 1e6:.1f} MB, too much for this page."]
    source = "data:video/mp4;base64," + base64.b64encode(contents).decode()
    return [Video(f"The unpatched policy and {spec} on seed {seed}, in real time.", source)], []


def _render(folder: Path, spec: str) -> tuple[bytes, int]:
    """(the contents of an MP4 file, the seed it shows)."""
    from speedup_patch.video.files import write_video
    from speedup_patch.video.side_by_side import render_side_by_side

    film = render_side_by_side(folder, spec)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "film.mp4"
        write_video(film.frames(), film.fps, path)
        return path.read_bytes(), film.seed
