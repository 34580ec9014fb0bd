/* test_equations.c: the walks over lines and parts (device/check.c) find what must not be. Each
 * test breaks one equation of device/internal.h, in a child, and looks at what the walk says.
 */
#include "device/internal.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 512, BYTES = 64 };

static hd_gpu_driver_t driver;
static struct ucc_team team;
static hd_devices_t *devices;
static hd_line_t *line; /* of `devices`, its first; given 5 tickets, of which 3 are reached */
static hd_gpu_flag_t word;
static hd_gpu_block_t host = {.bytes = WORDS * sizeof(uint64_t), .kind = HD_GPU_PINNED};
static hd_gpu_block_t device = {.bytes = WORDS * sizeof(uint64_t), .kind = HD_GPU_DEVICE};
static hd_device_table_t table = {.host = &host, .device = &device, .capacity = WORDS, .ticket = 5};
static hd_device_late_t late = {.block = &host, .ticket = 4};
static hd_device_part_t part;
static hd_op_t op;
static hd_group_t group;
static char any;

static void setup(void) {
    driver.devices = 1;
    devices = calloc(1, sizeof(*devices) + HD_GPU_STREAMS * sizeof(*line));
    devices->driver = &driver;
    line = &devices->line[0];
    atomic_init(&line->ready, true);
    atomic_init(&word, 3);
    line->word = &word;
    line->ask = (hd_gpu_event_t *)(void *)&any;
    line->ticket = 5;
    line->table = &table;
    line->late = line->late_last = &late;
    team.devices = devices;
    team.group = &group;
    op.team = &team;
    op.device = &part;
    for (int i = 0; i < HD_SIDES; i++) {
        part.side[i].memory = (hd_gpu_memory_t){.kind = HD_GPU_HOST, .device = -1};
    }
    part.side[HD_SIDE_SRC].stand_in = &host;
    part.side[HD_SIDE_SRC].bytes = BYTES;
    part.waits = 1;
    part.wait[0] = (struct hd_device_wait){.line = line, .ticket = 5};
}

static void teardown(void) {
    free(devices);
}

TestSuite(equations, .init = setup, .fini = teardown);

static void check_all(void) {
    hd_line_check(line);
    hd_device_check_part(&op);
}

/* Does the walk, in a child, end with this equation? NULL: it finds nothing. */
static bool finds(const char *equation) {
    char text[1024];
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        check_all();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    waitpid(child, NULL, 0);
    text[n > 0 ? n : 0] = '\0';
    bool found = equation ? strstr(text, equation) != NULL : !text[0];
    if (!found) {
        cr_log_error("instead of %s: %s", equation ? equation : "nothing", text);
    }
    return found;
}

Test(equations, nothing_is_found_where_all_is_well) {
    cr_assert(finds(NULL));
}

Test(equations, no_device_sets_a_ticket_that_nobody_has_given) {
    atomic_store(&word, 6);
    cr_assert(finds("line->ticket + 1"));
}

Test(equations, a_table_is_read_by_the_next_work_at_most) {
    table.ticket = 6;
    cr_assert(finds(NULL));
    table.ticket = 7;
    cr_assert(finds("table->ticket <= line->ticket + 1"));
}

Test(equations, a_table_has_both_its_memories_or_none) {
    table.device = NULL;
    cr_assert(finds("!table->host == !table->device"));
}

Test(equations, what_is_put_back_late_waits_for_a_ticket_that_was_given) {
    late.ticket = 6;
    cr_assert(finds("late->ticket <= line->ticket"));
}

Test(equations, the_last_block_that_is_put_back_late_is_known) {
    line->late_last = NULL;
    cr_assert(finds("late_last"));
}

Test(equations, a_line_knows_how_to_end_what_hangs_on_it) {
    static hd_line_memory_t memory;
    line->memory[HD_LINE_BOUNCE] = &memory;
    cr_assert(finds("memory[i]->put"));
}

Test(equations, no_stand_in_is_for_memory_that_devices_reach) {
    part.side[HD_SIDE_SRC].memory.kind = HD_GPU_DEVICE;
    cr_assert(finds("crosses"));
}

Test(equations, a_stand_in_is_large_enough) {
    part.side[HD_SIDE_SRC].bytes = host.bytes + 1;
    cr_assert(finds("side->bytes <= side->stand_in->bytes"));
}

Test(equations, a_member_waits_for_tickets_of_lines_that_are_not_for_captures) {
    part.wait[0].line = &devices->line[HD_DEVICE_LINES];
    cr_assert(finds("HD_DEVICE_LINES"));
}

Test(equations, a_member_waits_for_no_more_tickets_than_there_are_devices) {
    part.waits = HD_GPU_DEVICES + 1;
    cr_assert(finds("part->waits <= HD_GPU_DEVICES"));
}

Test(equations, only_what_has_failed_waits_for_a_limited_time) {
    part.drained_by = 1;
    cr_assert(finds("part->drained_by"));
    part.outcome = UCC_ERR_IO_ERROR;
    cr_assert(finds(NULL));
}

Test(equations, the_events_of_an_order_are_of_its_stream_s_device) {
    part.order.is = true;
    part.order.ready = part.order.joined = line->ask;
    cr_assert(finds(NULL));
    part.order.stream.device = 1;
    cr_assert(finds("order->events_of == order->stream.device"));
}

Test(equations, nothing_that_is_captured_waits_for_the_host) {
    part.order.is = part.order.held = true;
    part.order.ready = part.order.joined = line->ask;
    part.order.capture = 7;
    cr_assert(finds("order->held"));
}
