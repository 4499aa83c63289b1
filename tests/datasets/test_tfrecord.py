"""TFRecord framing and tf.train.Example messages, against protobuf's own encoder."""

import struct
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.datasets.tf_example import MalformedError, decode_example
from speedup_patch.datasets.tfrecord import RecordFile, masked_checksum
from speedup_patch.errors import InputError

DEFINITION = """
name: "example.proto" package: "tf" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type {
  name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: ".tf.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 type: TYPE_MESSAGE type_name: ".tf.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".tf.Int64List" oneof_index: 0 }
}
message_type {
  name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".tf.Features.FeatureEntry" }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tf.Feature" }
  }
}
message_type { name: "Example" field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".tf.Features" } }
"""
Values = list[bytes] | list[float] | list[int]


def _example_class() -> type[message.Message]:
    """``tf.train.Example`` as TensorFlow's own proto files define it."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(DEFINITION, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tf.Example"))


EXAMPLE = _example_class()
VALUES = st.one_of(
    st.lists(st.binary(max_size=5), max_size=4),
    st.lists(st.floats(width=32), max_size=300),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40),
)


def _encode(features: dict[str, Values]) -> bytes:
    example = EXAMPLE()
    for name, values in features.items():
        feature = example.features.feature[name]  # type: ignore[attr-defined]
        kind = "float_list" if not values or isinstance(values[0], float) else None
        kind = kind or ("bytes_list" if isinstance(values[0], bytes) else "int64_list")
        getattr(feature, kind).SetInParent()
        getattr(feature, kind).value.extend(values)
    return example.SerializeToString()


@given(features=st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_examples_are_decoded_as_protobuf_encodes_them(
    features: dict[str, Values],
) -> None:
    names = list(features)[::2]
    found = decode_example(_encode(features), names)
    assert set(found) == set(names)
    for name in names:
        expected = features[name]
        if expected and isinstance(expected[0], bytes):
            assert found[name] == expected
        else:
            dtype = np.int64 if expected and isinstance(expected[0], int) else np.float32
            np.testing.assert_array_equal(np.asarray(found[name]), np.array(expected, dtype=dtype))


@given(features=st.dictionaries(st.text(max_size=5), VALUES, max_size=3), data=st.data())
def test_damaged_examples_are_refused_or_decoded(features: dict[str, Values], data: st.DataObject) -> None:
    content = bytearray(_encode(features) + b"\x00")
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_example(bytes(content), features)
    except MalformedError:
        return
    assert set(found) <= set(features)


def test_unpacked_lists_are_read_too() -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    floats = field(2, b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, -2.0)))
    integers = field(3, b"\x08\x03" + b"\x08" + b"\xff" * 9 + b"\x01")
    entries = b"".join(
        field(1, field(1, name) + field(2, feature)) for name, feature in ((b"f", floats), (b"i", integers))
    )
    found = decode_example(field(1, entries), ["f", "i"])
    np.testing.assert_array_equal(np.asarray(found["f"]), [1.5, -2.0])
    np.testing.assert_array_equal(np.asarray(found["i"]), [3, -1])


def test_the_checksum_is_the_one_of_the_standard() -> None:
    crc32c = 0xE3069283  # of "123456789", from RFC 3720's polynomial
    assert masked_checksum(b"123456789") == (((crc32c >> 15) | (crc32c << 17)) + 0xA282EAD8) % 2**32


def _record(content: bytes, size: int | None = None) -> bytes:
    header = struct.pack("<Q", len(content) if size is None else size)
    return header + struct.pack("<I", masked_checksum(header)) + content + struct.pack("<I", masked_checksum(content))


def test_records_are_found_in_any_order(tmp_path: Path) -> None:
    contents = [b"first", b"", b"third" * 1000]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(_record, contents)))
    with RecordFile(tmp_path / "a.tfrecord") as records:
        assert [records.read(index) for index in (2, 0, 1, 2)] == [contents[index] for index in (2, 0, 1, 2)]
        with pytest.raises(InputError, match="ends after 3 records"):
            records.read(3)


@pytest.mark.parametrize("size", [6, 2**40, 2**64 - 1])
def test_a_length_beyond_the_file_is_refused_before_memory_is_taken(tmp_path: Path, size: int) -> None:
    (tmp_path / "a.tfrecord").write_bytes(_record(b"first", size))
    with (
        RecordFile(tmp_path / "a.tfrecord") as records,
        pytest.raises(InputError, match=r"a\.tfrecord is cut short: it ends inside record 0"),
    ):
        records.read(0)
