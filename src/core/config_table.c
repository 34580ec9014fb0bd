/*
 * Every configuration variable there is: see config.h.
 *
 * Rows stand under their hd_cfg_id_t. A row marked hidden is accepted because clients of the
 * released library set or print it, and has no effect here.
 */
#include "core/config.h"

#define LOG_LEVELS "fatal,error,warn,info,debug,trace,diag,req,data,async,func,poll,print"

static const hd_config_variable_t table[HD_CFG_N_IDS] = {
    [HD_CFG_LIB_CLS] = {.scope = HD_CFG_SCOPE_LIB,
                        .type = HD_CFG_STRING,
                        .name = "CLS",
                        .value = "basic",
                        .meaning = "Collective layers to use. Heddle has one, and accepts any "
                                   "list."},
    [HD_CFG_LIB_TLS] = {.scope = HD_CFG_SCOPE_LIB,
                        .type = HD_CFG_STRING,
                        .hidden = true,
                        .name = "TLS",
                        .value = "all",
                        .meaning = "Transport layers to use. Accepted, without effect."},
    [HD_CFG_LIB_LOG_LEVEL] = {.scope = HD_CFG_SCOPE_LIB,
                              .type = HD_CFG_CHOICE,
                              .name = "LOG_LEVEL",
                              .value = "warn",
                              .words = LOG_LEVELS,
                              .meaning =
                                  "Most detailed level of log lines that are printed: fatal, "
                                  "error, warn, info, debug or trace."},
    [HD_CFG_LIB_LOG_FILE] = {.scope = HD_CFG_SCOPE_LIB,
                             .type = HD_CFG_STRING,
                             .name = "LOG_FILE",
                             .value = "",
                             .meaning =
                                 "Where log lines go: stdout, stderr, or the name of a file that "
                                 "they are appended to (NAME or file:NAME; %p stands for the "
                                 "process id, %h for the host). If empty: stderr, or stdout, as "
                                 "UCC does, in a program that runs on libucc.so.1."},
    [HD_CFG_LIB_CONFIG_FILE] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_STRING,
                                .name = "CONFIG_FILE",
                                .value = "",
                                .meaning = "File with lines NAME = value. The environment takes "
                                           "precedence over it."},
    [HD_CFG_LIB_COLL_TRACE] = {.scope = HD_CFG_SCOPE_LIB,
                               .type = HD_CFG_CHOICE,
                               .name = "COLL_TRACE",
                               .value = "warn",
                               .words = LOG_LEVELS,
                               .meaning = "From level info on, each collective and its plan is "
                                          "logged when it is initialized."},
    [HD_CFG_LIB_PROFILE_MODE] = {.scope = HD_CFG_SCOPE_LIB,
                                 .type = HD_CFG_STRING,
                                 .hidden = true,
                                 .name = "PROFILE_MODE",
                                 .value = "",
                                 .meaning = "Accepted, without effect: see TRACE."},
    [HD_CFG_LIB_PROFILE_FILE] = {.scope = HD_CFG_SCOPE_LIB,
                                 .type = HD_CFG_STRING,
                                 .hidden = true,
                                 .name = "PROFILE_FILE",
                                 .value = "ucc_%h_%p.prof",
                                 .meaning = "Accepted, without effect: see TRACE."},
    [HD_CFG_LIB_CHECK_ASYMMETRIC_DT] = {.scope = HD_CFG_SCOPE_LIB,
                                        .type = HD_CFG_BOOL,
                                        .hidden = true,
                                        .name = "CHECK_ASYMMETRIC_DT",
                                        .value = "n",
                                        .meaning = "Accepted, without effect: signatures are "
                                                   "always checked, see CHECK."},
    [HD_CFG_LIB_CHECK] = {.scope = HD_CFG_SCOPE_LIB,
                          .type = HD_CFG_BOOL,
                          .name = "CHECK",
                          .value = "n",
                          .meaning = "Make every collective two-sided, so that arguments which "
                                     "disagree fail it at all endpoints at once. For debugging: "
                                     "costs one more synchronization."},
    [HD_CFG_LIB_ARRIVAL] = {.scope = HD_CFG_SCOPE_LIB,
                            .type = HD_CFG_CHOICE,
                            .name = "ARRIVAL",
                            .value = "auto",
                            .words = "auto,flat,static,counter,butterfly",
                            .meaning = "How endpoints of a process meet: flat (everybody reads "
                                       "everybody), static (a tree whose inner nodes must run), "
                                       "counter (a tree driven by whoever arrives last), "
                                       "butterfly (everybody combines all blocks of a tree above "
                                       "it, and reads one of each)."},
    [HD_CFG_LIB_FLAT_MAX] = {.scope = HD_CFG_SCOPE_LIB,
                             .type = HD_CFG_UINT,
                             .name = "FLAT_MAX",
                             .value = "8",
                             .min = 1,
                             .max = 64,
                             .meaning = "Endpoints of a process up to which ARRIVAL=auto is flat."},
    [HD_CFG_LIB_TREE] = {.scope = HD_CFG_SCOPE_LIB,
                         .type = HD_CFG_CHOICE,
                         .name = "TREE",
                         .value = "auto",
                         .words = "auto,number,topology",
                         .meaning = "Shape of arrival and release trees. auto follows the machine "
                                    "if threads are pinned, and endpoint numbers otherwise."},
    [HD_CFG_LIB_LINES_MAX] = {.scope = HD_CFG_SCOPE_LIB,
                              .type = HD_CFG_SIZE,
                              .name = "LINES_MAX",
                              .value = "512",
                              .max = 64 * 1024,
                              .meaning =
                                  "Bytes up to which data of one endpoint travels in lines that "
                                  "carry their own sequence number; half of it where all publish."},
    [HD_CFG_LIB_STAGED_MAX] = {.scope = HD_CFG_SCOPE_LIB,
                               .type = HD_CFG_SIZE,
                               .name = "STAGED_MAX",
                               .value = "16k",
                               .max = 16 * 1024 * 1024,
                               .meaning = "Bytes up to which data is copied through the source's "
                                          "staging ring; above, peers read user buffers."},
    [HD_CFG_LIB_DIRECT_ABOVE] = {.scope = HD_CFG_SCOPE_LIB,
                                 .type = HD_CFG_SIZE,
                                 .name = "DIRECT_ABOVE",
                                 .value = "2k",
                                 .meaning =
                                     "Stands for STAGED_MAX, if smaller, where every endpoint "
                                     "is pinned to a processor of its own: there a second "
                                     "synchronization costs less than a copy."},
    [HD_CFG_LIB_CHUNK] = {.scope = HD_CFG_SCOPE_LIB,
                          .type = HD_CFG_SIZE,
                          .name = "CHUNK",
                          .value = "1m",
                          .min = 4096,
                          .max = 1ull << 40,
                          .meaning = "Bytes, over all sources and destinations, that one piece "
                                     "of a large collective's work may touch."},
    [HD_CFG_LIB_NONTEMPORAL_MIN] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_SIZE,
         .name = "NONTEMPORAL_MIN",
         .value = "auto",
         .meaning = "Bytes received per endpoint from which results are "
                    "written past the caches; of a bcast, which has one buffer "
                    "at each, more than twice as many. auto: where sources and results "
                    "of all outgrow the third-level caches that they share, "
                    "but no less than the second-level cache's size; or sooner, where the "
                    "machine's profile says so."},
    [HD_CFG_LIB_PULL_MIN] = {.scope = HD_CFG_SCOPE_LIB,
                             .type = HD_CFG_SIZE,
                             .name = "PULL_MIN",
                             .value = "auto",
                             .meaning = "Bytes of a block from which processes that share a "
                                        "team's memory let the kernel copy it from one to the "
                                        "other, where it may, instead of passing it through that "
                                        "memory; 8 times as many where one gathers from several, "
                                        "half as many from one to one other of two processes. "
                                        "auto: as the machine's profile says, 128k without one; "
                                        "64k where up to 16 processes have more endpoints than "
                                        "processors, up to what is written past the caches "
                                        "(NONTEMPORAL_MIN). "
                                        "inf: never."},
    [HD_CFG_LIB_PROFILE] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_STRING,
         .name = "PROFILE",
         .value = "auto",
         .meaning = "The machine's profile, which says from which size on large data are read by "
                    "who gets them instead of written by who has them, and by which instructions. "
                    "auto: built in, if this machine was measured before; else measured by the "
                    "first team, in 45 ms, and kept in the user's cache folder; measure: measured "
                    "in any case; none: always written; or the name of a built-in one (heddle_info "
                    "--profile), or a file's path, with a slash. Results are the same with all of "
                    "them."},
    [HD_CFG_LIB_RING] = {.scope = HD_CFG_SCOPE_LIB,
                         .type = HD_CFG_UINT,
                         .name = "RING",
                         .value = "8",
                         .min = 4,
                         .max = 64,
                         .power_of_two = true,
                         .meaning = "Collectives of one team that may be under way per endpoint; "
                                    "more are queued. Of one of several processes, 16 may."},
    [HD_CFG_LIB_PERSISTENT_RING] = {.scope = HD_CFG_SCOPE_LIB,
                                    .type = HD_CFG_UINT,
                                    .name = "PERSISTENT_RING",
                                    .value = "4",
                                    .min = 2,
                                    .max = 16,
                                    .power_of_two = true,
                                    .meaning = "Occurrences of one persistent collective that may "
                                               "be under way per endpoint."},
    [HD_CFG_LIB_SPIN_POLLS] = {.scope = HD_CFG_SCOPE_LIB,
                               .type = HD_CFG_UINT,
                               .name = "SPIN_POLLS",
                               .value = "64",
                               .max = 1000000,
                               .meaning = "Looks at the awaited line before a progress call "
                                          "returns."},
    [HD_CFG_LIB_YIELD_MAX_US] = {.scope = HD_CFG_SCOPE_LIB,
                                 .type = HD_CFG_UINT,
                                 .name = "YIELD_MAX_US",
                                 .value = "200",
                                 .max = 1000000,
                                 .meaning = "Microseconds of spinning, at most, before an idle "
                                            "thread yields its processor."},
    [HD_CFG_LIB_PARK] = {.scope = HD_CFG_SCOPE_LIB,
                         .type = HD_CFG_BOOL,
                         .name = "PARK",
                         .value = "y",
                         .meaning = "Whether blocking waits may put the thread to sleep."},
    [HD_CFG_LIB_PARK_SPIN_US] = {.scope = HD_CFG_SCOPE_LIB,
                                 .type = HD_CFG_UINT,
                                 .name = "PARK_SPIN_US",
                                 .value = "50",
                                 .max = 1000000,
                                 .meaning =
                                     "Microseconds that a blocking wait spins and yields "
                                     "before it sleeps; up to 16 times as long where "
                                     "sleeps turn out to be short, and 128 times where other "
                                     "processes are waited for that all have processors; not "
                                     "at all where other programs take the processor."},
    [HD_CFG_LIB_TOPOLOGY] = {.scope = HD_CFG_SCOPE_LIB,
                             .type = HD_CFG_STRING,
                             .name = "TOPOLOGY",
                             .value = "",
                             .meaning = "An hwloc synthetic description or XML file to take for "
                                        "this machine. Read once per process, from the "
                                        "environment only."},
    [HD_CFG_LIB_PIN] = {.scope = HD_CFG_SCOPE_LIB,
                        .type = HD_CFG_STRING,
                        .name = "PIN",
                        .value = "auto",
                        .meaning =
                            "Where heddle_run binds its threads. auto: each to a processor of "
                            "its own, if there are enough, and nobody else is found running "
                            "on it; always: also then; none: nowhere, they inherit the "
                            "caller's affinity; or the system's numbers of processors, such as "
                            "0,2,8-11, by endpoint."},
    [HD_CFG_LIB_STRICT_EXCLUSIVE] = {.scope = HD_CFG_SCOPE_LIB,
                                     .type = HD_CFG_BOOL,
                                     .name = "STRICT_EXCLUSIVE",
                                     .value = "n",
                                     .meaning = "Refuse a second live team on a context of type "
                                                "exclusive, instead of warning."},
    [HD_CFG_LIB_DEBUG_ORDER] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_BOOL,
                                .name = "DEBUG_ORDER",
                                .value = "n",
                                .meaning =
                                    "Detect several threads at once on one endpoint: posts of "
                                    "ordered collectives and, without UCC_THREAD_MULTIPLE, any "
                                    "use of one context. Costs the short cuts of small "
                                    "collectives."},
    [HD_CFG_LIB_DEBUG_MAPPINGS] = {.scope = HD_CFG_SCOPE_LIB,
                                   .type = HD_CFG_CHOICE,
                                   .name = "DEBUG_MAPPINGS",
                                   .value = "one",
                                   .words = "one,near,far,pairs",
                                   .meaning =
                                       "For tests of this library. near: map the memory of each "
                                       "team within one process once for each endpoint, at "
                                       "different addresses, as processes of one machine would; "
                                       "far: and let no endpoint touch another one's buffers; "
                                       "pairs: as far, with one mapping for each two endpoints."},
    [HD_CFG_LIB_DEBUG_NODES] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_UINT,
                                .name = "DEBUG_NODES",
                                .value = "1",
                                .min = 1,
                                .max = 64,
                                .meaning = "For tests of this library: the processes of one "
                                           "machine count as those of so many, in turn. The same "
                                           "in all processes."},
    [HD_CFG_LIB_TRACE] = {.scope = HD_CFG_SCOPE_LIB,
                          .type = HD_CFG_STRING,
                          .name = "TRACE",
                          .value = "",
                          .meaning = "File that a timeline of all collectives is written to, for "
                                     "chrome://tracing or Perfetto."},
    [HD_CFG_LIB_STALL] = {.scope = HD_CFG_SCOPE_LIB,
                          .type = HD_CFG_DOUBLE,
                          .name = "STALL",
                          .value = "10",
                          .meaning = "Seconds after which a wait logs what it waits for and what "
                                     "its peers do; again each time it has lasted twice as long. "
                                     "0: never."},
    [HD_CFG_LIB_TIMEOUT] = {.scope = HD_CFG_SCOPE_LIB,
                            .type = HD_CFG_DOUBLE,
                            .name = "TIMEOUT",
                            .value = "0",
                            .meaning = "Seconds after which collectives fail that have no time-out "
                                       "of their own, blocking calls too. 0: never."},
    [HD_CFG_LIB_REPRODUCIBLE] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_CHOICE,
         .name = "REPRODUCIBLE",
         .value = "layout",
         .words = "layout,placement",
         .meaning = "Where the bits of reductions among processes are the same. layout: wherever "
                    "the same endpoints share a process. placement: wherever endpoints are, as in "
                    "one process; more bytes cross where processes have no whole blocks of 8, 64, "
                    "... endpoints."},
    [HD_CFG_LIB_TEAM_IDS] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_CHOICE,
         .name = "TEAM_IDS",
         .value = "always",
         .words = "auto,always,never",
         .meaning =
             "Whether teams that are formed by ep_map are told apart by their ids, if they have "
             "any, which must be the same at all members then, or by the order in which they "
             "are made. auto: by ids if a process of the context is THREAD_MULTIPLE. One "
             "process that says so is enough."},
    [HD_CFG_LIB_NODE] = {.scope = HD_CFG_SCOPE_LIB,
                         .type = HD_CFG_BOOL,
                         .name = "NODE",
                         .value = "y",
                         .meaning =
                             "Whether the processes of a team that live on one machine share "
                             "memory instead of using the network: see docs/processes.md. "
                             "The same in all processes."},
    [HD_CFG_LIB_XPMEM] = {.scope = HD_CFG_SCOPE_LIB,
                          .type = HD_CFG_CHOICE,
                          .name = "XPMEM",
                          .value = "n",
                          .words = "auto,y,n",
                          .meaning =
                              "Whether processes of one machine attach each other's memory by "
                              "XPMEM, so that large data go between any buffers by one copy: see "
                              "docs/processes.md. auto: if /dev/xpmem and libxpmem.so.0 are "
                              "there; y: with a warning if they are not. A process with n keeps "
                              "the others from that in its teams."},
    [HD_CFG_LIB_NET] = {.scope = HD_CFG_SCOPE_LIB,
                        .type = HD_CFG_BOOL,
                        .name = "NET",
                        .value = "y",
                        .meaning = "Whether teams may span processes. UCX is loaded when the first "
                                   "one does."},
    [HD_CFG_LIB_NET_LIBRARY] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_STRING,
                                .name = "NET_LIBRARY",
                                .value = "",
                                .meaning = "File of the UCX to load. If empty: libucp.so.0, where "
                                           "the system finds it."},
    [HD_CFG_LIB_NET_SHM] = {.scope = HD_CFG_SCOPE_LIB,
                            .type = HD_CFG_BOOL,
                            .name = "NET_SHM",
                            .value = "y",
                            .meaning =
                                "Whether processes on one host may use UCX's shared memory."},
    [HD_CFG_LIB_NET_SURVIVE] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_BOOL,
         .name = "NET_SURVIVE",
         .value = "y",
         .meaning = "Whether what is under way with a process that is lost ends, with an error. "
                    "n: large messages on one host are faster (copied once), but collectives may "
                    "hang when a process dies."},
    [HD_CFG_LIB_NET_TLS] = {.scope = HD_CFG_SCOPE_LIB,
                            .type = HD_CFG_STRING,
                            .name = "NET_TLS",
                            .value = "",
                            .meaning = "Transports that UCX may use, as in its own UCX_TLS. If "
                                       "empty, UCX decides."},
    [HD_CFG_LIB_NET_DEVICES] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_STRING,
         .name = "NET_DEVICES",
         .value = "all",
         .meaning = "Network devices (names, with commas) by which UCX may reach other processes. "
                    "If all: the loopback device among processes of one host, and, as soon as a "
                    "team has processes of other hosts, UCX's choice for these."},
    [HD_CFG_LIB_NET_LANES] = {.scope = HD_CFG_SCOPE_LIB,
                              .type = HD_CFG_UINT,
                              .name = "NET_LANES",
                              .value = "1",
                              .min = 1,
                              .max = 8,
                              .meaning = "Workers of UCX in this process: segments of large "
                                         "collectives are spread over them."},
    [HD_CFG_LIB_NET_SWAP_MAX] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_UINT,
         .name = "NET_SWAP_MAX",
         .value = "4096",
         .min = 0,
         .max = 4096,
         .meaning =
             "Among up to 8 processes, collectives of which each process has at most so many "
             "bytes for each other one take the shortest way. 0: none, barriers neither. The "
             "same in all processes."},
    [HD_CFG_LIB_NET_WATCH] = {.scope = HD_CFG_SCOPE_LIB,
                              .type = HD_CFG_BOOL,
                              .name = "NET_WATCH",
                              .value = "y",
                              .meaning =
                                  "Whether processes of a team watch each other by idle TCP "
                                  "connections of their own. n: what UCX notices has to do."},
    [HD_CFG_LIB_NET_ASK] = {.scope = HD_CFG_SCOPE_LIB,
                            .type = HD_CFG_BOOL,
                            .name = "NET_ASK",
                            .value = "y",
                            .meaning = "Whether a process with teams of several processes can be "
                                       "asked for whom its job waits, by its user: heddle_info "
                                       "--job PID. Over the network it needs NET_WATCH."},
    [HD_CFG_LIB_NET_WATCH_DEVICES] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_STRING,
         .name = "NET_WATCH_DEVICES",
         .value = "",
         .meaning = "Network devices (names, with commas) by which processes of other hosts may "
                    "watch this one. If empty: all but the loopback one. Processes of one host "
                    "meet at the loopback address."},
    [HD_CFG_LIB_NET_LOST_AFTER] = {.scope = HD_CFG_SCOPE_LIB,
                                   .type = HD_CFG_DOUBLE,
                                   .name = "NET_LOST_AFTER",
                                   .value = "4",
                                   .meaning = "Seconds without a sign of another host after which "
                                              "its processes are given up."},
    [HD_CFG_LIB_NET_GRACE] = {.scope = HD_CFG_SCOPE_LIB,
                              .type = HD_CFG_DOUBLE,
                              .name = "NET_GRACE",
                              .value = "0.2",
                              .meaning = "Seconds from the loss of a process until those fail that "
                                         "need it: for what it sent before."},
    [HD_CFG_LIB_NET_CUT_OFF] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_DOUBLE,
                                .name = "NET_CUT_OFF",
                                .value = "2",
                                .meaning = "Seconds that an operation that has failed waits for a "
                                           "process to give up its buffers. The ways to one that "
                                           "does not react by then are cut. 0: no limit."},
    [HD_CFG_LIB_NET_QUORUM] = {.scope = HD_CFG_SCOPE_LIB,
                               .type = HD_CFG_BOOL,
                               .name = "NET_QUORUM",
                               .value = "n",
                               .meaning =
                                   "Whether what is left of a team becomes a team only with more "
                                   "than half of its endpoints (if that was made by shrinking, of "
                                   "the first team's), so that of two halves of a network that has "
                                   "split at most one goes on. The same in all processes."},
    [HD_CFG_LIB_NET_BARRIER] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_CHOICE,
                                .name = "NET_BARRIER",
                                .value = "auto",
                                .words = "auto,direct,dissemination,tree",
                                .meaning = "Algorithm of barriers among processes."},
    [HD_CFG_LIB_NET_BCAST] = {.scope = HD_CFG_SCOPE_LIB,
                              .type = HD_CFG_CHOICE,
                              .name = "NET_BCAST",
                              .value = "auto",
                              .words = "auto,direct,tree,chain,scatter_allgather",
                              .meaning = "Algorithm of bcasts and multicasts among processes."},
    [HD_CFG_LIB_NET_ALLGATHER] = {.scope = HD_CFG_SCOPE_LIB,
                                  .type = HD_CFG_CHOICE,
                                  .name = "NET_ALLGATHER",
                                  .value = "auto",
                                  .words = "auto,direct,bruck,ring",
                                  .meaning = "Algorithm of allgathers among processes."},
    [HD_CFG_LIB_NET_ALLTOALL] = {.scope = HD_CFG_SCOPE_LIB,
                                 .type = HD_CFG_CHOICE,
                                 .name = "NET_ALLTOALL",
                                 .value = "auto",
                                 .words = "auto,direct,pairwise",
                                 .meaning = "Algorithm of alltoalls among processes."},
    [HD_CFG_LIB_NET_GATHER] = {.scope = HD_CFG_SCOPE_LIB,
                               .type = HD_CFG_CHOICE,
                               .name = "NET_GATHER",
                               .value = "auto",
                               .words = "auto,direct,tree",
                               .meaning = "Algorithm of gathers among processes."},
    [HD_CFG_LIB_NET_SCATTER] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_CHOICE,
                                .name = "NET_SCATTER",
                                .value = "auto",
                                .words = "auto,direct,tree",
                                .meaning = "Algorithm of scatters among processes."},
    [HD_CFG_LIB_NET_ALLREDUCE] = {.scope = HD_CFG_SCOPE_LIB,
                                  .type = HD_CFG_CHOICE,
                                  .name = "NET_ALLREDUCE",
                                  .value = "auto",
                                  .words = "auto,direct,exchange,reduce_allgather",
                                  .meaning = "Algorithm of allreduces among processes."},
    [HD_CFG_LIB_NET_REDUCE] = {.scope = HD_CFG_SCOPE_LIB,
                               .type = HD_CFG_CHOICE,
                               .name = "NET_REDUCE",
                               .value = "auto",
                               .words = "auto,direct,tree,reduce_allgather",
                               .meaning = "Algorithm of reduces among processes."},
    [HD_CFG_LIB_NET_REDUCE_SCATTER] = {.scope = HD_CFG_SCOPE_LIB,
                                       .type = HD_CFG_CHOICE,
                                       .name = "NET_REDUCE_SCATTER",
                                       .value = "auto",
                                       .words = "auto,direct",
                                       .meaning = "Algorithm of reduce_scatters among processes."},
    [HD_CFG_LIB_GPU] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_STRING,
         .name = "GPU",
         .value = "auto",
         .meaning = "Which GPUs there are. auto: those of CUDA, if the program uses it. n: none; "
                    "all memory is the host's. cuda: those of CUDA, which is loaded at once. "
                    "emulated:N: N of libheddle_emucuda, for tests; what may follow N stands in "
                    "heddle_emucuda.h."},
    [HD_CFG_LIB_GPU_LIBRARY] = {.scope = HD_CFG_SCOPE_LIB,
                                .type = HD_CFG_STRING,
                                .name = "GPU_LIBRARY",
                                .value = "",
                                .meaning = "File of the libheddle_cuda to load. If empty: the one "
                                           "beside libheddle, or where the system finds it."},
    [HD_CFG_LIB_GPU_GATE] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_CHOICE,
         .name = "GPU_GATE",
         .value = "auto",
         .words = "auto,memop,meet",
         .meaning =
             "How a triggered post on a stream waits for late peers. meet: it returns when "
             "all have posted. memop: it returns, and the stream waits for a word in memory, "
             "which needs somebody who progresses. auto: memop where every endpoint has a "
             "device of its own, meet elsewhere."},
    [HD_CFG_LIB_GPU_COPY_MIN] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_SIZE,
         .name = "GPU_COPY_MIN",
         .value = "1m",
         .meaning = "Bytes of a block from which it goes from one device to another by a copy of "
                    "the driver's, which leaves the multiprocessors to others, instead of a "
                    "kernel. inf: never. The first endpoint's of a team counts."},
    [HD_CFG_LIB_GPU_PARTIAL_MIN] =
        {.scope = HD_CFG_SCOPE_LIB,
         .type = HD_CFG_SIZE,
         .name = "GPU_PARTIAL_MIN",
         .value = "1m",
         .meaning = "Bytes of an endpoint from which a reduction over several devices is done in "
                    "two steps: a device first reduces each whole block of 8 endpoints that has "
                    "its buffers there, and others read what comes of it. inf: never. The first "
                    "endpoint's of a team counts."},
    [HD_CFG_CTX_ESTIMATED_NUM_EPS] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                      .type = HD_CFG_UINT,
                                      .name = "ESTIMATED_NUM_EPS",
                                      .value = "0",
                                      .meaning = "Hint: processes that this context will talk to."},
    [HD_CFG_CTX_ESTIMATED_NUM_PPN] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                      .type = HD_CFG_UINT,
                                      .name = "ESTIMATED_NUM_PPN",
                                      .value = "0",
                                      .meaning = "Hint: how many of them share this node."},
    [HD_CFG_CTX_NODE_LOCAL_ID] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                  .type = HD_CFG_UINT,
                                  .name = "NODE_LOCAL_ID",
                                  .value = "auto",
                                  .meaning = "Hint: this process's number on its node."},
    [HD_CFG_CTX_TEAM_IDS_POOL_SIZE] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                       .type = HD_CFG_UINT,
                                       .hidden = true,
                                       .name = "TEAM_IDS_POOL_SIZE",
                                       .value = "32",
                                       .meaning = "Accepted, without effect: the number of teams "
                                                  "is not limited."},
    [HD_CFG_CTX_INTERNAL_OOB] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                 .type = HD_CFG_UINT,
                                 .hidden = true,
                                 .name = "INTERNAL_OOB",
                                 .value = "1",
                                 .max = 2,
                                 .meaning = "Accepted, without effect."},
    [HD_CFG_CTX_LOCK_FREE_PROGRESS_Q] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                         .type = HD_CFG_UINT,
                                         .hidden = true,
                                         .name = "LOCK_FREE_PROGRESS_Q",
                                         .value = "0",
                                         .max = 1,
                                         .meaning = "Accepted, without effect."},
    [HD_CFG_CTX_THROTTLE_PROGRESS] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                      .type = HD_CFG_UINT,
                                      .hidden = true,
                                      .name = "THROTTLE_PROGRESS",
                                      .value = "1000",
                                      .meaning = "Accepted, without effect."},
    [HD_CFG_CTX_NET_DEVICES] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                .type = HD_CFG_STRING,
                                .name = "NET_DEVICES",
                                .value = "all",
                                .meaning = "The same, if the program gives contexts a "
                                           "configuration; counts for the whole process, as long "
                                           "as no team spans processes."},
    [HD_CFG_CTX_CL_BASIC_TUNE] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                  .type = HD_CFG_STRING,
                                  .hidden = true,
                                  .component = "cl/basic",
                                  .name = "TUNE",
                                  .value = "",
                                  .meaning = "Accepted, without effect."},
    [HD_CFG_CTX_TL_UCP_NPOLLS] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                  .type = HD_CFG_UINT,
                                  .component = "tl/ucp",
                                  .name = "NPOLLS",
                                  .value = "10",
                                  .meaning = "Polls of the network per progress call."},
    [HD_CFG_CTX_TL_UCP_TUNE] = {.scope = HD_CFG_SCOPE_CONTEXT,
                                .type = HD_CFG_STRING,
                                .component = "tl/ucp",
                                .name = "TUNE",
                                .value = "",
                                .meaning = "Algorithms to use, in UCC's words. Heddle goes by "
                                           "alltoallv:@onesided, with which displacements mean "
                                           "something else, and names the others at level info."},
};

size_t hd_config_count(void) {
    return HD_CFG_N_IDS;
}

const hd_config_variable_t *hd_config_variable(size_t i) {
    return i < HD_CFG_N_IDS ? &table[i] : NULL;
}
