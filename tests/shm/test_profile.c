/* test_profile.c: where a profile comes from, what follows from it, and what is done where it can't
 * be had. That results are the same with any of them, conformance shows (scripts/test).
 */
#include "plan_rows.h"
#include "shm/profile.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <heddle/heddle.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/heddle-profile-XXXXXX";

static void make_folder(void) {
    cr_assert(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("HEDDLE_LOG_LEVEL", "fatal", 1);
}

static void remove_folder(void) {
    char command[sizeof(folder) + 16];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(profile, .init = make_folder, .fini = remove_folder);

/* --- what follows ----------------------------------------------------------------------------- */

static hd_profile_t profile_of(const uint32_t pushed[4], const uint32_t pulled[4]) {
    hd_profile_t profile = {.machine = "a machine", .origin = "a test"};
    static const uint8_t is_other[HD_PROFILE_ROWS] = {
        [HD_EACH_PULLED] = 1, [HD_SAME_PULLED] = 1, [HD_FAR_BY_KERNEL] = 1};
    for (uint32_t row = 0; row < HD_PROFILE_ROWS; row++) {
        memcpy(profile.ns[row], is_other[row] ? pulled : pushed, sizeof(profile.ns[row]));
    }
    return profile;
}

Test(profile, has_the_crossover_by_which_all_sizes_together_take_the_least_time) {
    static const struct {
        uint32_t pushed[4], pulled[4];
        size_t from;
    } rows[] = {
        {{100, 100, 100, 100}, {50, 50, 50, 50}, 1},
        {{100, 100, 100, 100}, {200, 200, 200, 200}, 0},
        {{100, 100, 100, 100}, {200, 90, 80, 70}, 16 << 10},
        {{100, 100, 100, 100}, {200, 110, 80, 70}, 64 << 10},
        {{100, 100, 100, 100}, {200, 200, 110, 70}, 256 << 10},
        {{100, 100, 100, 100}, {50, 50, 50, 110}, 1},   /* the largest alone would be slower */
        {{100, 100, 100, 100}, {99, 99, 99, 99}, 0},    /* not worth it */
        {{100, 100, 100, 100}, {10, 200, 200, 200}, 1}, /* 10 * 1/2 * 1/2 * 1/2 */
        {{100, 100, 100, 100}, {20, 200, 200, 200}, 0},
        {{0, 0, 0, 0}, {0, 0, 0, 0}, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hd_profile_t profile = profile_of(rows[i].pushed, rows[i].pulled);
        hd_crossovers_t from = hd_profile_crossovers(&profile);
        cr_expect_eq(from.each, rows[i].from, "row %zu: %zu", i, from.each);
        cr_expect_eq(from.same, rows[i].from, "row %zu: %zu", i, from.same);
        size_t far = rows[i].from == 1 ? 16 << 10 : 4 * rows[i].from; /* of larger blocks */
        far = rows[i].pushed[0] ? far : 64 << 10; /* as on the machine of the first measurements */
        cr_expect_eq(from.kernel, far, "row %zu: %zu", i, from.kernel);
        cr_expect_eq(from.piece, HD_FAR_SHORT, "row %zu: %zu", i, from.piece);
    }
}

Test(profile,
     has_longer_windows_where_they_are_faster_in_all_and_the_kernel_where_it_is_than_those) {
    hd_profile_t profile =
        profile_of((uint32_t[]){100, 100, 100, 100}, (uint32_t[]){90, 90, 90, 90});
    cr_expect_eq(hd_profile_crossovers(&profile).kernel, 16 << 10);
    memcpy(profile.ns[HD_FAR_BY_LONG], (uint32_t[]){100, 100, 90, 80}, sizeof(profile.ns[0]));
    hd_crossovers_t from = hd_profile_crossovers(&profile);
    cr_expect_eq(from.piece, HD_FAR_LONG);
    cr_expect_eq(from.kernel, 16 << 10, "%zu", from.kernel);
    memcpy(profile.ns[HD_FAR_BY_LONG], (uint32_t[]){100, 90, 70, 60}, sizeof(profile.ns[0]));
    cr_expect_eq(hd_profile_crossovers(&profile).kernel, 0);
    memcpy(profile.ns[HD_FAR_BY_KERNEL],
           (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, sizeof(profile.ns[0]));
    memcpy(profile.ns[HD_FAR_BY_LONG], (uint32_t[]){100, 120, 100, 80}, sizeof(profile.ns[0]));
    from = hd_profile_crossovers(&profile);
    cr_expect(from.piece == HD_FAR_LONG && from.kernel == 64 << 10, "the kernel refused");
    memcpy(profile.ns[HD_FAR_BY_LONG], (uint32_t[]){10, 10, 100, 100}, sizeof(profile.ns[0]));
    cr_expect_eq(hd_profile_crossovers(&profile).piece, HD_FAR_SHORT, "they were the same");
}

static hd_crossovers_t stores_of(const uint32_t string[4], const uint32_t streaming[4],
                                 const uint32_t pages[4]) {
    static const uint32_t all[4] = {100, 100, 100, 100};
    hd_profile_t profile = profile_of(all, all);
    memcpy(profile.ns[HD_COPIED_BY_STRING], string, sizeof(profile.ns[0]));
    memcpy(profile.ns[HD_COPIED_BY_STREAMING], streaming, sizeof(profile.ns[0]));
    memcpy(profile.ns[HD_COPIED_BY_PAGES], pages, sizeof(profile.ns[0]));
    return hd_profile_crossovers(&profile);
}

Test(profile, has_the_stores_by_which_large_copies_take_the_least_time) {
    enum { KIB = 1024 };
    static const struct {
        uint32_t string[4], streaming[4];
        size_t from, end, streams;
    } rows[] = {
        {{100, 100, 100, 100}, {900, 900, 900, 900}, HD_NEVER, HD_NEVER, 0},
        {{99, 99, 99, 99}, {900, 900, 900, 900}, HD_NEVER, HD_NEVER, 0}, /* not worth it */
        {{50, 50, 50, 50}, {900, 900, 900, 900}, 32 * KIB, HD_NEVER, 0},
        {{150, 90, 80, 110}, {900, 900, 900, 99}, 128 * KIB, 2048 * KIB, 0},
        {{150, 110, 110, 80}, {900, 900, 900, 70}, 2048 * KIB, HD_NEVER, 2048 * KIB},
        {{50, 150, 150, 150}, {900, 50, 50, 50}, 32 * KIB, 128 * KIB, 128 * KIB},
        {{50, 50, 50, 50}, {900, 90, 90, 90}, 32 * KIB, HD_NEVER, 0}, /* strings are faster */
        {{50, 50, 50, 50}, {9, 9, 9, 9}, 32 * KIB, HD_NEVER, 32 * KIB},
    };
    static const uint32_t none[4] = {1000, 1000, 1000, 1000};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hd_crossovers_t from = stores_of(rows[i].string, rows[i].streaming, none);
        hd_crossovers_t paged = stores_of(rows[i].string, none, rows[i].streaming);
        cr_expect(from.in_order && !paged.in_order && paged.streaming == from.streaming);
        cr_expect_eq(from.string, rows[i].from, "row %zu: %zu", i, from.string);
        cr_expect_eq(from.string_end, rows[i].end, "row %zu: %zu", i, from.string_end);
        cr_expect_eq(from.streaming, rows[i].streams, "row %zu: %zu", i, from.streaming);
    }
    hd_crossovers_t unknown = hd_profile_crossovers(&(hd_profile_t){.origin = "a test"});
    cr_expect(unknown.string == 0 && unknown.string_end == 0 && unknown.streaming == 0 &&
              !unknown.in_order);
}

/* Bytes that a group with those crossovers lets the kernel copy from, asked for `pull_min`. */
static size_t pulled_from(size_t pull_min, size_t kernel) {
    hd_group_config_t config = small_config();
    config.pull_min = pull_min;
    config.crossovers.kernel = kernel;
    hd_group_t *group = hd_group_create(2, &config);
    cr_assert(group);
    size_t from = group->pull_min;
    hd_home_unpin(&group->home);
    return from;
}

Test(profile, says_from_which_block_on_the_kernel_copies_unless_pull_min_does) {
    enum { KIB = 1024 };
    cr_expect_eq(pulled_from((size_t)HD_CFG_AUTO, 64 * KIB), 128 * KIB);
    cr_expect_eq(pulled_from((size_t)HD_CFG_AUTO, 1), 2);
    cr_expect_eq(pulled_from((size_t)HD_CFG_AUTO, 0), SIZE_MAX);
    cr_expect_eq(pulled_from(4 * KIB, 0), 4 * KIB);
    cr_expect_eq(pulled_from(SIZE_MAX, 1), SIZE_MAX);
}

/* Likewise, whose members are more than the processors, or not. */
static void expect_ruled(size_t pull_min, size_t kernel, bool lacking, size_t from, bool ends) {
    hd_group_config_t config = small_config();
    config.pull_min = pull_min;
    config.crossovers.kernel = kernel;
    config.streaming_min = 1 << 20;
    hd_group_t *group = hd_group_create(2, &config);
    cr_assert(group);
    hd_ruling_t ruling = {.lacking = lacking};
    hd_plan_ruled(group, &ruling);
    cr_expect_eq(group->pull_min, from);
    cr_expect_eq(group->pull_end, ends ? (size_t)1 << 20 : SIZE_MAX);
    hd_home_unpin(&group->home);
}

Test(profile, lets_the_kernel_copy_where_processors_lack_but_not_what_is_streamed) {
    enum { KIB = 1024 };
    size_t automatic = (size_t)HD_CFG_AUTO;
    expect_ruled(automatic, 0, true, 64 * KIB, true);
    expect_ruled(automatic, 0, false, SIZE_MAX, false);
    expect_ruled(automatic, 256 * KIB, true, 64 * KIB, true);
    expect_ruled(automatic, 16 * KIB, true, 32 * KIB, false);
    expect_ruled(SIZE_MAX, 0, true, SIZE_MAX, false);
    expect_ruled(KIB, 0, true, KIB, false);
}

static void expect_plan(hd_crossovers_t from, uint8_t type, size_t bytes, bool in_place,
                        const char *name, bool by_destination) {
    row_t row = {type, 2, bytes, "", "", 0, 0, 0, 0, 0, 0, 0, 0};
    hd_group_t *group = group_of(&row);
    group->crossovers = from;
    uint32_t counts[MOST];
    hd_call_t call = call_of(&row, 1, counts);
    call.in_place = in_place;
    hd_place_t place = place_of(&row, 1);
    hd_plan_t plan = hd_plan_here(group, &call, &place);
    cr_expect_str_eq(hd_plan_name(&plan), name, "%s of %zu: %s", hd_type_name(type), bytes,
                     hd_plan_name(&plan));
    cr_expect(plan.row && plan.row->by_destination == by_destination, "%s", hd_type_name(type));
    hd_home_unpin(&group->home);
}

Test(profile, says_which_plans_pull) {
    describe_machine();
    enum { BLOCK = 1 << 18, STREAMED = STREAMING_MIN / 2 };
    hd_crossovers_t never = {.each = 0}, always = {.each = 1, .same = 1},
                    larger = {.each = 2 * BLOCK, .same = 2 * BLOCK};
    expect_plan(never, HD_ALLTOALL, BLOCK, false, "direct", false);
    expect_plan(always, HD_ALLTOALL, BLOCK, false, "pulled", true);
    expect_plan(larger, HD_ALLTOALL, BLOCK, false, "direct", false);
    expect_plan(always, HD_ALLTOALL, BLOCK, true, "direct", false); /* it swaps */
    expect_plan(never, HD_ALLGATHER, BLOCK, false, "direct", false);
    expect_plan(always, HD_ALLGATHER, BLOCK, false, "pulled", true);
    expect_plan(always, HD_ALLGATHER, BLOCK, true, "pulled", true);
    expect_plan(larger, HD_ALLGATHER, BLOCK, false, "direct", false);
    expect_plan((hd_crossovers_t){.each = 1}, HD_ALLGATHER, BLOCK, false, "direct", false);
    expect_plan((hd_crossovers_t){.same = 1}, HD_ALLTOALL, BLOCK, false, "direct", false);
    expect_plan(always, HD_ALLGATHERV, BLOCK, false, "pulled", true);
    expect_plan(larger, HD_ALLGATHERV, BLOCK, false, "direct", false);
    expect_plan(always, HD_ALLGATHER, STREAMED - 1, false, "pulled", true);
    expect_plan(always, HD_ALLGATHER, STREAMED, false, "direct", false); /* read once, not twice */
    expect_plan(always, HD_ALLGATHERV, STREAMED, false, "direct", false);
    expect_plan(always, HD_ALLTOALL, STREAMED, false, "pulled", true);
    expect_plan(always, HD_ALLTOALLV, BLOCK, false, "direct", true); /* its own lane is direct */
    expect_plan(never, HD_ALLTOALLV, BLOCK, false, "direct", false);
    /* nobody knows its blocks: as if they were large, but not that large */
    expect_plan(larger, HD_ALLTOALLV, BLOCK, false, "direct", false);
    expect_plan(always, HD_BCAST, BLOCK, false, "direct", false);
    expect_plan(always, HD_ALLREDUCE, BLOCK, false, "direct", false);
}

/* --- files ------------------------------------------------------------------------------------ */

static uint32_t measured;

static bool measure_some(hd_profile_t *out) {
    static const uint32_t pushed[4] = {10, 20, 30, UINT32_MAX}, pulled[4] = {1, 2, 3, 4};
    hd_profile_t profile = profile_of(pushed, pulled);
    memcpy(out->ns, profile.ns, sizeof(out->ns));
    out->origin = "measured";
    measured++;
    return true;
}

static bool measure_none(hd_profile_t *out) {
    (void)out;
    measured++;
    return false;
}

static hd_profile_t profile_for(const char *machine) {
    hd_profile_t profile = {.origin = ""};
    snprintf(profile.machine, sizeof(profile.machine), "%s", machine);
    return profile;
}

/* Where "a machine"'s is kept. */
static const char *kept(void) {
    static char path[sizeof(folder) + 64];
    snprintf(path, sizeof(path), "%s/heddle/profile-a-machine", folder);
    return path;
}

Test(profile, is_measured_once_and_kept) {
    hd_profile_t first = profile_for("a machine"), second = first, other = profile_for("another");
    cr_assert(hd_profile_keep(&first, measure_some));
    cr_assert_str_eq(first.origin, "measured");
    cr_assert(hd_profile_keep(&second, measure_some));
    cr_assert_str_eq(second.origin, "file");
    cr_assert_eq(measured, 1);
    cr_assert_arr_eq(first.ns, second.ns, sizeof(first.ns));
    cr_assert(hd_profile_keep(&other, measure_some));
    cr_assert_eq(measured, 2, "another machine has a file of its own");
    const char *why = NULL;
    cr_assert(hd_profile_read(kept(), "", &other, &why));
    cr_assert_str_eq(other.machine, "a machine");
    cr_assert_not(hd_profile_read(kept(), "another", &other, &why));
    cr_assert(strstr(why, "another machine"));
}

Test(profile, that_could_not_be_measured_is_not_kept) {
    hd_profile_t profile = profile_for("a machine");
    cr_assert_not(hd_profile_keep(&profile, measure_none));
    cr_assert_neq(access(kept(), F_OK), 0);
}

static void write_kept(const char *text) {
    FILE *out = fopen(kept(), "w");
    cr_assert(out);
    fputs(text, out);
    fclose(out);
}

Test(profile, whose_file_is_damaged_is_measured_anew) {
#define ROWS_BUT_ONE                                                                               \
    "heddle profile 3\nmachine a machine\neach pushed 1 2 3 4\neach pulled 1 2 3 4\nsame pushed "  \
    "1 2 3 4\nsame pulled 1 2 3 4\nfar windows 1 2 3 4\nfar long windows 1 2 3 4\nfar kernel 1 2 " \
    "3 4\ncopied plainly 1 2 3 4\ncopied string 1 2 3 4\ncopied streaming 1 2 3 4\n"
    static const char *const damaged[] = {
        "",
        "\n",
        "heddle profile 2\nmachine a machine\n",
        "heddle profile 3\n",
        "heddle profile 3\nmachine \n",
        "heddle profile 3\nmachine another\n",
        ROWS_BUT_ONE,
        ROWS_BUT_ONE "copied pages 1 2 3 4", /* its end is missing */
        ROWS_BUT_ONE "copied pages 1 2 3\n",
        ROWS_BUT_ONE "copied pages 1 2 3 4 5\n",
        ROWS_BUT_ONE "copied pages 1 2 3 0\n",
        ROWS_BUT_ONE "copied pages 1 2 3 -4\n",
        ROWS_BUT_ONE "copied pages 1 2 3 4294967296\n",
        ROWS_BUT_ONE "copied pages 1 2 3 99999999999999999999999\n",
        ROWS_BUT_ONE "copied pages 1  2 3 4\n",
        ROWS_BUT_ONE "far windows 1 2 3 4\n",
    };
    hd_profile_t profile = profile_for("a machine");
    const char *why = NULL;
    cr_assert(hd_profile_keep(&profile, measure_some));
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        write_kept(damaged[i]);
        cr_expect_not(hd_profile_read(kept(), "a machine", &profile, &why), "%zu", i);
        cr_expect(why && *why);
        measured = 0;
        profile = profile_for("a machine");
        cr_expect(hd_profile_keep(&profile, measure_some));
        cr_expect_eq(measured, 1, "%zu", i);
        cr_expect(hd_profile_read(kept(), "a machine", &profile, &why), "%zu: %s", i, why);
    }
    write_kept(ROWS_BUT_ONE "copied pages 1 2 3 4\nand what a later version adds\n");
    cr_expect(hd_profile_read(kept(), "a machine", &profile, &why), "%s", why);
}

static void expect_unkept(const char *why) {
    hd_profile_t profile = profile_for("a machine");
    measured = 0;
    cr_expect(hd_profile_keep(&profile, measure_some), "%s", why);
    cr_expect_eq(measured, 1, "%s", why);
}

Test(profile, that_can_not_be_kept_is_measured_all_the_same) {
    char file[sizeof(folder) + 8];
    snprintf(file, sizeof(file), "%s/file", folder);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    setenv("XDG_CACHE_HOME", file, 1);
    expect_unkept("no folder");
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    expect_unkept("nowhere");
    static char deep[5000];
    memset(deep, 'd', sizeof(deep) - 1);
    deep[0] = '/';
    setenv("XDG_CACHE_HOME", deep, 1);
    expect_unkept("a long name");
    setenv("XDG_CACHE_HOME", folder, 1);
    struct rlimit limit = {16, 16};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect_unkept("short files");
    cr_expect_neq(access(kept(), F_OK), 0);
}

Test(profile, is_kept_in_the_home_folder_where_there_is_no_other) {
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1);
    hd_profile_t profile = profile_for("a machine");
    cr_assert(hd_profile_keep(&profile, measure_some));
    char path[sizeof(folder) + 64];
    snprintf(path, sizeof(path), "%s/.cache/heddle/profile-a-machine", folder);
    cr_assert_eq(access(path, R_OK), 0);
}

/* --- several processes at once --- */

static _Atomic uint32_t *by_all;

static bool measure_slowly(hd_profile_t *out) {
    atomic_fetch_add(by_all, 1);
    usleep(2000);
    return measure_some(out);
}

Test(profile, is_measured_by_one_of_several_processes) {
    enum { PROCESSES = 6 };
    by_all = mmap(NULL, sizeof(*by_all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)by_all, MAP_FAILED);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            hd_profile_t profile = profile_for("a machine");
            _exit(!hd_profile_keep(&profile, measure_slowly) || profile.ns[HD_EACH_PULLED][0] != 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        wait(&status);
        cr_expect_eq(status, 0);
    }
    /* where they are kept from the processor for long, some have waited in vain */
    uint32_t all = atomic_load(by_all);
    cr_expect(all >= 1 && all < PROCESSES, "by %u", all);
    const char *why = NULL;
    hd_profile_t profile;
    cr_expect(hd_profile_read(kept(), "a machine", &profile, &why));
}

/* --- what is asked for ------------------------------------------------------------------------ */

static hd_crossovers_t crossovers_of(const char *text) {
    hd_profile_choice_t choice;
    cr_assert_eq(hd_profile_parse(text, &choice), UCC_OK);
    hd_crossovers_t from = hd_profile_crossovers(hd_profile_of(&choice));
    hd_profile_forget(&choice);
    return from;
}

Test(profile, is_what_the_configuration_says) {
    hd_profile_choice_t choice;
    cr_assert_eq(hd_profile_parse("auto", &choice), UCC_OK);
    cr_assert(!choice.profile && !choice.again && !choice.owned);
    cr_assert_eq(hd_profile_parse("measure", &choice), UCC_OK);
    cr_assert(!choice.profile && choice.again && !choice.owned);
    hd_crossovers_t from = crossovers_of("none");
    cr_assert(from.each == 0 && from.same == 0);
    from = crossovers_of("epyc-milan");
    cr_assert(from.each == 1 && from.same == 1 && from.kernel == 0 && from.piece == HD_FAR_LONG);
    cr_assert(from.string == 128 << 10 && from.string_end == HD_NEVER && from.streaming == 0 &&
              from.in_order);
    static const char *const wrong[] = {"", "Auto", "epyc", "/no/such/file", "/", "/dev/null"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect_eq(hd_profile_parse(wrong[i], &choice), UCC_ERR_INVALID_PARAM, "%s", wrong[i]);
        cr_expect(!choice.profile && !choice.owned);
    }
    hd_profile_t one = profile_for("a machine");
    cr_assert(hd_profile_keep(&one, measure_some));
    cr_assert_eq(crossovers_of(kept()).each, 1);
}

Test(profile, a_wrong_one_is_an_error_of_the_library_s_beginning) {
    ucc_lib_params_t params = {0};
    ucc_lib_h lib;
    setenv("HEDDLE_PROFILE", "nonsense", 1);
    cr_assert_eq(ucc_init(&params, NULL, &lib), UCC_ERR_INVALID_PARAM);
    hd_profile_t one = profile_for("a machine");
    cr_assert(hd_profile_keep(&one, measure_some));
    setenv("HEDDLE_PROFILE", kept(), 1);
    cr_assert_eq(ucc_init(&params, NULL, &lib), UCC_OK);
    cr_assert_eq(ucc_finalize(lib), UCC_OK);
}

Test(profile, is_measured_where_there_are_two_cores) {
    hd_profile_t profile = profile_for("");
    if (hd_topo_n_domains(hd_topo_get(), HD_TOPO_CORE) < 2) {
        cr_assert_not(hd_profile_measure(&profile, 0.04));
        return;
    }
    cr_assert(hd_profile_measure(&profile, 0.04));
    for (uint32_t row = 0; row < HD_PROFILE_ROWS; row++) {
        for (uint32_t i = 0; i < HD_PROFILE_SIZES; i++) {
            cr_expect_gt(profile.ns[row][i], 0, "row %u, size %u", row, i);
        }
    }
    hd_profile_choice_t measured_again = {.again = true};
    const hd_profile_t *again = hd_profile_of(&measured_again);
    cr_expect_eq(again, hd_profile_of(&measured_again), "once in a process");
    cr_expect_str_eq(again->origin, "measured");
}

Test(profile, that_a_program_has_measured_is_used_where_the_environment_names_it) {
    hd_profile_t profile;
    const char *why;
    char path[PATH_MAX], machine[HD_PROFILE_TEXT];
    hd_profile_machine(machine, sizeof(machine));
    snprintf(path, sizeof(path), "%s/of-a-program", folder);
    ucc_status_t status = heddle_profile_measure(path, 0.01);
    if (hd_topo_n_domains(hd_topo_get(), HD_TOPO_CORE) < 2) {
        cr_assert_eq(status, UCC_ERR_NOT_SUPPORTED);
        return;
    }
    cr_assert_eq(status, UCC_OK);
    cr_assert(hd_profile_read(path, machine, &profile, &why), "%s", why);
    hd_profile_choice_t choice;
    cr_assert_eq(hd_profile_parse(path, &choice), UCC_OK);
    cr_expect_arr_eq(hd_profile_of(&choice)->ns, profile.ns, sizeof(profile.ns));
    hd_profile_forget(&choice);
}

Test(profile, to_be_measured_needs_a_path_and_a_time) {
    cr_expect_eq(heddle_profile_measure(NULL, 1), UCC_ERR_INVALID_PARAM);
    const double bad[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(heddle_profile_measure("/x/y", bad[i]), UCC_ERR_INVALID_PARAM, "%zu", i);
    }
}

Test(profile, that_cannot_be_written_leaves_nothing) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/not-there/profile", folder);
    bool measured = hd_topo_n_domains(hd_topo_get(), HD_TOPO_CORE) >= 2;
    cr_expect_eq(heddle_profile_measure(path, 0.01),
                 measured ? UCC_ERR_NO_RESOURCE : UCC_ERR_NOT_SUPPORTED);
    snprintf(path, sizeof(path), "%s", folder); /* a folder is not replaced */
    cr_expect_eq(heddle_profile_measure(path, 0.01),
                 measured ? UCC_ERR_NO_RESOURCE : UCC_ERR_NOT_SUPPORTED);
}

