{% test unique_key(model, columns) %}
-- Fails for each key that several rows have.
SELECT {{ columns | join(", ") }}
FROM {{ model }}
GROUP BY {{ columns | join(", ") }}
HAVING count(*) > 1
{% endtest %}
