/* main.c: bench_failures; see failures.h.
 *
 * usage: bench_failures [--processes N] [--hosts N] [--seed N] [--runs N] [--case NAME] [--talk]
 *            runs of each case, with random numbers from that seed on; a line for each case, and
 *            one for each run that ended badly, with its seed: exit status 1 if there was any
 *
 * A run is bad if a process was lost that nothing happened to and that is on no broken link, if
 * those who are left and can reach each other do not agree on who is dead, or if more hosts went
 * than had to.
 */
#include "failures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MS = 1000000, SECOND = 1000000000;
static const uint64_t long_time = 40; /* seconds in which all have to agree */

/* --- what happens ----------------------------------------------------------------------------- */

static bool touched[MOST_HOSTS]; /* a link of it was broken */
static uint32_t most;            /* hosts that have to go, at most */
static uint32_t away;            /* the host whose links were away; MOST_HOSTS: none was */

static void break_one(uint32_t a, uint32_t b) {
    touched[a] = touched[b] = a != b || touched[a];
    sim_set_link(a, b, false);
}

static void mend(void *arg, uint64_t number) {
    (void)arg;
    sim_set_link((uint32_t)(number / MOST_HOSTS), (uint32_t)(number % MOST_HOSTS), true);
}

static void kill_one(sim_process_t *p) {
    sim_kill(p, false);
    for (uint32_t i = 0; i < 4; i++) { /* ways of UCX's to it break, too */
        sim_process_t *other = &sim_process[sim_below(sim_n)];
        if (other != p && !other->dead) {
            sim_break_way(other, p->number);
        }
    }
}

static void kill_some(void) {
    for (uint64_t n = 1 + sim_below(4); n; n--) {
        sim_process_t *p = &sim_process[sim_below(sim_n)];
        if (!p->dead) {
            kill_one(p);
        }
    }
}

static void lose_host(void) {
    uint32_t host = (uint32_t)sim_below(sim_hosts);
    for (uint32_t h = 0; h < sim_hosts; h++) {
        sim_set_link(host, h, false);
    }
    for (uint32_t i = 0; i < sim_n; i++) {
        if (sim_process[i].host == host) {
            sim_kill(&sim_process[i], true);
        }
    }
}

static void break_link(void) {
    uint32_t a = (uint32_t)sim_below(sim_hosts);
    break_one(a, (a + 1 + (uint32_t)sim_below(sim_hosts - 1)) % sim_hosts);
    most = 1;
}

/* One host loses some of the others. */
static void fan(void) {
    uint32_t a = (uint32_t)sim_below(sim_hosts);
    for (uint64_t n = 2 + sim_below(sim_hosts / 2); n; n--) {
        break_one(a, (a + 1 + (uint32_t)sim_below(sim_hosts - 1)) % sim_hosts);
    }
    most = 1;
}

/* Some hosts lose some others, and the rest sees both. */
static void groups(void) {
    uint32_t few = 2 + (uint32_t)sim_below(2), many = few + (uint32_t)sim_below(3);
    uint32_t first = (uint32_t)sim_below(sim_hosts);
    for (uint32_t a = 0; a < few; a++) {
        for (uint32_t b = 0; b < many && few + b < sim_hosts; b++) {
            break_one((first + a) % sim_hosts, (first + few + b) % sim_hosts);
        }
    }
    most = few + 1; /* the rule goes by numbers of cuts, and not all pairs of hosts have lines */
}

static void halves(void) {
    uint32_t n = 1 + (uint32_t)sim_below(sim_hosts / 2);
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = n; b < sim_hosts; b++) {
            break_one(a, b);
        }
    }
}

/* All links of a host are away for a while: if that was long enough, a network falls apart. */
static void flap(void) {
    uint32_t a = away = (uint32_t)sim_below(sim_hosts);
    uint64_t ns = 500 * MS + sim_below(5500 * MS);
    for (uint32_t b = 0; b < sim_hosts; b++) {
        if (b != a) {
            break_one(a, b);
            sim_at(sim_now + ns, mend, NULL, (uint64_t)a * MOST_HOSTS + b);
        }
    }
    most = 1;
}

static void nothing(void) {
}

typedef struct case_ {
    const char *name, *what;
    void (*happen)(void);
} case_t;

