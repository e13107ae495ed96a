"""What the views and macros answer: each rule in `questions/` states a few companies, and the rows that must come out.

All rules share one warehouse; each has companies of its own, so that none sees those of another. A rule that counts
over all companies says `alone` and gets a warehouse of its own.

    # A rule, and what makes it true            -- a remark: how a figure was worked out
    let name = text that `$name` stands for
    financials 1 2024 revenue=5                 a period of company 1; 2024-01-01/2024-06-30 is one as well
    financials 1-3 2024 revenue=5               the same period of several companies
    codes 1 2024 200 0124                       its joint committees
    owner 2 1 0.6                               what 2 says: 1 owns 60 % of it; `owned 2 1 0.6` is what 1 says
    companies 1 2                               companies of which nothing but the name is known
    list customers limit 1=10 none=20           a list with a column, and a line of no company
    sql CREATE TABLE ...
    lookalikes 1 rank=1 ...                     a row of any other table
    weeks financials 2023 | gone | 2024; 2023 revenue=2   the answers of three weeks, of which the last stays
    ? columns FROM trend OF 1                   a question about 1; `OF all` asks about all companies of the rule
    2024  5  -                                  a row of the answer; cells are two spaces apart, and - is null
    ! text                                      or the error

A rule about weeks says `empty`, `gone`, `failed`, or `-` for a company that is not asked, and may give its owners, the
numbers of lookalikes or its name. `? columns WEEK 2` asks for the changes that the run of the second week found, and
`known 2025-06-29: ; 2025-06-30: 1, 2` states the revenues that were known on each day.
`{1}` is the number of company 1. `report/section` is the query of a section of the report.
"""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from firmlake.core.company import Company
from firmlake.core.folders import Folders
from firmlake.report.sections import SectionTables, find_section
from firmlake.warehouse.generations import newest
from support import (
    BOLT,
    CIRC,
    DATASETS,
    FAILED,
    WAITING,
    found,
    lookalike,
    party,
    period,
    run_name,
    run_of,
)

from .figures import Figures

RULES = {}
for file in sorted(Path(__file__).with_name("questions").glob("*.txt")):
    for rule in re.split(r"^# ", file.read_text("utf-8"), flags=re.M)[1:]:
        name, _, lines = rule.partition("\n")
        assert name not in RULES
        RULES[name] = lines.splitlines()
FIRST = {name: 10_000_000 + 1000 * place for place, name in enumerate(RULES)}
"""The number before that of the first company of each rule."""


