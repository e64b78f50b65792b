# Two commands do everything: `make` and `make test`. `make help` lists the rest.
.DEFAULT_GOAL := demo
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
APT := bubblewrap chromium postgresql
export PATH := $(CURDIR)/$(BIN):$(PATH)
export OMP_NUM_THREADS ?= 1

.PHONY: help demo setup book serve notebooks outputs grade test lint bench cluster-test constraints clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

demo: book grade  ## (default) set up, build the book, grade the demo class
	@echo
	@echo "Book:              file://$(CURDIR)/_build/html/index.html"
	@echo "Gradebook export:  $(CURDIR)/class/grades.csv"
	@echo "Class report:      file://$(CURDIR)/class/reports/01_attention.html"
	@echo "Feedback:          $(CURDIR)/class/feedback/"

setup: $(READY)  ## the virtual environment and the system packages

$(READY): requirements.txt requirements-data.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@.ci/system-packages $(APT)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-data.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@command -v chromium google-chrome >/dev/null || playwright install --with-deps chromium
	@touch $@

book: $(READY)  ## build the book into _build/html, warnings are errors
	@mkdir -p _build
	jupyter-book build . --path-output . -W -n --keep-going -q

serve: book  ## show the book on http://localhost:8000
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory _build/html

notebooks: $(READY)  ## rebuild solutions/ and exercises/ from assignments/ and encoder/
	autograder build

outputs: $(READY)  ## execute the chapters again and store their outputs
	$(BIN)/python book/store_outputs.py

grade: $(READY)  ## grade the demo class into class/
	$(BIN)/python -m autograder.demo class/submitted
	autograder grade
	autograder report
	autograder feedback
	nbgrader export --to class/grades.csv --log-level=ERROR

lint: $(READY)
	ruff check .
	ruff format --check .
	mypy

test: lint book  ## everything: lint, unit, notebooks, stored outputs, browser
	pytest
	pytest -o addopts="" -q -n 2 --dist loadfile --nbval book

bench: $(READY)  ## compare with nbgrader, transformers and torch.nn; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

constraints: $(READY)  ## write constraints.txt from the environment
	@( head -1 constraints.txt; pip freeze | grep -viE '^(-e|gt.all|ovos.skill)|transformer-encoder-course' | sed 's/+cpu//' ) > .constraints.new && mv .constraints.new constraints.txt

clean:  ## remove what was built, keep the environment and the class
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis

cluster-test: $(READY)  ## Dask scheduler, two workers, PostgreSQL; one worker dies; the gradebook is the local one
	pytest -o addopts="" -v -s tests/cluster
