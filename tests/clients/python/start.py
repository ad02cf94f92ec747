"""Starts a run of a flow and prints its result: python start.py FLOW.json [INPUT]"""

import asyncio
import os
import pathlib
import sys
import uuid

from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError


async def main(file: pathlib.Path, text: str) -> int:
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "127.0.0.1:7233"))
    handle = await client.start_workflow(
        "Flow",
        {"v": 1, "flow": {"text": file.read_text(), "name": file.name}, "input": text},
        id=f"{file.stem}-{uuid.uuid4()}",
        task_queue="weft",
        memo={"flow": file.stem},
    )
    print("run:", handle.id, file=sys.stderr)
    try:
        result = await handle.result()
    except WorkflowFailureError as err:
        if not isinstance(err.cause, ApplicationError):
            raise
        # The cause's type is the failure's class; its first detail has the text, place and remedy.
        failure = err.cause.details[0]
        print(failure["class"], failure["text"], failure.get("at"), failure.get("remedy"), file=sys.stderr)
        return 1
    print(result["result_text"] or result["result_data"])
    status = await handle.query("status")
    print(status["status"], status["usage"], file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(pathlib.Path(sys.argv[1]), "".join(sys.argv[2:3]))))
