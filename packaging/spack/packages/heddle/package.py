# A Spack recipe, of the repository packaging/spack:
#
#     spack repo add packaging/spack
#     spack install heddle                                  the last commit of the checkout in which this file is
#     spack dev-build heddle@main                           the checkout as it is, in the current folder
import os

from spack.package import *


class Heddle(CMakePackage):
    """Collectives among threads and tasks, with the interface of UCC."""

    git = "file://" + os.path.abspath(
        os.path.join(os.path.dirname(os.path.realpath(__file__)), *[os.pardir] * 4)
    )

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("ucx", default=True, description="Teams of several processes, through UCX")
    variant("bootstrap", default=True, description="libheddle_bootstrap, the exchange among processes")
    variant("shmem", default=True, description="libheddle_shmem, OpenSHMEM among threads, with shmemrun and oshcc")
    variant("emucuda", default=True, description="libheddle_emucuda, a CUDA driver emulated on the host")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("concurrencykit", type="build")  # headers only
    depends_on("hwloc@2.4:")
    depends_on("numactl")
    depends_on("ucx@1.12:", when="+ucx")
    depends_on("libsodium@1.0.12:", when="+bootstrap")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("HEDDLE_BUILD_TESTS", False),
            self.define("HEDDLE_BUILD_EXAMPLES", False),
            # what the system has beside Spack would be found, and used, otherwise
            self.define_from_variant("HEDDLE_PROCESSES", "ucx"),
            self.define_from_variant("HEDDLE_BUILD_BOOTSTRAP", "bootstrap"),
            self.define_from_variant("HEDDLE_BUILD_SHMEM", "shmem"),
            self.define_from_variant("HEDDLE_BUILD_EMUCUDA", "emucuda"),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def measure(self):
        Executable(join_path(self.prefix.bin, "heddle_perf"))("--quick")
