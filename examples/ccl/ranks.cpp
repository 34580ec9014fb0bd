// ranks.cpp: runs a program that was written for a rank in each process with threads as ranks:
//
//     c++ -std=c++17 -shared -fPIC -Wl,-Bsymbolic -fno-gnu-unique -Iranks $(pkg-config --cflags heddle-oneccl) program.cpp -o program.so
//     ranks 4 ./program.so ARGUMENTS
//
// Each rank's main is of a copy of the program of its own, with globals of its own. What the program asks of MPI is in
// ranks/mpi.h. The exit status is the largest of those that the ranks would end with as processes.
#include <heddle/heddle.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static thread_local heddle_ep_t *endpoint;

extern "C" __attribute__((visibility("default"))) heddle_ep_t *heddle_ranks_endpoint() {
    return endpoint;
}

// Destructors of the copies' globals are left out: other ranks may be in their functions.
extern "C" __attribute__((visibility("default"))) void heddle_ranks_end(int status) {
    std::fflush(nullptr);
    _exit(status);
}

[[noreturn]] static void fail(const std::string &what) {
    std::fprintf(stderr, "ranks: %s\n", what.c_str());
    _exit(2);
}

using main_t = int (*)(int, char **, char **);

// The loader takes two files for one library if they are one file.
static main_t load_copy(const std::string &program, uint32_t rank) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::path copy = fs::temp_directory_path() /
                    ("ranks." + std::to_string(getpid()) + "." + std::to_string(rank) + ".so");
    fs::copy_file(program, copy, error);
    if (error) {
        fail(program + ": " + error.message());
    }
    void *library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string why = library ? "" : dlerror();
    fs::remove(copy, error);
    void *found = library ? dlsym(library, "main") : nullptr;
    if (!found) {
        fail(program + ": " + (library ? "it has no main" : why));
    }
    return reinterpret_cast<main_t>(found);
}

static void run_rank(heddle_group_t *group, uint32_t rank, const std::vector<std::string> &words,
                     std::atomic<int> *worst) {
    if (heddle_join(group, rank, &endpoint) != UCC_OK) {
        fail("a rank can't join");
    }
    std::vector<std::string> mine = words; // a main may write into its arguments
    std::vector<char *> arguments;
    for (std::string &word : mine) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    int status = load_copy(mine[0], rank)(static_cast<int>(mine.size()), arguments.data(), environ);
    status &= 0xff; // all that exit() keeps: of -1 it is 255
    int most = *worst;
    while (status > most && !worst->compare_exchange_weak(most, status)) {
    }
}

int main(int argc, char **argv) {
    int n = argc > 2 ? std::atoi(argv[1]) : 0;
    if (n < 1) {
        fail("usage: ranks N PROGRAM.so [ARGUMENT...]");
    }
    heddle_group_params_t params = {};
    params.endpoints = static_cast<uint32_t>(n);
    heddle_group_t *group;
    if (heddle_group_create(&params, &group) != UCC_OK) {
        fail("no group");
    }
    const std::vector<std::string> words(argv + 2, argv + argc);
    std::atomic<int> worst{0};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < n; rank++) {
        ranks.emplace_back(run_rank, group, static_cast<uint32_t>(rank), words, &worst);
    }
    for (auto &rank : ranks) {
        rank.join();
    }
    heddle_ranks_end(worst);
}