static const case_t cases[] = {
    {"nothing", "nothing happens", nothing},
    {"kill", "1 to 4 processes are killed", kill_some},
    {"host", "a host is gone", lose_host},
    {"link", "a link between two hosts breaks", break_link},
    {"fan", "a host loses some others", fan},
    {"groups", "2 or 3 hosts lose 2 to 5 others", groups},
    {"halves", "a network falls apart", halves},
    {"flap", "a host's links are away for 0.5 to 6 s", flap},
};
enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

static void begin_computing(void *arg, uint64_t number);

static void end_computing(void *arg, uint64_t number) {
    (void)number;
    sim_compute(arg, false);
}

static void begin_computing(void *arg, uint64_t ns) {
    sim_process_t *p = arg;
    if (!p->dead && !p->computes) {
        sim_compute(p, true);
        sim_at(sim_now + ns, end_computing, p, 0);
    }
}

/* One process in ten, and all of one host, look at nothing for up to six seconds. */
static void let_compute(void) {
    uint32_t host = (uint32_t)sim_below(sim_hosts);
    uint64_t from = sim_now + 2 * SECOND + sim_below(4 * SECOND), ns = sim_below(6 * SECOND);
    for (uint32_t i = 0; i < sim_n; i++) {
        sim_process_t *p = &sim_process[i];
        if (p->host == host) {
            sim_at(from, begin_computing, p, ns);
        } else if (sim_below(10) == 0) {
            sim_at(sim_now + sim_below(6 * SECOND), begin_computing, p, sim_below(6 * SECOND));
        }
    }
}

/* --- how it ended ----------------------------------------------------------------------------- */

typedef struct result {
    uint64_t words, most_words; /* of all; of one */
    double agreed;              /* seconds until nobody lost anybody any more */
    uint32_t wrong, apart, lost_hosts;
    bool bad;
} result_t;

static uint32_t *part; /* by process: those that words reach each other from have the same number */

/* By the lines of a team's processes, whose neighbours are 1, 2, 4, ... before and after them. */
static void find_parts(bool with_away) {
    part = realloc(part, sim_n * sizeof(*part));
    for (uint32_t i = 0; i < sim_n; i++) {
        part[i] = i;
    }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < sim_n; i++) {
            for (uint32_t by = 1; by < sim_n; by *= 2) {
                uint32_t j = (i + by) % sim_n, least = part[i] < part[j] ? part[i] : part[j];
                uint32_t a = sim_process[i].host, b = sim_process[j].host;
                bool up = sim_is_up(a, b) && (with_away || a == b || (a != away && b != away));
                if (up && !sim_process[i].dead && !sim_process[j].dead && part[i] != part[j]) {
                    part[i] = part[j] = least;
                    more = true;
                }
            }
        }
    }
}

static bool is_left(const sim_process_t *p) {
    return !p->dead && !sim_given_up(p);
}

/* Compares what each knows with what the first one of its part does. */
static void compare(result_t *r) {
    const sim_process_t **first = calloc(sim_n, sizeof(*first));
    bool lost[MOST_HOSTS] = {false};
    for (uint32_t i = 0; i < sim_n; i++) {
        const sim_process_t *p = &sim_process[i];
        lost[p->host] = lost[p->host] || (!p->dead && sim_given_up(p));
        r->wrong += !p->dead && sim_given_up(p) && !touched[p->host];
        if (!is_left(p)) {
            continue;
        }
        const sim_process_t **other = &first[part[i]];
        *other = *other ? *other : p;
        uint32_t differs = 0;
        for (uint32_t q = 0; q < sim_n; q++) {
            const sim_process_t *it = &sim_process[q];
            bool dead = sim_takes_for_dead(p, q);
            differs += dead != sim_takes_for_dead(*other, q);
            differs += dead && part[q] == part[i] && is_left(it);
            differs += it->dead && !dead;
        }
        r->apart += differs != 0;
    }
    free(first);
    for (uint32_t h = 0; h < sim_hosts; h++) {
        r->lost_hosts += lost[h];
    }
}