Test(profile, of_a_described_machine_is_not_measured) {
    setenv("HEDDLE_TOPOLOGY", "package:1 core:4 pu:1", 1);
    hd_profile_t profile = profile_for("a machine");
    cr_assert_not(hd_profile_measure(&profile, 0.04));
    cr_assert(hd_profile_keep(&profile, measure_some));
    cr_assert_neq(access(kept(), F_OK), 0, "nor kept");
}

/* --- what is pulled --------------------------------------------------------------------------- */

enum { MEMBERS = 3, MUCH = 300000, LITTLE = 3 };

/* Numbers that s gives to d: much if its bit is set, of the nine pairs. */
static uint64_t count_of(uint32_t bits, uint32_t s, uint32_t d) {
    return bits >> (s * MEMBERS + d) & 1 ? MUCH : LITTLE;
}

static uint32_t number_of(uint32_t s, uint32_t d, uint64_t i) {
    return s * 7000001 + d * 500009 + (uint32_t)i;
}

/* What a member gives may be little where it gets much, and the other way round. */
static void swap_unevenly(heddle_ep_t *ep, void *arg) {
    const uint32_t *bits = arg;
    uint32_t me = heddle_ep_index(ep);
    uint64_t gives[MEMBERS], gets[MEMBERS], from[MEMBERS], to[MEMBERS], given = 0, got = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        from[i] = given;
        given += gives[i] = count_of(*bits, me, i);
        to[i] = got;
        got += gets[i] = count_of(*bits, i, me);
    }
    uint32_t *src = malloc(given * sizeof(*src)), *dst = calloc(got, sizeof(*dst));
    for (uint32_t d = 0; d < MEMBERS; d++) {
        for (uint64_t i = 0; i < gives[d]; i++) {
            src[from[d] + i] = number_of(me, d, i);
        }
    }
    cr_expect_eq(heddle_alltoallv(ep, src, gives, from, dst, gets, to, UCC_DT_UINT32), UCC_OK);
    bool right = true;
    for (uint32_t s = 0; s < MEMBERS; s++) {
        for (uint64_t i = 0; i < gets[s]; i++) {
            right &= dst[to[s] + i] == number_of(s, me, i);
        }
    }
    cr_expect(right, "pairs %#x: member %u", *bits, me);
    free(src);
    free(dst);
}

