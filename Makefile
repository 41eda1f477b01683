# make demo: try it.  make test: what CI runs.  make soak: the long tests.  make docs: the site, in out/site.
# Each target sets up what it needs; a set-up that is already there and current costs nothing. What is installed is pinned
# with hashes in requirements/, which `make lock` writes anew from pyproject.toml.
PYTHON ?= python3
VENV ?= .venv
# One more than the cores of CI: tests wait for devices a fifth of their time.
JOBS ?= 3
BIN := $(VENV)/bin
STAMP := $(shell cat pyproject.toml requirements/*.txt requirements/package-lock.json | sha256sum 2>/dev/null | cut -c1-16)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The project itself, after what it needs.
OURSELVES := $(PIP) --no-deps --no-build-isolation -e .
# A compiler for every target, where the system lacks one for this machine or for the board of the demo.
ZIG := $(PIP) --require-hashes -r requirements/zig.txt
COMPILERS := printf '\#include <stdlib.h>\n' | gcc -E -x c - >/dev/null 2>&1 && command -v arm-none-eabi-gcc >/dev/null
# Alone, and without hashes: the same version has other wheels on other indexes (with CUDA or without).
TORCH := $(shell grep -o 'torch==[0-9.]*' pyproject.toml)

# Programs of the system that the tests run, and the Debian packages that bring them.
TOOLS := qemu-system-arm qemu-system-riscv32 qemu-aarch64 node arm-none-eabi-gcc riscv64-unknown-elf-gcc aarch64-linux-gnu-gcc gcc clang cmake oclgrind spirv-val vulkaninfo chromium chromedriver ssh-keygen /usr/sbin/sshd adb openssl ip aapt2
PACKAGES := qemu-system-arm qemu-system-misc qemu-user nodejs gcc-arm-none-eabi libnewlib-arm-none-eabi gcc-riscv64-unknown-elf gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
    gcc libc6-dev clang libclang-rt-dev cmake oclgrind \
    pocl-opencl-icd ocl-icd-libopencl1 spirv-tools vulkan-tools vulkan-validationlayers mesa-vulkan-drivers \
    chromium chromium-driver openssh-client openssh-server adb openssl iproute2 aapt android-framework-res
# Those of the long tests, which are called as their packages are.
SOAK_TOOLS := zipalign apksigner firefox-esr

.PHONY: demo test soak lint docs lock tools clean

demo: $(VENV)/.demo-$(STAMP)
	$(BIN)/python examples/demo.py

# Types are checked by a test (tests/test_types.py), beside others.
test: tools $(VENV)/.test-$(STAMP)
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not slow"

soak: tools $(VENV)/.test-$(STAMP) $(VENV)/.npm-$(STAMP)
	$(PIP) --require-hashes -r requirements/soak.txt
	@for tool in $(SOAK_TOOLS); do command -v $$tool >/dev/null || { echo "$$tool is not installed"; \
		echo "hint: sudo apt-get install $(SOAK_TOOLS)"; exit 1; }; done
	$(BIN)/python requirements/jars.py $(VENV)/jars
	sh requirements/swift.sh $(VENV)/swift
	CROSSLEVEL_SEED=$${CROSSLEVEL_SEED:-$$(date +%y%j000)} $(BIN)/python -m pytest -n $(JOBS) -m slow

lint: $(VENV)/.test-$(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.docs-$(STAMP)
	$(BIN)/python docs/site.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-$(STAMP): $(VENV)/bin/python
	$(PIP) --require-hashes -r requirements/demo.txt
	$(OURSELVES)
	@{ $(COMPILERS); } || { echo "no gcc or no arm-none-eabi-gcc here: installing zig" && $(ZIG); }
	touch $@

$(VENV)/.test-$(STAMP): $(VENV)/bin/python
	$(PIP) --require-hashes -r requirements/test.txt
	$(PIP) $(TORCH)
	$(OURSELVES)
	touch $@ $(VENV)/.demo-$(STAMP)

# The compilers of TypeScript and Kotlin, formatters, Lighthouse, and a Pico that others wrote.
$(VENV)/.npm-$(STAMP): $(VENV)/bin/python
	@command -v npm > /dev/null || { echo "npm is not installed; it comes with Node.js: apt-get install npm"; exit 1; }
	cp requirements/package.json requirements/package-lock.json $(VENV)/
	npm ci --silent --no-audit --no-fund --prefix $(VENV)
	touch $@

$(VENV)/.docs-$(STAMP): $(VENV)/bin/python
	$(PIP) --require-hashes -r requirements/docs.txt
	$(OURSELVES)
	touch $@

lock: $(VENV)/bin/python
	$(PIP) 'uv>=0.9,<1'
	PATH="$(BIN):$$PATH" $(BIN)/python requirements/lock.py

# Installs the programs when run as root on a Debian-like system, otherwise says what is missing and stops.
tools:
	@missing=; for tool in $(TOOLS); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	printf '#include <stdlib.h>\n' | arm-none-eabi-gcc -E -x c - >/dev/null 2>&1 || missing="$$missing newlib"; \
	printf '#include <stdlib.h>\n' | aarch64-linux-gnu-gcc -E -x c - >/dev/null 2>&1 || missing="$$missing libc6-dev-arm64-cross"; \
	test -e /usr/share/android-framework-res/framework-res.apk || missing="$$missing android-framework-res"; \
	test -e /etc/OpenCL/vendors/pocl.icd || missing="$$missing PoCL"; \
	ls /usr/share/vulkan/icd.d/lvp_icd*.json >/dev/null 2>&1 || missing="$$missing lavapipe"; \
	ls /usr/share/vulkan/explicit_layer.d/*validation.json >/dev/null 2>&1 || missing="$$missing Vulkan-layers"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing:$$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $(PACKAGES) >/dev/null; \
	else \
		echo "the tests need:$$missing"; \
		echo "hint: sudo apt-get install $(PACKAGES)"; \
		exit 1; \
	fi

clean:
	rm -rf $(VENV) build dist out .mypy_cache .pytest_cache .ruff_cache
