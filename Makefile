# The two commands of the README are `make demo` and `make test`; both create the environment if it is missing.
export PATH := $(abspath $(or $(VENV),.venv))/bin:$(PATH)
export DVC_NO_ANALYTICS := 1
# Byte code is kept, as in stages/run, where a machine is set up to keep none.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/raretokens/pycache

.PHONY: help demo test table environment diff site paper readme lint lock

help: ## what there is
	@sed -n 's/^\([a-z]*\):.*## /make \1	/p' Makefile | expand -t 20

demo: environment ## train everything that is not trained yet, and write the reports
	stages/parallel
	@$(MAKE) --no-print-directory site STRICT=
	@python -m reproduction summary

# One table: trains what its rows need, renders it alone and prints it. make table T=agg-3
T ?= agg-3
table: environment ## train what one table needs and print it: make table T=agg-3
	targets=$$(python -m reproduction needs $(T)) && dvc repro $$targets
	@python -m reproduction table $(T)

# CI also runs those left out here: make test TESTS=slow
TESTS = not slow
test: environment lint ## lint, and all tests but those marked as slow
	OMP_NUM_THREADS=1 python -m pytest -m '$(TESTS)' -n auto --dist loadfile --no-loadscope-reorder tests/test_pipeline.py tests # the longest first

diff: environment ## every cell of the reports, those of the demo against expected/: make diff REV=main~3
	python -m reproduction diff $(REV)

# A warning fails the build, but not that of the demo, whose parameters and reports are a user's.
STRICT = --fail-on-warning --keep-going
SITE = README.md $(wildcard docs/*.md docs/conf.py docs/llms.txt docs/_static/* docs/studies/*.svg data/paper/*.yaml data/paper/*/*.yaml src/*/*.py \
	src/*/*/*.py docs/_extension/*.py docs/_extension/templates/* reports/*.csv reports/*.md scales/*/reports/*.csv scales/*/reports/*.md)
site: environment build/site/index.html ## build the documentation site
	@echo "Open build/site/index.html for the results and the documentation"

build/site/index.html: $(SITE)
	sphinx-build --quiet $(STRICT) -d build/doctrees docs build/site
	@touch $@

paper: environment ## build the paper on the software: docs/paper/paper.pdf
	uv run --quiet docs/paper/build.py

readme: environment ## make the pages anew that show what reports say
	python -m reproduction readme

# Where git does not work (a ZIP of the repository, no git, another owner), DVC does without until it does: all but experiments and
# comparisons works.
environment: ## set up .venv
	@.ci/environment.sh
	@if reason=$$(git rev-parse --git-dir 2>&1 >/dev/null); then value=--unset; else value=true; \
		[ ! -e .git ] || echo "environment: DVC does without git until git works here:" $$reason >&2; fi; \
	for project in . scales/*; do (cd $$project; has=$$(grep -s no_scm .dvc/config.local); case $$value$$has in \
		true) dvc config --local core.no_scm true ;; --unset?*) dvc config --local --unset core.no_scm ;; esac); done

lint: ## look for what ruff finds
	ruff check .

# The CPU build of torch names no CUDA packages; on a machine with a GPU, torch's own exact pins bring them. The hashes are those of
# all files of a version, torch's those of the package index: whatever platform takes one is served.
PINNED = uv pip compile --quiet --no-annotate --no-header --generate-hashes --python-version 3.11
lock: environment ## pin the dependencies anew
	sed -i 's/^torch==\([0-9.]*\)\( \\\)*$$/torch==\1+cpu\2/' requirements.lock
	UV_FIND_LINKS=$$(pip config get global.find-links 2>/dev/null) $(PINNED) .ci/requirements.in -o requirements.lock
	sed -n 's/^torch==\([0-9.]*\).*/torch==\1/p' requirements.lock | $(PINNED) --no-deps - > torch.lock
	awk 'FNR == NR { torch = torch $$0 "\n"; next } /^[a-z]/ { own = /^torch==/; if (own) printf "%s", torch } !own' \
		torch.lock requirements.lock > requirements.new
	mv requirements.new requirements.lock && rm torch.lock
	for name in uv cublas; do \
		sed -n 's/^\([a-z].*==[0-9.]*\).*/\1/p' .ci/requirements-$$name.lock | $(PINNED) --no-deps - > name.lock && mv name.lock .ci/requirements-$$name.lock; done
	sed 's/ \\$$//; /--hash/d' requirements.lock > name.lock
	$(PINNED) --constraint name.lock .ci/requirements-optional.in -o optional.lock
	awk 'FNR == NR { known[$$0] = 1; next } /^[a-z]/ { name = $$1; sub(/\+cpu/, "", name); own = !(name in known) } own' name.lock optional.lock > .ci/requirements-optional.lock
	rm name.lock optional.lock
