-- Add STORAGE_INTEGRATION = <yours>, or credentials.
CREATE OR REPLACE STAGE {{ name }}_stage URL = {{ at() }} FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE);

BEGIN;

{% if replaces %}
DELETE FROM {{ name }};

{% endif %}
COPY INTO {{ name }} ({{ columns | join(", ") }}{{ ", country" if countries }})
FROM (SELECT {% for column, type in columns.items() %}{{ ", " if not loop.first }}$1:{{ column }}::{{ type }}{% endfor %}
{{- ", REGEXP_SUBSTR(METADATA$FILENAME, 'country=([A-Z]+)', 1, 1, 'e')" if countries }} FROM @{{ name }}_stage)
FORCE = TRUE;

COMMIT;