class Rule:
    """Reads the lines of a rule: rows go into a warehouse, questions and their answers are listed."""

    def __init__(self, name, figures):
        self.figures, self.first, self.texts = figures, FIRST[name], {}
        self.questions, self.weeks = [], {}
        for line in RULES[name]:
            line = re.sub(r"\$(\w+)", lambda found: self.texts[found[1]], line)
            if line.startswith("let "):
                self.texts.update([line.removeprefix("let ").split(" = ", 1)])
            elif line.startswith("known "):
                self.questions += map(self.known_on, line.removeprefix("known ").split(";"))
            elif line.startswith("? "):
                self.questions.append((self.numbered(line.removeprefix("? ")), []))
            elif self.questions and line and not line.startswith("--"):
                self.questions[-1][1].append(line)
            elif line and line != "alone" and not line.startswith("--"):
                self.insert(line)

    def known_on(self, text):
        day, revenues = (part.strip() for part in text.split(":"))
        question = (
            f"revenue FROM financials_known_on(DATE '{day}') WHERE company_number = '{self.first + 1}' ORDER BY 1"
        )
        return question, revenues.split(", ") if revenues else []

    def numbered(self, text):
        return re.sub(r"\{(\d+)\}", lambda found: str(self.first + int(found[1])), text)

    def insert(self, line):
        kind, *words = shlex.split(self.numbered(line))
        pairs = [word.split("=", 1) for word in words if "=" in word]
        values = {column: None if value == "-" else value for column, value in pairs}
        words = [None if word == "-" else word for word in words if "=" not in word]
        if kind == "sql":
            self.figures.connection.execute(self.numbered(line).removeprefix("sql "))
        elif kind == "list":
            cells = [(None if company == "none" else self.first + int(company), cell) for company, cell in pairs]
            self.figures.list_of(words[0], *cells, column=words[1])
        elif kind in ("owner", "owned"):
            child, owner, stake = words
            owner = self.first + int(owner) if owner and owner.isdigit() else owner
            getattr(self.figures, kind)(self.first + int(child), owner, stake, **values)
        elif kind == "weeks":
            _, dataset, told = line.split(" ", 2)
            self.weeks[dataset] = [read_answer(dataset, answer.strip()) for answer in told.split("|")]
        elif kind == "companies":
            for company in words:
                self.figures.knows(self.first + int(company), f"company {company}")
        else:
            self.insert_rows(kind, *words, **values)

    def insert_rows(self, table, companies, dates="", *codes, **values):
        country, first, last = re.fullmatch(r"([A-Z]*)(\d+)(?:-(\d+))?", companies).groups()
        if dates:
            start, _, end = (dates if "/" in dates else f"{dates}-01-01/{dates}-12-31").partition("/")
            values = {"start_date": start, "end_date": end, "dup_no": 0, "position": 0, **values}
        if table == "lookalikes":
            values["lookalike_country"] = "NL"
        for place in range(int(first), int(last or first) + 1):
            company = self.first + place
            self.figures.knows(company, f"company {place}", country or "NL")
            if table != "codes":
                self.figures.add(table, company, **values | ({"country": country} if country else {}))
            for position, code in enumerate(codes):
                row = values | {"position": position, "code": code}
                self.figures.add("financial_joint_committees", company, **row)

    def answer(self, question):
        """Ask, with the numbers of companies as the rule has them."""

        def restrict(found):
            return f" WHERE company_number = '{self.first + int(found[1])}' ORDER BY ALL"

        def changes_of(found):
            in_run = f"run_id = '{run_name(7 * (int(found[1]) - 1))}' ORDER BY country, company_number, position"
            return f" FROM changes {mine} AND {in_run}"

        mine = f"WHERE company_number BETWEEN '{self.first}' AND '{self.first + 999}'"
        question = re.sub(r" OF (\d+)$", restrict, question.replace(" OF all", f" {mine} ORDER BY ALL"))
        question = question.replace(" GROUPED", f" {mine} GROUP BY 1 ORDER BY 1")
        question = re.sub(r" WEEK (\d)$", changes_of, question)
        for section in re.findall(r"report/(\w+)", question):
            SectionTables(self.figures.connection, "report").prepare(find_section(f"report/{section}").sql)
            question = question.replace(f"report/{section}", f"({find_section(f'report/{section}').sql})")
        return self.figures.ask(f"SELECT {question}")

    def is_said(self, expected, value):
        if value is None or expected == "-":
            return value is None and expected == "-"
        if isinstance(value, bool | str | list) or hasattr(value, "isoformat"):
            text = ", ".join(value) if isinstance(value, list) else str(value)
            return self.numbered(expected) == (text.lower() if isinstance(value, bool) else text)
        return Decimal(expected) == Decimal(str(value))


# --- weeks ------------------------------------------------------------------------------------------------------------

PATHS = {"revenue": "profitability__revenue", "received": "dateReceived", "health": "healthIndicator"}


def read_answer(dataset, text):
    """Read what the service says of a company in a week."""
    if text in ("empty", "gone", "failed", "-"):
        return {"empty": [], "gone": None, "failed": FAILED, "-": WAITING}[text]
    if text.startswith("name="):
        identifier = found(BOLT, dataset)["identifier"] | dict(pair.split("=") for pair in text.split())
        return found(BOLT, dataset) | {"identifier": identifier}
    read = {"financials": read_period, "relationships": read_party, "lookalikes": read_lookalike}[dataset]
    records = [read(*record.split()) for record in text.split(";")]
    if dataset == "relationships" and text.startswith("child "):
        return found(BOLT, dataset) | {"data": {"parents": [], "children": records}}
    return records


