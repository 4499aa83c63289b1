"""The one error a user of the package is meant to see."""


class InputError(ValueError):
    """Something the user gave is wrong: the message names it and says what would be right."""
