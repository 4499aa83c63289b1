"""What the figures of the documentation share."""

from typing import Any

INK, GREY = "#222222", "#808080"


def style(name: str) -> dict[Any, Any]:
    """matplotlib's settings; ``name`` makes an SVG file the same every time it is drawn."""
    return {
        "font.size": 9,
        "axes.edgecolor": GREY,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": INK,
        "axes.labelcolor": INK,
        "svg.hashsalt": name,
        "svg.fonttype": "none",
    }
