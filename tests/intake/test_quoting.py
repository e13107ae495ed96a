"""Records and fields of delimited text; the standard library's reader is the oracle."""

import csv
import io

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from firmlake.intake.quoting import join_quoted_lines, split_fields, unquoted
from support import examples

timeless = examples(50)
cells = st.text(st.sampled_from('ab",;\n é'), max_size=6)
tables = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), max_size=8))


def split(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """Split text into records: the number of the first line, and the fields."""
    texts = text.split("\n")[:-1]
    lines = pl.DataFrame({"line": range(1, len(texts) + 1), "text": pl.Series(texts, dtype=pl.String)})
    records, rest = join_quoted_lines(lines, delimiter)
    assert not rest.height
    fields = split_fields(records["text"], delimiter).list.eval(unquoted(pl.element()))
    return list(zip(records["line"], fields.to_list(), strict=True))


@timeless
@given(tables, st.sampled_from(",;\t"), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_was_written_as_csv_is_read_back_with_its_line_numbers(rows, delimiter, quoting):
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    lines = []
    for row in rows:
        lines.append(written.getvalue().count("\n") + 1)
        writer.writerow(row)
    assert split(written.getvalue(), delimiter) == list(zip(lines, rows, strict=True))


@timeless
@given(st.lists(st.text(st.sampled_from('a",'), max_size=8), max_size=8))
def test_lines_of_any_form_make_the_records_that_the_oracle_makes(texts):
    """Also with marks where they do not belong; a record that stays open is left over, and no line is lost."""
    lines = pl.DataFrame({"line": range(1, len(texts) + 1), "text": pl.Series(texts, dtype=pl.String)})
    records, rest = join_quoted_lines(lines, ",")
    assert [*records["text"], *rest["text"]] == [*records["text"], *texts[len(texts) - rest.height :]]
    assert "\n".join([*records["text"], *rest["text"]]) == "\n".join(texts)
    reader = csv.reader(text + "\n" for text in texts[: len(texts) - rest.height])
    ends = [0, *(reader.line_num for _ in reader)]
    assert records["line"].to_list() == [end + 1 for end in ends[:-1]]
