"""A program that a benchmark gives commands, each a line, and that answers each with a line."""

import os
import subprocess
import sys


class Dialogue:
    """The program runs until the end of the block."""

    def __init__(self, program, *arguments, **environment):
        """`environment`: variables besides this program's own."""
        self.program = program
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"{self.program} ended")
        return answer
