# The pinned environment with CUDA, without weights and corpora. A clone is mounted at /work; without one, the copy of src serves.
# docs/install.md shows how the image is built and run, also with Apptainer. Python packages are pinned by hash, but the base image and
# the packages of Ubuntu by name alone.
FROM nvidia/cuda:13.0.2-base-ubuntu24.04

# gcc and the headers of Python are for torch.compile, git and make for the pipeline; jemalloc keeps translation from fragmenting memory.
# hadolint ignore=DL3008
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates gcc git libc6-dev libjemalloc2 make python3 python3-dev python3-venv && \
    rm -rf /var/lib/apt/lists/*

ENV VENV=/opt/raretokens \
    TORCH=cuda \
    PATH=/opt/raretokens/bin:$PATH \
    HOME=/tmp \
    USER=raretokens

WORKDIR /work
COPY environment.sh pyproject.toml requirements*.lock README.md LICENSE ./
RUN mkdir -p src/raretokens && touch src/raretokens/__init__.py && \
    UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1 ./environment.sh && \
    git config --system --add safe.directory '*'
COPY src src

CMD ["raretokens", "--help"]
