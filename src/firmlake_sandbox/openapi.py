"""The OpenAPI 3.1 description of the service: requests from the contract, answers from the shapes in `openapi.toml`."""

import tomllib
from importlib.resources import files
from typing import Any

import msgspec

from firmlake_sandbox.contract import DATASETS, ENDPOINTS, Endpoint
from firmlake_sandbox.options import Options

_Schema = dict[str, Any]

_TEXTS: _Schema = tomllib.loads(files(__package__).joinpath("openapi.toml").read_text("utf-8"))


def describe_service(options: Options) -> bytes:
    """Return the description as JSON, with the limits that the options set."""
    paths: dict[str, _Schema] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_operation(endpoint, options)
    requests = _describe_requests(options)
    description = {
        "openapi": "3.1.0",
        "info": {"title": "Company data and lists", "version": "1", "description": "A stand-in for the real service."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": requests | {name: _describe_shape(shape) for name, shape in _TEXTS["shapes"].items()},
        },
    }
    return msgspec.json.encode(description)


def _describe_shape(shape: dict[str, str]) -> _Schema:
    return {
        "type": "object",
        "properties": {key.removesuffix("?"): _describe_type(kind) for key, kind in shape.items()},
        "required": [key for key in shape if not key.endswith("?")],
        "additionalProperties": False,
    }


def _describe_type(kind: str) -> _Schema:
    """Return the schema of a type, such as `Lookalike[]|null`."""
    if kind.endswith("|null"):
        return {"anyOf": [_describe_type(kind.removesuffix("|null")), {"type": "null"}]}
    if kind.endswith("[]"):
        return {"type": "array", "items": _describe_type(kind.removesuffix("[]"))}
    return {"$ref": f"#/components/schemas/{kind}"} if kind in _TEXTS["shapes"] else {"type": kind}


def _describe_requests(options: Options) -> _Schema:
    """Return the models of bodies, the limits filled in."""
    bodies = dict.fromkeys(endpoint.body for endpoint in ENDPOINTS if endpoint.body)
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        for name, one in schema["properties"].items():
            _fill_in(name, one, options)
            if name in ("companies", "companyContacts"):
                one["maxItems"] = options.companies_per_request
            elif name == "contacts":
                one["maxItems"] = options.contacts_per_company
    return schemas


def _fill_in(name: str, schema: _Schema, options: Options) -> None:
    r"""Add the limits of a page; write `\Z` in a pattern as JSON Schema does, `$`."""
    if name == "limit":
        schema |= {"maximum": options.page_limit_max, "default": options.page_limit_default}
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")


def _describe_operation(endpoint: Endpoint, options: Options) -> _Schema:
    is_company = endpoint.dataset in DATASETS
    parameters = _list_parameters("path", endpoint, options) + _list_parameters("query", endpoint, options)
    answer: _Schema = _describe_answer("Success", f"{endpoint.name}[]" if endpoint.is_bulk else endpoint.name)
    if is_company:
        header = {"schema": {"type": "string", "pattern": "^[0-9]+$"}}
        answer["headers"] = {
            options.credits_charged_header: {"description": "Credits this request cost", **header},
            options.credits_remaining_header: {"description": "Credits left", **header},
        }
        language = {"in": "header", "name": "Accept-Language", "schema": {"type": "string"}, "example": "NL"}
        parameters.append(language)
    errors = {
        status: _describe_answer(description, "Error")
        for status, description in _TEXTS["errors"].items()
        if (status != "402" or is_company) and (status != "404" or "{" in endpoint.path)
    }
    operation: _Schema = {
        "operationId": endpoint.name.replace(".", "_"),
        "summary": _TEXTS["summaries"].get(endpoint.name) or _TEXTS["summaries"][endpoint.dataset],
        "parameters": parameters,
        "responses": {"200": answer, **errors},
    }
    if endpoint.body:
        name = endpoint.body.__name__
        content = {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": _TEXTS["examples"][name]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _describe_answer(description: str, kind: str) -> _Schema:
    return {"description": description, "content": {"application/json": {"schema": _describe_type(kind)}}}


def _list_parameters(where: str, endpoint: Endpoint, options: Options) -> list[_Schema]:
    """Return what the path or the query may say; all of the path is required."""
    model = endpoint.parameters if where == "path" else endpoint.query
    (schema,) = msgspec.json.schema(model)["$defs"].values()
    parameters = []
    for name, one in schema["properties"].items():
        _fill_in(name, one, options)
        parameters.append(
            {"in": where, "name": name, "required": where == "path", "schema": one, "example": _TEXTS["examples"][name]}
        )
    return parameters
