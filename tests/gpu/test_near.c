/* test_near.c: which GPU an endpoint should use, on machines that are described. */
#include "gpu/near.h"

#include "api/api.h"
#include "gpu/support/rig.h"
#include "support/machine.h"

#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdlib.h>
#include <string.h>

TestSuite(near, .timeout = 60);

enum { MOST = 64 };

/* Shares the GPUs out among endpoints placed by topology, or as `node` says (-1: nowhere), and
 * compares with one digit for each endpoint. */
static void expect_shares(const char *const *bus, unsigned packages, unsigned cores,
                          const char *gpus, const char *node, hd_gpu_crowd_t crowd,
                          const char *expected) {
    hd_topo_t *topo;
    hd_gpu_places_t places = {.n = (uint32_t)strlen(gpus)};
    hd_locality_t where[MOST];
    uint8_t device[MOST];
    char got[MOST + 1] = "";
    uint32_t n = (uint32_t)strlen(expected);
    cr_assert_eq(hd_topo_create(machine_describe(bus, packages, cores), &topo), UCC_OK);
    places.topo = topo;
    for (uint32_t d = 0; d < places.n; d++) {
        char name[16];
        snprintf(name, sizeof(name), "0000:%02X:00.0", (unsigned)(gpus[d] - '0'));
        hd_topo_locate_pci(topo, name, NULL, &places.where[d]);
    }
    for (uint32_t i = 0; i < n; i++) {
        hd_topo_place(topo, i, n, &where[i]);
        if (node) {
            where[i] = hd_locality_unknown();
            where[i].numa = where[i].package = node[i] == '-' ? -1 : node[i] - '0';
        }
    }
    cr_assert_eq(hd_gpu_share_out(&places, where, n, crowd, device), UCC_OK);
    for (uint32_t i = 0; i < n; i++) {
        got[i] = (char)('0' + device[i]);
    }
    cr_expect_str_eq(got, expected, "GPUs %s, nodes %s, after %u of %u", gpus,
                     node ? node : "placed", crowd.before, crowd.all);
    hd_topo_destroy(topo);
}

static const char *const one_each[] = {"1", "2"}, *const crossed[] = {"34", "12"},
                         *const first_only[] = {"12", ""}, *const none[] = {"", ""};

static const hd_gpu_crowd_t alone;

Test(near, an_endpoint_gets_the_gpu_of_its_own_node) {
    expect_shares(one_each, 2, 8, "12", NULL, alone, "0000000011111111");
    expect_shares(one_each, 2, 4, "12", "10011010", alone, "10011010");
    expect_shares(crossed, 2, 4, "1234", "0011", alone, "2301");
}

Test(near, of_several_each_gets_a_run_of_neighbours) {
    expect_shares(crossed, 2, 8, "1234", NULL, alone, "2222333300001111");
    expect_shares(crossed, 2, 8, "1234", "0101010101", alone, "2020203131");
    expect_shares(crossed, 2, 8, "1234", "00", alone, "23");
}

Test(near, where_there_is_none_near_or_nothing_is_known_all_are_shared_out) {
    expect_shares(first_only, 2, 4, "12", "00001111", alone, "00001111");
    expect_shares(none, 2, 4, "123", "0000--", alone, "001122");
    expect_shares(one_each, 2, 4, "12", "----", alone, "0011");
    expect_shares(none, 2, 4, "1234", "------------------", alone, "000001111122223333");
}

Test(near, no_gpu_gets_more_than_its_share) {
    expect_shares(one_each, 2, 4, "12", "0000", alone, "0011");
    expect_shares(one_each, 2, 4, "12", "0001", alone, "0011");
    expect_shares(crossed, 2, 8, "1234", "0000000", alone, "2233001");
    expect_shares(crossed, 2, 8, "1234", "11111100", alone, "00112323");
    expect_shares(one_each, 2, 4, "12", "-0-0-0", alone, "101010");
}

Test(near, processes_of_one_host_do_not_all_begin_with_the_first_nor_leave_their_own) {
    static const hd_gpu_crowd_t of_four[] = {{4, 0}, {4, 1}, {4, 2}, {4, 3}}, last = {16, 12};
    expect_shares(crossed, 2, 4, "1234", "0", of_four[0], "2");
    expect_shares(crossed, 2, 4, "1234", "0", of_four[1], "3");
    expect_shares(crossed, 2, 4, "1234", "1", of_four[2], "0");
    expect_shares(crossed, 2, 4, "1234", "1", of_four[3], "1");
    expect_shares(none, 2, 4, "1234", "--", of_four[2], "23");
    expect_shares(one_each, 2, 4, "12", "1111", last, "1111");
    expect_shares(none, 2, 4, "1234", "----", last, "0123");
}

