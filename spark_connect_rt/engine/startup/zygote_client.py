"""Asks the zygote for a process: ``python -I -S zygote_client.py SOCKET MODULE [ARGUMENT]``.

``python_from_folders.sh`` runs it.

Hands on its standard streams and descriptor 4. If the process cannot be started, it writes "no" to 4, and why to
standard error. It costs ten milliseconds of CPU, as it imports nothing but what is built in. The request is described
in ``zygote.py``.
"""

from __future__ import annotations

import _socket
import posix
import sys

GREETING_LIMIT_S = 30.0  # the zygote may still be importing, on a busy machine
LIMIT_S = 120.0  # it has greeted, and answers; a second daemon on the same streams would spoil both
SCM_RIGHTS = 1
ENDS = 4


def request(arguments: list[str]) -> bytes:
    """Return what is asked for: ``arguments`` from the directory it is asked in."""
    module, argument = (*arguments, "")[:2]
    variables = [name + b"=" + value for name, value in posix.environ.items()]
    fields = [posix.getcwd().encode(errors="surrogateescape"), module.encode(), argument.encode(), *variables]
    return b"".join(field + b"\0" for field in fields)


def ask(address: str, data: bytes) -> str:
    """Return the answer. Raises OSError."""
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    line.settimeout(GREETING_LIMIT_S)
    line.connect(address)
    if not line.recv(1):
        return "the zygote has ended"
    line.settimeout(LIMIT_S)
    descriptors = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in (0, 1, 2, ENDS))
    line.sendmsg([b"%10d" % len(data)], [(_socket.SOL_SOCKET, SCM_RIGHTS, descriptors)])
    line.sendall(data)
    return line.recv(4096).decode(errors="replace")


def main() -> None:
    """Ask, and say what went wrong."""
    try:
        answer = ask(sys.argv[1], request(sys.argv[2:]))
    except OSError as error:
        answer = f"the zygote does not answer: {error}"
    if answer != "+":
        sys.stderr.write(f"connectrt: {sys.argv[2]} imports on its own: {answer or 'the zygote refused'}\n")
        posix.write(ENDS, b"no\n")


if __name__ == "__main__":
    main()