static result_t run(const case_t *it, uint32_t processes, uint32_t hosts, uint64_t seed,
                    bool compute) {
    result_t r = {0};
    sim_reset(seed);
    memset(touched, 0, sizeof(touched));
    most = 0;
    away = MOST_HOSTS;
    sim_open(processes, hosts);
    sim_run_until(sim_now + 5 * SECOND);
    for (uint32_t i = 0; i < sim_n; i++) {
        sim_process[i].words_sent = 0;
    }
    uint64_t began = sim_now;
    if (compute) {
        let_compute();
    }
    it->happen();
    most += compute && away < MOST_HOSTS; /* who computes may have missed that the links are back */
    for (uint64_t t = 1; t <= long_time; t++) {
        sim_run_until(began + t * SECOND);
        if (t > 16 && sim_now - sim_last_loss > 8 * SECOND) {
            break;
        }
    }
    find_parts(true);
    compare(&r);
    if (r.apart && away < MOST_HOSTS) {
        find_parts(false);
        r.apart = r.wrong = r.lost_hosts = 0;
        compare(&r);
    }
    r.agreed = sim_last_loss > began ? (double)(sim_last_loss - began) / 1e9 : 0;
    for (uint32_t i = 0; i < sim_n; i++) {
        uint64_t words = sim_process[i].words_sent;
        r.words += words;
        r.most_words = words > r.most_words ? words : r.most_words;
    }
    r.bad = r.wrong || r.apart || r.lost_hosts > most;
    sim_close();
    return r;
}

/* --- all of it -------------------------------------------------------------------------------- */

typedef struct options {
    uint32_t processes, hosts, runs;
    uint64_t seed;
    const char *only;
} options_t;

static uint32_t run_case(const case_t *it, const options_t *o, bool compute) {
    uint64_t words = 0, most_words = 0;
    double agreed = 0, latest = 0;
    uint32_t bad = 0, wrong = 0, apart = 0, too_many = 0;
    for (uint32_t i = 0; i < o->runs; i++) {
        result_t r = run(it, o->processes, o->hosts, o->seed + i, compute);
        words += r.words;
        most_words = r.most_words > most_words ? r.most_words : most_words;
        agreed += r.agreed;
        latest = r.agreed > latest ? r.agreed : latest;
        wrong += r.wrong;
        apart += r.apart != 0;
        too_many += r.lost_hosts > most;
        bad += r.bad;
        if (r.bad) {
            printf("BAD: --processes %u --hosts %u --case %s%s --seed %llu: wrongly lost %u, "
                   "disagree %u, hosts lost %u of %u\n",
                   o->processes, o->hosts, it->name, compute ? " --compute" : "",
                   (unsigned long long)(o->seed + i), r.wrong, r.apart, r.lost_hosts, most);
        }
    }
    printf("| %s%s | %u | %.0f | %llu | %.2f | %.2f | %u | %u | %u |\n", it->what,
           compute ? ", some compute" : "", o->runs,
           (double)words / (double)o->runs / (double)o->processes, (unsigned long long)most_words,
           agreed / (double)o->runs, latest, wrong, apart, too_many);
    fflush(stdout);
    return bad;
}

static int usage(void) {
    printf("usage: bench_failures [--processes N] [--hosts N] [--seed N] [--runs N] [--case NAME] "
           "[--compute | --idle] [--talk]\n");
    return 2;
}

int main(int argc, char **argv) {
    options_t o = {.processes = 24, .hosts = 6, .runs = 10, .seed = 1};
    bool compute = true, idle = true;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool takes = true;
        if (strcmp(argv[i], "--processes") == 0) {
            o.processes = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--hosts") == 0) {
            o.hosts = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            o.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--runs") == 0) {
            o.runs = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--case") == 0) {
            o.only = value;
        } else {
            takes = false;
            if (strcmp(argv[i], "--talk") == 0) {
                sim_talks = true;
            } else if (strcmp(argv[i], "--compute") == 0) {
                idle = false;
            } else if (strcmp(argv[i], "--idle") == 0) {
                compute = false;
            } else {
                return usage();
            }
        }
        i += takes;
    }
    if (o.hosts < 3 || o.hosts > MOST_HOSTS || o.processes < o.hosts || o.runs == 0) {
        return usage();
    }
    printf("| what happens | runs | words, mean | max | agreed after s, mean | max | wrongly lost "
           "| runs apart | too many hosts |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    uint32_t bad = 0;
    for (uint32_t c = 0; c < N_CASES; c++) {
        if (!o.only || strcmp(o.only, cases[c].name) == 0) {
            bad += idle ? run_case(&cases[c], &o, false) : 0;
            bad += compute ? run_case(&cases[c], &o, true) : 0;
        }
    }
    return bad ? 1 : 0;
}
