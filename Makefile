# Everything from nothing: each target creates .venv, installs under constraints.txt and runs.
# Needed beforehand: Python 3.11 or newer, and make. Another interpreter: make test PYTHON=/path/to/python

VENV ?= .venv
WORKERS ?= 2
is_new_enough = -c "import sys; sys.exit(sys.version_info < (3, 11))"
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python; do \
	$$p $(is_new_enough) 2>/dev/null && echo $$p && break; done)

RUN = $(VENV)/bin/python
INSTALL = $(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Stamps: what was installed, and when; older than the list of packages means install again.
FOR_USE = $(VENV)/.installed-for-use
FOR_TEST = $(VENV)/.installed-for-test

.PHONY: help demo test quick lint docs fuzz soak bench results install constraints clean

help:
	@echo "make demo         what fine-tuning forgets and UCL keeps, on handwritten digits"
	@echo "make test         all checks and all tests"
	@echo "make quick        the tests of the inner loop, in a minute and a half; says how many it leaves out"
	@echo "make lint         the checks alone: style, format, types, unused names"
	@echo "make docs         the documentation as a site, in build/site; nothing in it is fetched from elsewhere"
	@echo "make fuzz         random and hostile command lines, for FUZZ_SECONDS (an hour)"
	@echo "make soak         kills, damage, full disks, clock jumps, two writers, a failing network: a table"
	@echo "make bench        what UCL costs beside a plain network, as ratios"
	@echo "make results      write RESULTS.md and its figures from the runs in results/"
	@echo "make install      only set up $(VENV), with all that the tests need"
	@echo "make constraints  take the newest versions of all packages but torch into constraints.txt"
	@echo "make clean        remove $(VENV) and all that was built or cached"

demo: $(FOR_USE)
	$(RUN) -m uclearn compare permuted-digits --methods finetuning,ewc,ucl --seeds 3 --tasks 6 --out build/demo
	$(RUN) -m uclearn report build/demo --out build/demo/report.html
	@echo "Open build/demo/report.html in a browser. The same in a loop of your own: $(RUN) examples/own_loop.py"

test: lint
	$(RUN) -m pytest --numprocesses $(WORKERS)

# What takes long, or a browser, a cluster, processes or a simulator; `pytest --markers` explains.
LEFT_OUT = slow or browser or ray or torchrun or rl

quick: $(FOR_TEST)
	$(RUN) -m pytest --numprocesses $(WORKERS) --quiet -m "not ($(LEFT_OUT))"

lint: $(FOR_TEST)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(RUN) -m benchmarks.unused

# The theme announces its successor at every build, which is no news.
docs: $(FOR_TEST)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "Open build/site/index.html in a browser. Notebooks are run again by: $(RUN) -m docs.hooks.execute"

# FUZZ_SEED and SOAK_SEED choose others; SOAK_TIMES how often each ordeal is tried (20).
fuzz: $(FOR_TEST)
	$(RUN) -m tests.fuzz

soak: $(FOR_TEST)
	$(RUN) -m tests.soak

bench: $(FOR_USE)
	$(RUN) -m benchmarks

results: $(FOR_USE)
	$(RUN) -m benchmarks.results

install: $(FOR_TEST)

$(FOR_USE): pyproject.toml constraints.txt | $(RUN)
	@echo "Installing uclearn into $(VENV); the first time takes a few minutes."
	$(INSTALL) hatchling editables # the build tools, under the constraints too
	$(INSTALL) --no-build-isolation --editable ".[report]"
	@touch $@

$(FOR_TEST): $(FOR_USE)
	@echo "Installing the tools for tests and checks into $(VENV)."
	$(INSTALL) --no-build-isolation --editable ".[dev]"
	@touch $@

$(RUN):
	@test -n "$(PYTHON)" && $(PYTHON) $(is_new_enough) || { \
		echo "uclearn needs Python 3.11 or newer; '$(or $(PYTHON),python3)' is not." \
			"Install it, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

constraints:
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/pip install --quiet hatchling editables "$$(grep '^torch==' constraints.txt)"
	build/constraints/bin/pip install --quiet --no-build-isolation --editable ".[all,dev,zoo]"
	grep '^#' constraints.txt > build/constraints.txt
	build/constraints/bin/pip freeze --all --exclude-editable | grep -v '^pip==' \
		| sed 's/+cpu$$//' | LC_ALL=C sort -f >> build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
