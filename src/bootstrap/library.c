/* library.c: the functions of a library that is there only with some launchers (kvs.h). */
#include "bootstrap/kvs.h"

#include "core/log.h"

#include <dlfcn.h>

bool hd_library_load(const char *library, const char *const *names, void **to, size_t n) {
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!loaded) {
        hd_error("heddle_bootstrap_env: the launcher speaks %s, which cannot be loaded: %s",
                 library, dlerror());
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = dlsym(loaded, names[i]);
        if (!to[i]) {
            hd_error("heddle_bootstrap_env: %s has no %s", library, names[i]);
            return false;
        }
    }
    return true;
}
