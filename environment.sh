#!/bin/sh
# Creates .venv from requirements.lock: the CPU build of torch where there is no NVIDIA GPU, the CUDA build where there is.
# Does nothing if .venv already matches the lock. PYTHON names another interpreter than python3, VENV another folder than .venv;
# TORCH=cuda takes the CUDA build where no GPU is seen, as where a container is built.
set -eu
cd "$(dirname "$0")"
venv=${VENV:-.venv}
stamp=$venv/requirements.lock
cmp -s requirements.lock "$stamp" && exit 0

echo "environment: creating $venv (about half a minute, and the download of about 700 MB)"
"${PYTHON:-python3}" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' ||
    { echo "error: Python 3.11, 3.12 or 3.13 is needed; PYTHON=... names one" >&2; exit 1; }
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check uv==0.13.8

# uv does not read pip's configuration: a folder of wheels and an index that pip is set up with hold for uv as well.
setting() { "$venv/bin/python" -m pip config list 2>/dev/null | sed -n "s/^[a-z:.]*\.$1='\(.*\)'$/\1/p" | tail -n 1; }
UV_FIND_LINKS=${UV_FIND_LINKS:-$(setting find-links | tr ' ' ',')}
UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$(setting index-url)}
[ -n "$UV_FIND_LINKS" ] && export UV_FIND_LINKS || unset UV_FIND_LINKS
[ -n "$UV_DEFAULT_INDEX" ] && export UV_DEFAULT_INDEX || unset UV_DEFAULT_INDEX
install() { "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@"; }

torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' requirements.lock)
if [ "${TORCH:-}" != cuda ] && ! command -v nvidia-smi >/dev/null 2>&1; then
    install "torch==$torch+cpu" 2>/dev/null || install --torch-backend=cpu "torch==$torch" ||
        echo "environment: no CPU build of torch $torch can be reached; taking the package index's own build" >&2
else
    # CTranslate2 opens cuBLAS 12 by its name, whatever CUDA torch is built for.
    install "nvidia-cublas-cu12==12.*" || echo "environment: no cuBLAS 12; translation will need the system's" >&2
fi
install -r requirements.lock
install --no-deps --editable .
cp requirements.lock "$stamp"
