"""The server answers this machine alone, and its pages may ask no other host."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from firmlake.core.errors import UsageError
from firmlake.explore.server import HOST, guarded, serve

from .companies import publish_companies

INNER = Starlette(routes=[Route("/", lambda _: PlainTextResponse("inner"))])


def ask(**headers: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(guarded(INNER, 8000)), base_url="http://x"
        ) as client:
            return await client.get("/", headers=headers)

    return asyncio.run(asked())


@pytest.mark.parametrize("host", [f"{HOST}:8000", "localhost:8000"])
def test_a_request_for_this_machine_is_answered_with_a_policy_that_names_no_other_host(host):
    answer = ask(host=host)
    assert (answer.status_code, answer.text) == (200, "inner")
    policy = answer.headers["content-security-policy"]
    assert ("default-src 'self'" in policy, "http" in policy, "*" in policy) == (True, False, False)
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", f"{HOST}.evil.example", HOST, f"{HOST}:8001"])
def test_a_request_by_another_name_is_refused(host):
    assert ask(host=host).status_code == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", f"http://{HOST}:9999", f"https://{HOST}:8000", "http://localhost:8000",
        "http://localhost:@evil.example", f"http://{HOST}:x.evil.example",
    ],
)  # fmt: skip
def test_a_request_from_another_page_is_refused(origin):
    assert ask(host=f"{HOST}:8000", origin=origin).status_code == 421


def test_a_port_that_is_taken_is_named(copy_of):
    folders = copy_of(publish_companies)
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port} of {HOST} is taken"):
            serve(folders, port, lambda _: None, lambda _: None)