Test(near, whatever_the_places_each_endpoint_gets_one_and_no_gpu_too_many) {
    static const char *const bus[] = {"13", "2", "", "4567"};
    hd_topo_t *topo;
    uint32_t seed = 1;
    cr_assert_eq(hd_topo_create(machine_describe(bus, 4, 4), &topo), UCC_OK);
    for (uint32_t round = 0; round < 20000; round++) {
        hd_gpu_places_t places = {.topo = topo, .n = 1 + round % 9};
        uint32_t n = 1 + round / 9 % MOST, load[9] = {0};
        hd_locality_t where[MOST];
        uint8_t device[MOST];
        for (uint32_t d = 0; d < places.n; d++) {
            char name[16];
            snprintf(name, sizeof(name), "0000:0%u:00.0", (d + 1) % 10);
            hd_topo_locate_pci(topo, name, NULL, &places.where[d]);
        }
        for (uint32_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            where[i] = hd_locality_unknown();
            where[i].numa = where[i].package = (int32_t)(seed >> 28) % 5 - 1;
        }
        hd_gpu_crowd_t crowd = {.all = round % 2 ? n + seed % 7 : 0, .before = seed % 5};
        cr_assert_eq(hd_gpu_share_out(&places, where, n, crowd, device), UCC_OK);
        for (uint32_t i = 0; i < n; i++) {
            cr_assert_lt(device[i], places.n);
            load[device[i]]++;
        }
        uint32_t all = crowd.all > n ? crowd.all : n;
        for (uint32_t d = 0; d < places.n; d++) {
            cr_assert_leq(load[d], (all + places.n - 1) / places.n, "GPU %u of %u: %u of %u", d,
                          places.n, load[d], n);
        }
    }
    hd_topo_destroy(topo);
}

/* ---- teams ---- */

static heddle_ep_t *ep[MOST];

static void form(heddle_group_t **group, const char *node) {
    heddle_group_params_t params = {.endpoints = (uint32_t)strlen(node), .contexts = 1};
    cr_assert_eq(heddle_group_create(&params, group), UCC_OK);
}

static void join(heddle_group_t *group, uint32_t i, const char *node) {
    heddle_locality_t where = {.package = node[i] - '0', .numa = node[i] - '0', -1, -1};
    cr_assert_eq(heddle_join_at(group, i, &where, &ep[i]), UCC_OK);
}

static void part(heddle_group_t *group, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(heddle_leave(ep[i]), UCC_OK);
    }
    cr_assert_eq(heddle_group_destroy(group), UCC_OK);
}

Test(near, a_team_answers_for_each_endpoint_once_all_have_joined) {
    static const char node[] = "001101";
    static const int expected[] = {2, 2, 0, 0, 3, 1};
    heddle_group_t *group;
    int device = -7;
    setenv("HEDDLE_TOPOLOGY", machine_describe(crossed, 2, 4), 1);
    setenv("HEDDLE_GPU", "emulated:4", 1);
    form(&group, node);
    for (uint32_t i = 0; i < 6; i++) {
        join(group, i, node);
        ucc_status_t status = heddle_team_gpu(heddle_ep_team(ep[0]), 0, &device);
        cr_assert_eq(status, i == 5 ? UCC_OK : UCC_INPROGRESS);
    }
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(heddle_team_gpu(heddle_ep_team(ep[5 - i]), i, &device), UCC_OK);
        cr_expect_eq(device, expected[i], "endpoint %u: %d", i, device);
    }
    part(group, 6);
}

Test(near, what_cannot_be_told_is_refused_with_a_line) {
    heddle_group_t *group;
    int device = -7;
    setenv("HEDDLE_GPU", "emulated:0", 1);
    rig_watch();
    form(&group, "0");
    join(group, 0, "0");
    ucc_team_h team = heddle_ep_team(ep[0]);
    cr_expect_eq(heddle_team_gpu(team, 1, &device), UCC_ERR_INVALID_PARAM);
    cr_expect_not_null(strstr(rig_line(), "ep 1 of 1"), "%s", rig_line());
    cr_expect_eq(heddle_team_gpu(team, 0, NULL), UCC_ERR_INVALID_PARAM);
    cr_expect_not_null(strstr(rig_line(), "device"), "%s", rig_line());
    cr_expect_eq(heddle_team_gpu(team, 0, &device), UCC_ERR_NOT_FOUND);
    cr_expect_not_null(strstr(rig_line(), "no GPU"), "%s", rig_line());
    cr_expect_eq(device, -7);
    part(group, 1);
    rig_forget();
}

Test(near, info_tells_gpus_nodes_and_endpoints) {
    char text[16384];
    setenv("HEDDLE_TOPOLOGY", machine_describe(crossed, 2, 4), 1);
    setenv("HEDDLE_GPU", "emulated:4", 1);
    FILE *out = fmemopen(text, sizeof(text), "w");
    cr_assert_eq(heddle_info_print(out, HEDDLE_INFO_GPUS, 8), UCC_OK);
    fclose(out);
    cr_expect_not_null(strstr(text, "on 0000:01:00.0, at NUMA node 1\n"), "%s", text);
    cr_expect_not_null(strstr(text, "on 0000:03:00.0, at NUMA node 0\n"), "%s", text);
    cr_expect_not_null(strstr(text, "\n  endpoints 0-1 at NUMA node 0: GPU 2 at NUMA node 0\n"
                                    "  endpoints 2-3 at NUMA node 0: GPU 3 at NUMA node 0\n"
                                    "  endpoints 4-5 at NUMA node 1: GPU 0 at NUMA node 1\n"
                                    "  endpoints 6-7 at NUMA node 1: GPU 1 at NUMA node 1\n"),
                       "%s", text);
}
