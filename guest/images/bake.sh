#!/bin/sh
# Puts an agent where the operator looks for one in an image: bake.sh AGENT [ROOT].
# AGENT is the compressed agent of guest/build.sh; ROOT the image's root, / unless
# given. Everything lies below /opt, which a sandbox sees of its image, and is
# only read there.
set -eu

agent=$1
root=${2:-}
baked=$root/opt/sandbox-operator

mkdir -p "$baked"
gzip -dc "$agent" > "$baked/.agent"
chmod 0755 "$baked/.agent"
digest=$(sha256sum "$baked/.agent" | cut -c1-64)
home=$baked/$(printf %s "$digest" | cut -c1-12)
mkdir -p "$home"
mv "$baked/.agent" "$home/agent"

# The interpreter hosts and the Node SDK are unpacked now, not at each boot.
printf '{}' | "$home/agent" init > "$baked/.reply"
if ! grep -q "\"agentDigest\":\"$digest\"" "$baked/.reply"; then
  echo "bake: the agent does not answer:" >&2
  cat "$baked/.reply" >&2
  exit 1
fi
rm "$baked/.reply"
if command -v python3 >/dev/null; then
  python3 -m compileall -q "$home/hosts/python"
fi

# Last, because it is what the operator believes.
printf '{"agentDigest":"%s"}\n' "$digest" > "$baked/baked.json"
