CREATE TEMP TABLE load_{{ name }} (
{% for column, type in columns.items() %}
  "{{ column }}" {{ type }}{{ "," if not loop.last }}
{% endfor %}
);

BEGIN;

{% if replaces %}
DELETE FROM {{ name }};

{% endif %}
{% set inside = '"' ~ columns | join('", "') ~ '"' %}
{% for country in countries or [""] %}
COPY load_{{ name }}
FROM {{ at("/country=" ~ country ~ "/") if country else at() }}
IAM_ROLE DEFAULT
FORMAT AS PARQUET;

INSERT INTO {{ name }} ({{ '"country", ' if country }}{{ inside }})
SELECT {{ "'" ~ country ~ "', " if country }}{{ inside }} FROM load_{{ name }};

DELETE FROM load_{{ name }};

{% endfor %}
COMMIT;

DROP TABLE load_{{ name }};
