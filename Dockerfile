# The command with compilers and an emulator for this machine and Cortex-M:
#   docker build -t crosslevel .
#   docker run --rm -v "$PWD:/work" -u "$(id -u):$(id -g)" crosslevel build model.tflite --board nucleo_l4r5zi
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        gcc gcc-arm-none-eabi libc6-dev libnewlib-arm-none-eabi qemu-system-arm \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/crosslevel
COPY requirements/docker.txt requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/docker.txt

COPY pyproject.toml README.md LICENSE ./
COPY boards boards
COPY c_runtime c_runtime
COPY docs docs
COPY templates templates
COPY sdk sdk
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

# Builds are cached in a folder that any user may make files in and that no other container sees.
RUN useradd --create-home user
ENV HOME=/tmp
USER user
WORKDIR /work
ENTRYPOINT ["sdk"]
CMD ["--help"]
