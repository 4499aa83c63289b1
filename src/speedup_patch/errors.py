"""What the package raises on purpose."""


class InputError(ValueError):
    """Something the user gave is wrong: the message names it and says what would be right."""


class DecisionError(Exception):
    """A decision cannot be taken here, as when a prediction is not finite: the policy's own chunk runs instead.

    Schedulers and world models raise it for what can happen while a robot runs. Whatever else they raise is a mistake
    in their code, and is not caught.
    """
