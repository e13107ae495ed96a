"""The contract of `contract.toml`: endpoints, models of what each is sent, and the OpenAPI 3.1 description."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

if TYPE_CHECKING:
    from firmlake_sandbox.options import Options

DATASETS = ("financials", "lookalikes", "relationships")
MAX_BODY_BYTES = 4 * 1024 * 1024

_Schema = dict[str, Any]

_CONTRACT: _Schema = tomllib.loads(files(__package__).joinpath("contract.toml").read_text("utf-8"))
_TYPES, _SHAPES, _EXAMPLES = _CONTRACT["types"], _CONTRACT["shapes"], _CONTRACT["examples"]
_OPTION = re.compile(r'"\{(\w+)\}"')
_CHECKED = {
    "minimum": "ge", "maximum": "le", "minLength": "min_length", "maxLength": "max_length", "pattern": "pattern",
}  # fmt: skip
"""Limits of JSON Schema as msgspec calls them."""


class Endpoint(NamedTuple):
    """One endpoint: its name in the ledger and in faults, and the names of the shapes of what it is sent."""

    name: str
    method: str
    path: str
    summary: str
    parameters: str = ""
    query: str = ""
    body: str = ""

    @property
    def dataset(self) -> str:
        """A dataset, or `lists`."""
        return self.name.partition(".")[0]

    @property
    def is_bulk(self) -> bool:
        """Whether it answers for many companies."""
        return self.name.endswith(".bulk")


ENDPOINTS = tuple(Endpoint(name, **one) for name, one in _CONTRACT["endpoints"].items())


@cache
def _compile_path(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))


def match_path(path: str, asked: str) -> dict[str, str] | None:
    """Return the parameters of a path with `{names}`, None where another is asked for."""
    found = _compile_path(path).fullmatch(asked)
    return found and found.groupdict()


def name_endpoint(method: str, path: str) -> str:
    """Return the name of the endpoint that a request is for, `unknown` where there is none.

    Example:
        >>> name_endpoint("GET", "/v1/companies/BE/403227515/lookalikes")
        'lookalikes.single'
    """
    found = (one.name for one in ENDPOINTS if one.method == method and match_path(one.path, path) is not None)
    return next(found, "unknown")


@cache
def model_of(shape: str) -> Any:
    """Return the model of a shape of requests, "" for one without keys; a key that it does not know is refused."""
    fields: list[tuple[str, Any, Any]] = []
    for key, kind in _SHAPES.get(shape, {}).items():
        default = _TYPES.get(kind, {}).get("default", msgspec.NODEFAULT)
        is_chosen = isinstance(default, str) and default.startswith("{")
        name = re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), key)
        fields.append((name, _type_of(kind) | UnsetType, UNSET) if is_chosen else (name, _type_of(kind), default))
    return msgspec.defstruct(shape or "Nothing", fields, rename="camel", forbid_unknown_fields=True)


def _type_of(kind: str) -> Any:
    """Return a type of requests for msgspec. It leaves the options to the service, which says more if it refuses."""
    if kind.endswith("]"):
        return Annotated[list[_type_of(kind.partition("[")[0])], Meta(min_length=1)]  # type: ignore[misc]
    if kind in _SHAPES:
        return model_of(kind)
    schema, base = _TYPES[kind], int if _TYPES[kind].get("type") == "integer" else str
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    limits = {own: schema[name] for name, own in _CHECKED.items() if not str(schema.get(name, "{")).startswith("{")}
    if "pattern" in limits:
        limits["pattern"] = limits["pattern"].replace("$", r"\Z")  # Python's $ lets a line end follow
    return Annotated[base, Meta(**limits)]


def describe_service(options: "Options") -> bytes:
    """Return the OpenAPI description as JSON, with the limits that the options set."""
    paths: dict[str, _Schema] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_operation(endpoint)
    description = {
        **_CONTRACT["document"],
        "paths": paths,
        "components": _CONTRACT["components"]
        | {"schemas": {name: _describe_shape(shape) for name, shape in _SHAPES.items()}},
    }
    text = msgspec.json.encode(description).decode()
    return _OPTION.sub(lambda found: str(getattr(options, found[1])), text).encode()


def _describe_shape(shape: dict[str, str]) -> _Schema:
    properties = {key.removesuffix("?"): _describe_type(kind) for key, kind in shape.items()}
    required = [key for key in shape if key in properties and "default" not in properties[key]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _describe_type(kind: str) -> _Schema:
    """Return the schema of a type, such as `Lookalike[]|null`."""
    if kind.endswith("|null"):
        return {"anyOf": [_describe_type(kind.removesuffix("|null")), {"type": "null"}]}
    if kind.endswith("]"):
        inner, option = kind[:-1].split("[")
        limits = {"minItems": 1, "maxItems": f"{{{option}}}"} if option else {}
        return {"type": "array", "items": _describe_type(inner), **limits}
    return {"$ref": f"#/components/schemas/{kind}"} if kind in _SHAPES else _TYPES.get(kind, {"type": kind})


def _describe_operation(endpoint: Endpoint) -> _Schema:
    is_company = endpoint.dataset in DATASETS
    answer: _Schema = _describe_answer("Success", f"{endpoint.name}[]" if endpoint.is_bulk else endpoint.name)
    parameters = [*_list_parameters("path", endpoint.parameters), *_list_parameters("query", endpoint.query)]
    if is_company:
        answer["headers"] = _CONTRACT["headers"]
        parameters.append(_CONTRACT["language"])
    errors = {
        status: _describe_answer(description, "Error")
        for status, description in _CONTRACT["errors"].items()
        if (status != "402" or is_company) and (status != "404" or "{" in endpoint.path)
    }
    operation: _Schema = {
        "operationId": endpoint.name.replace(".", "_"),
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {"200": answer, **errors},
    }
    if endpoint.body:
        content = {"schema": _describe_type(endpoint.body), "example": _EXAMPLES[endpoint.body]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _describe_answer(description: str, kind: str) -> _Schema:
    return {"description": description, "content": {"application/json": {"schema": _describe_type(kind)}}}


def _list_parameters(where: str, shape: str) -> Iterator[_Schema]:
    """Yield what the path or the query may say; all of the path is required."""
    for name, kind in _SHAPES.get(shape, {}).items():
        schema = _describe_type(kind)
        yield {"in": where, "name": name, "required": where == "path", "schema": schema, "example": _EXAMPLES[name]}
