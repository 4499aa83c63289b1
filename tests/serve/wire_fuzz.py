"""Fuzzes the wire decoder with mutated messages: ``PYTHONPATH=src:tests python -m serve.wire_fuzz --inputs 200000``.

In the tests a small share of it runs with every type checked; as a script it runs without those checks, much faster.
"""

import argparse
import json
import platform
import random
import time
import tracemalloc
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.openpi_stand_in import EverySecondRow, packb
from speedup_patch.errors import InputError
from speedup_patch.robots import find_robot
from speedup_patch.serve.chunks import read_state, shorten_reply
from speedup_patch.serve.wire import scan, with_entry

ALOHA = find_robot("aloha")
ACCELERATOR = EverySecondRow(ALOHA)
BYTES_PER_BYTE = 40
FIXED_BYTES = 300_000
"""msgpack's packer alone takes 256 KiB whatever the message."""

SEEDS = (
    packb({"actions": np.zeros((8, 14), np.float32), "server_timing": {"infer_ms": 1.5}, "policy_timing": {"a": [1]}}),
    packb({"state": np.zeros(14), "images": {"cam": np.zeros((3, 4, 4), np.uint8)}, "prompt": "do it"}),
    packb({"state": [0.5] * 14, "actions": np.ones((2, 14)), "tag": np.float32(3)}),
    packb({"action_horizon": 50, "speedup_patch": {"rates": [1, 2]}}),
)
HEADERS = bytes((0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xC0, 0xC1, 0xC4, 0xC6, 0xC7, 0xCB, 0xD9, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF))


def mutate(message: bytes, rng: random.Random) -> bytes:
    """The message with a few bytes changed, cut out, repeated, or replaced by headers and large sizes."""
    changed = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            changed[place : place + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            changed[place : place + 1] = bytes([rng.choice(HEADERS)])
        elif kind == 2:
            changed[place : place + 4] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\x01\0\0"))
        elif kind == 3:
            del changed[place : place + rng.randint(1, 30)]
        elif kind == 4:
            changed[place:place] = bytes(changed[place : place + rng.randint(1, 40)]) * rng.randint(1, 30)
        else:
            changed[place:place] = rng.choice(SEEDS)[: rng.randint(1, 60)]
    return bytes(changed)


def read_everything(message: bytes) -> int:
    """Does with a message all that the proxy ever does with one; how many readings were refused."""
    refused = 0
    state = np.zeros(14)
    for work in (
        lambda: read_state(message, ("state",)),
        lambda: shorten_reply(message, ACCELERATOR, lambda: state, ALOHA, 8),
        lambda: with_entry(message, scan(message, "it"), "speedup_patch", b"\xc0"),
    ):
        try:
            work()
        except InputError:
            refused += 1
    return refused


def read_mutations(message: bytes, seed: int, count: int) -> tuple[int, float]:
    """Reads ``count`` mutations; how many were refused at least once, and the largest share of the allowed memory."""
    rng = random.Random(seed)
    refused, worst = 0, 0.0
    tracemalloc.start()
    try:
        for _ in range(count):
            mutated = mutate(message, rng)
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            refused += read_everything(mutated) > 0
            peak = tracemalloc.get_traced_memory()[1] - before
            worst = max(worst, peak / (BYTES_PER_BYTE * len(mutated) + FIXED_BYTES))
            assert worst < 1, (peak, mutated)
    finally:
        tracemalloc.stop()
    return refused, worst


def main() -> None:
    """Runs the fuzz and writes what it did."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    per_example = 1000
    totals = {"inputs": 0, "refused": 0, "largest_share_of_allowed_memory": 0.0}

    @settings(max_examples=-(-arguments.inputs // per_example), database=None, deadline=None)
    @given(st.sampled_from(SEEDS), st.integers(0, 2**64))
    def fuzz(message: bytes, seed: int) -> None:
        refused, worst = read_mutations(message, seed, per_example)
        totals["inputs"] += per_example
        totals["refused"] += refused
        totals["largest_share_of_allowed_memory"] = max(totals["largest_share_of_allowed_memory"], worst)

    begin = time.perf_counter()
    fuzz()
    result = {
        "command": f"python -m serve.wire_fuzz --inputs {arguments.inputs}",
        "python": platform.python_version(),
        **totals,
        "crashes": 0,  # a crash, or memory beyond the bound, ends the run with an error instead
        "allowed_bytes": f"{BYTES_PER_BYTE} x message + {FIXED_BYTES}",
        "seconds": round(time.perf_counter() - begin, 1),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
