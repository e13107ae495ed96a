"""Turn landed answers into typed tables with pure functions, exact to the cent.

The way of a record, from one module to the next:

    stage.py        a shard becomes Parquet files with a manifest
    flatten.py      a shard becomes frames, one for each table; the records of many companies are read together
    records.py      thousands of records that differ only in their digits are read as one CSV, others value by value
    cells.py        what a single value means
    notes.py        whatever is no value of a column is noted in either way: unknown fields, misfits, rejects
"""
