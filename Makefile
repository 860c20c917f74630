# make run    set up, then check TARGET (default: a directory on this disk) and leave build/report.html
# make check  set up, then pass the tests of the tier unit: no other process, device or server; a minute or two
# make test   set up, then pass all tests but the tier soak, in WORKERS processes (0: in this one)
# make lint   style, types, layers; Python and Rust
# make bench  the built-in load generator against fio, interleaved; result in benchmarks/results/
# make bench-snapshot  what one snapshot of 298 OSTs on 157 servers costs; result beside it
# make bench-inventory what one inventory of 157 servers costs; result beside it
# make bench-follow  what following 10^6 changelog records on an index of 10^7 names costs; result beside it
# make bench-plans  what planning each policy costs for 298 OSTs with a month of actions; result beside it
# make bench-import  what importing a year of results costs; result beside it
# make bench-explain  what judging and explaining a year of 298 OSTs costs; result beside it
# make score-worlds  what trimtab incidents finds and says on simulated records of sites, by family; ARGS="--before-after after" writes the result
# make bench-growth  what a person waits for with 3 and 10 years, 5 sites, 1,000 OSTs, PostgreSQL; result beside it
# make bench-dashboard  the API of the dashboard on a year of 298 OSTs, 50 viewers, beside plain SQL; result beside it
# make bench-dashboard-abused  the same viewers beside one user who asks for all that takes long; result beside it
# make bench-scan  scanning a million files beside a bare loop, find and bfs; result beside it
# make bench-removal  verified deletion beside a bare loop of unlinkat, rm and find; result beside it
# make bench-incremental  an incremental scan beside a full one, 1 % of names changed; result beside it
# make bench-plan  until when a run may delete its first file: candidates hashed whole, or by row group
# make bench-twin  nine months of Perlmutter in simulation, and a sweep of 100; result beside it
# make bench-controllers  what each controller does to nine months of Perlmutter on the twin; table in benchmarks/reports/act-effects.md
# make bench-readers  what the decoder of the index brings over the parquet crate's readers; result beside it
# make bench-importers  rows a second of each format that purge import reads; result beside it
# make bench-tally  how fast an index of 10^8 files is tallied, beside what bounds it; result beside it
# make purge-case  a purge of 36 PB walked over 10^8 names, as root; result beside it, tables in benchmarks/reports/purge-case.md
# make bench-mqsim MQSIM=DIR  the simulated drive beside a checkout of MQSim; result beside it
# make compare-mqsim MQSIM=DIR  write amplification and latencies of both on the same traces; benchmarks/reports/twin-mqsim.md
# make score-faults  faults in a simulated site, detected when and explained how; benchmarks/reports/twin-faults.md
# make bench-miniature  what the size of the miniature OST does to write amplification; table in docs/twin.md
# make bench-flash  how fast the simulated drive is, beside the loop that bounds it; result beside it
# make bench-allocator  the running kernel's block allocator beside the twin's; as root; result beside it
# make calibration  how often the judge is wrong, full counts; result beside it, tables in docs/calibration.md
# make twin-questions  what the twin's positions rest on; result beside it, tables in benchmarks/reports/twin-questions.md
# make reproduce  the figures of the five documents beside the twin's; result beside it, tables in benchmarks/reports/twin-calibration.md
# make bench-judge  change points against Apache Otava, ruptures, control charts; likewise
# make bench-tcpd TCPD=DIR  change points on the annotated series of a checkout of TCPD; likewise
# make soak   the tests of the tier soak: the same with long counts (kills, interrupts, calibration, properties)
# make mutants  how many small changes of safety-relevant code the tests notice; goes on where it was ended; result beside the benchmarks
# make mutants-core  the same of the rules in the core, with cargo-mutants
# make soak-purge  a million files purged under attack, 200 kills of each step; as root; result beside the benchmarks
# make goldens  every answer, sample, journal and page beside tests/goldens, as root; ARGS=--make writes them anew
# make live SITE=FILE  every capability on a Lustre that holds nothing of value, as root on a client of it; ARGS=--help says the rest
# make screenshots  every page of Trimtab as pictures (two widths, light, dark, print, colour blindness), under build/screenshots
# make docs   the documentation as pages, under build/docs
# make bench-watch  a year under the watch on the twin: without, measuring, acting and killed 500 times; result beside it
# make packages  a .deb and a .rpm for this kind of machine, under build/packages
# make release       wheel (glibc 2.28), sdist, offline wheelhouse, .deb, .rpm, Spack recipe, SBOM, sums: build/release
# make release-test  then each of them installed and used, without cargo and without network; as root
# make lock   resolve the dependencies again

