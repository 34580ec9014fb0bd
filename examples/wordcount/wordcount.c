/* wordcount.c: counts the words of text files with several threads, as a map, shuffle and reduce.
 *
 *     map      every thread counts the words of its byte range; a word belongs to the range in
 *              which it begins
 *     shuffle  alltoallv: each (word, count) record goes to the thread that owns the word's hash
 *     reduce   owners add up; gatherv brings the totals to endpoint 0, which sorts them
 *
 * Then the same is counted by one thread, and the two lists must be equal. A word is a run of ASCII
 * letters, in any case. Nothing but the collectives passes between the threads: each writes only
 * memory of its own, so that there is no lock and no atomic in this file.
 *
 * usage: wordcount [-n threads] [-t top] [-r rounds] [file...]     (no file: a text made up here)
 *
 * Both counts are timed as a whole, with the start of the threads and the merging of their lists;
 * of several rounds, the best.
 */
#include <errno.h>
#include <fcntl.h>
#include <heddle/heddle.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------
 * Small things
 * ---------------------------------------------------------------------------------------------- */

static void fail(const char *what, const char *why) {
    fprintf(stderr, "wordcount: %s: %s\n", what, why);
    exit(2);
}

/* A collective that fails ends the program: the other threads would wait for this one. */
static void check(ucc_status_t status, const char *what) {
    if (status != UCC_OK) {
        fail(what, ucc_status_string(status));
    }
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        fail("allocation", strerror(ENOMEM));
    }
    return memory;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------------------------------------
 * Texts
 * ---------------------------------------------------------------------------------------------- */

typedef struct text {
    const unsigned char *bytes;
    size_t length;
    bool mapped;
} text_t;

/* Pipes, devices and files of unknown size. */
static void read_all(int file, const char *name, text_t *text) {
    size_t capacity = 1 << 16, length = 0;
    unsigned char *bytes = allocate(capacity);
    for (;;) {
        if (length == capacity) {
            capacity *= 2;
            bytes = realloc(bytes, capacity);
            if (bytes == NULL) {
                fail(name, strerror(ENOMEM));
            }
        }
        ssize_t got = read(file, bytes + length, capacity - length);
        if (got < 0 && errno != EINTR) {
            fail(name, strerror(errno));
        }
        if (got == 0) {
            break;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    *text = (text_t){.bytes = bytes, .length = length, .mapped = false};
}

/* Large files are mapped: the threads read their ranges from the page cache, nothing is copied. */
static void open_text(const char *name, text_t *text) {
    struct stat about;
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0) {
        fail(name, strerror(errno));
    }
    void *bytes = MAP_FAILED;
    if (S_ISREG(about.st_mode) && about.st_size > 0) {
        /* populated, so that neither count pays for the other's page faults */
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    }
    if (bytes != MAP_FAILED) {
        *text = (text_t){.bytes = bytes, .length = (size_t)about.st_size, .mapped = true};
    } else {
        read_all(file, name, text);
    }
    close(file);
}

static void close_text(text_t *text) {
    if (text->mapped) {
        munmap((void *)text->bytes, text->length);
    } else {
        free((void *)text->bytes);
    }
}

/* Words of one to four syllables, the early ones far more often, as in real texts. */
static void make_up_text(text_t *text) {
    static const char *const syllables[] = {"he",  "ddle", "wa", "rp",   "WE",  "ft", "loo", "m",
                                            "shu", "ttle", "Th", "read", "wea", "ve", "co",  "rd"};
    const size_t words = 2000000;
    unsigned char *bytes = allocate(words * 24);
    size_t length = 0;
    uint64_t state = 12345;
    for (size_t i = 0; i < words; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t random = state >> 33;
        for (unsigned part = 0; part <= (random & 3) && part <= ((random >> 2) & 3); part++) {
            const char *syllable = syllables[(random >> (4 + 4 * part)) & 15];
            memcpy(bytes + length, syllable, strlen(syllable));
            length += strlen(syllable);
        }
        bytes[length++] = i % 11 == 0 ? '\n' : i % 7 == 0 ? ',' : ' ';
    }
    *text = (text_t){.bytes = bytes, .length = length, .mapped = false};
}

/* ------------------------------------------------------------------------------------------------
 * Counting: a hash table whose keys stay where they are in the text
 * ---------------------------------------------------------------------------------------------- */

typedef struct entry {
    const unsigned char *word; /* NULL: free slot */
    uint64_t length, hash, count;
} entry_t;

typedef struct table {
    entry_t *slots;
    size_t capacity; /* a power of two, more than 4/3 of used */
    size_t used;
} table_t;

static unsigned char lower(unsigned char c) {
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

static bool is_letter(unsigned char c) {
    c = lower(c);
    return c >= 'a' && c <= 'z';
}

/* FNV-1a over the lower-case word, then mixed so that any of its bits serve: tables take the low
 * ones, owners are chosen by the high ones. With bits in common, an owner's words would crowd into
 * a part of its table. */
static uint64_t hash_word(const unsigned char *word, uint64_t length) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (uint64_t i = 0; i < length; i++) {
        hash = (hash ^ lower(word[i])) * UINT64_C(1099511628211);
    }
    hash = (hash ^ (hash >> 29)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

static uint32_t owner_of(const entry_t *entry, uint32_t n) {
    return (uint32_t)(((entry->hash >> 32) * n) >> 32);
}

static int compare_words(const entry_t *a, const entry_t *b) {
    uint64_t shorter = a->length < b->length ? a->length : b->length;
    for (uint64_t i = 0; i < shorter; i++) {
        int difference = lower(a->word[i]) - lower(b->word[i]);
        if (difference != 0) {
            return difference;
        }
    }
    return (a->length > b->length) - (a->length < b->length);
}

static void table_init(table_t *table, size_t capacity) {
    table->capacity = capacity;
    table->used = 0;
    table->slots = calloc(capacity, sizeof(entry_t));
    if (table->slots == NULL) {
        fail("allocation", strerror(ENOMEM));
    }
}

/* The word's slot, or the free one where it belongs. */
static entry_t *table_find(const table_t *table, const entry_t *key) {
    size_t at = key->hash & (table->capacity - 1);
    while (table->slots[at].word != NULL &&
           (table->slots[at].hash != key->hash || compare_words(&table->slots[at], key) != 0)) {
        at = (at + 1) & (table->capacity - 1);
    }
    return &table->slots[at];
}

static void table_grow(table_t *table) {
    table_t larger;
    table_init(&larger, table->capacity * 2);
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].word != NULL) {
            *table_find(&larger, &table->slots[i]) = table->slots[i];
        }
    }
    larger.used = table->used;
    free(table->slots);
    *table = larger;
}

