"""Puts two pictures side by side with their clocks, rates and outcomes."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from speedup_patch.errors import InputError

if TYPE_CHECKING:
    from PIL import ImageDraw

HEADER, FOOTER, GAP, MARGIN = 46, 40, 8, 14
"""Pixels above, below, between and beside the pictures."""
BACKGROUND, TEXT, QUIET = (21, 24, 29), (240, 242, 245), (150, 158, 170)
SLOW, FAST = (120, 130, 145), (255, 176, 32)
DONE, FAILED = (28, 135, 82), (190, 48, 48)
FASTEST = 4.0
"""The rate that fills the bar."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One side of a frame."""

    picture: UInt8[np.ndarray, "h w 3"]
    title: str
    seconds: float
    rate: float
    outcome: str | None
    """What is said once this side has come to its end."""
    success: bool


def draw_frame(left: Panel, right: Panel, task: str, remark: str) -> UInt8[np.ndarray, "H W 3"]:
    """Both sides under their titles and clocks, with a line below; width and height are even, as films need it."""
    image_module, draw_module, _ = _pillow()
    height, width = left.picture.shape[:2]
    size = (2 * width + GAP, HEADER + height + FOOTER)
    canvas = image_module.new("RGB", (size[0] + size[0] % 2, size[1] + size[1] % 2), BACKGROUND)
    draw = draw_module.Draw(canvas, "RGBA")
    for panel, x in ((left, 0), (right, width + GAP)):
        canvas.paste(image_module.fromarray(panel.picture), (x, HEADER))
        _draw_header(draw, panel, x, width)
        _draw_rate(draw, panel, x + MARGIN, HEADER + height - MARGIN)
        if panel.outcome:
            _draw_outcome(draw, panel, x + width // 2, HEADER + MARGIN)
    room = size[0] - 2 * MARGIN - draw.textlength(f"   {remark}", _font(17))
    caption = f"{_shortened(draw, task, room, 17)}   {remark}"
    draw.text((size[0] // 2, HEADER + height + FOOTER // 2), caption, QUIET, _font(17), anchor="mm")
    return np.asarray(canvas)


def _draw_header(draw: "ImageDraw.ImageDraw", panel: Panel, x: int, width: int) -> None:
    clock = x + width - MARGIN - draw.textlength("00.00 s", _font(24))
    title = _shortened(draw, panel.title, clock - x - 2 * MARGIN, 22)
    draw.text((x + MARGIN, HEADER // 2), title, TEXT, _font(22), anchor="lm")
    # Left-aligned where its longest text ends at the margin: a clock must not tremble while its digits change.
    draw.text((clock, HEADER // 2), f"{panel.seconds:5.2f} s", TEXT, _font(24), anchor="lm")


def _shortened(draw: "ImageDraw.ImageDraw", text: str, room: float, size: int) -> str:
    """On one line, cut where the room ends."""
    text = " ".join(text.split())
    if draw.textlength(text, _font(size)) <= room:
        return text
    while text and draw.textlength(text + "…", _font(size)) > room:
        text = text[:-1]
    return text + "…"


def _draw_rate(draw: "ImageDraw.ImageDraw", panel: Panel, x: int, bottom: int) -> None:
    """The rate as a number, and as a bar that is empty at 1 and full at ``FASTEST``."""
    share = float(np.clip((panel.rate - 1.0) / (FASTEST - 1.0), 0.0, 1.0))
    top, right = bottom - 40, x + 190
    draw.rounded_rectangle((x, top, right, bottom), 10, (*BACKGROUND, 215))
    bar, middle = x + 76, (top + bottom) // 2
    draw.text((x + 14, middle), f"{panel.rate:.1f}x", FAST if share > 0.01 else TEXT, _font(24), anchor="lm")
    draw.rounded_rectangle((bar, middle - 4, right - 14, middle + 4), 4, (*SLOW, 110))
    if share > 0.01:
        draw.rounded_rectangle((bar, middle - 4, bar + 8 + share * (right - 22 - bar), middle + 4), 4, FAST)


def _draw_outcome(draw: "ImageDraw.ImageDraw", panel: Panel, centre: int, top: int) -> None:
    assert panel.outcome is not None
    half = draw.textlength(panel.outcome, _font(26)) / 2 + 20
    colour = DONE if panel.success else FAILED
    draw.rounded_rectangle((centre - half, top, centre + half, top + 46), 23, (*colour, 235))
    draw.text((centre, top + 23), panel.outcome, TEXT, _font(26), anchor="mm")


@cache
def _font(size: int) -> Any:
    return _pillow()[2].load_default(size)


def _pillow() -> tuple[Any, Any, Any]:
    """Pillow's Image, ImageDraw and ImageFont."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ModuleNotFoundError as error:
        raise InputError("drawing a video needs Pillow: pip install 'speedup-patch[video]'") from error
    return Image, ImageDraw, ImageFont
