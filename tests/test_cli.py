"""The command line: what is typed -> exit code and first line; what it makes, and what it may not."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import stat
import subprocess
import sys
from itertools import chain
from pathlib import Path

import click
import pytest

from firmlake.api.service import check_access
from firmlake.core.errors import SettingsError
from firmlake.core.settings_layers import confirm_by, load_settings
from firmlake.enrich.contact import WELL_KNOWN, choose_companies
from firmlake.warehouse.generations import kept_open
from firmlake_sandbox import sample_numbers
from lake import Lake
from support import (
    ACME,
    BOLT,
    answer,
    commands,
    found,
    land,
    lookalike,
    make_run,
    publish_landed,
    publish_two_lists,
    slow,
)

EVIL = "\x1b]0;title\x1b\\\x1b[31m\u202egnp.exe\u200f\x9b2J"
"""Sets the title of the window, colours, turns the reading direction, clears the screen."""

# --- mistakes: what is typed -> what the line that follows says ------------------------------------------------------

_WORK = {
    "alerts": "", "archive": "archive", "changes": "", "company": "BE 0403227515 --page page.html",
    "contacts redrive": "--list 1", "contacts status": "", "explore": "--no-browser", "export": "export",
    "forget": "company BE 0403227515", "list export": "customers --out list.csv", "list remove": "customers",
    "list rename": "customers others", "list show": "", "load": "duckdb:loaded.duckdb", "mcp": "", "prune": "",
    "publish": "", "query": "'SELECT 1'", "redrive": "", "replay": "", "report": "", "status": "--metrics metrics.prom",
    "verify": "",
}  # fmt: skip
"""All commands that work on a data folder that is there, and the least that is typed for them."""
_DRY = {"forget": "--dry-run", "prune": "--dry-run", "verify": "--forgotten"}
_MAKE_OR_NEED_NONE = {
    "check", "config check", "config show", "contacts apply", "contacts plan", "demo", "match", "plan", "run",
    "sandbox", "service-lists",
}  # fmt: skip
_AT_WORK = [
    *(f"{name} {typed}".strip() for name, typed in _WORK.items()),
    *(f"{name} {_WORK[name]} {more}" for name, more in _DRY.items()),
]

WITHOUT_FOLDER = {
    "run absent.csv": "absent.csv",
    "run .": "folder",
    "run list.csv --set api.thread=2": "Did you mean api.threads",
    "run list.csv --set api.threads": "KEY=VALUE",
    "run list.csv --max-credits few": "run.max_credits (--max-credits)",
    "run list.csv --max-credits 1 --set run.max_credits=x": "(--set run.max_credits)",
    "run list.csv --sample some": "",
    "run list.csv --depth 2": "--expand",
    "run list.csv --columns revenue": "--columns needs --out",
    "run list.csv --set api.base_url=": "No service is named",
    "run list.csv --set api.base_url=http://example.com": "https",
    "run list.csv --set run.time_zone=Europe/Nowhere": "run.time_zone",
    "run list.csv --set paths.readers=nobody-here": "paths.readers: there is no group nobody-here",
    "run list.csv --out back.doc": "cannot be written as .doc",
    "plan list.csv --set run.credit_price=0.12": "",
    "prune --generations few": "run.keep_generations (firmlake prune)",
    "company BE 0403227516": "check digit",
    "company 0403227515": "'0403227515' does not begin with BE, NL or FR",
    "changes --company 0403227515": "'0403227515' does not begin with BE, NL or FR",
    "export out --table nothing": "",
    "export out --ddl snowflake": "snowflake cannot load from out",
    "export": "No export target is named. Run `firmlake export FOLDER",
    "contacts plan absent.csv --list 1002": "absent.csv",
    "verify --files --forgotten": "--forgotten and --files are different checks",
    os.fsdecode(b"run klant\xe9n.csv"): r"klant\xe9n.csv is not valid UTF-8. Rename",
    os.fsdecode(b"run list.csv --data \xe9"): r"\xe9 is not valid UTF-8. Rename",
    os.fsdecode(b"run list.csv --set paths.data=\xe9"): r"paths.data=\xe9 is not valid UTF-8. Rename",
    "status --data list.csv": "is not a folder",
    **{f"{typed} --data typo": "/typo does not exist" for typed in _AT_WORK},
}
IN_A_FOLDER = {
    **{f"query {sql}": "The SQL is empty" for sql in ("''", "';'", "-- '-- nothing'", "' ;; '")},
    **{f"query 'SELECT 1' --format {kind}": "is binary and cannot be printed. Add --out FILE"
       for kind in ("parquet", "xlsx")},
    "query 'SELECT 1' --held": "No generation is held back",
    "changes --kind nothing": "--kind nothing does not exist",
    "changes --since yesterday": "yesterday",
    "changes --company 'BE 1'": "BE 1",
    "export lake --format xlsx": "`firmlake query SQL --out FILE.xlsx",
    "query report/finding": "Did you mean report/findings",
    "query company/": "company/owners",
    "query company/owners": "is about one company",
    f"query 'report/findings {BOLT}'": "is about all companies",
    **{f"{command} --list custmers": "Did you mean 'customers'"
       for command in ("query 'SELECT 1'", "status", "changes", "report", "export x")},
    "query 'SELECT nam FROM companies'": 'Candidate bindings: "name"',
    "query 'SELECT sum(name) FROM companies'": "Candidate functions: sum(",
    "query 'SELECT nothing'": "`DESCRIBE` lists the tables",
    **{f"query 'SELECT {wrong}'": "Correct the query" for wrong in ("1 FROM FROM", "nope(1)", "[1]::INT FROM runs")},
    "query 'FROM lists.nope'": "Table with name nope does not exist",
    "query 'FROM lists.none'": "`firmlake list show",
    "list rename custmers others": "Did you mean 'customers'",
    "list rename customers others": "There is already a list others",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder_with_lists(tmp_path_factory):
    """A data folder with two lists, to which nobody writes."""
    lake = Lake(tmp_path_factory.mktemp("lists"))
    publish_two_lists(lake.folders)
    return lake


@pytest.fixture
def here(tmp_path, sandbox, monkeypatch):
    """Stand in a folder with a list of a few companies and nothing else."""
    monkeypatch.chdir(tmp_path)
    return Lake(tmp_path, sandbox, 3)


def assert_refused(lake, typed, words, signs=()):
    """The command ends with 2 and one line, which JSON says too, and made nothing but the note that it failed."""
    before, typed = set(Path.cwd().rglob("*")), shlex.split(typed)
    at = typed.index("--") if "--" in typed else len(typed)
    plain, told = (lake.call(*typed[:at], *more, *typed[at:]) for more in ((), ("--json",)))
    assert (plain.code, told.code, told.content["exit_code"]) == (2, 2, 2), plain.err
    for message in (plain.err.splitlines()[-1], f"firmlake: {told.content['error']}. {told.content['next_step']}"):
        assert message.startswith("firmlake: ")
        assert words in message
        assert not [sign for sign in ("\n", "Traceback", *signs) if sign in message]
    made = {path.relative_to(Path.cwd()).parts for path in set(Path.cwd().rglob("*")) - before}
    assert not [parts for parts in made if parts[:2] not in (("data",), ("data", "state"))]


@pytest.mark.parametrize("typed", WITHOUT_FOLDER)
def test_a_mistake_is_one_line_with_exit_code_2_and_costs_no_request(here, typed):
    assert_refused(here, typed, WITHOUT_FOLDER[typed])
    assert here.requests() == 0


@pytest.mark.parametrize("typed", IN_A_FOLDER)
def test_a_mistake_is_explained_by_what_the_folder_holds(folder_with_lists, typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with kept_open(folder_with_lists.folders):
        assert_refused(folder_with_lists, typed, IN_A_FOLDER[typed], signs=("^", "LINE 1", "\\x"))
    assert not list(folder_with_lists.folders.state.glob("failed_work/*")), "nothing would ever take the record back"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "typed", ["query 'SELECT 1' --json --out x.pdf", "changes --json --out x", "changes --out x.xlsx"]
)
def test_a_format_that_a_file_cannot_have_is_a_mistake(folder_with_lists, typed, tmp_path, monkeypatch):
    """`--json` is about what is printed."""
    monkeypatch.chdir(tmp_path)
    done = folder_with_lists.call(*shlex.split(typed))
    assert (done.code, f"--out {typed.split()[-1]}: unknown file extension" in done.err) == (2, True)
    assert not Path(typed.split()[-1]).exists()


@pytest.mark.slow
def test_a_list_is_asked_about_its_own_last_run_and_one_company_is_no_list(here):
    *others, alone = sample_numbers(6)
    here.write(others[3:], here.folder / "others.csv")
    for ran in (here.run(), here.call("run", "others.csv"), here.call("company", *alone)):
        assert ran.code == 0, ran.err
    found = {name: here.call("changes", "--list", name, "--json").content for name in ("list", "others")}
    assert {name: {each["company_number"] for each in events} for name, events in found.items()} == {
        "list": {number for _, number in others[:3]}, "others": {number for _, number in others[3:]},
    }  # fmt: skip
    assert {each["company_number"] for each in here.call("changes", "--json").content} == {alone[1]}
    assert [each["name"] for each in here.call("status", "--json").content["lists"]] == ["list", "others"]


def test_a_missing_token_and_an_unknown_option_are_mistakes_too(here):
    del here.environment["FIRMLAKE_API_TOKEN"]
    assert_refused(here, "run list.csv", "FIRMLAKE_API_TOKEN")
    unknown = here.call("run", "--json", "--nonsense")
    assert (unknown.code, "--nonsense" in unknown.content["error"], "--nonsense" in unknown.err) == (2, True, True)
    assert here.requests() == 0


def test_a_check_asks_for_no_forgotten_company(here):
    """Its answers would be erased as they land, and asked for without end."""
    here.data.mkdir()
    assert here.call("forget", "company", *WELL_KNOWN[0]).code == 0
    assert_refused(here, f"check --company '{WELL_KNOWN[0]}'", "was forgotten")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRMLAKE_PATHS__DATA", str(here.data))
        asked = choose_companies(load_settings()[0], [], None, 100).companies
    assert set(asked) == {*WELL_KNOWN[1:]}


def test_every_command_is_told_apart_by_whether_it_may_make_a_data_folder():
    known = commands()
    inner = {name: each.commands for name, each in known.items() if isinstance(each, click.Group)}
    names = known.keys() - inner.keys() | {f"{name} {each}" for name in inner for each in inner[name]}
    assert names == _WORK.keys() | _MAKE_OR_NEED_NONE


NEED = ("archive", "company", "contacts apply", "contacts plan", "contacts redrive", "list remove", "list rename",
        "match", "query")  # fmt: skip
"""Commands that do nothing without an argument."""


def test_an_argument_that_is_missing_is_named_before_anything_is_done(here):
    for name in NEED:
        lacking = here.call(*name.split())
        assert (lacking.code, "Error: Missing " in lacking.err) == (2, True), name


_WRITE = ("archive", "explore", "forget", "list remove", "list rename", "prune", "redrive", "replay")


@pytest.mark.parametrize("typed", [typed for typed in _AT_WORK if not typed.startswith(_WRITE) or "--dry-run" in typed])
def test_a_command_that_reads_writes_nothing_into_a_folder_that_holds_nothing_of_firmlake(here, typed):
    Path("letters").mkdir()
    Path("letters/dear.txt").touch()
    here.call(*shlex.split(typed), "--data", "letters")
    assert [path.name for path in Path("letters").rglob("*")] == ["dear.txt"]


@pytest.mark.parametrize("has_landed", [True, False])
def test_without_a_warehouse_landed_answers_are_replayed_and_only_an_empty_folder_needs_a_run(has_landed, here):
    here.data.mkdir()
    if has_landed:
        run = make_run(here.folders, [ACME], ["lookalikes"])
        land(run, answer("lookalikes", found(ACME, "lookalikes", lookalike())))
        publish_landed(run)
        shutil.rmtree(here.folders.warehouse)
    step = "Rebuild the warehouse with `firmlake replay --data" if has_landed else "`firmlake run LIST --data"
    for command in ("query 'SELECT 1'", "changes", "report", "status"):
        ran = here.call(*shlex.split(command), "--data", str(here.data))
        assert step in ran.out + ran.err
    assert not here.folders.warehouse.exists()


# --- what comes from outside cannot draw on a terminal --------------------------------------------------------------


def is_harmless(text):
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", EVIL], ["plan", "x.csv", "--set", f"{EVIL}=1"], [EVIL], ["run", "x.csv", "--config", EVIL],
        ["export", f"{EVIL}/x"], ["query", f"SELECT 1 AS {EVIL}"], ["status", "--data", EVIL], ["company", "BE", EVIL],
        ["run", f"--{EVIL}"], ["changes", "--kind", EVIL], ["contacts", "apply", EVIL],
        ["status", "--json", "--data", EVIL], ["run", "x\nfirmlake: all is well.csv"],
    ],
    ids=lambda arguments: " ".join(arguments).replace(EVIL, "EVIL"),
)  # fmt: skip
def test_an_argument_cannot_draw_on_a_terminal_or_forge_a_line(arguments, here):
    done = here.call(*arguments)
    assert done.code == 2
    assert is_harmless(done.out + done.err), done.err
    assert sum(line.startswith("firmlake: ") for line in done.err.splitlines()) <= 1


def test_a_list_of_which_every_line_is_refused_cannot_draw_on_stderr(here):
    lines = ["country,company_number", f"BE,{EVIL}", f"XX{EVIL},1", *(f"BE,0000 {n} is no number" for n in range(30))]
    here.list.write_text("\n".join(lines), "utf-8")
    done = here.call("plan", "list.csv")
    assert done.code == 2
    assert is_harmless(done.out + done.err), done.err
    assert "\\x1b]0;title" in done.err, "who reads it sees what stands there"


# --- help ------------------------------------------------------------------------------------------------------------


def test_every_command_has_a_summary_that_fits_80_columns_and_every_option_says_what_it_does(folder_with_lists):
    folder_with_lists.environment["COLUMNS"] = "80"
    shown = folder_with_lists.call("--help").out
    folder_with_lists.environment["COLUMNS"] = "300"
    assert "..." not in shown.partition("Fetch:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    listed = {words[0]: words[1:] for words in map(str.split, shown.splitlines()) if words}
    assert all(listed[name] for name in commands())
    inner = chain.from_iterable(getattr(group, "commands", {"": group}).values() for group in commands().values())
    options = [
        (each.name, one.name, one.help) for each in inner for one in each.params if isinstance(one, click.Option)
    ]
    assert len(options) > 200
    assert not [each for each in options if not each[-1]]


def test_the_sandbox_gets_its_own_options_and_no_token(here, monkeypatch):
    called = []
    monkeypatch.setattr(subprocess, "call", lambda command, env: called.append((command, env)) or 3)
    assert here.call("sandbox", "--help", "--port", "99999").code == 3
    ((command, environment),) = called
    assert command == [sys.executable, "-P", "-m", "firmlake_sandbox", "--help", "--port", "99999"]
    assert here.service.token not in str(environment)


# --- settings --------------------------------------------------------------------------------------------------------


def test_config_show_hides_passwords(here):
    address = "api.base_url=https://user:planted-secret@host.example/v1"
    for more in ((), ("--json",)):
        shown = here.call("config", "show", "--set", address, *more).out
        assert "[hidden]@host.example/v1" in shown
        assert "planted-secret" not in shown


@pytest.fixture
def stranger(here, monkeypatch):
    """Stand in a folder whose settings file names a server that nobody else named."""
    (here.folder / "config").mkdir()
    (here.folder / "config/firmlake.toml").write_text(f'[api]\nbase_url = "{here.service.base_url}"\n')
    for name in ("FIRMLAKE_API__BASE_URL", "FIRMLAKE_CONFIG"):
        del here.environment[name]
    for name, value in here.environment.items():
        monkeypatch.setenv(name, value)
    return here


@pytest.mark.parametrize("command", ["run list.csv", "company BE0403227515", "check list.csv"])
def test_a_settings_file_that_was_found_in_the_folder_gets_no_token(command, stranger):
    told = stranger.call(*command.split())
    assert told.code == 2
    file = Path("config/firmlake.toml").absolute()
    for words in (f"Settings are read from {file}: api.base_url", "FIRMLAKE_API__BASE_URL", "FIRMLAKE_CONFIG="):
        assert words in told.err
    assert stranger.call("plan", "list.csv").code == 0, "it sends nothing"
    assert stranger.requests() == 0


NAMED = [
    ("config/firmlake.toml", {}, {}), (None, {}, {"FIRMLAKE_CONFIG": "config/firmlake.toml"}),
    (None, {}, {"FIRMLAKE_API__BASE_URL": "{}"}), (None, {"api.base_url": "{}"}, {}),
    (None, {"api.base_url": "sandbox"}, {}),
]  # fmt: skip


def test_an_address_or_a_file_that_somebody_named_gets_it(stranger):
    with pytest.raises(SettingsError, match="token is not sent"):
        check_access(load_settings()[0])
    for file, flags, environment in NAMED:
        address = stranger.service.base_url
        filled = [{key: value.format(address) for key, value in each.items()} for each in (flags, environment)]
        check_access(load_settings(file and Path(file), *filled)[0])


def test_a_person_at_a_terminal_is_asked_once(stranger, monkeypatch):
    asked = []
    for agrees in (True, False):
        with confirm_by(lambda question, agrees=agrees: not asked.append(question) and agrees):
            if agrees:
                check_access(load_settings()[0])
            else:
                with pytest.raises(SettingsError):
                    check_access(load_settings()[0])
    assert len(asked) == 2
    assert stranger.service.base_url in asked[0]
    monkeypatch.setattr("firmlake.cli.call.can_ask", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda question, **_: bool(asked.append(question)))
    assert stranger.call("run", "list.csv").code == 2
    assert len(asked) > 2, "the command line asks too"
    assert stranger.requests() == 0


# --- output that cannot be written -----------------------------------------------------------------------------------


def test_an_error_keeps_its_exit_code_where_nothing_can_be_printed(here, monkeypatch):
    def gone(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    for printing in ("secho", "echo"):
        monkeypatch.setattr(f"firmlake.terminal.echo.click.{printing}", gone)
    for options in ((), ("--json",)):
        assert here.call("plan", "absent.csv", *options).code == 2


def test_a_file_that_may_not_be_read_is_one_line_wherever_it_is_opened(here, monkeypatch):
    """For example if root once ran what another account runs every week. No test can take rights from root."""

    def forbidden(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", "data/landing/00001.zst")

    here.data.mkdir()
    monkeypatch.setattr("firmlake.report.status.read_status", forbidden)
    result = here.call("status", "--json")
    line = "data/landing/00001.zst: Permission denied. Give access, or run as the owner of the data folder, then run"
    assert (result.code, result.err) == (1, f"firmlake: {line} again\n")
    assert result.content["error"] in line


def test_metrics_keep_the_access_that_their_file_has(here):
    here.data.mkdir()
    for mode in (0o600, 0o644):
        assert here.call("status", "--metrics", "m.prom").code == 0
        assert stat.S_IMODE(Path("m.prom").stat().st_mode) == mode
        Path("m.prom").chmod(0o644)


# --- what is written is its owner's alone; one setting lets a group read the warehouse, reports and exports --------

EVERYTHING = (
    "run list.csv --log log.jsonl", "service-lists", "report", "changes --out changes.csv", "export exported",
    "export tables --format csv", "archive archived", "status --metrics metrics.txt", "verify",
)  # fmt: skip
"""Commands that make every kind of file there is."""


def modes(here, umask, *options):
    """Mode of everything that these commands make, links aside, by path."""
    given = {path.name for path in here.folder.iterdir()}
    before = os.umask(umask)
    try:
        for command in EVERYTHING:
            assert here.call(*command.split(), *options).code == 0, command
    finally:
        os.umask(before)
    paths = (path for path in here.folder.rglob("*") if not path.is_symlink() and path.name not in given)
    return {str(path.relative_to(here.folder)): stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.mark.slow
def test_nobody_but_the_owner_reads_what_is_written(here):
    found = modes(here, 0o022)
    assert len(found) > 60
    assert {path: oct(mode) for path, mode in found.items() if mode & 0o077} == {}


@pytest.mark.slow
def test_a_stricter_umask_is_respected_and_one_setting_opens_warehouse_reports_and_exports_to_a_group(here):
    """And what was paid for, who was asked for and the state of runs stay closed."""
    import grp

    found = modes(here, 0o077, "--set", f"paths.readers={grp.getgrgid(os.getgid()).gr_name}")
    opened = {path for path, mode in found.items() if mode & 0o040}
    assert not any(mode & 0o027 for mode in found.values()), "nobody writes but the owner, nobody else reads"
    assert {"data", "data/warehouse", "data/report.html", "exported", "exported/latest.json"} <= opened
    assert {path for path in found if path.startswith("data/warehouse/gen_")} <= opened
    assert {path for path in found if path.startswith(("exported/exports/", "tables/exports/"))} <= opened
    assert not {path for path in opened if path.startswith(("data/landing", "data/state", "data/staged"))}
    assert found["data/warehouse"] & 0o010, "a folder is opened to look into"


@pytest.mark.slow
def test_landed_answers_can_be_kept_from_their_own_owners_mistakes(here):
    here.write(sample_numbers(1))
    before = os.umask(0o277)
    try:
        assert here.call("run", "list.csv").code == 0
    finally:
        os.umask(before)
    landed = (here.data / "landing").rglob("*.zst")
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o200 for path in landed)


# --- as processes: the reader of the output may leave, streams may be closed, the disk behind them full --------


@pytest.fixture
def listed(folder_with_lists):
    return lambda redirect, *arguments: subprocess.run(
        ["sh", "-c", f'"$@" {redirect}', "sh", sys.executable, "-m", "firmlake", *arguments],
        env=folder_with_lists.variables(), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "typed",
    [
        "query 'FROM range(3)' --format csv",
        *slow("changes", "query 'FROM range(100000)'", "query 'FROM range(100000)' --format csv",
              "query 'FROM range(3)' --json", "changes --format csv", "status", "config show",
              "sandbox --dialect help"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_pipe_that_is_closed_early_ends_the_command_quietly(typed, folder_with_lists):
    process = folder_with_lists.start(*shlex.split(typed))
    process.stdout.close()  # before anything is written, so that small output fails too
    with process:
        assert process.stderr.read() == ""
    assert process.returncode == 141


_CLOSED = {"stdout": ">&-", "stdin": "<&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


@pytest.mark.parametrize("closed", ["all", *slow("stdin", "stderr", "stdout")])
@pytest.mark.slow
def test_a_command_whose_streams_are_closed_does_its_work(closed, listed):
    """A scheduler may close them. The next file opened must not become the stream that others print to."""
    ended = listed(_CLOSED[closed], "status")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("typed", ["status", *slow("status --json", "query 'FROM range(3)'", "--help")])
@pytest.mark.slow
def test_a_full_disk_behind_stdout_is_one_line_and_exit_code_1(typed, listed):
    ended = listed(">/dev/full", *shlex.split(typed))
    line = "firmlake: Stdout or a file: No space left on device. Make room on the disk, then run again\n"
    assert (ended.returncode, ended.stderr) == (1, line)


# --- `import firmlake` prepares the environment for libraries, and is quick -------------------------------------------


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), *slow(({"POLARS_MAX_THREADS": "2"}, "2"))])
def test_polars_has_one_thread_unless_the_environment_says_otherwise(given, threads):
    environment = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"} | given
    command = [sys.executable, "-c", "import firmlake, polars; print(polars.thread_pool_size())"]
    asked = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert asked.stdout.strip() == threads


_COMMANDS = """
import sys
import click
from firmlake.cli import carry_out, firmlake
context = click.Context(firmlake)
for name in firmlake.list_commands(context):
    firmlake.get_command(context, name).get_params(context)
assert not {"polars", "duckdb", "pyarrow", "httpx", "jinja2"} & sys.modules.keys()
assert carry_out(["plan", "list.csv"]) == 0
assert not {"pandas", "prefect", "altair", "jinja2"} & sys.modules.keys()
"""


@pytest.mark.slow
def test_what_is_typed_is_checked_before_a_library_is_imported_and_a_plan_imports_none_that_it_does_not_need(here):
    """Libraries import pandas unasked where it is installed, which takes as long as all else that a small run does."""
    ended = here.ended(here.start(code=["-c", _COMMANDS]))
    assert ended.code == 0, ended.err
