"""Columns of a parquet file as numpy arrays, refused by name when they are not what they should be."""

# pyright: reportUnknownParameterType=false
# pyarrow ships no types.

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from speedup_patch.datasets.episode_rows import EpisodeRows
from speedup_patch.errors import InputError


def read_columns(file: Path, columns: Sequence[str], others: bool = False) -> pa.Table:
    """The named columns of a parquet file, which must be there, or with ``others`` all of its columns."""
    try:
        with pq.ParquetFile(file) as parquet:
            present = parquet.schema_arrow.names
            missing = [name for name in columns if name not in present]
            if missing:
                raise InputError(f"{file} lacks the column {missing[0]!r}; its columns are {', '.join(present)}")
            return parquet.read(columns=None if others else list(columns))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{file} does not exist, but the data set needs it") from None
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise InputError(f"{file} is not a whole parquet file: {error}") from error


def integer_column(table: pa.Table, name: str, file: Path) -> Int[np.ndarray, " N"]:
    """A column of whole numbers as int64."""
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise InputError(
            f"{file}: column {name!r} must hold one whole number per row; it holds {column.type} "
            f"and {column.null_count} rows without a value"
        )
    return column.to_numpy().astype(np.int64)


def text_column(table: pa.Table, file: Path) -> list[str]:
    """The first column of texts, whatever its name: pandas chooses it when the texts are an index."""
    for field in table.schema:
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            try:
                return [str(text) for text in table[field.name].to_pylist()]
            except UnicodeDecodeError as error:
                raise InputError(f"{file}: column {field.name!r} holds texts that are not UTF-8: {error}") from error
    raise InputError(f"{file} has no column of texts; its columns are {', '.join(table.column_names)}")


def matrix_column(
    table: pa.Table, name: str, width: int, rows: EpisodeRows, file: Path, dtype: type[np.floating[Any]] = np.float32
) -> Float[np.ndarray, "N width"]:
    """A column of finite numbers; LeRobot stores width 1 as plain numbers and any other width as lists."""
    column = table[name].combine_chunks()
    if _is_list(column.type):
        sizes = pc.call_function("list_value_length", [column]).fill_null(0).to_numpy(zero_copy_only=False)
        ragged = np.flatnonzero(sizes != width)
        if len(ragged):
            row = int(ragged[0])
            raise InputError(
                f"{file}: column {name!r} has {sizes[row]} values in {rows.where(row)}, but meta/info.json says {width}"
            )
        column = pc.call_function("list_flatten", [column])
    elif width != 1:
        raise InputError(f"{file}: column {name!r} must hold lists of {width} numbers, not {column.type}")
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{file}: column {name!r} must hold numbers, not {column.type}")
    values = column.to_numpy(zero_copy_only=False).reshape(-1, width)
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes infinite, and is refused as such
        values = values.astype(dtype)
    rows.refuse_non_finite(values, name, str(file))
    return values


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
