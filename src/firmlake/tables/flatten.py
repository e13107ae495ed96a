"""Turn the landed answers of a shard into frames of the tables, by pure functions.

The records of many companies become one frame with their origin, rejects and differences from the contract (drift). The
tables that hold no records follow from the progress of the shard alone: companies, requests and failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import polars as pl
from msgspec import Raw
from xxhash import xxh3_128_hexdigest

from firmlake.api.contract import DATASETS, KNOWN_VALUES, RECORDS
from firmlake.core.company import COUNTRIES, NUMBER_LENGTH, Company, normal_form
from firmlake.core.settings import ContractSettings
from firmlake.landing.progress import Part, Progress, Track, load_progress
from firmlake.landing.run import Run
from firmlake.landing.segments import GIVEN_UP, REQUESTS, Header, credits_in
from firmlake.tables.leaves import AS_IT_IS, leaves_of, without_renames
from firmlake.tables.records import read_records
from firmlake.tables.schemas import KIND_TYPES, TABLES, polars_schema

DRIFT = pl.Schema({name: kind for name, kind in polars_schema(TABLES["drift"]).items() if name != "run_id"})
"""The table `drift`, without the run."""
Answers = Mapping[Company, Sequence[Part]]
"""The complete answers for a dataset: the pages of each company, in order."""
_PAGES = pl.Schema(
    {
        **dict.fromkeys(("country", "company_number", "request_id"), pl.String()),
        "fetched_at": pl.Datetime("us"),
        **dict.fromkeys(("position", "end"), pl.Int64()),
    }
)
_REJECT = pl.Schema(
    {"record": pl.UInt32(), **dict.fromkeys(("path", "value", "reason_code", "reason", "effect"), pl.String())}
)
_OBSERVATION = pl.Schema(
    {**dict.fromkeys(("kind", "path", "example"), pl.String()), "record": pl.UInt32(), "record_count": pl.Int64()}
)
_UNHASHED = {"not_found": ""}
"""Hashes of companies without records, by status; None for the others."""
_PERIOD = ("country", "company_number", "start_date", "end_date")
_SAYS_WHO = ("related_country", "related_company_number", "related_identifier_name", "related_place", "related_name")
"""Columns that say who a party is."""
_FOUND = ("reported", "empty")
_ANSWERED = (*_FOUND, "not_found")
"""The statuses of a company and dataset that the service answered for."""

_TRACKED = pl.Schema(
    {
        **dict.fromkeys(("country", "company_number", "dataset", "status", "name", "place"), pl.String()),
        "record_count": pl.Int64(),
        **dict.fromkeys(("fetched_at", "paid_at"), pl.Datetime("us")),
        "is_refresh": pl.Boolean(),
    }
)


class Gathered(NamedTuple):
    """The records of one group, as read.

    Attributes:
        frame: The fields of `read_records` and country, company_number, position, request_id, fetched_at.
        rejects: Rows of the table `rejects`, without run_id but with `record`, the number of the record in the frame.
        drift: Rows of the table `drift`, without run_id; several may count the same difference.
        who: Paths, as in `rejects`, of what says who a party is: values, their objects, and the record as a whole.
    """

    frame: pl.DataFrame
    rejects: pl.DataFrame
    drift: pl.DataFrame
    who: tuple[str, ...]


def flatten_shard(run: Run, shard: int, progress: Progress | None = None) -> Iterator[tuple[str, pl.DataFrame]]:
    """Turn the landed answers of a shard into frames of the tables' schemas, by name; nothing is written.

    Each table is given as soon as it is made, so that it can be written while the next one is made. `progress` is what
    landed, with records, which are released once they are read; None reads it from disk.
    """
    progress = progress or load_progress(run, shard, keep_records=True)
    contract = run.plan.contract
    # Held rows are replaced if settings change how they are read.
    read_by = b"" if contract == AS_IT_IS else msgspec.json.encode(contract)
    rejects: list[pl.DataFrame] = []
    drift = [drift_of_envelopes(progress)]
    hashes: list[str | None] = []
    for dataset in run.plan.datasets:
        tracks = progress.datasets[dataset]
        heads = [(group, read_by + group.encode()) for group in DATASETS[dataset].groups]
        hashes += [
            payload_hash(heads, track.parts) if track.status == "answered" else _UNHASHED.get(track.status)
            for track in tracks.values()
        ]
        answers = {company: track.parts for company, track in tracks.items() if track.status == "answered"}
        gathered = {group: gather(dataset, group, answers, contract) for group in DATASETS[dataset].groups}
        for name, frame in FLATTEN[dataset](gathered).items():
            yield name, shape_table(name, frame, run.run_id)
        rejects += [part.rejects for part in gathered.values()]
        drift += [part.drift for part in gathered.values()]
        del answers
        for track in tracks.values():
            track.parts = ()
    tracked = list_tracks(progress, run.plan.datasets).with_columns(pl.Series("payload_hash", hashes, pl.String))
    rejected = pl.concat(rejects)
    others = {
        "rejects": rejected,
        "company_state": _states(tracked, rejected),
        "dead_letters": dead_letters(progress),
        "companies": companies(tracked),
        "requests": requests(run, progress),
        "drift": merge_drift(pl.concat(drift)),
    }
    for name, frame in others.items():
        yield name, shape_table(name, frame, run.run_id)


def payload_hash(heads: Iterable[tuple[str, bytes]], parts: Iterable[Part]) -> str:
    """Hash a company's records as received: equal hashes mean equal rows, however the records were paged.

    The heads are the groups of records, each with what is hashed before them.
    """
    content: list[bytes | Raw] = []
    for group, head in heads:
        content.append(head)
        for part in parts:
            content += part.records[group]
    return xxh3_128_hexdigest(b",".join(content))


def shape_table(name: str, frame: pl.DataFrame, run_id: str) -> pl.DataFrame:
    """Cast a frame to the columns, types and order of a table, and add the run's name.

    An integer that `contract.types` reads as a decimal stays one.
    """
    schema = polars_schema(TABLES[name])
    wider = {column: kind for column, kind in frame.schema.items() if kind == KIND_TYPES["decimal"]}
    schema = pl.Schema({column: wider.get(column, kind) for column, kind in schema.items()})
    return frame.with_columns(pl.lit(run_id).alias("run_id")).select(
        pl.col(column).cast(kind) for column, kind in schema.items()
    )


def flatten_financials(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per period, and one row per joint committee code of a period.

    A period can be filed more than once. `dup_no` numbers its filings from the one received first, so that a filing
    keeps its number when a newer one joins it. A filing without a date counts as the oldest; of filings received on the
    same day the answer names the newest first.
    """
    frame = gathered["period"].frame
    periods = frame.with_columns(_filing_numbers(frame).alias("dup_no"))
    codes = (
        periods.select(*_PERIOD, "dup_no", "fetched_at", pl.col("joint_committee_codes").alias("code"))
        .filter(pl.col("code").list.len() > 0)
        .with_columns(pl.int_ranges(0, pl.col("code").list.len(), dtype=pl.Int64).alias("position"))
        .explode("code", "position")
    )
    return {"financials": periods, "financial_joint_committees": codes}


