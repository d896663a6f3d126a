"""The deterministic simulation of a worker group: virtual threads, time, log, group and faults around the real parts."""
