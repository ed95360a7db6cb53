# stallbench itself: the scenario, its producers, workers and longrunners, and the pipeline. The servers have their own images.
FROM python:3.11-slim-bookworm AS packages
RUN python -m venv /opt/venv
COPY requirements /tmp/requirements
# Name of one additional lock file, if any: aerospike.
ARG EXTRA=
RUN /opt/venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes \
    --requirement /tmp/requirements/python.lock ${EXTRA:+--requirement /tmp/requirements/$EXTRA.lock}

FROM python:3.11-slim-bookworm
# Spark needs Java; its start script needs procps to check whether Spark already runs.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 stallbench
COPY --from=packages /opt/venv /opt/venv
COPY . /opt/stallbench
RUN echo /opt/stallbench > /opt/venv/lib/python3.11/site-packages/stallbench.pth \
 && printf '#!/opt/venv/bin/python\nfrom stallbench.cli import main\n\nmain()\n' > /opt/venv/bin/stallbench \
 && chmod 755 /opt/venv/bin/stallbench \
 && mkdir --mode=1777 /opt/stallbench/.cache
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/stallbench
USER stallbench
ENTRYPOINT ["stallbench"]
CMD ["list"]