Test(profile, uneven_blocks_are_pulled_whole) {
    hd_profile_t one = profile_for("a machine");
    cr_assert(hd_profile_keep(&one, measure_some)); /* which pulls all */
    setenv("HEDDLE_PROFILE", kept(), 1);
    for (uint32_t bits = 0; bits < 1 << MEMBERS * MEMBERS; bits += 3) {
        cr_assert_eq(heddle_run(MEMBERS, swap_unevenly, &bits), UCC_OK);
    }
}

/* --- members that disagree -------------------------------------------------------------------- */

/* Member 1 expects more of member 0 than that has, so much that it would push what member 0 pulls.
 */
static void gather_unequally(heddle_ep_t *ep, void *arg) {
    enum { LESS = 64 * 1024, MORE = 200 * 1024 };
    ucc_status_t *status = arg;
    uint32_t me = heddle_ep_index(ep);
    uint64_t counts[2] = {me ? MORE : LESS, LESS}, displacements[2] = {0, MORE};
    uint8_t *src = calloc(1, LESS), *dst = calloc(1, MORE + LESS);
    status[me] = heddle_allgatherv(ep, src, LESS, dst, counts, displacements, UCC_DT_UINT8);
    free(src);
    free(dst);
}

Test(profile, blocks_of_the_wrong_size_are_told_though_one_pulls_and_the_other_pushes) {
    hd_profile_t one = profile_for("a machine");
    cr_assert(hd_profile_keep(&one, measure_some)); /* which pulls all */
    setenv("HEDDLE_PROFILE", kept(), 1);
    setenv("HEDDLE_NONTEMPORAL_MIN", "256k", 1);
    for (uint32_t i = 0; i < 20; i++) {
        ucc_status_t status[2] = {UCC_OK, UCC_OK};
        (void)heddle_run(2, gather_unequally, status);
        cr_expect(status[0] != UCC_OK || status[1] != UCC_OK, "time %u", i);
    }
}