# The first that is new enough: python3 of RHEL 8 and 9 is not, python3.11 beside it is.
PYTHON ?= $(or $(shell for python in python3 python3.13 python3.12 python3.11; do \
    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done),python3)
# Processes that share the tests: they wait for devices, jobs and deadlines more than they compute.
WORKERS ?= 4
# Tests of the tier unit only compute.
UNIT_WORKERS ?= auto
# Each of them computes in one thread: threads of BLAS and of Polars that wait for work spin meanwhile.
ONE_THREAD_EACH := OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1
TARGET ?= build/target
ARGS ?=

export UV_PYTHON_DOWNLOADS = never
# Start-up is a feature: nobody pays for compiling a library at the first command.
export UV_COMPILE_BYTECODE = 1
# Modules and rewritten tests are compiled once, not by every process anew.
export PYTHONDONTWRITEBYTECODE =
# One target folder for the extension, the crates' tests and clippy.
export CARGO_TARGET_DIR = $(CURDIR)/target

UV := $(or $(shell command -v uv 2>/dev/null),.tools/bin/uv)
BIN := .venv/bin
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

.PHONY: run check test test-programs test-python lint lint-python lint-rust bench bench-snapshot bench-inventory bench-follow bench-plans bench-import bench-explain score-worlds bench-growth bench-dashboard bench-dashboard-abused bench-flash bench-mqsim compare-mqsim bench-miniature score-faults
.PHONY: live mutants mutants-core goldens
.PHONY: purge-case reproduce bench-judge bench-tcpd soak soak-purge soak-dask docs lock packages release release-test screenshots bench-watch clean
.PHONY: bench-removal bench-plan bench-scan bench-scale bench-workers bench-peers bench-readers bench-tally bench-twin bench-controllers twin-questions bench-allocator calibration bench-importers bench-incremental
.DEFAULT_GOAL := run

run: .venv/.core
	@mkdir -p build
	@# Only the default: a name that is mistyped must not become a directory on the wrong disk.
	@$(if $(filter build/target,$(TARGET)),mkdir -p build/target,true)
	$(BIN)/trimtab check $(TARGET) --out build/report.html $(ARGS)

check: .venv/.core .venv/.dev
	$(ONE_THREAD_EACH) $(BIN)/pytest -m unit --numprocesses $(UNIT_WORKERS) --dist worksteal $(ARGS)

# The test programs of Rust are compiled while those of Python wait; they run when nobody takes their time.
test: .venv/.core .venv/.dev
	@$(MAKE) --no-print-directory --jobs 2 test-programs test-python
	PROPTEST_RNG_SEED=1 $(CARGO_TEST)

# Without link-time optimisation: a dozen test programs that each optimise Parquet anew take minutes.
CARGO_TEST := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --workspace --locked --quiet

test-programs: .venv/.core
	@MAKEFLAGS= nice -n 19 env $(CARGO_TEST) --no-run

test-python: .venv/.core .venv/.dev
	$(ONE_THREAD_EACH) $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# Types take one processor for minutes: the other compiles what clippy looks at meanwhile.
lint: .venv/.core .venv/.dev
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint-python lint-rust

lint-python: .venv/.core .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/house_style.py
	$(BIN)/pyrefly check $$(git ls-files "src/*.py" "tests/*.py" "benchmarks/*.py")

lint-rust: .venv/.core
	cargo fmt --all --check
	MAKEFLAGS= cargo clippy --release --workspace --all-targets --locked --quiet -- -D warnings

