/* test_contract_sanitizer.c: ThreadSanitizer of a user's program understands what collectives
 * order, although the library that they come from was built without it.
 *
 * Builds tsan_client.c against the shared library of the build tree that this program is part of.
 * Skipped where there is none, where it is sanitized itself, and where the compiler has no
 * sanitizer.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(contract_sanitizer, .timeout = 120);

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
enum { SANITIZED = __has_feature(address_sanitizer) };
#else
enum { SANITIZED = 0 };
#endif

/* The nearest folder above this program that holds a library. */
static bool find_build_tree(char *path, size_t size) {
    char library[4200];
    char *slash;
    ssize_t length = readlink("/proc/self/exe", path, size - 1);

    path[length > 0 ? length : 0] = '\0';
    while (!SANITIZED && (slash = strrchr(path, '/')) != NULL) {
        *slash = '\0';
        snprintf(library, sizeof(library), "%s/libheddle.so", path);
        if (access(library, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* What the client, given this argument, exits with under the sanitizer; -1: can't be had here. The
 * sanitizer's shadow memory needs addresses that are not randomized much. */
static int run_client(const char *argument) {
    static const char script[] =
        "d=$(mktemp -d) || exit 77; trap 'rm -rf \"$d\"' EXIT; "
        "printf 'int main(void) { return 0; }' >\"$d/t.c\"; "
        "cc -fsanitize=thread \"$d/t.c\" -o \"$d/t\" 2>/dev/null && setarch -R \"$d/t\" "
        "2>/dev/null "
        "|| exit 77; "
        "cc -g -O1 -fsanitize=thread -I\"$SOURCE/include\" "
        "\"$SOURCE/tests/contract/tsan_client.c\" "
        "-o \"$d/client\" -L\"$BUILD\" -lheddle -Wl,-rpath,\"$BUILD\" || exit 78; "
        "TSAN_OPTIONS=exitcode=66 timeout 60 setarch -R \"$d/client\" $ARGUMENT >\"$d/log\" 2>&1; "
        "status=$?; [ $status = 0 ] || [ -n \"$ARGUMENT\" ] || head -n 60 \"$d/log\"; exit $status";
    char build[4096];

    if (!find_build_tree(build, sizeof(build))) {
        return -1;
    }
    setenv("BUILD", build, 1);
    setenv("SOURCE", HEDDLE_SOURCE, 1);
    setenv("ARGUMENT", argument, 1);
    int status = system(script);
    return WIFEXITED(status) && WEXITSTATUS(status) != 77 ? WEXITSTATUS(status) : -1;
}

Test(contract_sanitizer, a_correct_program_is_silent_under_thread_sanitizer) {
    int status = run_client("");
    if (status < 0) {
        cr_skip_test("no library without sanitizers, or no ThreadSanitizer here");
    }
    cr_assert_eq(status, 0, "exit status %d", status);
}

Test(contract_sanitizer, a_missing_barrier_is_still_reported) {
    int status = run_client("racy");
    if (status < 0) {
        cr_skip_test("no library without sanitizers, or no ThreadSanitizer here");
    }
    cr_assert_eq(status, 66, "exit status %d", status);
}