static void table_add(table_t *table, const unsigned char *word, uint64_t length, uint64_t count) {
    if ((table->used + 1) * 4 > table->capacity * 3) {
        table_grow(table);
    }
    entry_t key = {.word = word, .length = length, .hash = hash_word(word, length), .count = 0};
    entry_t *slot = table_find(table, &key);
    if (slot->word == NULL) {
        *slot = key;
        table->used++;
    }
    slot->count += count;
}

/* Counts the words that begin in bytes [begin, end) of the text. Returns how many. */
static uint64_t count_range(const text_t *text, size_t begin, size_t end, table_t *table) {
    const unsigned char *bytes = text->bytes;
    size_t at = begin;
    uint64_t words = 0;
    if (at > 0 && is_letter(bytes[at - 1])) { /* the rest of a word that began before */
        while (at < end && is_letter(bytes[at])) {
            at++;
        }
    }
    while (at < end) {
        if (!is_letter(bytes[at])) {
            at++;
            continue;
        }
        size_t first = at;
        while (at < text->length && is_letter(bytes[at])) {
            at++;
        }
        table_add(table, bytes + first, at - first, 1);
        words++;
    }
    return words;
}

/* ------------------------------------------------------------------------------------------------
 * Records: count, length, lower-case letters; what travels between threads
 * ---------------------------------------------------------------------------------------------- */

static size_t record_bytes(const entry_t *entry) {
    return 2 * sizeof(uint64_t) + entry->length;
}

static unsigned char *record_write(unsigned char *to, const entry_t *entry) {
    memcpy(to, &entry->count, sizeof(uint64_t));
    memcpy(to + sizeof(uint64_t), &entry->length, sizeof(uint64_t));
    to += 2 * sizeof(uint64_t);
    for (uint64_t i = 0; i < entry->length; i++) {
        to[i] = lower(entry->word[i]);
    }
    return to + entry->length;
}