packages: .venv/.core .venv/.dev
	@rm -rf build/wheels && mkdir -p build/wheels
	$(BIN)/maturin build --release --locked --quiet --out build/wheels
	$(BIN)/python scripts/packages.py --wheel build/wheels/*.whl --uv $(UV)

release: .venv/.core .venv/.dev .tools/release/.ready
	.tools/release/bin/python scripts/release.py --uv $(UV) --python $(CURDIR)/$(BIN)/python $(ARGS)

release-test: release
	$(BIN)/pytest -m soak tests/docs/test_release.py

bench: .venv/.core
	$(BIN)/python benchmarks/ioload_vs_fio.py $(ARGS)

bench-watch: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/year_of_the_watch.py $(ARGS)

bench-snapshot: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/snapshot_of_a_large_site.py $(ARGS)

bench-inventory: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/inventory.py $(ARGS)

bench-follow: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/follow_records.py $(ARGS)

bench-plans: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/plans_of_a_large_site.py $(ARGS)

bench-import: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/import_of_a_year.py $(ARGS)

bench-explain: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/explain_a_year.py $(ARGS)

score-worlds: .venv/.core .venv/.dev
	$(ONE_THREAD_EACH) $(BIN)/python -m scripts.score_worlds $(ARGS)

bench-growth: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/growth.py $(ARGS)

bench-dashboard: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/dashboard.py $(ARGS)

bench-dashboard-abused: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/dashboard_abused.py $(ARGS)

bench-flash: .venv/.core
	$(BIN)/python benchmarks/flash_writes.py $(ARGS)

bench-scan: .venv/.core
	$(BIN)/python benchmarks/namespace_scan.py $(ARGS)

bench-scale: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/scan_scaling.py $(ARGS)

bench-incremental: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/incremental_scan.py $(ARGS)

bench-workers: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/index_by_workers.py $(ARGS)

bench-peers: .venv/.core .venv/.dev build/bench-peers/.ready
	$(BIN)/python benchmarks/peers_of_scale.py --python build/bench-peers/bin/python $(ARGS)

build/bench-peers/.ready: benchmarks/peers/requirements.txt $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) build/bench-peers
	$(UV) pip install --quiet --python build/bench-peers/bin/python -r $<
	@touch $@

bench-importers: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/importers.py $(ARGS)

bench-tally: .venv/.core
	$(BIN)/python benchmarks/namespace_tally.py $(ARGS)

bench-readers: .venv/.core
	$(BIN)/python benchmarks/namespace_readers.py $(ARGS)

bench-removal: .venv/.core
	$(BIN)/python benchmarks/namespace_removal.py $(ARGS)

bench-plan: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/plan_by_groups.py $(ARGS)

bench-twin: .venv/.core
	$(BIN)/python benchmarks/twin_speed.py $(ARGS)

bench-controllers: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/controllers_help.py $(ARGS)
	$(BIN)/python scripts/act_effects_page.py

bench-mqsim: .venv/.core
	$(BIN)/python benchmarks/flash_against_mqsim.py --mqsim $(MQSIM) $(ARGS)

compare-mqsim: .venv/.core
	$(BIN)/python benchmarks/drive_against_mqsim.py --mqsim $(MQSIM) $(ARGS)

score-faults: .venv/.core
	$(BIN)/python benchmarks/score_of_faults.py $(ARGS)
	$(BIN)/python scripts/fault_score_page.py

bench-miniature: .venv/.core
	$(BIN)/python benchmarks/miniature_size.py $(ARGS)

twin-questions: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/twin_questions/measure.py $(ARGS)
	$(BIN)/python scripts/twin_questions_page.py

purge-case: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/purge_case/measure.py $(ARGS)
	$(BIN)/python scripts/purge_case_page.py

bench-allocator: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/kernel_allocator.py $(ARGS)

calibration: .venv/.core .venv/.dev
	$(BIN)/python scripts/calibration.py $(ARGS)
	$(BIN)/python scripts/calibration_page.py

reproduce: .venv/.core
	$(BIN)/python -m benchmarks.reproduction.page --run

bench-judge: .venv/.core .venv/.dev build/bench-judge/.ready
	$(BIN)/python benchmarks/judge/against.py $(ARGS)
	$(BIN)/python scripts/calibration_page.py

bench-tcpd: .venv/.core .venv/.dev build/bench-judge/.ready
	$(BIN)/python benchmarks/judge/tcpd.py --tcpd $(TCPD) $(ARGS)
	$(BIN)/python scripts/calibration_page.py

# Other detectors in an environment of their own: nothing of theirs is a dependency of the project.
build/bench-judge/.ready: benchmarks/judge/requirements.txt $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) build/bench-judge
	$(UV) pip install --quiet --python build/bench-judge/bin/python -r $<
	@touch $@

soak: .venv/.core .venv/.dev
	$(BIN)/pytest -m soak --hypothesis-profile soak $(ARGS)
	$(BIN)/pytest -m "unit or calibration" --hypothesis-profile soak --timeout 7200 $(ARGS)
	PROPTEST_CASES=5000 $(CARGO_TEST)

mutants: .venv/.core .venv/.dev build/mutants/.ready
	build/mutants/venv/bin/python benchmarks/mutants/measure.py --python $(CURDIR)/$(BIN)/python $(ARGS)

mutants-core: build/mutants/bin/cargo-mutants
	$(BIN)/python benchmarks/mutants/core.py --cargo-mutants $(CURDIR)/$< $(ARGS)

build/mutants/bin/cargo-mutants:
	cargo install --quiet --locked --version 27.1.0 --root build/mutants cargo-mutants

# Beside .venv, as the peers of benchmarks are.
build/mutants/.ready: benchmarks/mutants/requirements.txt $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) build/mutants/venv
	$(UV) pip install --quiet --python build/mutants/venv/bin/python -r $<
	@touch $@

live: .venv/.core
	PYTHONPATH=. $(BIN)/python -m tests.live --trimtab $(BIN)/trimtab $(if $(SITE),--site $(SITE)) $(ARGS)

goldens: .venv/.core .venv/.dev
	PYTHONPATH=. $(BIN)/python -m scripts.goldens $(ARGS)

soak-purge: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/purge_soak.py $(ARGS)

soak-dask: .venv/.core .venv/.dev
	$(BIN)/python benchmarks/dask_chaos.py $(ARGS)

screenshots: .venv/.core .venv/.dev
	$(BIN)/python scripts/screenshots.py build/screenshots $(ARGS)
	$(BIN)/python scripts/dashboard_screenshots.py build/screenshots

docs: .venv/.core .venv/.dev
	$(BIN)/python scripts/benchmarks_page.py
	$(BIN)/python scripts/metrics_page.py
	$(BIN)/python scripts/maturity_page.py
	$(BIN)/python scripts/reference_pages.py
	$(BIN)/python scripts/dashboard.py deploy/grafana
	$(BIN)/mkdocs build --strict --quiet --site-dir build/docs
	$(BIN)/python scripts/schemas.py build/docs/schemas

# requirements.lock has what packages bring: the program with its charts, metrics, PostgreSQL and the dashboard.
lock: $(UV)
	$(UV) pip compile $(COMPILE) pyproject.toml --extra charts --extra metrics --extra postgresql --extra web -o requirements.lock
	$(UV) pip compile $(COMPILE) --group pyproject.toml:build -c requirements.lock -o requirements-build.lock
	$(UV) pip compile $(COMPILE) pyproject.toml --extra charts --group build --group dev --group docs \
	    -c requirements.lock -c requirements-build.lock -o requirements-dev.lock
	$(UV) pip compile $(COMPILE) --group pyproject.toml:tools -o requirements-tools.lock
	$(UV) pip compile $(COMPILE) --group pyproject.toml:release -c requirements-build.lock -o requirements-release.lock
COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

clean:
	rm -rf .venv .tools build target

.tools/bin/uv: requirements-tools.lock
	@scripts/prerequisites $(PYTHON)
	@echo 'Setting up uv in .tools ...'
	$(PYTHON) -m venv --clear .tools
	.tools/bin/python -m pip install --disable-pip-version-check --require-hashes -r requirements-tools.lock
	@touch $@

# Beside .venv: zig alone is as large as everything else.
.tools/release/.ready: requirements-release.lock $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) .tools/release
	$(UV) pip install --quiet --python .tools/release/bin/python --require-hashes -r $<
	@touch $@

.venv/.requirements: requirements.lock requirements-build.lock $(UV)
	@scripts/prerequisites $(PYTHON)
	@echo 'Setting up .venv ...'
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	$(UV) pip install --python $(BIN)/python --require-hashes -r requirements.lock -r requirements-build.lock
	@touch $@

.venv/.dev: requirements-dev.lock .venv/.requirements
	$(UV) pip install --python $(BIN)/python --require-hashes -r requirements-dev.lock
	@touch $@

# A changed crate is rebuilt here; Python files are used in place.
CRATES := cargo tree --locked --package trimtab-core --edges normal,build --prefix none | sort -u | wc -l
.venv/.core: .venv/.requirements pyproject.toml $(RUST)
	@echo "Building the Rust core, $$($(CRATES)) crates (the first time takes a minute or two) ..."
	@# By itself first: an installation shows nothing of what cargo does until it has ended.
	@PATH="$(abspath $(dir $(UV))):$$PATH" VIRTUAL_ENV=$(CURDIR)/.venv \
	    $(BIN)/maturin develop --uv --release --locked --skip-install
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@
