# firmlake and its flows, from the lock. No token and no list is inside: mount the data folder, pass the token as a secret.
FROM python:3.11-slim

WORKDIR /firmlake
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY src ./src
COPY flows ./flows
COPY config ./config
COPY data/intake/sample.csv ./data/intake/sample.csv
RUN pip install --no-cache-dir --no-deps . \
    && useradd --create-home --uid 10001 firmlake \
    && chown -R firmlake:firmlake /firmlake

USER 10001
ENV LAKE_HOME=/firmlake \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    DO_NOT_TRACK=1
VOLUME /firmlake/data
# No entrypoint: a worker of Prefect's gives the whole command.
CMD ["firmlake", "status"]
