# The commands people type. `make help` lists them; the building itself is CMake's (CMakePresets.json).
SHELL := /bin/sh
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS

# As root Open MPI wants to read twice that this is meant (containers, CI).
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.PHONY: all build demo test check check-web asan tsan coverage tidy analyze format parity torture bench dist wheel install uninstall deb clean help

all: ## build build/release/aorta (the default)
	@scripts/bootstrap --dry-run build || { echo "make: 'make demo' installs what is missing"; exit 1; }
	@$(MAKE) --no-print-directory build

build:
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build --preset release --parallel $(JOBS) --target aorta

demo: ## install what is missing, build, train on two CPU ranks, and explain the overlap
	@scripts/bootstrap build demo
	@$(MAKE) --no-print-directory build
	@scripts/demo

test: ## build and run the tests of one module or file: make test T=verdict, T=verdict.steady
	@[ -d "tests/$(firstword $(subst ., ,$(T)))" ] && [ -n "$(T)" ] || { \
		echo "make test T=MODULE: one of" $(filter-out fake_% hip_forwarder samples,$(patsubst tests/%/CMakeLists.txt,%,$(wildcard tests/*/CMakeLists.txt))); exit 2; }
	@[ -f build/release/build.ninja ] || { scripts/bootstrap build check && cmake --preset release >/dev/null; }
	@cmake --build build/release --parallel $(JOBS) --target "tests/$(firstword $(subst ., ,$(T)))/all"
	@ctest --preset release --parallel $(JOBS) --no-tests=error --tests-regex '^$(subst .,\.,$(T))([.]|$$)'

check: ## install what is missing, build, and run all tests
	@scripts/bootstrap build check
	@tools/check release

check-web: ## install what is missing, build, and use the pages of results in Chromium
	@scripts/bootstrap build page web
	@$(MAKE) --no-print-directory build
	@npm ci --prefix tests/web --ignore-scripts --no-audit --no-fund --loglevel=error
	@tests/web/run build/release/aorta

asan tsan: ## run all tests under a set of sanitizers (asan: address and undefined; tsan: threads)
	@scripts/bootstrap build check
	@tools/check $@

# Parts that only run on a GPU, or in a program that uses one, are left out: stand-ins run them, which shows little.
coverage: ## run all tests and print which lines of src/ they reach; fails below 85%
	@scripts/bootstrap build check coverage
	cmake --preset coverage
	cmake --build --preset coverage --parallel $(JOBS)
	-ctest --preset coverage --parallel $(JOBS) # some fail here alone: where files are limited, counters are not written either
	gcovr --root . --filter src/ --exclude src/device/gpu/ --exclude 'src/comm/nccl' --exclude 'src/measure/.*cupti' \
		--exclude src/record/inject/ --fail-under-line 85 build/coverage

tidy: ## run clang-tidy over the sources
	@scripts/bootstrap build check tidy
	@cmake --preset release >/dev/null
	@tools/tidy

analyze: ## run cppcheck over the sources (clang's analyzer is part of make tidy)
	@scripts/bootstrap build analyze
	@cmake --preset release >/dev/null
	@tools/analyze

format: ## format the sources with clang-format 14
	@tools/format

parity: ## compare gradients and updates of `aorta train` with PyTorch's
	@scripts/bootstrap build parity
	@$(MAKE) --no-print-directory build
	@/usr/bin/python3 tests/parity/live.py --aorta build/release/aorta

torture: ## kill, stop, starve and feed rubbish to the program for 5 minutes (HOURS=8: for hours, and all tests for races; SEED=N: again)
	@scripts/bootstrap build check torture
	@cmake --preset release >/dev/null
	@cmake --build --preset release --parallel $(JOBS)
	@/usr/bin/python3 tests/torture/torture.py $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED))
	@$(if $(HOURS),tools/check tsan)

bench: ## compare the step time with PyTorch's, training with and without recording, and the trace reader with Python
	@scripts/bootstrap build parity
	@cmake --preset release >/dev/null
	@cmake --build --preset release --parallel $(JOBS)
	@/usr/bin/python3 bench/step_time.py
	@/usr/bin/python3 bench/recording_cost.py
	@/usr/bin/python3 bench/gemm_share.py
	@/usr/bin/python3 bench/trace_read.py --python-megabytes 256

dist: ## make build/dist/aorta-….tar.gz, which runs on other machines without installing anything
	@scripts/bootstrap build check
	@tools/dist

wheel: dist ## make build/dist/aorta-….whl for pip: the program, its libraries, and the Python package
	@tools/wheel

install: build ## install the program, libaorta, manual pages and completions below PREFIX (default /usr/local; DESTDIR goes before it)
	@cmake --build --preset release --parallel $(JOBS) --target installable
	@cmake --install build/release --prefix "$(PREFIX)"
	@cp build/release/install_manifest.txt build/release/installed.txt # make deb writes the first one, too

uninstall: ## remove what make install has put there
	@while read -r file || [ -n "$$file" ]; do rm -f "$(DESTDIR)$$file"; done <build/release/installed.txt

deb: build ## make build/dist/aorta_….deb
	@scripts/bootstrap build package
	@cmake --build --preset release --parallel $(JOBS) --target installable
	@cd build/release && cpack -G DEB -B ../dist >../deb.log 2>&1 || { cat ../deb.log; exit 1; }
	@ls build/dist/*.deb

clean: ## remove what was built (runs in artifacts/ stay)
	rm -rf build

help: ## show this
	@sed -n 's/^\([a-z ]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-10s %s\n", $$1, $$2 }'
