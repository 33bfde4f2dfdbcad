#!/bin/sh
# Creates .venv from requirements.lock: the CPU build of torch where there is no NVIDIA GPU, the CUDA build where there is.
# Does nothing if .venv already matches the lock, belongs to this checkout, and fits the machine. PYTHON names another interpreter than
# python3, VENV another folder than .venv; TORCH=cuda takes the CUDA build where no GPU is seen, as where a container is built.
# What a command that failed would have installed is tried again at the next call.
set -eu
unset CDPATH PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_ROOT UV_SYSTEM_PYTHON
export PIP_USER=0  # in a virtual environment pip refuses to install for the user
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
case $venv in /*) place=$venv ;; *) place=$(pwd -P)/$venv ;; esac
stamp=$venv/requirements.lock

gpu() { [ "${TORCH:-}" = cuda ] || command -v nvidia-smi >/dev/null 2>&1; }
has() { for found in "$venv"/lib/python3.*/site-packages/$1; do [ ! -d "$found" ] || return 0; done; return 1; }
# The scripts in an environment name it by its path, and the editable install names its checkout: a copy runs the original's code.
is_elsewhere() { [ -e "$venv/bin/activate" ] && ! grep -qF "$place" "$venv/bin/activate"; }
is_installed() {
    "$venv/bin/python" -I -c '
import importlib.util, os, sys
spec = importlib.util.find_spec("raretokens")
sys.exit(not (spec and os.path.samefile(os.path.dirname(spec.origin), "src/raretokens")))' 2>/dev/null
}
fits() { ! gpu || { ! has 'torch-*+cpu.dist-info' && has 'nvidia_cublas_cu12-*.dist-info'; }; }
if cmp -s requirements.lock "$stamp" && ! is_elsewhere && is_installed && fits; then exit 0; fi

"${PYTHON:-python3}" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' ||
    { echo "error: Python 3.11, 3.12 or 3.13 is needed; PYTHON=... names one" >&2; exit 1; }
if is_elsewhere; then
    echo "environment: $venv was made in another folder, whose code it runs; it is made anew"
    rm -rf "$venv.part"
    mv "$venv" "$venv.part"
    trap '[ $? -eq 0 ] || { rm -rf "$venv"; mv "$venv.part" "$venv"; }; rm -rf "$venv.part"' EXIT
fi
echo "environment: creating or completing $venv (a new one takes about half a minute, and the download of about 700 MB)"
"${PYTHON:-python3}" -m venv "$venv"
rm -f "$stamp"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r .ci/requirements-uv.lock

# uv does not read pip's configuration: a folder of wheels and an index that pip is set up with hold for uv as well.
setting() { "$venv/bin/python" -m pip config list 2>/dev/null | sed -n "s/^[a-z:.]*\.$1='\(.*\)'$/\1/p" | tail -n 1; }
UV_FIND_LINKS=${UV_FIND_LINKS:-$(setting find-links | tr ' ' ',')}
UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$(setting index-url)}
[ -n "$UV_FIND_LINKS" ] && export UV_FIND_LINKS || unset UV_FIND_LINKS
[ -n "$UV_DEFAULT_INDEX" ] && export UV_DEFAULT_INDEX || unset UV_DEFAULT_INDEX
install() { "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@"; }

torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' requirements.lock)
complete=yes
lacks() { echo "environment: $1; the next call tries again" >&2; complete=; }
if gpu; then
    ! has 'torch-*+cpu.dist-info' || install --reinstall-package torch "torch==$torch" ||
        lacks "no CUDA build of torch $torch can be reached; the CPU build stays"
    # CTranslate2 opens cuBLAS 12 by its name, whatever CUDA torch is built for.
    install --require-hashes -r .ci/requirements-cublas.lock || lacks "no cuBLAS 12 can be reached; translation will need the system's"
elif ! has "torch-$torch+cpu.dist-info"; then
    install "torch==$torch+cpu" 2>/dev/null || install --torch-backend=cpu --reinstall-package torch "torch==$torch" ||
        lacks "no CPU build of torch $torch can be reached; taking the package index's own build"
fi
install -r requirements.lock
is_installed || install --no-deps --editable .
[ -z "$complete" ] || cp requirements.lock "$stamp"
