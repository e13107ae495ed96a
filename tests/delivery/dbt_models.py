"""The models of the dbt package as SQL, for tests without dbt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment

PACKAGE = Path(__file__).parents[2] / "dbt"
_ORDER = (
    "stg_companies",
    "stg_accounts",
    "stg_relationships",
    "stg_unit_errors",
    "stg_doubtful_periods",
    "company_accounts",
)


def create_models(schema: str, tables: str) -> Iterator[str]:
    """Yield statements that make the models.

    Args:
        schema: Of the models.
        tables: The schema of the tables.
    """
    of_jinja = Environment(autoescape=False)
    for model in _ORDER:
        (path,) = PACKAGE.rglob(f"{model}.sql")
        template = of_jinja.from_string(path.read_text("utf-8"))
        config = dict[str, str]()

        def configure(config: dict[str, str] = config, **values: str) -> str:
            config |= values
            return ""

        query = template.render(
            ref=lambda name: f"{schema}.{name}", source=lambda _, table: f"{tables}.{table}", config=configure
        )
        yield f"CREATE {config.get('materialized', 'view')} {schema}.{model} AS {query}"
