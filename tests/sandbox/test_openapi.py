import json
from typing import Any

import openapi_spec_validator
import pytest

import firmlake_sandbox
from firmlake_sandbox.contract import ENDPOINTS, describe_service
from firmlake_sandbox.lists import ListBook
from firmlake_sandbox.options import Options
from firmlake_sandbox.world import World

from .calls import Api


def test_the_description_is_valid_openapi() -> None:
    openapi_spec_validator.validate(json.loads(describe_service(Options())))


def test_it_describes_every_endpoint_and_no_control() -> None:
    paths = json.loads(describe_service(Options()))["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}


def test_it_is_served_to_anyone_with_the_limits_in_force(api: Api) -> None:
    api.sandbox.set_options(companies_per_request=7)
    description = api.connection.get(api.sandbox.base_url + "/openapi.json").json()
    assert description["components"]["schemas"]["CompaniesBody"]["properties"]["companies"]["maxItems"] == 7


@pytest.mark.schemathesis
def test_the_service_is_as_described() -> None:
    """Examples, edge cases and drawn requests, valid and invalid, with every check of schemathesis."""
    from schemathesis import Config, openapi
    from schemathesis.engine import from_schema

    settings = {
        "headers": {"Authorization": "Bearer secret"},
        "generation": {"max-examples": 60, "deterministic": True},
        "phases": {"stateful": {"enabled": False}},  # no answer names a next request
    }
    # No description can say that companies x limit is capped, so the cap is lifted.
    with firmlake_sandbox.start("secret", requests_per_minute=0, records_per_request=0) as sandbox:
        schema = openapi.from_url(f"{sandbox.base_url}/openapi.json", config=Config.from_dict(settings))
        schema.hook(map_body)
        schema.hook(map_path_parameters)
        failures, checks = collect(from_schema(schema).execute())
        endpoints = sandbox.ledger(summary=True)["summary"]["by_endpoint"]
    assert failures == []
    assert checks > 1000
    assert all(endpoints[endpoint.name].keys() >= {"200", "400", "401"} for endpoint in ENDPOINTS)


def map_body(context: object, body: Any) -> Any:
    """JSON Schema counts 5.0 among the integers; services do not."""
    if isinstance(body, dict):
        whole = {name: int(one) for name, one in body.items() if isinstance(one, float) and one.is_integer()}
        return body | whole
    return body


def map_path_parameters(context: object, path_parameters: Any) -> Any:
    """A smart list refuses contacts, which no description can say of an id."""
    is_smart = path_parameters and ListBook(World().key, 520).type_of(path_parameters.get("id")) == "SMART"
    return path_parameters | {"id": 1002} if is_smart else path_parameters


def collect(stream: Any) -> tuple[list[str], int]:
    """What failed, with the request that shows it, and how much was checked."""
    from schemathesis.engine import events

    failures, count = [], 0
    for event in stream:
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            failures.append(str(event))
        if isinstance(event, events.ScenarioFinished):
            for check in (one for nodes in event.recorder.checks.values() for one in nodes):
                count += 1
                if check.failure_info:
                    failures.append(f"{check.name}: {check.failure_info.failure} {check.failure_info.code_sample}")
    return failures, count
