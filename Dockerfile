# syntax=docker/dockerfile:1
# One image for server, operator and migration: docker build -t registry.example/formulary:0.1.0 .
# The final stage has Python, Formulary and the exported model; no shell, no pip, no torch.

FROM debian:12-slim AS source
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY catalog catalog
COPY operator operator

# torch is needed once, to export the model; the CPU build saves gigabytes. What is installed here also pins what the
# server needs of it, which is neither torch nor the embedded PostgreSQL.
FROM source AS model
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN python3 -m venv /export \
    && /export/bin/pip install -c constraints.txt --extra-index-url "$TORCH_INDEX_URL" torch \
    && /export/bin/pip install -c constraints.txt '.[export]'
RUN HF_HUB_OFFLINE=1 /export/bin/python3 -m formulary_catalog.embedding.export --cache-dir /model
COPY scripts/runtime.py scripts/
RUN /export/bin/python3 scripts/runtime.py > /runtime.txt

FROM source AS install
COPY --from=model /runtime.txt /runtime.txt
RUN python3 -m venv /opt/formulary \
    && /opt/formulary/bin/pip install --no-deps -r /runtime.txt . \
    && /opt/formulary/bin/pip uninstall -y pip setuptools

FROM gcr.io/distroless/python3-debian12:nonroot
COPY --from=install /opt/formulary /opt/formulary
COPY --from=model /model /opt/formulary/model
ENV PATH=/opt/formulary/bin:/usr/bin \
    FORMULARY_MODEL_CACHE_DIR=/opt/formulary/model \
    HF_HUB_OFFLINE=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Fails the build if a library is missing here, or if the model is not whole.
RUN ["python3", "-m", "formulary_catalog.embedding.export", "--cache-dir", "/opt/formulary/model"]
USER 65532:65532
EXPOSE 8080 8081 9443
CMD ["formulary", "serve", "--host", "0.0.0.0"]
