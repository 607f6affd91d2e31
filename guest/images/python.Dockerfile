# The image "python" with the guest agent and the Python SDK in it.
# Build at the root of the repository:
#   docker build -f guest/images/python.Dockerfile -t sandbox-python .

FROM node:22-bookworm-slim AS node

FROM golang:1.26-bookworm AS agent
# guest/build.sh bundles the Node SDK, which every agent carries.
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY guest ./guest
ARG TARGETARCH
RUN GOARCH=${TARGETARCH:-$(go env GOARCH)} ./guest/build.sh

FROM python:3.12-slim-bookworm
COPY guest/sdk/requirements.txt /tmp/requirements.txt
RUN pip install --no-cache-dir --no-deps --only-binary=:all: --root-user-action=ignore --requirement /tmp/requirements.txt \
    && python3 -c "import iii" && rm /tmp/requirements.txt
COPY --from=agent /src/guest/dist/agent.gz /tmp/agent.gz
COPY guest/images/bake.sh /tmp/bake.sh
RUN sh /tmp/bake.sh /tmp/agent.gz && rm /tmp/agent.gz /tmp/bake.sh
