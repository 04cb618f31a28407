"""Throughput and latency of links beside the limits of the machine."""
