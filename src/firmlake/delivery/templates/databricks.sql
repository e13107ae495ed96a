INSERT {{ "OVERWRITE" if replaces else "INTO" }} TABLE {{ name }} BY NAME
SELECT {{ all_columns }} FROM read_files({{ at() }}, format => 'parquet'
{{- ", schemaHints => 'country STRING'" if countries }});
