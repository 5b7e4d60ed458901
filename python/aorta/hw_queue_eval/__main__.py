import sys

from .._program import become

become("hwq", *sys.argv[1:])
