# The bench as an installed package, with every server that a scenario can start: one container carries out a whole run (docs/ci.md).
#
#   docker build --file containers/with-servers.Dockerfile --tag stallbench-with-servers .
ARG TOXIPROXY_IMAGE=ghcr.io/shopify/toxiproxy:2.12.0@sha256:9378ed52a28bc50edc1350f936f518f31fa95f0d15917d6eb40b8e376d1a214e
FROM ${TOXIPROXY_IMAGE} AS toxiproxy

FROM python:3.11-slim-bookworm
# Spark needs Java; its start script needs procps to check whether Spark already runs. Git is for the checkout of a CI job.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    beanstalkd git mariadb-server-core openjdk-17-jre-headless pgbouncer postgresql-15 procps prometheus redis-server \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 stallbench
COPY --from=toxiproxy /toxiproxy /usr/local/bin/toxiproxy-server
COPY requirements /tmp/requirements
RUN python -m venv /opt/venv \
 && /opt/venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes \
    --requirement /tmp/requirements/python.lock --requirement /tmp/requirements/build.lock
COPY . /tmp/stallbench
# The user who fills the cache owns the code, too: the bench starts programs in the cache of root, of its code's owner and of whoever runs it.
RUN /opt/venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation /tmp/stallbench \
 && chown -R stallbench /opt/venv/lib/python3.11/site-packages/stallbench \
 && rm -rf /tmp/stallbench /tmp/requirements
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=/var/cache
# Any user may keep what later runs install: published libraries, other versions of PostgreSQL.
RUN mkdir --mode=1777 /var/cache/stallbench /work
USER stallbench
RUN stallbench setup everything
WORKDIR /work
ENTRYPOINT ["stallbench"]
CMD ["list"]