/* The record at `at`; returns the next one. */
static const unsigned char *record_read(const unsigned char *at, entry_t *entry) {
    memcpy(&entry->count, at, sizeof(uint64_t));
    memcpy(&entry->length, at + sizeof(uint64_t), sizeof(uint64_t));
    entry->word = at + 2 * sizeof(uint64_t);
    return entry->word + entry->length;
}

static size_t records_count(const unsigned char *records, size_t bytes) {
    entry_t ignored;
    size_t n = 0;
    for (const unsigned char *at = records; at < records + bytes; n++) {
        at = record_read(at, &ignored);
    }
    return n;
}

/* A table of all records, large enough from the start: records come in the order of their hashes,
 * and a table that grew under them would be overfull at one place again and again. The keys point
 * into the records, which must outlive it. */
static void table_of_records(const unsigned char *records, size_t bytes, table_t *table) {
    size_t n = records_count(records, bytes), capacity = 1024;
    entry_t entry;
    while (capacity * 3 < (n + 1) * 4) {
        capacity *= 2;
    }
    table_init(table, capacity);
    for (const unsigned char *at = records; at < records + bytes;) {
        at = record_read(at, &entry);
        table_add(table, entry.word, entry.length, entry.count);
    }
}

/* ------------------------------------------------------------------------------------------------
 * The threads' part
 * ---------------------------------------------------------------------------------------------- */

typedef struct job {
    const text_t *texts;
    size_t n_texts, total_bytes;
    /* results, written by endpoint 0 */
    entry_t *entries;
    size_t n_entries;
    unsigned char *records; /* what entries point into */
    uint64_t words;
} job_t;

/* This endpoint's share of all bytes, seen as one long text with borders at the files' ends. */
static uint64_t map(const job_t *job, uint32_t index, uint32_t n, table_t *table) {
    size_t share = job->total_bytes / n, extra = job->total_bytes % n;
    size_t begin = index * share + (index < extra ? index : extra);
    size_t end = begin + share + (index < extra ? 1 : 0), base = 0;
    uint64_t words = 0;
    for (size_t i = 0; i < job->n_texts; i++) {
        const text_t *text = &job->texts[i];
        size_t from = begin > base ? begin - base : 0;
        size_t to = end > base ? end - base : 0;
        to = to < text->length ? to : text->length;
        if (from < to) {
            words += count_range(text, from, to, table);
        }
        base += text->length;
    }
    return words;
}

/* Sums of what comes before each entry; returns the total. */
static uint64_t prefix_sums(const uint64_t *counts, uint32_t n, uint64_t *sums) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        sums[i] = total;
        total += counts[i];
    }
    return total;
}

/* Sends each record to its owner. Returns the received records, to be freed. */
static unsigned char *shuffle(heddle_ep_t *ep, const table_t *counted, uint64_t *received_bytes) {
    uint32_t n = heddle_ep_size(ep);
    uint64_t *numbers = allocate(5 * (size_t)n * sizeof(uint64_t));
    uint64_t *send_counts = numbers, *send_at = numbers + n, *receive_counts = numbers + 2 * n;
    uint64_t *receive_at = numbers + 3 * n, *fill = numbers + 4 * n;
    memset(send_counts, 0, n * sizeof(uint64_t));
    for (size_t i = 0; i < counted->capacity; i++) {
        const entry_t *entry = &counted->slots[i];
        if (entry->word != NULL) {
            send_counts[owner_of(entry, n)] += record_bytes(entry);
        }
    }
    unsigned char *sent = allocate(prefix_sums(send_counts, n, send_at));
    memcpy(fill, send_at, n * sizeof(uint64_t));
    for (size_t i = 0; i < counted->capacity; i++) {
        const entry_t *entry = &counted->slots[i];
        if (entry->word != NULL) {
            uint32_t owner = owner_of(entry, n);
            record_write(sent + fill[owner], entry);
            fill[owner] += record_bytes(entry);
        }
    }
    check(heddle_alltoall(ep, send_counts, receive_counts, 1, UCC_DT_UINT64), "heddle_alltoall");
    *received_bytes = prefix_sums(receive_counts, n, receive_at);
    unsigned char *received = allocate(*received_bytes);
    check(heddle_alltoallv(ep, sent, send_counts, send_at, received, receive_counts, receive_at,
                           UCC_DT_UINT8),
          "heddle_alltoallv");
    free(sent);
    free(numbers);
    return received;
}

