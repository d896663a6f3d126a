"""The deterministic simulation of a worker group: virtual threads, time, log and faults around the real parts."""
