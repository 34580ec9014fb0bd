/* reach.h: which heaps (node/heap.h) the members of a group have their buffers in, by numbers that
 * all its mappings know, and which of them this mapping reaches. near.c works on such buffers.
 * Where processes can attach each other's memory, a BLOCK of a process's addresses (node/xpmem.h)
 * is another such place, for buffers that lie in no heap.
 *
 * A heap has a SLOT in a table that all mappings share: its owner takes one when a member first
 * shows a buffer there (hd_reach_word). Whoever meets a slot that it does not reach asks for it
 * (hd_reach_want): the heap is mapped, or its descriptor is fetched and then mapped, by whoever
 * serves the group (hd_reach_serve), off the way of any call. What is reached once is reached until
 * the group ends; what can't be had is not asked for again.
 */
#ifndef HD_SHM_REACH_H
#define HD_SHM_REACH_H

#include "node/heap.h"
#include "shm/types.h"
#include "threads/stall.h"

enum {
    HD_REACH_SLOTS = 64, /* bits of a word; slot 0 stands for no buffer at all */
    HD_REACH_SHIFT = 48
};

/* A WORD says where a buffer is: (slot:16 | offset:48), 0: there is none. This one: in no heap. */
#define HD_REACH_FAR UINT64_MAX

/* A slot that is wanted: whose heap it is. */
typedef struct hd_reach_slot {
    uint32_t slot, process; /* process: number of its mapping */
    bool is_block;          /* not a heap */
    uint64_t name[2];
    size_t bytes;
} hd_reach_slot_t;

/* What the table takes in a mapping. */
size_t hd_reach_bytes(void);
/* at: where it lies in the group's mapping. NULL: no memory. */
hd_reach_t *hd_reach_create(const hd_group_t *group, uint8_t *at);
void hd_reach_destroy(hd_reach_t *reach);

/* Where so many bytes are. HD_REACH_FAR: not all in one heap of this process. */
uint64_t hd_reach_word(hd_reach_t *reach, const void *address, size_t bytes);
/* Once, when its processes are known: has them attach each other's memory, if this one can and
 * wants to (hd_cfg_xpmem_t). Else, it shows no block, and reaches none. */
void hd_reach_open(hd_reach_t *reach, int xpmem);
/* The same in a block of this process, if it is in no heap, and others can attach that; it must be
 * memory that the kernel lets others have (hd_pull_is_open). */
uint64_t hd_reach_word_of_block(hd_reach_t *reach, const void *address, size_t bytes);
bool hd_reach_has_blocks(const hd_reach_t *reach);
/* The slots that this mapping reaches, as bits; those of them that are other processes' blocks,
 * which vanish when their owner ends; and those that can be used now. */
uint64_t hd_reach_slots(const hd_reach_t *reach);
uint64_t hd_reach_attached(const hd_reach_t *reach);
uint64_t hd_reach_usable(const hd_reach_t *reach);
static inline uint64_t hd_reach_bit(uint64_t word) {
    return UINT64_C(1) << (word >> HD_REACH_SHIFT) % HD_REACH_SLOTS;
}
/* Where the word's buffer is mapped here; NULL: nowhere, or there is none. */
void *hd_reach_at(const hd_reach_t *reach, uint64_t word);
/* Can't its heap be had? Then it won't be. */
bool hd_reach_has_failed(const hd_reach_t *reach, uint64_t word);
/* Of one that is mapped here: are so many bytes? */
bool hd_reach_holds(const hd_reach_t *reach, uint64_t word, size_t bytes);

/* Of slots that are not reached: asks for them, once each. */
void hd_reach_want(hd_reach_t *reach, uint64_t slots);
/* Who fetches what is wanted of other processes; called by hd_reach_want, by any thread. */
void hd_reach_serve_by(hd_reach_t *reach, void (*serve)(void *arg), void *arg);
/* By that one: the next slot that is wanted and was not taken before. False: there is none. */
bool hd_reach_take(hd_reach_t *reach, hd_reach_slot_t *slot);
/* By that one: it is mapped (the view is the reach's from now on), or can't be had (NULL). */
void hd_reach_give(hd_reach_t *reach, uint32_t slot, hd_heap_view_t *view);

/* By the same: why it can't be had, as if "it" stood before that; a constant. Then it is given
 * NULL. */
void hd_reach_miss(hd_reach_t *reach, uint32_t slot, const char *why);
/* For people: how it is about heaps of that mapping's process. Any thread. */
void hd_reach_say(const hd_reach_t *reach, uint32_t process, hd_text_t *text);
/* The same about its blocks: if there can be some; else, why not. */
void hd_reach_say_blocks(const hd_reach_t *reach, uint32_t process, hd_text_t *text);
void hd_reach_say_none(const hd_reach_t *reach, hd_text_t *text);

/* The process of that mapping has ended: none of its threads will do anything any more. */
void hd_reach_lose(hd_reach_t *reach, uint32_t process);
bool hd_reach_has_lost(const hd_reach_t *reach, uint32_t process);

#endif
