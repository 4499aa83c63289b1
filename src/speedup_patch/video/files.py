"""Writes a film as MP4 (H.264, which every browser plays) or as GIF."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

Frames = Iterable[UInt8[np.ndarray, "H W 3"]]

GIF_WIDTH = 800
"""Pixels: what keeps a GIF small enough for a web page."""
FAST_OCTREE = 2
"""Pillow's number of the method that keeps small coloured things, such as the rate, in their colour."""
GIF_SHORTEST = 0.07
"""Seconds: frames in between are left out."""


def check_name(path: Path) -> None:
    """Raises an error when the name does not end like a film; call it before work starts that takes long."""
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise InputError(f"{path} must end in .mp4 or .gif")


def write_video(frames: Frames, fps: float, path: Path) -> None:
    """Writes or replaces one film, whole or not at all; the name's ending says which kind."""
    check_name(path)
    with write_file_atomically(path, overwrite=True) as unfinished:
        (_write_mp4 if path.suffix.lower() == ".mp4" else _write_gif)(frames, fps, unfinished)


def _write_mp4(frames: Frames, fps: float, path: Path) -> None:
    try:
        import av
    except ModuleNotFoundError as error:
        raise InputError("writing MP4 needs PyAV: pip install 'speedup-patch[video]'") from error
    # The index goes first, so that a browser can start before the whole file is there.
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", Fraction(fps).limit_denominator(1001), options={"crf": "23"})
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            if number == 0:
                stream.height, stream.width = pixels.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode(None))


def _write_gif(frames: Frames, fps: float, path: Path) -> None:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError("writing GIF needs Pillow: pip install 'speedup-patch[video]'") from error
    every = max(1, round(GIF_SHORTEST * fps))
    pictures: list[Image.Image] = []
    for pixels in islice(frames, None, None, every):
        picture = Image.fromarray(pixels)
        width = min(GIF_WIDTH, picture.width)
        size = (width, picture.height * width // picture.width)
        pictures.append(picture.resize(size, Image.Resampling.LANCZOS))
    palette = _shared_palette(pictures)
    first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(path, append_images=others, save_all=True, duration=round(1000 * every / fps), loop=0)


def _shared_palette(pictures: "list[Image.Image]") -> "Image.Image":
    """One set of colours for a whole film, from its beginning, middle and end: what stands still then costs nothing."""
    width, height = pictures[0].size
    together = pictures[0].resize((width, 3 * height))
    for number, sample in enumerate((pictures[0], pictures[len(pictures) // 2], pictures[-1])):
        together.paste(sample, (0, number * height))
    return together.quantize(256, FAST_OCTREE)
