// unload.cpp: what a module has made for the process's stores lives on when the module is given back, whether the module or the
// program comes first.
#include "support.hpp"

#include <dlfcn.h>
#include <sys/wait.h>

namespace {

bool program_used_store() {
    auto kvs = ccl::create_main_kvs();
    kvs->set("key", {'x'});
    return kvs->get("key").size() == 1;
}

bool module_used_store() {
    void *module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    void *found = module ? dlsym(module, "module_used_store") : nullptr;
    bool (*use)() = nullptr;
    std::memcpy(&use, &found, sizeof(found));
    return use && use() && dlclose(module) == 0;
}

// In a process of its own, which has no stores before.
bool survives(bool module_first) {
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        bool good = (module_first || program_used_store()) && module_used_store() &&
                    program_used_store() && module_used_store() && program_used_store();
        _exit(good ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

int main() {
    begin_phase("modules that are given back");
    EXPECT(survives(true));
    EXPECT(survives(false));
    return end_test("ccl/unload");
}
