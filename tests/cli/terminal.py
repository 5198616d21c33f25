"""Plays a person at a terminal: terminal.py PROGRAM [KEYS EXPECTED]...
Types each KEYS (escapes as in Python) and waits until the program has said EXPECTED since then; after Enter or Ctrl-C
also for a prompt or, when EXPECTED begins with ~, until a computation runs. Prints all the program said.
Exits with the program's status, or 99 when something expected did not come."""
import os
import pty
import select
import sys
import termios
import time

LIMIT = 30  # seconds for each step
program, steps = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(program, [program])

said = b""


def read(seconds):
    """Adds what comes within the time to `said`; False at the end."""
    global said
    if select.select([terminal], [], [], seconds)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return False
        said += data
        return bool(data)
    return True


def wait_for(expected, start):
    stop = time.time() + LIMIT
    while expected not in said[start:]:
        if time.time() > stop or not read(0.1):
            return expected in said[start:]
    return True


def takes_keys():
    """Is the line editor at work? It prints its prompt before it asks for single keys."""
    return not termios.tcgetattr(terminal)[3] & termios.ICANON


def wait_until(condition):
    stop = time.time() + LIMIT
    while not condition():
        if time.time() > stop or not read(0.02):
            return False
    return True


def at_prompt():
    return said.endswith(b"> ") and takes_keys()


def leave(status):
    sys.stdout.write(said.decode(errors="replace"))
    sys.exit(status)


wait_until(at_prompt)
for keys, expected in zip(steps[::2], steps[1::2]):
    start = len(said)
    typed = keys.encode("latin-1").decode("unicode_escape").encode("latin-1")
    os.write(terminal, typed)
    expected = expected.encode().decode("unicode_escape").encode("latin-1")
    came = wait_for(expected.lstrip(b"~"), start)
    if came and expected[:1] == b"~":
        came = wait_until(lambda: not takes_keys())
    elif came and typed[-1:] in b"\r\x03":
        came = wait_until(at_prompt)
    if not came:
        said += b"\n(never came: " + (expected or b"a prompt") + b")\n"
        os.kill(pid, 9)
        leave(99)
stop = time.time() + LIMIT
while time.time() < stop:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        leave(os.waitstatus_to_exitcode(status))
    read(0.05)
os.kill(pid, 9)
leave(98)
