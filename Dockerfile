# The operator's image: one static binary, which carries the guest agent and the
# Node SDK for sandboxes in itself. Nothing else is in the image.

FROM node:22-bookworm-slim AS node

FROM golang:1.26-bookworm AS build
# guest/build.sh bundles the SDK with Node and npm.
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The architecture of the image and of the guests, which run beside it.
ARG TARGETOS=linux
ARG TARGETARCH
RUN GOARCH=${TARGETARCH:-$(go env GOARCH)} ./guest/build.sh
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH:-$(go env GOARCH)} \
    go build -trimpath -ldflags '-s -w' -o /out/manager .

FROM scratch
# For a bus behind TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
