"""A web application that publishes and reads events, with FastAPI.

    pip install fastapi uvicorn
    chordal serve --listen 127.0.0.1:9470 &
    CHORDAL_URL=chordal://127.0.0.1:9470 uvicorn fastapi_app:app --app-dir examples

    curl -X POST --data 21.5 http://127.0.0.1:8000/events/home/kitchen
    curl http://127.0.0.1:8000/last/home/kitchen
    curl -N http://127.0.0.1:8000/stream/home/+

One client serves all requests. It is attached before the first request and leaves after the last,
and when its broker dies it goes to another one while requests wait.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

from ges.client.aio import Client, Subscription, connect
from ges.errors import PublishRefused, SubscribeRefused, TopicError

MAX_TOPICS = 10_000  #: whose last event is kept; then those go that are oldest


@dataclass
class Events:
    """What all requests share."""

    client: Client
    last: OrderedDict[str, bytes] = field(default_factory=OrderedDict)

    async def watch(self, subscription: Subscription) -> None:
        """Keep the last event of each topic."""
        async for event in subscription:
            self.last[event.topic] = event.payload
            self.last.move_to_end(event.topic)
            if len(self.last) > MAX_TOPICS:
                self.last.popitem(last=False)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Attach before the first request, and leave after the last."""
    url = os.environ.get("CHORDAL_URL", "chordal://127.0.0.1:9470")
    async with connect(url) as client, client.subscribe("#") as everything:
        app.state.events = Events(client)
        watching = asyncio.create_task(app.state.events.watch(everything))
        try:
            yield
        finally:
            watching.cancel()


app = FastAPI(title="Events", lifespan=lifespan)


def shared(request: Request) -> Events:
    """Return what the application has made when it started."""
    events: Events = request.app.state.events
    return events


Shared = Annotated[Events, Depends(shared)]


@app.get("/healthz")
async def health(events: Shared) -> dict[str, object]:
    """Say to which broker the application is attached, and how often it has moved."""
    return {"broker": events.client.broker_url, "moves": len(events.client.gaps)}


@app.post("/events/{topic:path}", status_code=202)
async def publish(topic: str, request: Request, events: Shared) -> None:
    """Publish the body; 202: the broker has taken it."""
    try:
        await events.client.publish(topic, await request.body(), confirm=True)
    except TopicError as error:
        raise HTTPException(422, str(error)) from error
    except PublishRefused as error:
        raise HTTPException(403, str(error)) from error


@app.get("/last/{topic:path}")
async def last(topic: str, events: Shared) -> str:
    """Return the last event of a topic."""
    if topic not in events.last:
        raise HTTPException(404, f"nothing has come to {topic}")
    return events.last[topic].decode(errors="replace")


@app.get("/stream/{text:path}")
async def stream(text: str, events: Shared, count: int = 0) -> StreamingResponse:
    """Send what comes as server-sent events; ``count``: so many, 0: without an end."""
    block = events.client.subscribe(text)
    try:
        subscription = await block.__aenter__()
    except (TopicError, SubscribeRefused) as error:
        raise HTTPException(422, str(error)) from error

    async def lines() -> AsyncIterator[str]:
        sent = 0
        try:
            async for event in subscription:
                data = event.payload.decode(errors="replace").replace("\n", "\ndata: ")
                yield f"event: {event.topic}\ndata: {data}\n\n"
                sent += 1
                if sent == count:
                    break
        finally:
            await block.__aexit__(None, None, None)

    return StreamingResponse(lines(), media_type="text/event-stream")
