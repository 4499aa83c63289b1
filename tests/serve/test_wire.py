"""openpi's wire format: same bytes as openpi's own packer, and no message that hurts."""

import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from serve.openpi_stand_in import EverySecondRow, packb, unpackb
from serve.wire_fuzz import SEEDS, read_everything, read_mutations
from speedup_patch.errors import InputError
from speedup_patch.robots import ROBOTS, find_robot
from speedup_patch.serve.chunks import OPENPI_STATE_KEYS, choose_state_keys, read_state, shorten_reply
from speedup_patch.serve.wire import MAX_ENTRIES, pack, read_array, scan, with_entry

ALOHA = find_robot("aloha")

arrays = hnp.arrays(
    st.sampled_from(["<f4", "<f8", "<f2", "|u1", "<i8", "|b1", ">f4", "<U3", "|S2", "<M8[ns]"]),
    hnp.array_shapes(min_dims=0, max_dims=4, max_side=4, min_side=0),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | arrays
    | hnp.arrays("<f4", ()).map(lambda a: a[()]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
messages = st.dictionaries(st.text(max_size=20), values, max_size=20)


@given(messages)
def test_packs_as_openpi_does(message: dict[str, Any]) -> None:
    assert pack(message) == packb(message)


@given(messages, values, st.data())
def test_setting_one_entry_leaves_every_other_byte(message: dict[str, Any], value: Any, data: st.DataObject) -> None:
    before = packb(message)
    key = data.draw(st.sampled_from(sorted(message)) | st.just("a new key")) if message else "a new key"
    after = with_entry(before, scan(before, "it"), key, pack(value))
    assert after == packb({**message, key: value})


@given(arrays)
def test_reads_back_every_array_openpi_can_send(array: np.ndarray) -> None:
    read = read_array(packb(array), "it")
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(-3), np.bool_(True), 2.5, 7])
def test_reads_numbers_as_arrays_without_dimensions(value: Any) -> None:
    read = read_array(packb(value), "it")
    assert read.shape == ()
    assert read == value


def test_reads_lists_of_numbers() -> None:
    np.testing.assert_array_equal(read_array(packb([1.0, 2, 3.5]), "it"), [1.0, 2.0, 3.5])


def array_map(**changes: Any) -> dict[bytes, Any]:
    plain = {"__ndarray__": True, "data": b"\0" * 16, "dtype": "<f4", "shape": [2, 2], **changes}
    return {key.encode(): value for key, value in plain.items() if value is not ...}


@pytest.mark.parametrize(
    "wrong",
    [
        array_map(dtype="|O"),
        array_map(dtype="O"),
        array_map(dtype="|V4"),
        array_map(dtype="<f4,<f4"),
        array_map(dtype="(2,)f4"),
        array_map(dtype="|S0"),
        array_map(dtype="<f3"),
        array_map(dtype="<c8", shape=[2]),
        array_map(dtype=7),
        array_map(dtype=["<f4"]),
        array_map(data="text"),
        array_map(data=[0] * 16),
        array_map(data=...),
        array_map(shape=...),
        array_map(shape=[2, 3]),
        array_map(shape=[-2, -2]),
        array_map(shape=[2.0, 2]),
        array_map(shape=[True, 4]),
        array_map(shape=4),
        array_map(shape=[1] * 60 + [4]),
        array_map(shape=[2**62, 2**62, 0], data=b""),
        array_map(shape=[2**63, 2**63]),
        {b"__npgeneric__": True, b"data": "x", b"dtype": "<f4"},
        {b"__npgeneric__": True, b"data": 2**63, b"dtype": "<i8"},
        {b"__npgeneric__": True, b"data": 1, b"dtype": "|O"},
        {"plain": "map"},
        ["text"],
        [[1.0], [1.0, 2.0]],
        None,
        b"bytes",
    ],
    ids=str,
)
def test_refuses_what_is_not_a_plain_array(wrong: Any) -> None:
    with pytest.raises(InputError, match="it"):
        read_array(msgpack.packb(wrong), "it")


def test_refuses_maps_that_are_cut_padded_ambiguous_or_endless() -> None:
    whole = packb({"a": 1, "b": [1, 2, {"c": b"xyz"}]})
    for end in range(len(whole)):
        with pytest.raises(InputError, match="not a msgpack map"):
            scan(whole[:end], "it")
    for wrong in (
        whole + b"\x00",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x81\x01\x02",
        b"\x81\xd9\x01\xff\x00",
        packb({str(number): 0 for number in range(MAX_ENTRIES + 1)}),
        b"\x81\xa1a" + b"\x91" * 5000 + b"\xc0",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1a\xdd\xff\xff\xff\xff",
        b"\x81\xa1a\xc6\xff\xff\xff\xff",
        packb([1]),
        b"\xc1",
        b"",
    ):
        with pytest.raises(InputError, match="it"):
            scan(wrong, "it")


def test_nested_headers_that_promise_more_than_they_hold_cost_nothing() -> None:
    """msgpack alone would reserve room for every promised list, a thousand deep."""
    promise = b"\xdd" + (100_000).to_bytes(4, "big")
    bomb = b"\x82\xa5state" + promise * 900 + b"\xc0" * 95_000 + b"\xa1b\xc0"
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            read_state(bomb, ("state",))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(bomb) + 100_000


@settings(max_examples=10, derandomize=True)
@given(st.sampled_from(SEEDS), st.integers(0, 2**64))
def test_no_mutated_message_crashes_or_allocates_beyond_its_size(message: bytes, seed: int) -> None:
    """800 inputs; ``python -m serve.wire_fuzz`` runs as many as you like."""
    read_mutations(message, seed, 80)


@given(st.binary(max_size=300))
def test_no_random_bytes_crash(message: bytes) -> None:
    assert 0 <= read_everything(message) <= 3


@given(messages)
def test_whatever_is_a_message_without_actions_passes_unchanged(message: dict[str, Any]) -> None:
    message.pop("actions", None)
    packed = packb(message)
    assert shorten_reply(packed, EverySecondRow(ALOHA), lambda: np.zeros(14), ALOHA, 0).message == packed


@given(messages, hnp.arrays("<f4", (6, 14), elements=st.floats(-1, 1, width=32)))
def test_only_the_actions_change_in_any_reply(message: dict[str, Any], chunk: np.ndarray) -> None:
    message["actions"] = chunk
    reply = shorten_reply(packb(message), EverySecondRow(ALOHA), lambda: np.zeros(14), ALOHA, 0)
    assert reply.message == packb({**message, "actions": chunk[1::2]})
    np.testing.assert_array_equal(unpackb(reply.message)["actions"], chunk[1::2])


def test_state_keys_belong_to_robots_we_know() -> None:
    assert set(OPENPI_STATE_KEYS) <= set(ROBOTS)


def test_state_keys_follow_the_robot_unless_named() -> None:
    assert choose_state_keys("aloha", ()) == ("state",)
    assert choose_state_keys("droid", ()) == ("observation/joint_position", "observation/gripper_position")
    assert choose_state_keys("panda_libero", ()) == ("observation/state",)
    assert choose_state_keys("panda_libero", ("my/state",)) == ("my/state",)
    with pytest.raises(InputError, match="--state-key"):
        choose_state_keys("my_robot", ())
