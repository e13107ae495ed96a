"""The OpenAPI 3.1 description of the service: requests from the contract, answers from the shapes below."""

from typing import Any

import msgspec

from firmlake_sandbox.contract import DATASETS, ENDPOINTS, Endpoint
from firmlake_sandbox.options import Options

_Schema = dict[str, Any]

_SHAPES: dict[str, dict[str, str]] = {
    "CompanyId": {"country": "string", "companyNumber": "string"},
    "Identifier": {"country": "string", "companyNumber": "string", "name?": "string", "place?": "string"},
    "Pagination": {"limit": "integer", "offset": "integer", "total": "integer"},
    "Profitability": {
        "revenue": "number|null", **dict.fromkeys(("grossMargin", "ebitda", "ebit", "netProfit"), "number"),
    },
    "Liquidity": dict.fromkeys(
        ("cash", "cashFlow", "netWorkingCapital", "netWorkingCapitalRequirement", "currentRatio", "quickRatio"),
        "number",
    ),
    "Solvency": {
        **dict.fromkeys(
            ("totalAssets", "equity", "retainedEarnings", "debt", "longTermDebt", "longTermDebtFinancial",
             "longTermDebtAccountsPayable", "shortTermDebt", "shortTermDebtFinancial",
             "shortTermDebtAccountsPayable"),
            "number",
        ),
        "capital": "number|null",
    },
    "People": {
        "employees": "integer", "newHires": "integer", "employeeMaleRatio": "number", "employeeFemaleRatio": "number",
    },
    "FinancialRecord": {
        **dict.fromkeys(("startDate", "endDate", "dateReceived"), "string"),
        "healthIndicator": "integer", "jointCommitteeCodes": "string[]", "profitability": "Profitability",
        "liquidity": "Liquidity", "solvency": "Solvency", "people": "People",
    },
    "Lookalike": {"companyId": "CompanyId", "score": "number"},
    "Relation": {
        "identifier": "Identifier|null", "function?": "string", "percentage?": "number", "name?": "string",
    },
    "Relationships": {"parents": "Relation[]", "children": "Relation[]"},
    "Notifications": {"enabled": "boolean"},
    "ServiceList": {
        "id": "integer", "name": "string", "type": "string", "columns": "string[]", "shared": "boolean",
        "notifications": "Notifications", "amountOfCompanies": "integer", "newResults": "integer|null",
        "updatedAt": "string", "createdAt": "string", "createdBy": "string",
    },
    "ContactId": {"contactId": "string"},
    "FailedContact": {"contactIdentifier": "ContactId", "message": "string"},
    "FailedCompany": {
        "companyIdentifier": "CompanyId", "contacts": "FailedContact[]|null", "message": "string|null",
    },
    "financials.single": {
        "identifier": "Identifier", "data": "FinancialRecord[]", "pagination": "Pagination",
    },
    "financials.bulk": {
        "identifier": "Identifier", "data": "FinancialRecord[]|null", "pagination": "Pagination|null",
        "message": "string|null",
    },
    "lookalikes.single": {"identifier": "Identifier", "data": "Lookalike[]"},
    "lookalikes.bulk": {"identifier": "Identifier", "data": "Lookalike[]|null", "message": "string|null"},
    "relationships.single": {"identifier": "Identifier", "data": "Relationships"},
    "relationships.bulk": {"identifier": "Identifier", "data": "Relationships|null", "message": "string|null"},
    "lists.overview": {"data": "ServiceList[]", "pagination": "Pagination"},
    "lists.contacts": {"success": "boolean", "message": "string", "failed": "FailedCompany[]"},
    "Error": {"status": "integer", "message": "string"},
}  # fmt: skip
"""By name of an endpoint (of a bulk answer, its element) or of a part: each key (`?`: may be absent) and its type."""

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
_EXAMPLES = {
    "countryCode": "BE", "companyNumber": "403227515", "id": 1002, "type": "STATIC", "limit": 5, "offset": 0,
}  # fmt: skip
_COMPANIES = [
    {"countryCode": "BE", "companyNumber": "403227515"},
    {"countryCode": "FR", "companyNumber": "542051180"},
]
_CONTACTS = [{"company": _COMPANIES[0], "contacts": [{"contactId": "123"}, {"contactId": "120"}]}]
_BODY_EXAMPLES: _Schema = {
    "PagedCompaniesBody": {"companies": _COMPANIES, "limit": 5, "offset": 0},
    "CompaniesBody": {"companies": _COMPANIES},
    "ContactsBody": {"companyContacts": _CONTACTS},
}


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
            "schemas": requests | {name: _describe_shape(shape) for name, shape in _SHAPES.items()},
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
    return {"$ref": f"#/components/schemas/{kind}"} if kind in _SHAPES else {"type": kind}


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
        str(status): _describe_answer(description, "Error")
        for status, description in _ERRORS.items()
        if (status != 402 or is_company) and (status != 404 or "{" in endpoint.path)
    }
    operation: _Schema = {
        "operationId": endpoint.name.replace(".", "_"),
        "summary": _SUMMARIES.get(endpoint.name) or _SUMMARIES[endpoint.dataset],
        "parameters": parameters,
        "responses": {"200": answer, **errors},
    }
    if endpoint.body:
        name = endpoint.body.__name__
        content = {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": _BODY_EXAMPLES[name]}
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
            {"in": where, "name": name, "required": where == "path", "schema": one, "example": _EXAMPLES[name]}
        )
    return parameters