/* Brings everybody's totals to endpoint 0; returns them there, NULL elsewhere. */
static unsigned char *bring_home(heddle_ep_t *ep, const table_t *owned, uint64_t *home_bytes) {
    uint32_t n = heddle_ep_size(ep);
    bool home = heddle_ep_index(ep) == 0;
    uint64_t *sizes = allocate(2 * (size_t)n * sizeof(uint64_t)), mine = 0;
    for (size_t i = 0; i < owned->capacity; i++) {
        mine += owned->slots[i].word != NULL ? record_bytes(&owned->slots[i]) : 0;
    }
    unsigned char *records = allocate(mine), *to = records, *all = NULL;
    for (size_t i = 0; i < owned->capacity; i++) {
        to = owned->slots[i].word != NULL ? record_write(to, &owned->slots[i]) : to;
    }
    check(heddle_gather(ep, &mine, sizes, 1, UCC_DT_UINT64, 0), "heddle_gather");
    if (home) {
        *home_bytes = prefix_sums(sizes, n, sizes + n);
        all = allocate(*home_bytes);
    }
    check(heddle_gatherv(ep, records, mine, all, sizes, sizes + n, UCC_DT_UINT8, 0),
          "heddle_gatherv");
    free(records);
    free(sizes);
    return all;
}

/* By count, largest first, then alphabetically. */
static int compare_entries(const void *a, const void *b) {
    const entry_t *x = a, *y = b;
    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return compare_words(x, y);
}

/* The records as a sorted array; each word occurs once, since one owner added it up. */
static entry_t *sorted_records(const unsigned char *records, size_t bytes, size_t *n) {
    *n = records_count(records, bytes);
    entry_t *all = allocate(*n * sizeof(entry_t));
    const unsigned char *next = records;
    for (size_t i = 0; i < *n; i++) {
        next = record_read(next, &all[i]);
    }
    qsort(all, *n, sizeof(entry_t), compare_entries);
    return all;
}

/* The table's entries as a sorted array; ends the table. */
static entry_t *sorted_entries(table_t *table, size_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].word != NULL) {
            table->slots[kept++] = table->slots[i];
        }
    }
    *n = kept;
    qsort(table->slots, kept, sizeof(entry_t), compare_entries);
    return table->slots;
}

static void work(heddle_ep_t *ep, void *arg) {
    job_t *job = arg;
    table_t counted, owned;
    uint64_t received_bytes = 0, home_bytes = 0;
    table_init(&counted, 1024);
    uint64_t words = map(job, heddle_ep_index(ep), heddle_ep_size(ep), &counted);

    unsigned char *received = shuffle(ep, &counted, &received_bytes);
    free(counted.slots);
    table_of_records(received, received_bytes, &owned);

    unsigned char *home = bring_home(ep, &owned, &home_bytes);
    free(owned.slots);
    free(received);
    uint64_t all_words = 0;
    check(heddle_reduce(ep, &words, &all_words, 1, UCC_DT_UINT64, UCC_OP_SUM, 0), "heddle_reduce");
    if (heddle_ep_index(ep) != 0) {
        return;
    }
    job->entries = sorted_records(home, home_bytes, &job->n_entries);
    job->records = home;
    job->words = all_words;
}

/* ------------------------------------------------------------------------------------------------
 * Main
 * ---------------------------------------------------------------------------------------------- */

static bool equal_to_serial(const job_t *job, double *elapsed) {
    table_t table;
    uint64_t words = 0;
    double begin = seconds();
    table_init(&table, 1024);
    for (size_t i = 0; i < job->n_texts; i++) {
        words += count_range(&job->texts[i], 0, job->texts[i].length, &table);
    }
    size_t n = 0;
    entry_t *entries = sorted_entries(&table, &n);
    *elapsed = seconds() - begin;
    bool equal = words == job->words && n == job->n_entries;
    for (size_t i = 0; equal && i < n; i++) {
        equal = entries[i].count == job->entries[i].count &&
                compare_words(&entries[i], &job->entries[i]) == 0;
    }
    free(entries);
    return equal;
}

