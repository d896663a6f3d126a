"""CSV rows: for any fields and any division of the bytes, the rows are those that were written."""

from __future__ import annotations

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.connectors.files.row_formats import CsvFormat, segments

FIELDS = st.text(st.sampled_from('ab,"\n\r é'), max_size=6)
ROWS = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8)
slow_machine = settings(deadline=None, max_examples=60)


def written(rows: list[tuple[str, str]], quoting: int = csv.QUOTE_ALL) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()


@slow_machine
@given(ROWS, st.integers(0, 100))
def test_quoted_rows_are_cut_whole_and_read_back(rows: list[tuple[str, str]], cut: int) -> None:
    form = CsvFormat({"a": "string", "b": "string"})
    data = written(rows)
    end = form.complete_end(data[:cut])
    parts = [part for part in (data[:end], data[end:]) if part]
    assert form.complete_end(data) == len(data)
    assert [(row["a"], row["b"]) for part in parts for row in form.parse(part).to_pylist()] == rows
    assert form.record_ends(data)[-1] == len(data)
    assert len(form.record_ends(data)) == len(rows)


@slow_machine
@given(st.lists(st.one_of(st.integers(-9, 9), st.just("x"), st.just("1,2")), min_size=1, max_size=30))
def test_segments_keep_every_good_row_and_name_every_bad_one(values: list[int | str]) -> None:
    form = CsvFormat({"n": "int8"})
    data = "".join(f"{value}\n" for value in values).encode()
    found = list(segments(data, form.record_ends(data), form.parse))
    good = [row["n"] for segment in found if segment.rows is not None for row in segment.rows.to_pylist()]
    assert good == [value for value in values if isinstance(value, int)]
    bad = [data[segment.start : segment.end].decode().rstrip() for segment in found if segment.reason is not None]
    assert bad == [value for value in values if isinstance(value, str)]
    assert [segment.start for segment in found[1:]] == [segment.end for segment in found[:-1]]
    assert (found[0].start, found[-1].end) == (0, len(data))
