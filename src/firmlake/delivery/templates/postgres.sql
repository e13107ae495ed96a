{# For psql, whose client reads the files. The load undoes the guard against formulas. -#}
BEGIN;

CREATE TEMP TABLE load_{{ name }} (LIKE {{ name }}) ON COMMIT DROP;

{% for file in files %}
\copy load_{{ name }} FROM {{ file }} WITH (FORMAT csv, HEADER)

{% endfor %}
{% if replaces %}
DELETE FROM {{ name }};

{% endif %}
INSERT INTO {{ name }}
SELECT {% for column, type in columns.items() %}{{ ", " if not loop.first }}
{%- if type == "text" %}regexp_replace("{{ column }}", E'^''(?=''*[=+@\t\r\n\uFF1D\uFF0B\uFF20\uFF0D-])', ''){% else %}"{{ column }}"{% endif %}
{% endfor %} FROM load_{{ name }};

COMMIT;
