"""Columns of a parquet file as numpy arrays, refused by name when they are not what they should be."""

# pyright: reportUnknownParameterType=false
# pyarrow ships no types.

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Int, Num

from speedup_patch.errors import InputError

BUFFER_BYTES = 2**20
"""How much of a column is read ahead; pyarrow's default reads a row group whole, which may be the whole file."""


@contextmanager
def open_parquet(file: Path) -> Generator[pq.ParquetFile, None, None]:
    """A parquet file opened for streaming; every fault of the file becomes an error that names it."""
    try:
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES) as parquet:
            yield parquet
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{file} does not exist, but the data set needs it; copy it again") from None
    except (OSError, UnicodeDecodeError, MemoryError, pa.ArrowException) as error:
        raise InputError(f"{file} is not a whole parquet file: {one_line(error)}; copy it again") from error


def one_line(error: BaseException) -> str:
    """What an error says, without the line breaks that pyarrow puts in."""
    return " ".join(str(error).split())


def read_columns(file: Path, columns: Sequence[str], optional: Sequence[str] | None = ()) -> pa.Table:
    """Columns of a small parquet file: those that must be there, and those of the optional (None: any) that are."""
    with open_parquet(file) as parquet:
        present = parquet.schema_arrow.names
        refuse_missing(file, parquet.schema_arrow, columns)
        also = present if optional is None else [name for name in optional if name in present]
        return parquet.read(columns=[*dict.fromkeys([*columns, *also])])


def refuse_missing(file: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raises an error that names the first column that is not there, and those that are."""
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputError(f"{file} lacks the column {missing[0]!r}; its columns are {', '.join(schema.names)}")


def refuse_other_types(file: Path, schema: pa.Schema, widths: Mapping[str, int]) -> None:
    """Raises an error when a column cannot hold ``width`` numbers a row; width 1 may be stored as plain numbers."""
    for name, width in widths.items():
        kind = schema.field(name).type
        if is_list(kind):
            kind = kind.value_type
        elif width != 1:
            raise InputError(f"{file}: column {name!r} must hold lists of {width} numbers, not {kind}")
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise InputError(f"{file}: column {name!r} must hold numbers, not {kind}")


def integers(column: pa.Array | pa.ChunkedArray, name: str, file: Path) -> Int[np.ndarray, " N"]:
    """A column of whole numbers as int64."""
    if not pa.types.is_integer(column.type) or column.null_count:
        raise InputError(
            f"{file}: column {name!r} must hold one whole number per row; it holds {column.type} "
            f"and {column.null_count} rows without a value"
        )
    return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def texts(table: pa.Table, file: Path) -> list[str]:
    """The first column of texts, whatever its name: pandas chooses it when the texts are an index."""
    for field in table.schema:
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            return text_values(table[field.name], field.name, file)
    raise InputError(f"{file} has no column of texts; its columns are {', '.join(table.column_names)}")


def text_values(column: pa.ChunkedArray, name: str, file: Path) -> list[Any]:
    """The values of a column that holds texts, or lists of them."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: column {name!r} holds texts that are not UTF-8: {error}") from error


def matrix(column: pa.Array, width: int) -> tuple[Num[np.ndarray, "N width"] | None, Int[np.ndarray, " N"] | None]:
    """(values, sizes): sizes is None when every row has ``width`` numbers, and then the values are not copied.

    Otherwise sizes says how many each row has, and the values of the rows that have too many or too few are zero;
    there are no values when no row is right.
    """
    if not is_list(column.type):
        return column.to_numpy(zero_copy_only=False)[:, None], None
    if pa.types.is_fixed_size_list(column.type) and column.type.list_size == width and not column.null_count:
        return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width), None
    sizes = pc.call_function("list_value_length", [column]).fill_null(0).to_numpy(zero_copy_only=False)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    good = sizes == width
    if good.all():
        return flat.reshape(-1, width), None
    if not good.any():
        return None, sizes.astype(np.int64)
    values = np.zeros((len(sizes), width), dtype=flat.dtype)
    values[good] = flat[np.repeat(good, sizes)].reshape(-1, width)
    return values, sizes.astype(np.int64)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds a list in every row."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