def flatten_lookalikes(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per similar company; `rank` is its place in the answer, 1 first."""
    ranked = gathered["lookalike"].frame.with_columns((pl.col("position") + 1).alias("rank"))
    return {"lookalikes": with_normal_numbers(ranked, "lookalike_country", "lookalike_company_number")}


def flatten_relationships(gathered: Mapping[str, Gathered]) -> dict[str, pl.DataFrame]:
    """Flatten records to one row per parent and per child."""
    table = pl.concat([_of_kind(part).with_columns(pl.lit(way).alias("direction")) for way, part in gathered.items()])
    return {"relationships": with_normal_numbers(table, "related_country", "related_company_number")}


def with_normal_numbers(frame: pl.DataFrame, country: str, number: str) -> pl.DataFrame:
    """Bring two columns, country and company number, into normal form; values that are not companies stay unchanged."""
    value, code = pl.col(number), pl.col(country)
    has_digits_only = value.str.contains(r"^[0-9]+$")
    is_odd = code.is_not_null() & value.is_not_null() & ~(has_digits_only & code.is_in(COUNTRIES))
    odd = frame.select(country, number).filter(is_odd).unique(maintain_order=True)
    if odd.height:
        meant = [normal_form(*pair) or pair for pair in odd.iter_rows()]
        named = pl.DataFrame(meant, schema={"meant_country": pl.String, "meant_number": pl.String}, orient="row")
        frame = (
            frame.join(odd.hstack(named), on=[country, number], how="left", maintain_order="left")
            .with_columns(
                pl.coalesce("meant_country", country).alias(country), pl.coalesce("meant_number", number).alias(number)
            )
            .drop("meant_country", "meant_number")
        )
    length = code.replace_strict(NUMBER_LENGTH, default=0, return_dtype=pl.Int64)
    is_short = has_digits_only & value.str.len_chars().is_between(length - 2, length)
    return frame.with_columns(pl.when(is_short).then(value.str.zfill(length)).otherwise(value).alias(number))


FLATTEN: dict[str, Callable[[Mapping[str, Gathered]], dict[str, pl.DataFrame]]] = {
    "financials": flatten_financials,
    "lookalikes": flatten_lookalikes,
    "relationships": flatten_relationships,
}
"""What makes the tables of each dataset from its records, by group."""


def list_tracks(progress: Progress, datasets: Iterable[str]) -> pl.DataFrame:
    """Return one row for each dataset, in the order they are asked, and company."""
    rows = [(*company, dataset, track) for dataset in datasets for company, track in progress.datasets[dataset].items()]
    countries, numbers, names, tracks = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pl.DataFrame(
        {
            "country": countries,
            "company_number": numbers,
            "dataset": names,
            "status": [_status(track) for track in tracks],
            "name": [track.name for track in tracks],
            "place": [track.place for track in tracks],
            "record_count": [track.next_offset for track in tracks],
            "fetched_at": moments(track.answered_at for track in tracks),
            "paid_at": moments(track.first_at for track in tracks),
            "is_refresh": [track.is_refresh for track in tracks],
        },
        schema=_TRACKED,
    )


def companies(tracked: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each company of `list_tracks`, with name and place as the first dataset gives them.

    A company is paid for from the first page of any dataset, even if the rest of it never came.
    """
    answered = pl.col("name", "place", "fetched_at").filter(pl.col("status").is_in(_FOUND))
    return tracked.group_by("country", "company_number", maintain_order=True).agg(
        answered.first(), pl.col("paid_at").min()
    )


def requests(run: Run, progress: Progress) -> pl.DataFrame:
    """Return a row for each request sent. A request may be sent again after a crash; its attempts then count on."""
    names, attempts, rows = run.plan.names, Counter[str](), []
    for header in progress.headers:
        if header.kind not in REQUESTS:
            continue
        attempts[header.request_id] += 1
        rows.append(
            {
                "request_id": header.request_id,
                "attempt": attempts[header.request_id],
                "dataset": header.dataset,
                "shard": header.shard,
                "company_count": len(header.companies),
                "page_limit": header.limit,
                "page_offset": header.offset,
                "status": header.status,
                "error": header.error or None,
                "body_bytes": header.body_bytes,
                "duration_seconds": header.duration_seconds,
                "credits_charged": credits_in(header, names.credits_charged_header),
                "credits_remaining": credits_in(header, names.credits_remaining_header),
                "fetched_at": _utc(header.fetched_at),
            }
        )
    return _frame("requests", rows)


def dead_letters(progress: Progress) -> pl.DataFrame:
    """Return a row for each company and dataset that was given up."""
    rows = [
        {
            **company._asdict(),
            "dataset": dataset,
            "reason_code": track.reason.code,
            "reason": track.reason.text,
            "attempt_count": track.attempts,
            "request_id": track.request_id,
            "failed_at": _utc(track.ended_at),
        }
        for company, dataset, track in progress.tracks()
        if track.status in GIVEN_UP.values()
    ]
    return _frame("dead_letters", rows)


def drift_of_envelopes(progress: Progress) -> pl.DataFrame:
    """Return a row for each difference between an answer and the contract outside of records."""
    rows = [
        *((h, "new_field", f"[].{path}", None, 1) for h, path in progress.unknown),
        *((h, "foreign_element", "[].identifier", what, 1) for h, what in progress.foreign),
        *((h, "other_count", "[].pagination.total", what, 1) for h, what in progress.cut),
        *((h, "left_out", "[]", str(h.companies[0]), len(h.companies)) for h in progress.headers if _is_left_out(h)),
    ]
    return pl.DataFrame([(h.dataset, *row, _utc(h.fetched_at)) for h, *row in rows], schema=DRIFT, orient="row")


def _states(tracked: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """Return the state of each company and dataset, with its rejected records counted apart from those held.

    A free refresh that was not made leaves the held answer fresh, so it has no state.
    """
    key = ("country", "company_number", "dataset")
    counts = rejects.filter(pl.col("effect") == "record").group_by(key).agg(pl.len().cast(pl.Int64).alias("rejected"))
    is_answered = pl.col("status").is_in(_ANSWERED)
    rejected = pl.col("rejected").fill_null(0)
    said = tracked.filter(~pl.col("is_refresh") | (pl.col("status") != "waiting"))
    return said.join(counts, on=key, how="left", maintain_order="left").with_columns(
        pl.when(is_answered).then(rejected).alias("reject_count"),
        pl.when(is_answered).then(pl.col("record_count") - rejected),
        pl.when(is_answered).then("fetched_at"),
    )


def _filing_numbers(periods: pl.DataFrame) -> pl.Series:
    """Number the filings of each period: 0 is the one received first."""
    is_repeated = periods.select(_PERIOD).is_duplicated()  # few are, and ranking all would cost ten times as much
    received = pl.struct(pl.col("date_received").fill_null(date.min), -pl.col("position"))
    numbers = periods.filter(is_repeated).select((received.rank("ordinal").over(_PERIOD) - 1).cast(pl.Int64))
    return pl.zeros(len(periods), pl.Int64, eager=True).scatter(is_repeated.arg_true(), numbers.to_series())


def _of_kind(part: Gathered) -> pl.DataFrame:
    """Return the kind of each related party; one that says who it is, but cannot be read, is nobody that we know."""
    misread = part.rejects.filter(pl.col("path").is_in(part.who))["record"]
    return part.frame.with_columns(
        pl.when((pl.col("related_country") != "") & (pl.col("related_company_number") != ""))
        .then(pl.lit("company"))
        .when((pl.col("related_company_number") != "") | pl.col("record").is_in(misread.implode()))
        .then(pl.lit("unknown"))
        .when(pl.col("related_name").is_not_null() | pl.col("related_identifier_name").is_not_null())
        .then(pl.lit("named_party"))
        .otherwise(pl.lit("anonymous"))
        .alias("related_kind")
    )


def _status(track: Track) -> str:
    if track.status == "answered":
        return "reported" if track.next_offset else "empty"
    return "waiting" if track.status == "pending" else track.status


def _is_left_out(header: Header) -> bool:
    return header.kind == "unknown" and header.code == "left_out" and bool(header.companies)


def _frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=polars_schema(TABLES[table]))


def _utc(moment: datetime | None) -> datetime | None:
    """Drop the zone: timestamps in tables are UTC."""
    return moment and moment.replace(tzinfo=None)


def gather(dataset: str, group: str, answers: Answers, contract: ContractSettings = AS_IT_IS) -> Gathered:
    """Read one group's records of many companies together, because reading company by company is slow."""
    raws = list(chain.from_iterable([part.records[group] for parts in answers.values() for part in parts]))
    return gather_records(dataset, group, raws, _origin(answers, group), contract)


def gather_records(
    dataset: str, group: str, raws: Sequence[Raw], origin: pl.DataFrame, contract: ContractSettings = AS_IT_IS
) -> Gathered:
    """Read the records of one group, each valid JSON.

    The origin has a row for each record, with `fetched_at` and more; its columns are added to those of `Gathered`.
    """
    read = read_records(dataset, group, raws, contract)
    has_all = read.frame.height == len(raws)
    frame = pl.concat([origin if has_all else origin[read.frame["record"]], read.frame], how="horizontal")
    key = RECORDS[dataset].groups[group].key
    prefix = f"{key}[]." if key else ""  # parents and children are counted apart

    def placed(rows: Sequence[tuple[object, ...]], schema: pl.Schema) -> pl.DataFrame:
        found = pl.DataFrame(rows, schema=schema, orient="row")
        found = pl.concat([found, origin[found["record"]]], how="horizontal")
        return found.with_columns(pl.lit(dataset).alias("dataset"), (pl.lit(prefix) + pl.col("path")).alias("path"))

    texts = [
        bytes(raws[reject.record]).decode("utf-8", "replace") if reject.effect == "record" else None
        for reject in read.rejects
    ]
    rejects = placed(read.rejects, _REJECT).with_columns(
        pl.col("path").str.strip_chars_end("."), pl.Series("record_json", texts, pl.String)
    )
    observed = placed(read.observations, _OBSERVATION).rename({"fetched_at": "first_seen_at"}).select(DRIFT.names())
    by_names = (contract, without_renames(dataset, contract))
    paths = [leaf.path for each in by_names for leaf in leaves_of(dataset, each) if leaf.name in _SAYS_WHO]
    who = {(prefix + each).rstrip(".") for path in paths for each in (path, path.rpartition(".")[0], "")}
    return Gathered(frame, rejects, pl.concat([observed, find_drift(dataset, frame, rejects)]), tuple(who))


def moments(values: Iterable[datetime | None]) -> pl.Series:
    """Make a column of UTC times without a zone. Each distinct time is converted once, because there are few."""
    values = list(values)
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    distinct = pl.Series([value and value.replace(tzinfo=None) for value in places], dtype=pl.Datetime("us"))
    return distinct.gather([places[value] for value in values])


def find_drift(dataset: str, records: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """Find values that did not fit, values of another scale, and new values in fields with an open set of values.

    Frames are those of `gather`. Rejected records are counted elsewhere.
    """
    counted = [
        values.group_by("path", maintain_order=True)
        .agg(
            pl.lit(dataset).alias("dataset"),
            pl.lit(kind).alias("kind"),
            pl.col("value").first().alias("example"),
            pl.len().cast(pl.Int64).alias("record_count"),
            pl.col("fetched_at").min().alias("first_seen_at"),
        )
        .select(DRIFT.names())
        for kind, values in _differing(dataset, records, rejects)
        if values.height
    ]
    return pl.concat([pl.DataFrame(schema=DRIFT), *counted])


def merge_drift(frame: pl.DataFrame) -> pl.DataFrame:
    """Merge counted differences, those of each run if there is a column for it: the first example, all counts."""
    key = [name for name in ("dataset", "kind", "path", "run_id") if name in frame.columns]
    return (
        frame.sort("first_seen_at", maintain_order=True)
        .group_by(key)
        .agg(pl.col("example").first(), pl.col("record_count").sum(), pl.col("first_seen_at").first())
        .sort(key)
    )


def _origin(answers: Answers, group: str) -> pl.DataFrame:
    """Return the origin of each record of these answers, in their order."""
    pages = []
    for (country, number), parts in answers.items():
        position = 0
        for part in parts:
            if count := len(part.records[group]):
                pages.append((country, number, part.request_id, part.fetched_at, position, position + count))
                position += count
    countries, numbers, request_ids, times, starts, ends = zip(*pages, strict=True) if pages else [()] * 6
    return (
        pl.DataFrame(
            {
                "country": countries,
                "company_number": numbers,
                "request_id": request_ids,
                "fetched_at": moments(times),
                "position": starts,
                "end": ends,
            },
            schema=_PAGES,
        )
        .with_columns(pl.int_ranges("position", "end"))
        .explode("position")
        .drop("end")
    )


def _differing(dataset: str, records: pl.DataFrame, rejects: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the kind of a difference and the values that have it: path, value and fetched_at."""
    yield "discarded_value", rejects.filter(pl.col("effect") != "record")
    # Fractions and scores above 1: the service may send percentages. A fraction of up to 2 was read.
    yield "other_scale", rejects.filter(pl.col("reason_code") == "beyond_one")
    for name, field in RECORDS[dataset].fields.items():
        if field.kind in ("fraction", "score") and name in records:
            yield "other_scale", _values(name, pl.lit(field.path), records.filter(pl.col(name) > 1))
    for (of, name), known in KNOWN_VALUES.items():
        if of == dataset:
            field = RECORDS[dataset].fields[name]
            is_array = field.kind == "codes"
            path, each = f"{field.path}[]" if is_array else field.path, records.explode(name) if is_array else records
            unseen = each.filter(pl.col(name).is_not_null() & ~pl.col(name).is_in(known))
            yield "new_value", _values(name, pl.lit(f"{path}=") + pl.col(name), unseen)


def _values(column: str, path: pl.Expr, records: pl.DataFrame) -> pl.DataFrame:
    return records.select(path.alias("path"), pl.col(column).cast(pl.String).alias("value"), "fetched_at")
