"""The least that calls a handler: python3 bare.py HANDLER, payload on standard
input, result on standard output."""

import json
import sys

scope = {}
with open(sys.argv[1]) as source:
    exec(compile(source.read(), sys.argv[1], "exec"), scope)
json.dump(scope["handler"](json.load(sys.stdin)), sys.stdout)
