"""kmock's emulator of Kubernetes on a free port: prints its address, and serves until its standard input ends.

`POST /faults` says how the next lists or watches are answered instead, one each: {"list": [ANSWER...], "watch": [ANSWER...]}, an answer
being {"status": N}, {"body": {...}} or {"events": [...]}, after which the stream ends.
"""

import asyncio
import sys

import kmock

faults = {"list": [], "watch": []}


def add_faults(request):
    for call, answers in request.data.items():
        faults[call] += answers
    return {}


def answer(call):
    if not faults[call]:
        raise NotImplementedError  # So the emulator answers.
    fault = faults[call].pop(0)
    if "status" in fault:
        return kmock.KubernetesError(status=fault["status"], reason="Fault", message="as it was told to", details={})
    return tuple(fault["events"]) if "events" in fault else fault["body"]


async def main():
    async with kmock.KubernetesEmulator() as handler, kmock.Server(handler) as server:
        handler.resources["v1/configmaps"] = kmock.ResourceInfo(kind="ConfigMap", namespaced=True)
        handler["post /faults"] << add_faults
        handler[kmock.action.LIST] << (lambda: answer("list"))
        handler[kmock.action.WATCH] << (lambda: answer("watch"))
        print(server.url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
