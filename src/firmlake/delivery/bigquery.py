"""A BigQuery dataset as the target of loads: Parquet files are loaded by jobs, statements run in one session.

Google's own client is used: the ADBC driver for BigQuery (1.11) binds one row at a time and has no transactions. This
was tested without a Google account: a local endpoint answered the requests of the real client.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from firmlake.core.errors import FirmlakeError, Translation, UsageError, needed, translated
from firmlake.delivery.dialects import BIGQUERY
from firmlake.delivery.files import row_groups
from firmlake.delivery.selection import arrow_schema
from firmlake.tables.schemas import Table

_ROWS = 50_000
_NAME = re.compile(r"\w+")
_LOGIN = "Check it, the login (GOOGLE_APPLICATION_CREDENTIALS or gcloud) and its rights; then load again to resume"


class BigqueryConnection:
    """A session that works on one dataset; see `firmlake.delivery.database.Connection`."""

    dialect = BIGQUERY

    def __init__(self, client: Any, name: str, dataset: str, *, exists: bool) -> None:
        self._client, self._exists = client, exists
        self._session = ""
        self.name = name
        self.schema = dataset

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows. It takes no values."""
        assert not values
        with _translated(self.name):
            return [row.values() for row in self._start(statement).result()]

    def ingest(self, name: str, table: Table, batches: Iterable[pa.RecordBatch]) -> int:
        """Write batches to one Parquet file, and load it by one job, which appends all rows or none."""
        from google.cloud.bigquery import LoadJobConfig

        schema = arrow_schema(table)
        with tempfile.TemporaryFile(prefix="firmlake-", suffix=".parquet") as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for rows in row_groups(batches):
                    writer.write_table(rows.cast(schema))
            file.seek(0)
            count = int(pq.read_metadata(file).num_rows)
            if count:
                how = LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_APPEND")
                how.create_disposition = "CREATE_NEVER"
                place = f"{self._client.project}.{self.schema}.{name}"
                with _translated(self.name):
                    self._client.load_table_from_file(file, place, rewind=True, job_config=how).result()
        return count

    def read(self, statement: str) -> Iterator[list[tuple[Any, ...]]]:
        """Run a query and yield its rows in parts."""
        with _translated(self.name):
            rows = (row.values() for row in self._start(statement).result(page_size=_ROWS))
            while part := list(islice(rows, _ROWS)):
                yield part

    def reclaim(self, tables: Sequence[str]) -> str:  # noqa: ARG002
        """Return how long BigQuery itself keeps deleted rows."""
        return f"{self.name} keeps deleted rows for its time travel (7 days, or as the dataset says) and 7 days more"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a transaction. An error rolls it back."""
        self.run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK TRANSACTION")
            raise
        self.run("COMMIT TRANSACTION")

    def create_schema(self) -> None:
        """Create the dataset, in the location of the address, unless it exists."""
        if not self._exists:
            with _translated(self.name):
                self._client.create_dataset(self.schema, exists_ok=True)
            self._exists = True

    def columns(self) -> list[tuple[Any, ...]]:
        """List table, name and type of each column in the schema, in order."""
        columns = f"SELECT table_name, column_name, data_type FROM {self.schema}.INFORMATION_SCHEMA.COLUMNS"  # noqa: S608 - checked
        return self.run(f"{columns} ORDER BY table_name, ordinal_position") if self._exists else []

    def close(self) -> None:
        """End the session, which BigQuery would otherwise keep for a day."""
        if self._session:
            with suppress(FirmlakeError):
                self.run("CALL BQ.ABORT_SESSION()")
        self._client.close()

    def _start(self, statement: str) -> Any:
        """Start a statement in the session; the first one opens it."""
        from google.cloud.bigquery import ConnectionProperty, QueryJobConfig

        how = QueryJobConfig()
        if self._session:
            how.connection_properties = [ConnectionProperty("session_id", self._session)]
        else:
            how.create_session = True
        job = self._client.query(statement, job_config=how)
        if not self._session:
            job.result()
            self._session = job.session_info.session_id
        return job


@contextmanager
def open_bigquery(address: str, schema: str) -> Iterator[BigqueryConnection]:
    """Connect to a BigQuery dataset.

    Args:
        address: `bigquery://PROJECT/DATASET?location=EU`. The login is the default of Google's libraries:
            GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the service account of the machine.
        schema: The dataset, if the address names none.

    Raises:
        UsageError: The address is invalid, the client is missing, or a dataset to create has no location.
        FirmlakeError: BigQuery refuses the login, or cannot be reached. Check the login, then load again.
    """
    parts = urlsplit(address)
    project, dataset = parts.netloc, parts.path.strip("/") or schema
    if not project or "@" in project or not _NAME.fullmatch(dataset):
        raise UsageError("The address of BigQuery is invalid", "Write bigquery://PROJECT/DATASET?location=EU")
    with needed("BigQuery", "Google's client", "bigquery"):
        from google.api_core.exceptions import NotFound
        from google.cloud import bigquery
    name, location = f"bigquery://{project}/{dataset}", dict(parse_qsl(parts.query)).get("location")
    with _translated(name):
        client = bigquery.Client(project, location=location)
        try:
            held = client.get_dataset(dataset).location
        except NotFound:
            held = None
    if held is None and location is None:
        raise UsageError(
            f"{name} does not exist, and the address names no location to create it in",
            "Add a location, such as ?location=EU",
        )
    if held is not None and location != held:  # a session works in one location
        client = bigquery.Client(project, location=held)
    connection = BigqueryConnection(client, name, dataset, exists=held is not None)
    try:
        yield connection
    finally:
        connection.close()


# ---------------------------------------------------------------------------------------------------------------------


def _translated(name: str) -> AbstractContextManager[None]:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    kinds = (GoogleAPIError, GoogleAuthError, RequestException, ValueError)  # ValueError: settings disagree
    return translated(name, Translation(kinds, _LOGIN))
