"""What was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of an error message: the name that was probably meant, or all there are."""
    known = [known for known in names if known]
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known) or 'none'}"
