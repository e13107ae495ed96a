"""What the first answers of a service say about how it writes records, where there is one reading only.

Per cent, decimals, the order of a date and the spelling of names are decided once, and kept in the profile of the data
folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import msgspec
from msgspec import Raw

from firmlake.api.contract import DATASETS
from firmlake.api.exchange import Answer
from firmlake.check.finding import Finding
from firmlake.check.talk import elements_of, read_json
from firmlake.core.settings import ContractSettings
from firmlake.core.text import count_of, plain_key
from firmlake.landing.progress import read_landed
from firmlake.landing.run import Run
from firmlake.tables.leaves import leaves_of, setting_of
from firmlake.tables.records import read_records

VALUES = "values"
"""What findings about records are called; docs/service_gaps.md has a row for each way in which they may differ."""
VALUES_MIN = 100
"""Fewer values of a field say nothing about its scale."""
_HUNDRED = 100
_SEXES = ("financials.employee_male_fraction", "financials.employee_female_fraction")


def find_values(answers: Sequence[Answer], contract: ContractSettings) -> Iterator[Finding]:
    """Find how records are to be read, and why all records of a dataset (two or more) are rejected.

    If they are, the list would be bought in vain.
    """
    found = defaultdict[tuple[str, str], dict[bytes, Raw]](dict)
    for answer in (answer for answer in answers if answer.request.companies):
        for element in elements_of(answer):
            for group, raws in (element.records or {}).items():
                found[answer.request.endpoint, group] |= {bytes(raw): raw for raw in raws}
    names = {theirs: ours for (dataset, _), records in found.items() for theirs, ours in _respelled(dataset, records)}
    if names:
        seen = f"{count_of(len(names), 'field')} in another spelling, such as {next(iter(names))}"
        yield Finding(VALUES, seen, "covered", {"contract.rename": {**contract.rename, **names}})
    contract = msgspec.structs.replace(contract, rename={**contract.rename, **names})
    if not contract.date_order and (order := find_date_order(raw for records in found.values() for raw in records)):
        yield Finding(VALUES, f"dates with the {order} first", "covered", {"contract.date_order": order})
        contract = msgspec.structs.replace(contract, date_order=order)
    for (dataset, group), records in found.items():
        frame, rejects, _ = read_records(dataset, group, [*records.values()], contract)
        if len(records) > 1 and frame.is_empty():
            what = f"{dataset} {rejects[0].path} = {rejects[0].value or 'null'}: {rejects[0].reason}"
            step = _STEPS.get(rejects[0].reason_code, _OTHER_STEP)
            seen = f"{what}; all of {len(records)} records are rejected"
            yield Finding(VALUES, seen, "needs_you", next_step=f"{step}. {_AGAIN}")


_STEPS = {
    "ambiguous_date": 'Set contract.date_order to "day" or "month", whichever comes first',
    "missing": 'If it has another name, set contract.rename, such as {"financials.begin" = "startDate"}; otherwise '
    "have the service send it",
}
_OTHER_STEP = "Have the service send what its specification says, or update firmlake"
_AGAIN = "Then run the list again: companies that were bought cost nothing then"


def _respelled(dataset: str, records: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the places of records that only capitals and underscores tell from a documented one, and that one."""
    usual = {plain_key(field.path): field.path for field in DATASETS[dataset].fields.values()}
    contents = (content for record in records if isinstance(content := read_json(record), dict))
    places = {
        path
        for content in contents
        for key, value in content.items()
        for path in ([f"{key}.{inner}" for inner in value] if isinstance(value, dict) else [key])
    }
    for path in sorted(places - set(usual.values())):
        ours = usual.get(plain_key(path))
        if ours and ours not in places:
            yield f"{dataset}.{path}", ours


def find_date_order(bodies: Iterable[bytes]) -> str:
    """Find what comes first in dates such as 03/04/2024: "day" or "month", if all can be read in this order only.

    Empty if there are no such dates, or if a day above 12 is in none of them.
    """
    pairs = {pair for body in bodies for pair in _YEAR_LAST.findall(body)}
    fitting = {"day": all(int(two) <= 12 for _, two in pairs), "month": all(int(one) <= 12 for one, _ in pairs)}
    orders = [order for order, fits in fitting.items() if fits]
    return orders[0] if len(orders) == 1 else ""


