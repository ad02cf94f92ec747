"""Starts a run with a tool that this program runs itself, says yes to its calls, and prints
the result: python answer.py FLOW.json [INPUT]"""

import asyncio
import os
import pathlib
import sys
import uuid

from temporalio.client import Client


async def send_mail(to: str) -> dict:
    return {"sent": True, "to": to}


async def main(file: pathlib.Path, text: str) -> None:
    tools = {"send_mail": send_mail}
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"))
    handle = await client.start_workflow(
        "Flow",
        {
            "v": 1,
            "flow": {"text": file.read_text(), "name": file.name},
            "input": text,
            "data_connections": [{"id": "web", "kind": "client", "tools": [{"name": name} for name in tools]}],
        },
        id=f"{file.stem}-{uuid.uuid4()}",
        task_queue="weft",
    )
    result = asyncio.create_task(handle.result())
    while not result.done():
        for request in (await handle.query("status")).get("requests", []):
            print(request["kind"], request["text"], file=sys.stderr)
            if request["kind"] == "confirm":
                await handle.signal("confirm", {"id": request["id"], "approve": True, "by": "answer.py"})
            elif request["kind"] == "tool_result":
                given = await tools[request["name"]](**request["arguments"])
                await handle.execute_update("tool_result", {"id": request["id"], "result": given})
        await asyncio.sleep(0.2)
    print((await result)["result_text"])


if __name__ == "__main__":
    asyncio.run(main(pathlib.Path(sys.argv[1]), "".join(sys.argv[2:3])))