static void print_top(const job_t *job, size_t top) {
    for (size_t i = 0; i < top && i < job->n_entries; i++) {
        const entry_t *entry = &job->entries[i];
        int shown = entry->length < 60 ? (int)entry->length : 60;
        printf("%12" PRIu64 "  %.*s%s\n", entry->count, shown, (const char *)entry->word,
               entry->length > 60 ? "..." : "");
    }
}

static uint32_t number(const char *text, uint32_t least, uint32_t most) {
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || value < least || value > most) {
        fail(text, "not a number in range");
    }
    return (uint32_t)value;
}

static void print_bar(uint32_t threads, double time, double longest) {
    enum { WIDTH = 40 };
    int length = (int)(time / longest * WIDTH + 0.5);
    printf("  %3u thread%s  ", threads, threads == 1 ? " " : "s");
    for (int i = 0; i < WIDTH; i++) {
        putchar(i < length || i == 0 ? '#' : ' ');
    }
    printf("  %8.2f ms\n", time * 1e3);
}

static void print_times(const job_t *job, uint32_t threads, double parallel, double serial) {
    enum { SMALL = 4 << 20 };
    double longest = parallel > serial ? parallel : serial;
    printf("%" PRIu64 " words, %zu different, %.1f MiB\n", job->words, job->n_entries,
           (double)job->total_bytes / (1 << 20));
    print_bar(1, serial, longest);
    if (threads > 1) {
        print_bar(threads, parallel, longest);
    }
    if (threads > 1 && parallel < serial) {
        printf("  %.2f times as fast\n", serial / parallel);
    } else if (threads > 1 && job->total_bytes < SMALL) {
        puts("  (so small a text is counted before threads have started: try tens of MiB)");
    }
}

static int count_and_compare(job_t *job, uint32_t threads, size_t top, uint32_t rounds) {
    double parallel = 0.0, serial = 0.0;
    bool equal = true;
    for (size_t i = 0; i < job->n_texts; i++) {
        job->total_bytes += job->texts[i].length;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        double begin = seconds(), alone = 0.0;
        check(heddle_run(threads, work, job), "heddle_run");
        double together = seconds() - begin;
        equal = equal_to_serial(job, &alone) && equal;
        parallel = round == 0 || together < parallel ? together : parallel;
        serial = round == 0 || alone < serial ? alone : serial;
        if (round + 1 == rounds) {
            print_top(job, top);
            print_times(job, threads, parallel, serial);
        }
        free(job->entries);
        free(job->records);
    }
    puts(equal ? "verified: equal to the serial count" : "WRONG: differs from the serial count");
    return equal ? 0 : 1;
}

int main(int argc, char **argv) {
    uint32_t threads = 4, top = 10, rounds = 1;
    int option;
    while ((option = getopt(argc, argv, "n:t:r:h")) != -1) {
        if (option == 'n') {
            threads = number(optarg, 1, 1024);
        } else if (option == 't') {
            top = number(optarg, 0, UINT32_MAX);
        } else if (option == 'r') {
            rounds = number(optarg, 1, 1000);
        } else {
            fprintf(option == 'h' ? stdout : stderr,
                    "usage: wordcount [-n threads] [-t top] [-r rounds] [file...]   (no file: a "
                    "made-up text)\n");
            return option == 'h' ? 0 : 2;
        }
    }
    bool made_up = optind == argc;
    size_t n_texts = made_up ? 1 : (size_t)(argc - optind);
    text_t *texts = allocate(n_texts * sizeof(text_t));
    for (size_t i = 0; i < n_texts && !made_up; i++) {
        open_text(argv[optind + (int)i], &texts[i]);
    }
    if (made_up) {
        make_up_text(&texts[0]);
    }
    job_t job = {.texts = texts, .n_texts = n_texts};
    int status = count_and_compare(&job, threads, top, rounds);
    for (size_t i = 0; i < n_texts; i++) {
        close_text(&texts[i]);
    }
    free(texts);
    return status;
}
