/* test_programs.c: programs to which libheddle_malloc is preloaded: one that says what went wrong
 * with its memory (clients/program.c), others that are on every machine, and a client of UCC, whose
 * buffers are near then.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(programs, .timeout = 120);

/* Runs it with the library, if it is there. Its status, as of waitpid. */
static int run(const char *command) {
    char text[2000];
    snprintf(text, sizeof(text), "export LD_PRELOAD='%s'; exec %s", LIBRARY, command);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", text, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static void expect(const char *command) {
    int status = run(command);
    cr_expect_eq(status, 0, "%s: status %#x", command, (unsigned)status);
}

/* The same, where there is that program. */
static void expect_with(const char *program, const char *command) {
    char look[100];
    snprintf(look, sizeof(look), "command -v %s >/dev/null", program);
    if (system(look) == 0) {
        expect(command);
    }
}

ParameterizedTestParameters(programs, has_its_memory_for_itself) {
    static char name[][40] = {
        "functions",
        "zeros",
        "comes_and_goes",
        "forks",
        "forks_without_descriptors",
        "forks_after_closing_all",
        "forks_with_no_files_allowed",
        "forks_with_closed_pages",
        "forks_with_threads",
        "forks_on_a_stack_of_its_own",
        "copies_without_handlers",
        "starts_others",
        "few_addresses",
        "locks_all",
    };
    return cr_make_param_array(char[40], name, sizeof(name) / sizeof(name[0]));
}

ParameterizedTest(char name[40], programs, has_its_memory_for_itself) {
    char command[1000];
    snprintf(command, sizeof(command), "%s %s", PROGRAM, name);
    expect(command);
}

Test(programs, who_frees_what_is_no_block_is_ended) {
    int status = run(PROGRAM " frees_what_is_none 2>/dev/null");
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", (unsigned)status);
}

Test(programs, that_know_nothing_of_it_run) {
    expect("ls / >/dev/null");
    expect("sh -c 'for i in 1 2 3 4 5; do (echo $i | cat) & done; wait' >/dev/null");
    expect("sh -c 'test $(seq 100000 | sort -R | sort -n | tail -1) = 100000'");
}

Test(programs, that_fork_with_large_variables_run) {
    expect_with("bash", "bash -c 'x=$(head -c 300000 /dev/zero | tr \\\\0 a); for i in 1 2 3; do "
                        "test $(echo $x | wc -c) = 300001 || exit 1; done'");
}

Test(programs, that_compile_run) {
    expect_with("cc",
                "sh -c 'echo \"#include <stdio.h>\nint main(void) { return puts(\\\"\\\"); }\" |"
                "cc -O2 -x c - -o /dev/null'");
}

Test(programs, that_interpret_run) {
    expect_with("python3",
                "python3 -c '\n"
                "import os, subprocess, sys\n"
                "mine = [bytearray(b\"a\") * (1 << 20) for i in range(20)]\n"
                "for i in range(5):\n"
                "    pid = os.fork()\n"
                "    if pid == 0:\n"
                "        for m in mine: m[:] = b\"b\" * (1 << 20)\n"
                "        os._exit(0)\n"
                "    if os.waitpid(pid, 0)[1]: sys.exit(1)\n"
                "other = \"x = bytearray(5000000)\"\n"
                "if subprocess.run([sys.executable, \"-c\", other]).returncode: sys.exit(2)\n"
                "sys.exit(any(m != b\"a\" * (1 << 20) for m in mine))'");
}

/* How many of its collectives were near. */
static int near_of(const char *preload, const char *arguments) {
    char command[1000];
    int near = -1;
    snprintf(command, sizeof(command), "LD_PRELOAD='%s' %s %s", preload, UCC, arguments);
    FILE *output = popen(command, "r");
    cr_assert(output);
    cr_expect_eq(fscanf(output, "%d", &near), 1);
    while (fgetc(output) != EOF) {
    }
    cr_expect_eq(pclose(output), 0);
    return near;
}

Test(programs, of_ucc_have_buffers_that_are_near) {
    cr_expect_eq(near_of("", "1048576 400"), 0);
    cr_expect_gt(near_of(LIBRARY, "1048576 400"), 20);
}

Test(programs, of_ucc_that_fork_with_their_buffers_have_them_near_too) {
    cr_expect_gt(near_of(LIBRARY, "early 1048576 400"), 20);
}
