// exits.cpp: exit() out of a function that has something to destroy, and must not throw.
#include <cstdio>
#include <cstdlib>
#include <shmem.h>
#include <string>

static void leave(const std::string &why) noexcept {
    std::string copy = why + why;
    std::printf("%s\n", copy.c_str());
    try {
        std::exit(0);
    } catch (...) {
        std::printf("caught\n");
    }
}

int main(int argc, char **argv) {
    shmem_init();
    leave(argc > 1 ? argv[1] : "");
    return 1;
}