def read_period(year, *changes):
    record = {}
    for name, value in (change.split("=") for change in changes):
        if name == "codes":
            record["jointCommitteeCodes"] = value.split(",") if value else []
        else:
            number = None if value == "null" else int(value) if value.isdigit() else value
            record[PATHS.get(name, name)] = number
    return period(int(year), **record)


def read_party(name, stake="0.25", function="SHAREHOLDER"):
    if name == "child":
        return party({"BOLT": BOLT}[stake])
    company = {"BOLT": BOLT, "CIRC": CIRC}.get(name)
    named = {} if company else {"name": name}
    return party(company, percentage=None if stake == "null" else float(stake), function=function, **named)


def read_lookalike(number, score="0.75"):
    record = lookalike(Company("NL", number.zfill(8)), float(score))
    return record | ({"companyId": "x"} if number == "unreadable" else {})


class Weeks:
    """The newest generation of a data folder in which the answers of three weeks have been loaded."""

    def __init__(self, folders, rules):
        for week, language in enumerate(("EN", "NL", "NL")):
            answers = {}
            for rule in rules:
                company = Company("NL", str(rule.first + 1))
                now = {dataset: told[min(week, len(told) - 1)] for dataset, told in rule.weeks.items()}
                for answer in now.values():
                    if isinstance(answer, dict):
                        answer["identifier"]["companyNumber"] = company.company_number
                answers[company] = dict.fromkeys(DATASETS, WAITING) | now
            run_of(folders, 7 * week, answers, language=language, lookalikes_watched=2)
        self.connection = duckdb.connect(newest(folders), read_only=True)

    def ask(self, sql):
        return self.connection.execute(sql).fetchall()


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    rules, made = {}, empty_world()
    for name, lines in RULES.items():
        if "alone" not in lines:
            rules[name] = Rule(name, made)
    made.made()
    in_weeks = [rule for rule in rules.values() if rule.weeks]
    weeks = Weeks(Folders(tmp_path_factory.mktemp("weeks")), in_weeks)
    for rule in in_weeks:
        rule.figures = weeks
    return rules


def empty_world():
    made = Figures()
    made.fill("runs", run_id="r", finished_at="2026-09-01")
    made.loads(1, "r")
    return made


@pytest.mark.parametrize("name", RULES)
def test_views_and_macros_answer_as_one_works_it_out(world, name):
    rule = world.get(name)
    if rule is None:
        rule = Rule(name, empty_world())
        rule.figures.made()
    assert rule.questions
    for question, expected in rule.questions:
        if expected and expected[0].startswith("! "):
            with pytest.raises(duckdb.Error, match=re.escape(expected[0][2:])):
                rule.answer(question)
            continue
        rows = rule.answer(question)
        wanted = [re.split(r"  +", line) for line in expected]
        is_same = [len(row) for row in rows] == [len(row) for row in wanted] and all(
            rule.is_said(cell, value) for row, cells in zip(rows, wanted, strict=True)
            for value, cell in zip(row, cells, strict=True)
        )  # fmt: skip
        assert is_same, f"{question}\n{rows}\n{wanted}"


def test_days_overdue_count_to_the_day_in_utc_in_every_time_zone(world):
    """These two zones are never on the same day."""
    rule = next(rule for name, rule in world.items() if name.startswith("Punctuality"))
    found = set()
    for zone in ("Etc/GMT-14", "Etc/GMT+12"):
        rule.figures.connection.execute(f"SET TimeZone = '{zone}'")
        found.update(rule.answer("overdue_days FROM company_figures OF 1"))
    rule.figures.connection.execute("RESET TimeZone")
    assert len(found) == 1
    assert found.pop() > (0,)
