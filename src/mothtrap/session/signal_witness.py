"""Program with which `mothtrap run` finds out whether a signal was sent to its whole process group.

It is a member of the process group that only blocks every signal. A signal that was sent
to the group is pending here; a signal that was sent to the launcher alone is not. It answers
1 or 0 for each number on standard input, and exits when its input ends. It imports nothing from
mothtrap, so that it starts fast.
"""

import os
import signal
import time

GROUP_S = 0.02
"""Time in which a signal reaches all members of a group, also if a supervisor sends it to one
process at a time; chosen by hand.
"""


def _was_sent_here(number: int) -> bool:
    until_s = time.monotonic() + GROUP_S
    while number not in signal.sigpending():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.001)
    signal.sigwait([number])
    return True


if __name__ == "__main__":
    while asked := os.read(0, 1):
        os.write(1, bytes([_was_sent_here(asked[0])]))
