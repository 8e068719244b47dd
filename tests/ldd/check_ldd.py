"""Installs a build and asks ldd what its command and libraries need: check_ldd.py CMAKE BUILD_FOLDER"""

import pathlib
import re
import subprocess
import sys
import tempfile

VENDORS = re.compile(r"lib(cuda|OpenCL|cublas|nvrtc|clblast|cudart)\b", re.IGNORECASE)


def main():
    cmake, build = sys.argv[1:]
    problems = []
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run([cmake, "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        prefix = pathlib.Path(prefix)
        programs = [prefix / "bin" / "tandem"]
        libraries = list(prefix.rglob("libtandem.*"))
        if not libraries:
            problems.append("no library was installed")
        for file in programs + [library for library in libraries if ".so" in library.name]:
            needed = subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout
            for line in needed.splitlines():
                if VENDORS.search(line) or "not found" in line:
                    problems.append(f"{file.relative_to(prefix)} needs {line.strip()}")
        # It starts from there, and finds what it needs.
        if subprocess.run([programs[0], "--version"], check=False).returncode != 0:
            problems.append("the installed command does not start")
    print("\n".join(problems) or "no vendor library is needed to start")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
