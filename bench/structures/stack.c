/* stack.c: a context's incoming stack (threads/list.h) beside ck_stack: each thread pushes a node,
 * and takes in all that there is. */
#include "structures.h"
#include "threads/clock.h"

#include <ck_stack.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { NODES = 64 };

typedef struct node node_t;
struct node {
    union {
        node_t *next;
        ck_stack_entry_t entry;
    };
    _Atomic bool pushed; /* cleared by whoever took it */
};

typedef struct stacks {
    alignas(128) _Atomic(node_t *) ours;
    alignas(128) ck_stack_t ck;
    alignas(128) node_t node[MAX_THREADS][NODES];
} stacks_t;

static void *create(uint32_t threads) {
    stacks_t *s = zeroed(sizeof(*s));
    (void)threads;
    ck_stack_init(&s->ck);
    return s;
}

static void take_ours(stacks_t *s) {
    if (!atomic_load_explicit(&s->ours, memory_order_relaxed)) { /* a look before the RMW */
        return;
    }
    /* acquire: pairs with the push */
    node_t *node = atomic_exchange_explicit(&s->ours, NULL, memory_order_acquire);
    while (node) {
        node_t *next = node->next;
        /* release: `next` is read before the node is pushed again */
        atomic_store_explicit(&node->pushed, false, memory_order_release);
        node = next;
    }
}

static void take_ck(stacks_t *s) {
    if (!ck_pr_load_ptr(&s->ck.head)) { /* a look before the RMW */
        return;
    }
    ck_stack_entry_t *entry = ck_stack_batch_pop_upmc(&s->ck);
    while (entry) {
        node_t *node = (node_t *)(void *)entry; /* its first member */
        entry = CK_STACK_NEXT(entry);
        /* release: `next` is read before the node is pushed again */
        atomic_store_explicit(&node->pushed, false, memory_order_release);
    }
}

/* The next node of the thread's own, when it has come back. */
static inline node_t *next_node(stacks_t *s, uint32_t thread, uint64_t i,
                                void (*take)(stacks_t *)) {
    node_t *node = &s->node[thread][i % NODES];
    /* acquire: pairs with the release of whoever took it */
    for (unsigned looks = 1; atomic_load_explicit(&node->pushed, memory_order_acquire); looks++) {
        take(s);
        if (looks % 100 == 0) {
            sched_yield();
        }
    }
    atomic_store_explicit(&node->pushed, true, memory_order_relaxed); /* the push publishes it */
    return node;
}

static void with_ours(void *shared, uint32_t thread, uint64_t operations) {
    stacks_t *s = shared;
    for (uint64_t i = 0; i < operations; i++) {
        node_t *node = next_node(s, thread, i, take_ours);
        node_t *head = atomic_load_explicit(&s->ours, memory_order_relaxed); /* a guess */
        do {
            node->next = head;
            /* release: the node's fields, for whoever takes the stack in */
        } while (!atomic_compare_exchange_weak_explicit(&s->ours, &head, node, memory_order_release,
                                                        memory_order_relaxed));
        take_ours(s);
    }
}

static void with_ck(void *shared, uint32_t thread, uint64_t operations) {
    stacks_t *s = shared;
    for (uint64_t i = 0; i < operations; i++) {
        node_t *node = next_node(s, thread, i, take_ck);
        ck_stack_push_upmc(&s->ck, &node->entry);
        take_ck(s);
    }
}

const contest_t stack_contests[] = {{"stack",
                                     "push one, take all",
                                     {create, free, with_ours},
                                     {create, free, with_ck},
                                     MAX_THREADS},
                                    {0}};
