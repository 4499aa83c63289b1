"""``sup serve``: a proxy between an openpi policy server and its clients that shortens the chunks on their way back."""
