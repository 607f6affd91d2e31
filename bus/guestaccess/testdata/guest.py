"""A guest that connects to III_URL as it finds it, and tells what it may do."""

import json
import os
import sys

from iii import InitOptions, register_worker

plan = json.loads(sys.argv[1])
iii = register_worker(os.environ["III_URL"], InitOptions(worker_name=plan["name"], enable_metrics_reporting=False, otel={"enabled": False}))
for function in plan["registers"]:
    iii.register_function(function, lambda data: "mine")
for function in plan["binds"]:
    iii.register_trigger({"type": "subscribe", "function_id": function, "config": {"topic": "news"}})
answers = {}
for function in plan["calls"]:
    try:
        value = iii.trigger({"function_id": function, "payload": {}, "timeout_ms": plan["timeoutMs"]})
        answers[function] = "nothing" if value is None else value
    except Exception as error:
        answers[function] = str(getattr(error, "code", None) or type(error).__name__)
print(json.dumps(answers), flush=True)
if plan["stays"]:
    sys.stdin.read()
os._exit(0)
