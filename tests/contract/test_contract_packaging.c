/* test_contract_packaging.c: "Builds look for ucc.pc and libucc.so: ship both beside our own (in
 * lib/heddle/), so that a client can be built against Heddle as its UCC."
 *
 * Installs the build tree that this program is part of into a temporary place and builds a client
 * there. Skipped where there is no build tree around the program, or no finished library in it.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(contract_packaging, .timeout = 120);

/* A client without the sanitizer's runtime cannot load a library that needs it. */
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
enum { SANITIZED = __has_feature(address_sanitizer) };
#else
enum { SANITIZED = 0 };
#endif

/* The nearest folder above this program that holds a CMakeCache.txt and a library. */
static bool find_build_tree(char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash;
    while (!SANITIZED && (slash = strrchr(path, '/')) != NULL) {
        char cache[4200];
        *slash = '\0';
        snprintf(cache, sizeof(cache), "%s/CMakeCache.txt", path);
        if (access(cache, R_OK) == 0) {
            snprintf(cache, sizeof(cache), "%s/libheddle.so", path);
            return access(cache, R_OK) == 0;
        }
    }
    return false;
}

/* The scripts print only on failure. */
static void shell(const char *script, const char *build) {
    setenv("BUILD", build, 1);
    cr_assert_eq(system(script), 0, "failed: %s", script);
}

Test(contract_packaging, a_client_builds_and_runs_against_ucc_pc_and_libucc_so) {
    char build[4096];
    if (!find_build_tree(build, sizeof(build))) {
        cr_skip_test("no build tree around this program");
    }
    shell("bash -euo pipefail -c '"
          "d=$(mktemp -d); trap \"rm -rf $d\" EXIT; "
          "cmake --install \"$BUILD\" --prefix \"$d/p\" > \"$d/log\" 2>&1 || "
          "    { cat \"$d/log\"; exit 1; }; "
          "lib=$(dirname \"$(find \"$d/p\" -path \"*/heddle/libucc.so\")\"); "
          "test -e \"$lib/libucc.so.1\"; "
          "pc=$(dirname \"$(find \"$d/p\" -name ucc.pc)\"); "
          "printf \"#include <ucc/api/ucc.h>\\nint main(void) { unsigned a, b, c; "
          "ucc_get_version(&a, &b, &c); return a == 1 ? 0 : 1; }\\n\" > \"$d/client.c\"; "
          "export PKG_CONFIG_PATH=\"$pc\"; "
          "cc -o \"$d/client\" \"$d/client.c\" $(pkg-config --cflags --libs ucc); "
          "LD_LIBRARY_PATH=\"$lib\" \"$d/client\"'",
          build);
}

Test(contract_packaging, heddle_pc_lies_beside_them) {
    char build[4096];
    if (!find_build_tree(build, sizeof(build))) {
        cr_skip_test("no build tree around this program");
    }
    shell("bash -euo pipefail -c '"
          "d=$(mktemp -d); trap \"rm -rf $d\" EXIT; "
          "cmake --install \"$BUILD\" --prefix \"$d/p\" > \"$d/log\" 2>&1 || "
          "    { cat \"$d/log\"; exit 1; }; "
          "pc=$(dirname \"$(find \"$d/p\" -name heddle.pc)\"); "
          "PKG_CONFIG_PATH=\"$pc\" pkg-config --exists heddle'",
          build);
}
