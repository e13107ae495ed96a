"""Turn landed answers into typed tables with pure functions, exact to the cent.

The way of a record, from one module to the next:

    stage.py        a shard becomes Parquet files with a manifest
    flatten.py      a shard becomes frames, one for each table; `tracked.py` makes those that hold no records
    answered.py     the records of many companies become one frame with their origin, rejects and drift
    records.py      thousands of records at a time are read by the faster way that takes them:
    regular.py      - records that differ only in their digits are one CSV
                    - any other records are taken apart into the values of each field, all together or one
                      by one; `columns.py` reads what is spelled as usual in a column, also numbers in texts and dates
                      with a time; `cells.py` reads the rest value by value
    notes.py        whatever is no value of a column is noted on either way: unknown fields, misfits, rejects
"""