_YEAR_LAST = re.compile(rb'"([0-9]{1,2})[/-]([0-9]{1,2})[/-][0-9]{4}"')


def changes_by_values(run: Run, staged: duckdb.DuckDBPyConnection, least: int) -> dict[str, Any]:
    """Find what the values of a run say about how the service writes them, where there is one reading only.

    - Per cent: the shares of men and women add up to 100, or most of at least so many values of a share or score are
      above 1 and none is above 100. Then the other fields in which most values are above 1 are in per cent too.
    - Decimals: a whole number was expected, and the service sends 12.5.
    - Dates such as 03/04/2024: others, such as 31/12/2024, can be read in one order only.

    Fewer than `least` values of a field say nothing about its scale. Returned are settings under `contract`, by dotted
    key, without fields for which there is a setting already.
    """
    contract = run.plan.contract
    leaves = [(dataset, leaf) for dataset in run.plan.datasets for leaf in leaves_of(dataset, contract)]
    shares = {
        f"{dataset}.{leaf.name}": staged.execute(
            _SHARES.format(dataset=dataset, name=leaf.name), [dataset, leaf.path]
        ).fetchall()[0]
        for dataset, leaf in leaves
        if leaf.kind in ("fraction", "score") and setting_of(contract.scales, dataset, leaf.name, leaf.path) is None
    }
    beyond = [name for name, (count, above, most, _) in shares.items() if 2 * above > count and most <= _HUNDRED]
    sexes = [shares[name][3] for name in _SEXES if name in shares and shares[name][0]]
    is_sum = len(sexes) == len(_SEXES) and abs(sum(sexes) - _HUNDRED) < 1
    is_proved = is_sum or any(shares[name][0] >= least for name in beyond)
    scales = dict.fromkeys([*_SEXES] * is_sum + beyond, _HUNDRED) if is_proved else {}
    not_whole = set(staged.execute(_NOT_WHOLE).fetchall())
    types = {
        f"{dataset}.{leaf.name}": "decimal"
        for dataset, leaf in leaves
        if leaf.kind == "integer" and (dataset, leaf.path) in not_whole
    }
    found = {"contract.scales": {**contract.scales, **scales}, "contract.types": {**contract.types, **types}}
    if not contract.date_order and staged.execute(_AMBIGUOUS_DATE).fetchall():
        found["contract.date_order"] = find_date_order(
            each.body for shard in run.shards() for each in read_landed(run, shard)
        )
    return {key: value for key, value in found.items() if value != getattr(contract, key.partition(".")[2])}


def describe_values(changes: Mapping[str, Any], before: ContractSettings) -> str:
    """Describe settings from `changes_by_values`, without those that were made before."""
    told = []
    for key, how in _HOW.items():
        known = getattr(before, key.partition(".")[2])
        found = changes.get(key, known)
        names = [found] if isinstance(found, str) else [name for name in found if name not in known]
        if names and found != known:
            told.append(how.format(", ".join(names)))
    return "; ".join(told)


_HOW = {
    "contract.scales": "{} in per cent, so divided by 100",
    "contract.types": "{} with decimals, which are kept",
    "contract.date_order": "dates with the {} first",
}
"""What a setting does with values."""
_AMBIGUOUS_DATE = "FROM rejects WHERE reason_code = 'ambiguous_date' LIMIT 1"
_REJECTED = r"""
    SELECT dataset, reason_code, regexp_replace(path, '^.*\[\]\.', '') AS path,
           TRY_CAST(replace(trim(value, '"'), ',', '.') AS DOUBLE) AS number
    FROM rejects
"""
_SHARES = f"""
    SELECT count(number), count(*) FILTER (number > 1), max(number), avg(number)
    FROM (SELECT "{{name}}"::DOUBLE AS number FROM {{dataset}} UNION ALL
          SELECT number FROM ({_REJECTED}) WHERE dataset = ? AND path = ? AND reason_code = 'beyond_one')
"""  # noqa: S608 - our own names
"""Values of a share as the service sent them, those that were discarded too."""
_NOT_WHOLE = f"SELECT DISTINCT dataset, path FROM ({_REJECTED}) WHERE reason_code = 'not_whole' AND number IS NOT NULL"  # noqa: S608
