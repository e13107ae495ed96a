"""The OpenAPI 3.1 description of the service, made from the contract and the shapes of the answers."""

from typing import Any

import msgspec

from firmlake_sandbox import contract, records
from firmlake_sandbox.contract import DATASETS, ENDPOINTS, Endpoint
from firmlake_sandbox.lists import LIST_TYPES
from firmlake_sandbox.options import Options

_Schema = dict[str, Any]

_MODELS = (
    contract.CompaniesBody,
    contract.PagedCompaniesBody,
    contract.ContactsBody,
    records.Identifier,
    records.CompanyId,
    records.Pagination,
    records.FinancialRecord,
    records.Lookalike,
    records.Relationships,
    records.ServiceList,
    records.ContactsAnswer,
)

_ERRORS = {
    400: "Something in the request is not as described; the message says what",
    401: "No access token, or one that is not valid",
    402: "The credits do not suffice; nothing was charged",
    403: "The access token may not use the service",
    404: "There is no such company or list",
    429: "More requests than the allowance of the token",
    500: "The service failed",
}

_SUMMARIES = {
    "financials": "Accounts of a company, newest period first",
    "lookalikes": "Companies most like a company, in falling score",
    "relationships": "Parents and children of a company",
    "lists.overview": "Lists, static and smart",
    "lists.contacts": "Add contacts of companies to a static list",
}

_EXAMPLE_COMPANIES = [
    {"countryCode": "BE", "companyNumber": "403227515"},
    {"countryCode": "FR", "companyNumber": "542051180"},
]
_EXAMPLE_BODIES: dict[str, Any] = {
    "financials.bulk": {"companies": _EXAMPLE_COMPANIES, "limit": 5, "offset": 0},
    "lookalikes.bulk": {"companies": _EXAMPLE_COMPANIES},
    "relationships.bulk": {"companies": _EXAMPLE_COMPANIES},
    "lists.contacts": {
        "companyContacts": [
            {"company": _EXAMPLE_COMPANIES[0], "contacts": [{"contactId": "123"}, {"contactId": "120"}]}
        ]
    },
}
_BODIES = {
    "financials.bulk": "PagedCompaniesBody",
    "lookalikes.bulk": "CompaniesBody",
    "relationships.bulk": "CompaniesBody",
    "lists.contacts": "ContactsBody",
}


def describe_service(options: Options) -> bytes:
    """Return the description as JSON, with the limits that the options set."""
    paths: dict[str, _Schema] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_operation(endpoint, options)
    description = {
        "openapi": "3.1.0",
        "info": {"title": "Company data and lists", "version": "1", "description": "A stand-in for the real service."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _list_schemas(options),
        },
    }
    return msgspec.json.encode(description)


