# `stallbench observe` alone: the light installation, without Java and without servers.
#
#   docker build --file containers/observe.Dockerfile --tag stallbench-observe .
#   docker run --rm --env PGPASSWORD stallbench-observe --dsn postgresql://reader@db.test/app --once
FROM python:3.11-slim-bookworm AS packages
COPY requirements /tmp/requirements
RUN python -m venv /opt/build && python -m venv --without-pip /opt/venv \
 && /opt/build/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes --requirement /tmp/requirements/build.lock \
 && /opt/build/bin/pip --python /opt/venv/bin/python install --quiet --no-cache-dir --disable-pip-version-check --require-hashes \
    --requirement /tmp/requirements/light.lock
COPY . /tmp/stallbench
RUN /opt/build/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir /tmp/wheel /tmp/stallbench \
 && /opt/build/bin/pip --python /opt/venv/bin/python install --quiet --disable-pip-version-check --no-index --no-deps /tmp/wheel/*.whl

FROM python:3.11-slim-bookworm
RUN useradd --create-home --uid 1000 stallbench && install --directory --owner=stallbench --mode=700 /home/stallbench/history
COPY --from=packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1
USER stallbench
ENTRYPOINT ["stallbench", "observe"]
CMD ["--help"]
