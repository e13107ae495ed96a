"""A small file does not unfold to more lines than a list of its size can hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firmlake.core.errors import CompanyListError
from firmlake.core.settings import IntakeSettings
from firmlake.intake.lines import read_company_list
from support import slow

MILLION = 1_000_000


@pytest.mark.parametrize("millions", slow(5))
def test_millions_of_equal_lines_in_a_few_kilobytes_are_refused_by_their_number(tmp_path: Path, millions: int):
    path = tmp_path / "list.parquet"
    table = pa.table(
        {"company_number": pa.DictionaryArray.from_arrays(pa.array([0] * MILLION, pa.int32()), ["0403227515"])}
    )
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(millions):
            writer.write_table(table)
    with pytest.raises(CompanyListError, match="unfolds to more than 4,000,000 lines"):
        read_company_list(path, IntakeSettings())