def _list_schemas(options: Options) -> _Schema:
    """Return the components: every object closed, the limits filled in."""
    _, schemas = msgspec.json.schema_components(_MODELS, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        schema["additionalProperties"] = False
        for property_schema in schema["properties"].values():
            _translate_pattern(property_schema)
    for body in ("CompaniesBody", "PagedCompaniesBody"):
        schemas[body]["properties"]["companies"]["maxItems"] = options.companies_per_request
    schemas["PagedCompaniesBody"]["properties"]["limit"] = _limit_schema(options)
    schemas["ContactsBody"]["properties"]["companyContacts"]["maxItems"] = options.companies_per_request
    schemas["CompanyContacts"]["properties"]["contacts"]["maxItems"] = options.contacts_per_company
    schemas["Error"] = _object(status={"type": "integer"}, message={"type": "string"})
    return schemas


def _translate_pattern(schema: _Schema) -> None:
    r"""Write a Python pattern as JSON Schema has it, where `$` means what `\Z` does."""
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")


def _describe_operation(endpoint: Endpoint, options: Options) -> _Schema:
    """Return one operation."""
    subject = endpoint.name.partition(".")[0]
    is_company = subject in DATASETS
    statuses = [
        status for status in _ERRORS if (status != 402 or is_company) and (status != 404 or "{" in endpoint.path)
    ]
    operation: _Schema = {
        "operationId": endpoint.name.replace(".", "_"),
        "summary": _SUMMARIES.get(endpoint.name) or _SUMMARIES[subject],
        "parameters": _list_parameters(endpoint, options),
        "responses": {
            "200": {"description": "Success", "content": _json_content(_ANSWERS[endpoint.name])},
            **{
                str(status): {"description": _ERRORS[status], "content": _json_content(_ref("Error"))}
                for status in statuses
            },
        },
    }
    if is_company:
        header = {"schema": {"type": "string", "pattern": "^[0-9]+$"}}
        operation["responses"]["200"]["headers"] = {
            options.credits_charged_header: {"description": "Credits this request cost", **header},
            options.credits_remaining_header: {"description": "Credits left", **header},
        }
    if endpoint.name in _BODIES:
        content = {"schema": _ref(_BODIES[endpoint.name]), "example": _EXAMPLE_BODIES[endpoint.name]}
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _list_parameters(endpoint: Endpoint, options: Options) -> list[_Schema]:
    """Return what path, query and headers of an endpoint may say."""
    parameters = []
    if endpoint.name.endswith(".single"):
        number = {"type": "string", "pattern": "^[0-9]{1,20}$"}
        parameters += [
            _parameter("path", "countryCode", {"type": "string", "enum": ["BE", "NL", "FR"]}, "BE"),
            _parameter("path", "companyNumber", number, "403227515"),
        ]
    if endpoint.name == "lists.contacts":
        parameters.append(
            _parameter("path", "id", {"type": "integer", "minimum": 0, "maximum": contract.LARGEST}, 1002)
        )
    if endpoint.name == "lists.overview":
        parameters.append(_parameter("query", "type", {"type": "string", "enum": list(LIST_TYPES)}, "STATIC"))
    if endpoint.name in ("financials.single", "lists.overview"):
        offset = {"type": "integer", "minimum": 0, "maximum": contract.LARGEST, "default": 0}
        parameters += [
            _parameter("query", "limit", _limit_schema(options), 5),
            _parameter("query", "offset", offset, 0),
        ]
    if endpoint.name.partition(".")[0] in DATASETS:
        parameters.append(_parameter("header", "Accept-Language", {"type": "string"}, "NL"))
    return parameters


def _parameter(where: str, name: str, schema: _Schema, example: object) -> _Schema:
    """Return one parameter; those of the path are required."""
    return {"in": where, "name": name, "required": where == "path", "schema": schema, "example": example}


def _limit_schema(options: Options) -> _Schema:
    """Return the schema of a page size."""
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": options.page_limit_max,
        "default": options.page_limit_default,
    }


def _ref(name: str) -> _Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(schema: _Schema) -> _Schema:
    """Return a list of something."""
    return {"type": "array", "items": schema}


def _or_null(schema: _Schema) -> _Schema:
    """Return something that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def _object(**properties: _Schema) -> _Schema:
    """Return an object that has all of these and nothing else."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _json_content(schema: _Schema) -> _Schema:
    """Return content in JSON."""
    return {"application/json": {"schema": schema}}


_DATA: dict[str, _Schema] = {
    "financials": _list_of(_ref("FinancialRecord")),
    "lookalikes": _list_of(_ref("Lookalike")),
    "relationships": _ref("Relationships"),
}
_MESSAGE = {"type": ["string", "null"]}
_ANSWERS: dict[str, _Schema] = {
    "financials.single": _object(
        identifier=_ref("Identifier"), data=_DATA["financials"], pagination=_ref("Pagination")
    ),
    "financials.bulk": _list_of(
        _object(
            identifier=_ref("Identifier"),
            data=_or_null(_DATA["financials"]),
            pagination=_or_null(_ref("Pagination")),
            message=_MESSAGE,
        )
    ),
    **{
        f"{dataset}.single": _object(identifier=_ref("Identifier"), data=_DATA[dataset])
        for dataset in ("lookalikes", "relationships")
    },
    **{
        f"{dataset}.bulk": _list_of(
            _object(identifier=_ref("Identifier"), data=_or_null(_DATA[dataset]), message=_MESSAGE)
        )
        for dataset in ("lookalikes", "relationships")
    },
    "lists.overview": _object(data=_list_of(_ref("ServiceList")), pagination=_ref("Pagination")),
    "lists.contacts": _ref("ContactsAnswer"),
}
