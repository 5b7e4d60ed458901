"""`torchrun -m aorta.train --config FILE` is `aorta train --config FILE`."""
import sys

from ._program import become

if __name__ == "__main__":
    become("train", *sys.argv[1:])
