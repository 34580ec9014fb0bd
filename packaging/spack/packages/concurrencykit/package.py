# Concurrency Kit, which Spack does not have (its "ck" is something else).
from spack.package import *


class Concurrencykit(Package):
    """Concurrency primitives, safe memory reclamation and non-blocking data structures in C."""

    homepage = "http://concurrencykit.org/"
    git = "https://github.com/concurrencykit/ck.git"

    license("BSD-2-Clause")

    version("0.7.2", tag="0.7.2")
    version("0.7.1", tag="0.7.1")

    depends_on("c", type="build")

    def install(self, spec, prefix):
        Executable("./configure")("--prefix=" + prefix)
        make()
        make("install")
