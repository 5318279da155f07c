# `make` lists the targets. `make certify` and `make test` work on a fresh clone with Python 3.11+, git and make.
PYTHON ?= python3
BIN := .venv/bin
T ?= tests scenarios
JOBS ?= 2
SUITE ?= default
# some hundred processes start in a check: they find byte code, whatever the caller's environment says
export PYTHONDONTWRITEBYTECODE :=
EXTRAS ?= transformers,mlx,llamacpp
AGAIN := $(MAKE) --no-print-directory
# where several processes share the cores, a thread of OpenMP that waits must let go of its core soon: two threads that
# spin beside other work take ten times as long
SHARED := env GOMP_SPINCOUNT=$(or $(GOMP_SPINCOUNT),1000)
ENGINES ?= transformers mlx llamacpp server
# options that let an engine do what its library leaves open: what they bring is in docs/FOUND.md
OPENED := transformers,crop=forced,R01,R02,R03 transformers,rebuild=tensors,A01,A03 transformers,rebuild=update,A01,A03 mlx,load=lazy,R04 \
  llamacpp,flash_attn=true,H61 llamacpp,image=file,F61,F62 llamacpp,n_rs_seq=8,R01,R02 llamacpp,n_ubatch=64,R61
LOOKED := $(SHARED) $(BIN)/statecert run --jobs $(JOBS) --fork --quiet --out runs/engines

.PHONY: help venv extras extras-if-any engines certify test format lint check wheel-check workflow-check rejudge gate claims fuzz full soak kill mutants matrix kvmatrix reports reports-check benchmarks device-bundle procedures clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: ## make .venv (PYTHON= picks the interpreter; a torch that it already has is reused)
	@$(PYTHON) tools/make_venv.py

extras: ## the libraries of the real engines, into .venv (EXTRAS=transformers,mlx,...)
	@$(PYTHON) tools/make_venv.py --extras $(EXTRAS)

# an index may lack a library, and a platform its wheel: then the tests of that engine are skipped, with the reason
extras-if-any:
	@$(PYTHON) tools/make_venv.py --extras $(EXTRAS) || { $(AGAIN) venv && \
	  echo "statecert: going on without the libraries of real engines; their tests are skipped"; }

# a stop or an error on a real engine is a finding, not a failure of this target: it is in the table and in runs/engines/;
# children are forked, since their imports would take longer than their cells: what is written are drafts (ADR 0006)
# the lengthy tests come first, and what fails there does fail
engines: extras ## lengthy tests and the suites on every real engine, with what they find (ENGINES=names of lab or entry points)
	@$(AGAIN) test MARKS=lengthy T=tests
	@for e in $(ENGINES); do \
	  for s in $(SUITE) more engines; do \
	    echo "== $$e $$s"; $(LOOKED) --suite $$s --target $$e || [ $$? -eq 1 -o $$? -eq 3 -o $$? -eq 5 ] || exit $$?; \
	  done; \
	done
	@for o in $(OPENED); do \
	  set -- $$(echo $$o | tr , ' '); case " $(ENGINES) " in *" $$1 "*) ;; *) continue;; esac; e=$$1; w=$$2; shift 2; \
	  echo "== $$e $$w $$*"; $(LOOKED) $$* --target $$e --option $$w || [ $$? -eq 1 -o $$? -eq 3 -o $$? -eq 5 ] || exit $$?; \
	done

certify: venv ## run the default suite on the best device here, write certificates to runs/, gate them (JOBS=1: one by one)
	@$(BIN)/statecert run --suite $(SUITE) --jobs $(JOBS) --gate

test: venv ## unit tests and the default scenarios (T=path and MARKS=expression narrow)
	@$(SHARED) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(if $(MARKS),-m '$(MARKS)') $(T)

format: venv ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: venv ## format check, lint, strict types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/procedures.py --check

gate: venv ## gate the committed certificates
	@$(BIN)/statecert gate certificates

claims: venv ## README.md and docs/ say what the committed certificates say
	@$(BIN)/statecert claims

rejudge: venv ## judge all committed evidence again; any changed byte fails
	@$(BIN)/statecert judge --check certificates

reports: venv ## make reports/ from certificates/
	@$(BIN)/statecert report --format md --out reports

wheel-check: venv ## the wheel alone, in an empty environment: default suite, gate, a foreign repository (minutes)
	@$(BIN)/python tools/check_wheel.py

reports-check: venv ## reports/ are what certificates/ give
	@$(BIN)/statecert report --format md --out reports --check

# of the mutants those that the certified matrix does not show as they are now, and some that it does
# the gate derives every body again from its evidence (CG301), so that `rejudge` is no step of its own;
# first what keeps one processor busy, two at a time; then what takes both; pytest last, so that its closing line is the last line
# (it counts the lengthy tests of real engines, which are left to `make engines`, as deselected)
check: extras-if-any ## everything that CI runs
	@$(PYTHON) tools/beside.py \
	  "$(AGAIN) lint && $(BIN)/statecert gate certificates --claims README.md --claims docs && $(AGAIN) reports-check && $(BIN)/statecert fuzz --seconds 60" \
	  "$(AGAIN) wheel-check workflow-check && $(BIN)/statecert fuzz --of codec --seconds 10"
	@$(SHARED) $(BIN)/statecert mutants --beyond certificates
	@$(AGAIN) test MARKS='not lengthy'

full: venv ## the suite full on this machine, certificates and gate in runs/ (a quarter of an hour on two cores)
	@$(BIN)/statecert run --suite full --jobs $(JOBS) --gate

mutants: venv ## every engine with a planted fault against the check that must stop it (minutes; ARGS="K07 K13")
	@$(SHARED) $(BIN)/statecert mutants $(ARGS)

matrix: venv ## every mutant against the scenarios that claim it; certified (minutes; ARGS=--reach kind takes hours)
	@$(BIN)/statecert matrix --certify $(ARGS)

kvmatrix: venv ## K/V element types: exact pages beside CacheGen archives, measured; certified (minutes)
	@$(BIN)/statecert kv --certify

workflow-check: venv ## the steps of the example workflow, word for word, on an honest and on a forged change (a minute)
	@$(BIN)/python tools/check_workflow.py

soak: venv ## 500 turns of growing conversations: memory and budget hold; certified (minutes)
	@$(BIN)/statecert soak --certify

kill: venv ## 200 kills inside a publish: the next process opens what is left; certified (minutes)
	@$(BIN)/statecert kill --certify

fuzz: venv ## half an hour of made-up inputs for readers, gate and ledger; certified (MINUTES=; ARGS="--corpus tests/fuzz/corpus")
	@$(BIN)/statecert fuzz --minutes $(or $(MINUTES),30) --certify $(ARGS)

procedures: venv ## the digests that each scenario id stands for (KEEP=1: former ones too)
	@$(BIN)/python tools/procedures.py $(if $(KEEP),--keep)

benchmarks: venv ## the benchmarks, as ratios within one run; all of them, then the ones that missed a goal (ARGS=--quick)
	@missed=; for b in benchmarks/bench_*.py; do \
	  name=$$(basename $$b .py); echo "== $$name"; $(BIN)/python -m benchmarks.$$name $(ARGS) || missed="$$missed $$name"; \
	done; \
	if [ -n "$$missed" ]; then echo "goals missed or broken in:$$missed"; exit 1; fi; echo "all goals met"

device-bundle: ## what a machine without registry and git history needs, in build/device/
	@$(PYTHON) tools/device_bundle.py

clean: ## remove .venv, runs and caches
	rm -rf .venv runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
