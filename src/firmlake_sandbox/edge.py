"""The edge of the service, where dialects are spoken: a request is put into the usual words, its answer out of them."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from firmlake_sandbox.companies import COMPANY_NOT_FOUND
from firmlake_sandbox.contract import DATASETS, name_endpoint
from firmlake_sandbox.dialects import Dialect
from firmlake_sandbox.rewrites import read_json, write_json
from firmlake_sandbox.wire import Answer, capture_answer, read_body

__all__ = ["rename_headers", "speak"]

_Headers = list[tuple[bytes, bytes]]


class _RefusedError(Exception):
    """The request uses a name that this service does not know, or asks for what it never gives."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def speak(dialects: tuple[Dialect, ...], app: ASGIApp) -> ASGIApp:
    """Return the application as it answers in these dialects."""
    return partial(_speak, dialects, app) if dialects else app


def rename_headers(dialects: tuple[Dialect, ...], headers: _Headers) -> _Headers:
    """Return the headers of an answer as these dialects call them, without those that they leave out."""
    names = {usual.encode(): own.encode() for dialect in dialects for usual, own in dialect.headers.items()}
    renamed = [(names.get(name.lower(), name), text) for name, text in headers]
    return [(name, text) for name, text in renamed if name]


async def _speak(dialects: tuple[Dialect, ...], app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    body = await read_body(receive)
    endpoint = name_endpoint(scope["method"], scope["path"])
    try:
        _refuse_endpoint(dialects, endpoint)
        scope, body = _translate_request(dialects, scope, body)
    except _RefusedError as error:
        answer = Answer(error.status, {"content-type": "application/json"}, _usual_error(error.status, error.message))
    else:
        answer = await capture_answer(app, scope, body)
    answer = _translate_answer(dialects, endpoint, answer)
    is_chunked = any(dialect.is_chunked for dialect in dialects)
    await _send(answer, send, is_chunked=is_chunked)


# Requests.


def _refuse_endpoint(dialects: tuple[Dialect, ...], endpoint: str) -> None:
    for dialect in dialects:
        for beginning, status in dialect.refused.items():
            if endpoint.startswith(beginning):
                raise _RefusedError(status, "You may not use this" if status == 403 else "Internal server error")


def _translate_request(dialects: tuple[Dialect, ...], scope: Scope, body: bytes) -> tuple[Scope, bytes]:
    """Put headers, query and body into the usual words."""
    headers = dict(pair for dialect in dialects for pair in dialect.request_headers.items())
    renamed = []
    for name, text in scope["headers"]:
        if name.decode() in headers:
            continue  # this service does not know the usual one
        usual = next((usual for usual, own in headers.items() if own == name.decode()), None)
        renamed.append((usual.encode() if usual else name, text))
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    for dialect in dialects:
        if dialect.names:
            query = [(name, text) for key, text in query for name in _usual_name(dialect, key)]
    scope = {**scope, "headers": renamed, "query_string": urlencode(query).encode()}
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # else the service itself refuses it
        content = read_json(body) if body else None
        for dialect in dialects:
            content = _rename(dialect, content) if dialect.names else content
        body = write_json(content) if body else body
    return scope, body


def _rename(dialect: Dialect, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rename(dialect, inner) for key, inner in value.items() for name in _usual_name(dialect, key)}
    return [_rename(dialect, inner) for inner in value] if isinstance(value, list) else value


def _usual_name(dialect: Dialect, key: str) -> Iterator[str]:
    """Yield the usual name for one of this service, or nothing for one it ignores."""
    own = dialect.names.get(key)
    if own is None or own == key:
        yield next((usual for usual, name in dialect.names.items() if name == key), key)
    elif dialect.unknown_name == "named":
        raise _RefusedError(400, f"unknown property '{key}', expected '{own}'")
    elif dialect.unknown_name == "refused":
        raise _RefusedError(400, "Bad request")


# Answers.


def _translate_answer(dialects: tuple[Dialect, ...], endpoint: str, answer: Answer) -> Answer:
    """Put an answer into the words of these dialects."""
    if answer.status == 200:
        answer = _translate_content(dialects, endpoint, answer)
    if answer.status != 200:
        answer = _translate_error(dialects, answer)
    for dialect in dialects:
        if dialect.write and answer.headers.get("content-type", "").startswith("application/json"):
            body, encoding = dialect.write(answer.body)
            headers = {**answer.headers, "content-encoding": encoding} if encoding else answer.headers
            answer = answer._replace(headers=headers, body=body)
    return answer


def _translate_content(dialects: tuple[Dialect, ...], endpoint: str, answer: Answer) -> Answer:
    dataset, _, kind = endpoint.partition(".")
    if dataset not in DATASETS:
        return answer
    content = read_json(answer.body)
    elements = content if kind == "bulk" else [content]
    for dialect in dialects:
        for element in elements:
            if isinstance(element.get("message"), str):
                element["message"] = dialect.texts.get(element["message"], element["message"])
            if dialect.element:
                dialect.element(dataset, element)
    for dialect in dialects:
        if dialect.elements and kind == "bulk":
            content = dialect.elements(content)
        if content is None:
            return Answer(404, answer.headers, _usual_error(404, COMPANY_NOT_FOUND))
    return answer._replace(body=write_json(content))


def _translate_error(dialects: tuple[Dialect, ...], answer: Answer) -> Answer:
    content = msgspec.json.decode(answer.body)
    status, message = answer.status, str(content.get("message", ""))
    for dialect in dialects:
        message = dialect.texts.get(message, message)
    body, kind = _usual_error(status, message), "application/json"
    for dialect in dialects:
        if dialect.error:
            made = dialect.error(status, message)
            body, kind = (made, "text/html; charset=utf-8") if isinstance(made, bytes) else (write_json(made), kind)
    return answer._replace(headers={**answer.headers, "content-type": kind}, body=body)


def _usual_error(status: int, message: str) -> bytes:
    return write_json({"status": status, "message": message})


async def _send(answer: Answer, send: Send, *, is_chunked: bool) -> None:
    headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in answer.headers.items()]
    if not is_chunked:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    half = len(answer.body) // 2 if is_chunked else 0
    if half:
        await send({"type": "http.response.body", "body": answer.body[:half], "more_body": True})
    await send({"type": "http.response.body", "body": answer.body[half:]})
