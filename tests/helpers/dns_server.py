"""A little DNS server on loopback, whose records a test changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

TTL = 0  #: seconds; so a resolver asks again as soon as it may


class DnsServer:
    """Answers questions over UDP from ``records``: (name, type) -> values; others are unknown."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.port: int = server.getsockname()[1]
        self.records: dict[tuple[str, str], list[str]] = {}
        self.asked: list[tuple[str, str]] = []
        self.is_broken = False

    def serve(self) -> None:
        """Answer until the socket is closed."""
        while True:
            try:
                data, where = self._server.recvfrom(4096)
            except OSError:
                return
            if data == b"end":
                return
            self._server.sendto(self.answer(data), where)

    def answer(self, data: bytes) -> bytes:
        """Return the answer to one question."""
        question = dns.message.from_wire(data)
        response = dns.message.make_response(question)
        response.flags |= dns.flags.AA
        (asked,) = question.question
        name = asked.name.to_text(omit_final_dot=True)
        kind = dns.rdatatype.to_text(asked.rdtype)
        self.asked.append((name, kind))
        if self.is_broken:
            response.set_rcode(dns.rcode.SERVFAIL)
        elif values := self.records.get((name, kind)):
            response.answer.append(dns.rrset.from_text(asked.name, TTL, "IN", kind, *values))
        elif not any(known == name for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire()


@contextmanager
def dns_server() -> Iterator[DnsServer]:
    """Run one in a thread for the length of the block."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listening:
        listening.bind(("127.0.0.1", 0))
        found = DnsServer(listening)
        thread = threading.Thread(target=found.serve)
        thread.start()
        try:
            yield found
        finally:
            with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as ending:
                ending.sendto(b"end", ("127.0.0.1", found.port))
            thread.join()
