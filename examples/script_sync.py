"""A script without await: it asks all thermometers for a reading, and prints the mean.

    chordal serve --listen 127.0.0.1:9470 &
    python examples/script_sync.py chordal://127.0.0.1:9470

The thermometers are threads of the same script here. In a notebook it is written the same way.
"""

from __future__ import annotations

import argparse
import statistics
import threading

from ges.client.sync import Client, connect


def thermometer(client: Client, name: str, ready: threading.Barrier) -> None:
    """Answer one question with a reading."""
    with client.subscribe("questions") as questions:
        questions.active.wait(10)
        ready.wait(10)
        next(questions)
        client.publish(f"readings/{name}", f"{18 + len(name)}".encode())


def main(url: str, names: list[str]) -> None:
    """Ask, and wait for all answers."""
    ready = threading.Barrier(len(names) + 1)
    with connect(url, timeout=10) as client, client.subscribe("readings/+") as readings:
        threads = [
            threading.Thread(target=thermometer, args=(client, name, ready)) for name in names
        ]
        for thread in threads:
            thread.start()
        ready.wait(10)
        client.publish("questions", b"how warm is it?", confirm=True)
        answers = [float(reading.payload) for _, reading in zip(names, readings, strict=False)]
        for thread in threads:
            thread.join()
        print(f"{len(answers)} readings, {statistics.mean(answers):.1f} degrees in the mean")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Asks all thermometers for a reading.")
    parser.add_argument("url", help="chordal://HOST:PORT of a broker, or several, with commas")
    parser.add_argument("--names", default="hall,kitchen,cellar")
    options = parser.parse_args()
    main(options.url, options.names.split(","))
