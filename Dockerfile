# firmlake and its flows, from the runtime lock: no test tools. No token and no list is inside: mount the data folder, pass
# the token as a secret.
#
# The base is named to the patch release. Its digest is to be added where the registry can be asked, which this
# repository's own CI cannot: `docker buildx imagetools inspect python:3.11.14-slim-bookworm`, then
# `docker build --build-arg BASE=python:3.11.14-slim-bookworm@sha256:...`.
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY requirements-build.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
COPY flows ./flows
COPY config ./config
COPY prefect.yaml automations.yaml ./
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${BASE}
WORKDIR /firmlake
COPY requirements-runtime.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement requirements-runtime.lock
# flows/replay.py needs Dask, which every Prefect server would import: `docker build --build-arg DASK=yes`.
ARG DASK=
RUN if [ -n "$DASK" ]; then pip freeze > /tmp/locked \
    && pip install --no-cache-dir --constraint /tmp/locked "prefect-dask>=0.3.7" "cloudpickle>=3"; fi
COPY --from=build /wheels /wheels
COPY config ./config
RUN pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && useradd --create-home --uid 10001 firmlake \
    && chown -R firmlake:firmlake /firmlake

USER 10001
ENV LAKE_HOME=/firmlake \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    DO_NOT_TRACK=1
VOLUME /firmlake/data
# No entrypoint: a worker of Prefect's gives the whole command.
CMD ["firmlake", "status"]
