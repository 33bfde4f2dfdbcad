# The two commands of the README are `make demo` and `make test`; both create the environment if it is missing.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export DVC_NO_ANALYTICS := 1
# Byte code is kept, as in stages/run, where a machine is set up to keep none.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/raretokens/pycache

.PHONY: demo test table environment diff readme lint lock

demo: environment
	stages/parallel

# One table: trains what its rows need, renders it alone and prints it. make table T=agg-3
T ?= agg-3
table: environment
	targets=$$(python -m raretokens needs $(T)) && dvc repro $$targets
	@python -m raretokens table $(T)

test: environment lint
	OMP_NUM_THREADS=1 python -m pytest -n auto --dist loadfile --no-loadscope-reorder tests/test_pipeline.py tests # the longest first

diff: environment
	python -m raretokens diff $(REV)

readme: environment
	python -m raretokens readme README.md

# Where there is no git repository (a ZIP of this one, no git), DVC does without: all but experiments and comparisons works.
environment:
	@./environment.sh
	@git rev-parse --git-dir >/dev/null 2>&1 || for project in . scales/*; do \
		(cd $$project && grep -qs no_scm .dvc/config.local || dvc config --local core.no_scm true); done

lint:
	ruff check .

# The CPU build of torch names no CUDA packages; on a machine with a GPU, torch's own exact pins bring them.
lock: environment
	sed -i 's/^torch==\([0-9.]*\)$$/torch==\1+cpu/' requirements.lock
	UV_FIND_LINKS=$$(pip config get global.find-links 2>/dev/null) uv pip compile --quiet --no-annotate --no-header \
		--python-version 3.11 requirements.in -o requirements.lock
	sed -i 's/^torch==\([0-9.]*\)+cpu/torch==\1/' requirements.lock
