"""The original's handler runner (contracts/code-runner.md §11): an envelope on
standard input, one frame with the result on standard output."""

import json
import sys
from types import ModuleType

import sandbox_code_runner_iii

COROUTINE = 0x80  # inspect.CO_COROUTINE, without the time that inspect takes to load


def main():
    envelope = json.loads(sys.stdin.read())
    if not isinstance(envelope, dict) or not isinstance(envelope.get("sentinel"), str):
        print("the envelope has no sentinel", file=sys.stderr)
        return 1
    sandbox_code_runner_iii.install()
    code, line = outcome(envelope.get("payload"))
    sandbox_code_runner_iii.shutdown()
    sys.stdout.write(f"\n{envelope['sentinel']}\n{line}\n")
    sys.stdout.flush()
    return code


def outcome(payload):
    try:
        module = ModuleType("handler")
        with open(sys.argv[1], encoding="utf-8") as source:
            exec(compile(source.read(), sys.argv[1], "exec"), module.__dict__)
        handler = getattr(module, "handler", None)
        if not callable(handler):
            raise TypeError("the source must define handler(payload)")
        if getattr(getattr(handler, "__code__", None), "co_flags", 0) & COROUTINE:
            raise TypeError("async def handlers are not supported")
        return 0, json.dumps(handler(payload))
    except BaseException as error:
        return 1, json.dumps({"error": f"{type(error).__name__}: {error}"})


sys.exit(main())
