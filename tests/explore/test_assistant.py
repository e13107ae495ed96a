"""`firmlake mcp`, with the SDK's own client: the newest generation, read-only and bounded, and never a request."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from enrich.desk import Desk
from firmlake.core.errors import UsageError
from firmlake.explore.assistant import Assistant


@pytest.fixture(scope="module")
def desk(sandbox_process, tmp_path_factory):
    """A run of thirty companies, which no test changes."""
    sandbox, options = sandbox_process
    sandbox.set_options(**options)
    sandbox.reset()
    desk = Desk(tmp_path_factory.mktemp("desk"), sandbox)
    desk.environment["FIRMLAKE_API_TOKEN"] = sandbox.token
    assert desk.run()[0] == 0
    return desk


def talk(desk, work):
    """Start the command as an assistant does, and let a client work with it."""
    pytest.importorskip("mcp")
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    environment = {**os.environ, **desk.environment}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "firmlake", "mcp"], env=environment)

    async def run():
        async with Client(stdio_client(parameters)) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 100))


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    return result.is_error, result.content[0].text


def test_an_assistant_reads_the_warehouse_and_nothing_else(desk, sandbox, tmp_path):
    before = sandbox.ledger()["summary"]
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")

    async def work(client):
        assert {tool.name for tool in (await client.list_tools()).tools} == {"query", "describe", "company", "changes"}
        failed, text = await call(client, "query", sql="SELECT count(*) AS companies FROM companies")
        assert (failed, json.loads(text)) == (False, {"rows": [{"companies": 30}], "has_more": False})
        failed, text = await call(client, "query", sql="FROM range(5000)")
        assert (len(json.loads(text)["rows"]), json.loads(text)["has_more"]) == (1000, True)
        failed, text = await call(client, "query", sql="SELECT repeat('x', 1000) AS x FROM range(900)")
        assert (len(text) <= 200_100, json.loads(text)["has_more"]) == (True, True)
        for sql in (f"FROM '{secret}'", "SET threads = 1", "SELECT getenv('FIRMLAKE_API_TOKEN')"):
            assert (await call(client, "query", sql=sql))[0], sql
        failed, text = await call(client, "describe")
        assert {"companies", "incomplete", 'lists."list"'} <= {row["name"] for row in json.loads(text)["rows"]}
        failed, text = await call(client, "describe", name="financials")
        assert "revenue" in {row["name"] for row in json.loads(text)["rows"]}
        failed, text = await call(client, "company", number="BE 0200.000.043")
        assert {row["table"] for row in json.loads(text)["rows"]} >= {"companies", "portfolio", "financials"}
        failed, text = await call(client, "company", number="BE 0403227515")
        assert failed, text
        failed, text = await call(client, "changes", since="2020-01-01")
        assert (failed, "rows" in json.loads(text)) == (False, True)
        assert (await call(client, "changes", since="soon"))[0]

    talk(desk, work)
    assert sandbox.ledger()["summary"] == before


def test_describe_takes_a_list_with_quotes_and_without(desk):
    assistant = Assistant(desk.folders)
    [view] = [one["name"] for one in json.loads(assistant.describe())["rows"] if one["name"].startswith("lists.")]
    for name in (view, view.replace('"', "")):
        assert json.loads(assistant.describe(name))["rows"]
    with pytest.raises(UsageError, match="2026-01-31"):
        assistant.changes("soon")


def test_without_the_extra_the_command_says_what_to_install(desk, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    code, _, said = desk.call("mcp")
    assert (code, "firmlake[mcp]" in said) == (2, True)


def test_the_dictionary_can_be_read_as_resources(desk):
    async def work(client):
        assert [str(one.uri) for one in (await client.list_resources()).resources] == ["firmlake://dictionary"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["firmlake://dictionary/{name}"]

        async def read(uri):
            return {row["name"]: row for row in json.loads((await client.read_resource(uri)).contents[0].text)["rows"]}

        assert {"companies", "portfolio", 'lists."list"'} <= (await read("firmlake://dictionary")).keys()
        assert (await read("firmlake://dictionary/financials"))["revenue"]["type"] == "DECIMAL(18,2)"
        assert "status" in await read("firmlake://dictionary/lists.list")
        with pytest.raises(Exception, match="There is no table or view nothing"):
            await read("firmlake://dictionary/nothing")

    talk(desk, work)
