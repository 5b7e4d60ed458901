"""What pip calls to build the wheel (PEP 517): tools/wheel on the tree that tools/dist made."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    tree = os.path.join(TOP, "build", "dist", "aorta")
    if not os.access(os.path.join(tree, "bin", "aorta"), os.X_OK):
        sys.exit("aorta: the program is not built yet: run make dist, then pip install . again")
    done = subprocess.run([sys.executable, os.path.join(TOP, "tools", "wheel"), tree, wheel_directory], check=True,
                          capture_output=True, text=True)
    return os.path.basename(done.stdout.split(" ")[1].rstrip(","))


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the package holds a program: build it from a clone")
