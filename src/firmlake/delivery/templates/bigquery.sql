LOAD DATA {{ "OVERWRITE" if replaces else "INTO" }} {{ name }}
{% if countries %}
WITH PARTITION COLUMNS (country STRING)
FROM FILES (format = 'PARQUET', uris = [{{ at("/*") }}], hive_partition_uri_prefix = {{ at("") }});
{% else %}
FROM FILES (format = 'PARQUET', uris = [{{ at("/*") }}]);
{% endif %}
